//! Passwords and permissions that are missing or taken away: a clear error, nobody else suffers, nothing is lost.

use std::collections::HashMap;
use std::time::Duration;

use crate::support::acl::set_user;
use crate::support::channel::Channel;
use crate::support::clients::{LIMIT, builder, connect, limited, scripts, served};
use crate::support::polls::poll_once;
use crate::support::proxy::{Fate, Proxy};
use crate::support::refusals::{all_operations, assert_clear, assert_told};
use crate::support::server::RedisServer;
use crate::support::snapshot::{Snapshot, snapshot, snapshot_all};
use crate::support::waiters::{
    channel, until, until_notified, until_queued, until_subscribers, waiter,
};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, Error, RLock, RSemaphore};
use tokio::task::JoinHandle;
use tokio::time::timeout;

async fn read(server: &RedisServer, key: &str) -> Snapshot {
    snapshot(&mut server.connection().await, key).await
}

#[tokio::test]
async fn a_wrong_password_is_told_without_being_shown() {
    let server = RedisServer::options()
        .password("right-secret")
        .user("app on >app-secret ~* &* +@all")
        .start()
        .await;
    let address = format!("127.0.0.1:{}", server.port());
    let plain = format!("redis://{address}");
    for (number, connecting) in [
        Client::builder(format!("redis://:wrong-secret@{address}")),
        Client::builder(format!("redis://app:wrong-secret@{address}")),
        Client::builder(format!("redis://nobody:wrong-secret@{address}")),
        Client::builder(server.url()).password("wrong-secret"),
        Client::builder(plain.clone())
            .username("app")
            .password("wrong-secret"),
        Client::builder(plain.clone()),
    ]
    .into_iter()
    .enumerate()
    {
        let debug = format!("{connecting:?}");
        assert!(!debug.contains("secret"), "{debug}");
        let told = timeout(LIMIT, connecting.connect()).await.expect("at once");
        let error = told.expect_err(&format!("number {number}"));
        assert!(
            matches!(&error, Error::Authentication { name, .. } if *name == address),
            "{error}"
        );
        // The server's own words.
        let Error::Authentication { detail, .. } = &error else {
            unreachable!("seen just now");
        };
        let word = detail.split(' ').next();
        assert!(matches!(word, Some("WRONGPASS" | "NOAUTH")), "{detail}");
        assert!(
            !format!("{error} {error:?}").contains("secret"),
            "{error:?}"
        );
    }
    let right = Client::builder(plain)
        .username("app")
        .password("app-secret");
    let client = right.connect().await.unwrap();
    assert!(!format!("{client:?}").contains("secret"));
    client.semaphore("fine").release(1).await.unwrap();
}

#[tokio::test]
async fn a_password_that_changes_while_the_client_runs() {
    let server = RedisServer::options()
        .user("app on >first ~* &* +@all")
        .start()
        .await;
    let mut control = server.connection().await;
    let client = builder(server.url_as("app", "first"))
        .retry_window(Duration::from_millis(400))
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("locked-out");
    semaphore.try_set_permits(3).await.unwrap();
    let task = waiter(&mut control, &semaphore, 4).await;
    set_user(&mut control, &["app", "resetpass", ">second"]).await;
    server.disconnect("app").await;
    let error = timeout(LIMIT, semaphore.try_acquire(1))
        .await
        .unwrap()
        .unwrap_err();
    let Error::Authentication { detail, .. } = &error else {
        panic!("{error}");
    };
    assert!(detail.starts_with("WRONGPASS"), "{detail}");
    assert_clear(&error, "locked-out");
    assert!(!error.to_string().contains("first"), "{error}");
    assert_eq!(read(&server, "locked-out").await.value, ["3"]);
    set_user(&mut control, &["app", "resetpass", ">first"]).await;
    // Once: what a release is told of the old password does not keep it from being carried out.
    until("the client is back", LIMIT, async || {
        semaphore.available_permits().await.is_ok()
    })
    .await;
    semaphore.release(1).await.unwrap();
    served(task).await;
    assert_eq!(read(&server, "locked-out").await.value, ["0"]);
}

fn denied(error: &Error, name: &str) {
    assert!(matches!(error, Error::PermissionDenied { .. }), "{error}");
    assert_clear(error, name);
}

/// The server says that it is about a key, a channel or a command, and not which.
fn denied_for(error: &Error, name: &str, missing: &str) {
    denied(error, name);
    let Error::PermissionDenied { detail, .. } = error else {
        unreachable!("seen just now");
    };
    assert!(detail.contains(missing), "{missing}: {detail}");
}

/// Nobody is there who could give them back later, or has learned that it must.
#[tokio::test]
async fn what_nobody_waits_for_is_given_back_when_that_is_allowed_again() {
    let (server, client) = limited("~* &* +@all").await;
    let mut control = server.connection().await;
    for command in ["set", "get"] {
        let semaphore = client.semaphore(command);
        semaphore.try_set_permits(9).await.unwrap();
        let permits = [
            semaphore.permit(1).await.unwrap(),
            semaphore.permit(2).await.unwrap(),
        ];
        semaphore.acquire(1).await.unwrap();
        set_user(&mut control, &["app", &format!("-{command}")]).await;
        drop(permits);
        let mut unread = Box::pin(semaphore.release(1));
        assert!(poll_once(&mut unread.as_mut()).await.is_pending());
        // Whoever waits for the answer has it at once, and those behind are not held up.
        denied(&semaphore.release(1).await.unwrap_err(), command);
        denied(&semaphore.try_acquire(1).await.unwrap_err(), command);
        assert_eq!(read(&server, command).await.value, ["5"]);
        drop(unread);
        drop(semaphore);
        set_user(&mut control, &["app", &format!("+{command}")]).await;
        until("all are there", LIMIT, async || {
            read(&server, command).await.value == ["9"]
        })
        .await;
    }
}

/// After that nobody gives them back.
#[tokio::test]
async fn a_shutdown_tries_once_more_what_was_not_allowed() {
    let (server, _) = limited("~* &* +@all").await;
    let mut control = server.connection().await;
    for left in ["8", "9"] {
        let client = connect(server.url_as("app", "pw")).await;
        let semaphore = client.semaphore("once-more");
        semaphore.try_set_permits(9).await.unwrap();
        let permit = semaphore.permit(1).await.unwrap();
        set_user(&mut control, &["app", "-set"]).await;
        let before = scripts(&mut control).await;
        drop(permit);
        until("it is refused", LIMIT, async || {
            scripts(&mut control.clone()).await > before
        })
        .await;
        if left == "9" {
            set_user(&mut control, &["app", "+set"]).await;
        }
        client.shutdown().await.unwrap();
        assert_eq!(read(&server, "once-more").await.value, [left]);
        set_user(&mut control, &["app", "+set"]).await;
        let _: () = control.set("once-more", 9).await.unwrap();
    }
}

#[tokio::test]
async fn a_forbidden_script_command_is_told() {
    let (server, client) = limited("~* &* +@all -evalsha -eval").await;
    let semaphore = client.semaphore("forbidden");
    let mut control = server.connection().await;
    let _: () = control.set("forbidden", 5).await.unwrap();
    for (operation, error) in all_operations(&semaphore).await {
        // It needs no script.
        if operation == "available_permits" {
            assert_eq!(error, None);
            continue;
        }
        denied(&error.unwrap_or_else(|| panic!("{operation}")), "forbidden");
    }
    denied(&semaphore.delete().await.unwrap_err(), "forbidden");
    assert!(semaphore.exists().await.unwrap());
    assert_eq!(read(&server, "forbidden").await.value, ["5"]);
    // A caller that has been refused does not stand in anyone's way later.
    set_user(&mut control, &["app", "+@all"]).await;
    semaphore.acquire(5).await.unwrap();
}

#[tokio::test]
async fn a_forbidden_key_is_told() {
    let (server, client) = limited("~open* ~redisson* &* +@all").await;
    let mut control = server.connection().await;
    let _: () = control.set("closed", 5).await.unwrap();
    let semaphore = client.semaphore("closed");
    for (operation, error) in all_operations(&semaphore).await {
        let error = error.unwrap_or_else(|| panic!("{operation}"));
        denied_for(&error, "closed", "closed");
    }
    for error in [
        semaphore.exists().await.unwrap_err(),
        semaphore.delete().await.unwrap_err(),
        semaphore.remaining_ttl().await.unwrap_err(),
    ] {
        denied_for(&error, "closed", "closed");
    }
    let open = client.semaphore("open");
    open.release(1).await.unwrap();
    denied(&open.object().rename("closed").await.unwrap_err(), "open");
    assert_eq!(read(&server, "closed").await.value, ["5"]);
    assert_eq!(read(&server, "open").await.value, ["1"]);
}

#[tokio::test]
async fn what_cannot_be_announced_is_not_carried_out() {
    for (rules, missing) in [
        ("~* &* +@all -publish", ["'publish'", "rsem doctor"]),
        (
            "~* resetchannels &redisson_sc:{other} +@all",
            ["redisson_sc:{silent}"; 2],
        ),
    ] {
        let (server, client) = limited(rules).await;
        let mut control = server.connection().await;
        let semaphore = client.semaphore("silent");
        for error in [
            semaphore.try_set_permits(3).await.unwrap_err(),
            semaphore.try_set_permits_for(3, LIMIT).await.unwrap_err(),
            semaphore.release(1).await.unwrap_err(),
            semaphore.add_permits(1).await.unwrap_err(),
        ] {
            denied(&error, "silent");
            let told = error.to_string();
            assert!(missing.iter().any(|what| told.contains(what)), "{told}");
        }
        assert!(snapshot_all(&mut control).await.is_empty(), "{rules}");

        let _: () = control.set_ex("silent", 5, 1000).await.unwrap();
        denied(&semaphore.release(1).await.unwrap_err(), "silent");
        denied(&semaphore.release_if_exists(1).await.unwrap_err(), "silent");
        denied(&semaphore.add_permits(1).await.unwrap_err(), "silent");
        let left = snapshot(&mut control, "silent").await;
        assert_eq!(left.value, ["5"], "{rules}");
        assert!(left.ttl.is_some(), "{rules}");
        // What announces nothing is allowed.
        semaphore.acquire(2).await.unwrap();
        assert_eq!(semaphore.drain_permits().await, Ok(3));
        semaphore.add_permits(-4).await.unwrap();
        semaphore.release(2).await.unwrap();
        assert_eq!(semaphore.available_permits().await, Ok(-2));
        denied(&semaphore.release(3).await.unwrap_err(), "silent");
        assert_eq!(
            snapshot(&mut control, "silent").await.value,
            ["-2"],
            "{rules}"
        );
    }
}

/// Permits of guards that are forgotten stay taken, and are given back by nobody else.
#[tokio::test]
async fn what_is_forgotten_while_that_is_not_allowed_stays_taken() {
    let (server, client) = limited("~* &* +@all").await;
    let mut control = server.connection().await;
    let semaphore = client.semaphore("kept").watched();
    semaphore.try_set_permits(9).await.unwrap();
    for command in ["set", "evalsha", "zrem"] {
        let [kept, other] = [
            semaphore.permit(3).await.unwrap(),
            semaphore.permit(2).await.unwrap(),
        ];
        set_user(&mut control, &["app", &format!("-{command}")]).await;
        let before = scripts(&mut control).await;
        kept.forget();
        until("it is refused", LIMIT, async || {
            scripts(&mut control.clone()).await > before || command == "evalsha"
        })
        .await;
        set_user(&mut control, &["app", &format!("+{command}")]).await;
        until("they are no guard's any more", LIMIT, async || {
            let mut control = control.clone();
            let entries = control.zrange("redisson_sc_grants:{kept}", 0, -1).await;
            let entries: Vec<String> = entries.unwrap();
            entries
                .iter()
                .all(|entry| entry.split(':').nth(2) == Some("2"))
        })
        .await;
        assert_eq!(read(&server, "kept").await.value, ["4"], "{command}");
        semaphore.release(3).await.unwrap();
        other.release().await.unwrap();
        assert_eq!(read(&server, "kept").await.value, ["9"], "{command}");
    }
}

/// The permits of a guard whose release is denied come back with the end of its lease, and not as fast as that is refused.
#[tokio::test]
async fn guard_whose_release_is_denied_comes_back_with_its_lease() {
    let (server, _) = limited("~* &* +@all").await;
    let mut control = server.connection().await;
    let client = builder(server.url_as("app", "pw")).lock_watchdog_timeout(Duration::from_secs(4));
    let client = client.connect().await.unwrap();
    let semaphore = client.semaphore("quiet");
    semaphore.try_set_permits(4).await.unwrap();
    let held = semaphore.permit(4).await.unwrap();
    let waits = {
        let semaphore = semaphore.clone();
        tokio::spawn(async move { semaphore.permit(3).await.map(drop) })
    };
    until_queued(&mut control, "quiet", 1).await;
    until_notified(&mut control, "quiet", client.id()).await;
    semaphore.available_permits().await.unwrap();
    set_user(&mut control, &["app", "-publish"]).await;
    let before = scripts(&mut control).await;
    denied(&held.release().await.unwrap_err(), "quiet");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let asked = scripts(&mut control).await - before;
    assert!(asked < 30, "{asked} scripts");
    set_user(&mut control, &["app", "+publish"]).await;
    served(waits).await;
    until("all are there", LIMIT, async || {
        read(&server, "quiet").await.value == ["4"]
    })
    .await;
}

/// What was refused, and stays on record as nothing may be deleted, is not taken for done when its answer is lost.
#[tokio::test]
async fn what_was_refused_and_stays_on_record_is_not_taken_for_done() {
    let rules = "app on >pw ~* &* +@all -publish -del";
    let server = RedisServer::options().user(rules).start().await;
    let proxy = Proxy::start(&server).await;
    let mut control = server.connection().await;
    for name in ["warm", "counted", "ids"] {
        let () = control.set(name, 5).await.unwrap();
    }
    // The server knows the scripts, and nothing is on record of whoever asks then.
    let other = connect(server.url_as("app", "pw")).await;
    let with_ids = other.permit_expirable_semaphore("ids");
    let id = with_ids.try_acquire().await.unwrap().expect("there are 5");
    other.semaphore("warm").try_acquire(1).await.unwrap();
    other
        .semaphore("warm")
        .object()
        .rename("cold")
        .await
        .unwrap();
    let client = connect(proxy.url_as("app", "pw")).await;
    let with_ids = client.permit_expirable_semaphore("ids");

    proxy.at_script(1, Fate::LoseReplyAndClose);
    let released = client.semaphore("counted").release(2).await;
    denied(&released.unwrap_err(), "counted");
    assert_eq!(read(&server, "counted").await.value, ["5"]);

    proxy.at_script(1, Fate::LoseReplyAndClose);
    let released = with_ids.release(id.id()).await;
    denied(&released.unwrap_err(), "ids");
    assert_eq!(read(&server, "ids").await.value, ["4"]);

    proxy.at_script(1, Fate::LoseReplyAndClose);
    let renamed = client.semaphore("missing").object().rename("found").await;
    assert!(
        matches!(renamed, Err(Error::NoSuchObject { .. })),
        "{renamed:?}"
    );
    assert_eq!(proxy.struck(), 3);
}

/// A lock that cannot be given a time to live is not taken, by either script; and what is held stays as it is.
#[tokio::test]
async fn a_lock_that_can_have_no_time_to_live_is_not_taken() {
    let (server, client) = limited("~* &* +@all -pexpire").await;
    let mut control = server.connection().await;
    let door = client.lock("door");
    denied(&door.try_lock().await.unwrap_err(), "door");
    let fenced = client.fenced_lock("door");
    denied(&fenced.lock_and_get_token().await.unwrap_err(), "door");
    assert!(!control.exists::<_, bool>("door").await.unwrap());

    set_user(&mut control, &["app", "+pexpire"]).await;
    door.lock().await.unwrap();
    set_user(&mut control, &["app", "-pexpire"]).await;
    denied(&door.try_lock().await.unwrap_err(), "door");
    let once = read(&server, "door").await;
    assert_eq!(once.value, [format!("{}=1", door.owner())]);
    assert!(once.ttl.is_some());
    set_user(&mut control, &["app", "+pexpire"]).await;
    door.lock().await.unwrap();
    set_user(&mut control, &["app", "-pexpire"]).await;
    denied(&door.unlock().await.unwrap_err(), "door");
    let twice = read(&server, "door").await;
    assert_eq!(twice.value, [format!("{}=2", door.owner())]);
}

/// What else is forbidden, whoever unlocks is told what has become of the lock.
#[tokio::test]
async fn an_unlock_that_is_refused_has_not_freed_the_lock() {
    for command in ["-del", "-pttl", "-hget", "-hexists"] {
        let (server, client) = limited("~* &* +@all").await;
        let mut control = server.connection().await;
        let mut messages = Channel::pattern(&server, "redisson_lock__channel:*").await;
        let holder = client.lock("door");
        holder.lock().await.unwrap();
        let next = client.lock("door");
        let waits = tokio::spawn(async move { next.with_owner(7).lock().await });
        until_subscribers(&mut control, "redisson_lock__channel:{door}", 1).await;
        set_user(&mut control, &["app", command]).await;
        let unlocked = holder.unlock().await;
        let held: bool = control.hexists("door", holder.owner()).await.unwrap();
        assert_eq!(unlocked.is_err(), held, "{command}: {unlocked:?}");
        assert_eq!(messages.until_marker().await, [], "{command}");
        waits.abort();
    }
}

#[tokio::test]
async fn a_lock_whose_record_cannot_be_written_is_not_forced() {
    for command in ["set", "del"] {
        let (server, client) = limited("~* &* +@all").await;
        let mut control = server.connection().await;
        let door = client.lock("door");
        door.lock().await.unwrap();
        set_user(&mut control, &["app", &format!("-{command}")]).await;
        denied(&door.force_unlock().await.unwrap_err(), "door");
        let found = read(&server, "door").await;
        assert_eq!(found.value, [format!("{}=1", door.owner())]);
        set_user(&mut control, &["app", "+@all"]).await;
        assert_eq!(door.force_unlock().await, Ok(true), "{command}");
        assert!(!door.is_locked().await.unwrap());
    }
}

/// Whatever a call would write first, a server without memory refuses it as a whole.
#[tokio::test]
async fn a_server_out_of_memory_changes_nothing() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = builder(server.url())
        .retry_window(Duration::from_millis(100))
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("full");
    semaphore.try_set_permits(5).await.unwrap();
    let mut others = Vec::new();
    let mut memory = async |limit: &str| {
        let _: () = redis::cmd("CONFIG")
            .arg(&["SET", "maxmemory", limit])
            .query_async(&mut control)
            .await
            .unwrap();
    };
    for listeners in 0..2 {
        memory("1").await;
        for (operation, error) in all_operations(&semaphore).await {
            if [
                "available_permits",
                "try_set_permits",
                "try_set_permits_for",
            ]
            .contains(&operation)
            {
                assert_eq!(error, None, "it changes nothing");
                continue;
            }
            let error = error.unwrap_or_else(|| panic!("{operation}"));
            assert_told(operation, &error, "full");
            assert_eq!(read(&server, "full").await.value, ["5"], "{operation}");
        }
        memory("0").await;
        // Both releases are carried out now, and nothing else.
        until("there is room again", LIMIT, async || {
            semaphore.try_acquire(7).await == Ok(true)
        })
        .await;
        semaphore.release(5).await.unwrap();
        assert_eq!(semaphore.available_permits().await, Ok(5), "{listeners}");
        semaphore.release(1).await.unwrap();
        assert!(semaphore.try_acquire(1).await.unwrap());
        assert_eq!(semaphore.available_permits().await, Ok(5), "{listeners}");
        others.push(Channel::subscribe(&server, &channel("full")).await);
    }
}

/// Calls that travel together are refused together; what each is told agrees with the counter.
#[tokio::test]
async fn forbidden_batch_changes_nothing() {
    let (server, client) = limited("~* &* +@all -publish").await;
    let mut control = server.connection().await;
    let semaphore = client.semaphore("mixed");
    let _: () = control.set("mixed", 5).await.unwrap();
    for _ in 0..20 {
        let busy = semaphore.clone();
        let (_, first, second, release, tried, seen) = tokio::join!(
            busy.available_permits(),
            semaphore.acquire(1),
            semaphore.acquire(2),
            semaphore.release(7),
            semaphore.try_acquire(1),
            semaphore.available_permits(),
        );
        denied(&release.unwrap_err(), "mixed");
        seen.unwrap();
        let mut left = 5;
        for (permits, told) in [
            (1, first),
            (2, second),
            (1, tried.map(|taken| assert!(taken))),
        ] {
            match told {
                Ok(()) => left -= permits,
                Err(error) => denied(&error, "mixed"),
            }
        }
        let stored = snapshot(&mut control, "mixed").await.value;
        assert_eq!(stored, [left.to_string()]);
        let _: i64 = control.incr("mixed", 5 - left).await.unwrap();
    }
}

#[tokio::test]
async fn a_channel_that_may_not_be_heard_is_told_to_those_who_would_wait() {
    for rules in [
        "~* &* +@all -subscribe",
        "~* resetchannels &redisson_sc:{other} &redisson_sc_queue:{other}* +@all",
    ] {
        let (server, client) = limited(rules).await;
        let mut control = server.connection().await;
        let semaphore = client.semaphore("deaf");
        let other = client.semaphore("other");
        let _: () = control.set("deaf", 1).await.unwrap();
        // No need to wait, no need to hear.
        semaphore.acquire(1).await.unwrap();
        assert!(!semaphore.try_acquire(1).await.unwrap());
        let error = timeout(LIMIT, semaphore.acquire(1)).await.expect("told");
        denied(&error.unwrap_err(), "deaf");
        let error = timeout(LIMIT, semaphore.try_acquire_for(1, LIMIT)).await;
        denied(&error.expect("told").unwrap_err(), "deaf");
        assert_eq!(read(&server, "deaf").await.value, ["0"], "{rules}");
        let _: i64 = control.incr("deaf", 2).await.unwrap();
        semaphore.acquire(2).await.unwrap();
        // Somebody else's channel is heard all the same.
        if rules.contains("other") {
            let waiting = waiter(&mut control, &other, 1).await;
            let error = timeout(LIMIT, semaphore.acquire(1)).await.expect("told");
            denied_for(&error.unwrap_err(), "deaf", "{deaf}");
            other.release(1).await.unwrap();
            served(waiting).await;
        }
        // And when it becomes allowed, waiting works.
        set_user(&mut control, &["app", "allchannels", "+@all"]).await;
        let waiting = waiter(&mut control, &semaphore, 1).await;
        semaphore.release(1).await.unwrap();
        served(waiting).await;
    }
}

/// Whether there is something to wait for is known only when the server has been asked.
#[tokio::test]
async fn who_need_not_wait_need_not_hear_whatever_else_is_under_way() {
    let server = RedisServer::options()
        .user("app on >pw ~* &* +@all -subscribe")
        .start()
        .await;
    connect(server.url())
        .await
        .semaphore("busy")
        .try_set_permits(3)
        .await
        .unwrap();
    let proxy = Proxy::start(&server).await;
    let client = connect(proxy.url_as("app", "pw")).await;
    let semaphore = client.semaphore("busy");
    // The caller joins while something else is under way, and its own request takes a while.
    proxy.at_script(1, Fate::LoseReply);
    let (seen, acquired) = tokio::join!(semaphore.available_permits(), semaphore.acquire(1));
    assert_eq!(seen, Ok(3));
    assert_eq!(proxy.struck(), 1);
    assert_eq!(acquired, Ok(()));
    assert_eq!(read(&server, "busy").await.value, ["2"]);
}

#[tokio::test]
async fn waiters_of_different_amounts_are_told_that_the_permission_is_gone() {
    let server = RedisServer::options()
        .user("app on >secret ~* &* +@all")
        .start()
        .await;
    let client = Client::builder(server.url_as("app", "secret"))
        .safety_interval(Duration::from_millis(50))
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("forbidden");
    let waiting: Vec<_> = [1, 2, 1]
        .map(|permits| {
            let semaphore = semaphore.clone();
            tokio::spawn(async move { semaphore.acquire(permits).await })
        })
        .into();
    let mut control = server.connection().await;
    until_subscribers(&mut control, "redisson_sc:{forbidden}", 1).await;
    set_user(&mut control, &["app", "-evalsha", "-eval"]).await;
    for waiter in waiting {
        let told = timeout(LIMIT, waiter).await.expect("it is told").unwrap();
        assert!(
            matches!(told, Err(Error::PermissionDenied { .. })),
            "{told:?}"
        );
    }
}

/// How often the server has refused something to a user, one entry a reason.
async fn refusals(control: &mut MultiplexedConnection) -> i64 {
    let log: Vec<HashMap<String, redis::Value>> = redis::cmd("ACL")
        .arg("LOG")
        .query_async(control)
        .await
        .unwrap();
    let count = |entry: &HashMap<String, redis::Value>| match entry["count"] {
        redis::Value::Int(count) => count,
        _ => 0,
    };
    log.iter().map(count).sum()
}

/// What comes of a caller whose first question is on its way, and finds what was given meanwhile, when the channel may
/// not be heard any more; it is still held for somebody who has gone.
async fn asking_when_refused<O, T: Send + 'static>(
    server: &RedisServer,
    [channel, queue]: [&str; 2],
    object: impl Fn(&Client) -> O,
    waits: impl Fn(&O) -> JoinHandle<T>,
    give: impl Future<Output = ()>,
) -> T {
    let mut control = server.connection().await;
    let proxy = Proxy::start(server).await;
    let client = builder(proxy.url_as("app", "pw"))
        .response_timeout(LIMIT)
        .connect()
        .await
        .unwrap();
    let object = object(&client);
    let before = scripts(&mut control).await;
    let gone = waits(&object);
    until_subscribers(&mut control, channel, 1).await;
    // By its digest, which is unknown, and whole: it has found nothing, and the server knows the script from then on.
    until("it has asked", LIMIT, async || {
        scripts(&mut control).await >= before + 2
    })
    .await;
    gone.abort();
    assert!(gone.await.is_err_and(|error| error.is_cancelled()));
    // The next caller would have its place in the queue.
    until("its entry has left the queue", LIMIT, async || {
        redis::cmd("EXISTS")
            .arg(queue)
            .query_async(&mut control.clone())
            .await
            == Ok(0)
    })
    .await;
    give.await;
    proxy.at_script(1, Fate::HoldReply);
    let asking = waits(&object);
    proxy.until_struck(1).await;
    set_user(&mut control, &["app", "-subscribe"]).await;
    let _: usize = redis::cmd("CLIENT")
        .arg(&["KILL", "USER", "app", "TYPE", "pubsub"])
        .query_async(&mut control)
        .await
        .unwrap();
    // It is the only channel.
    until("the subscription is refused", LIMIT, async || {
        refusals(&mut control).await >= 1
    })
    .await;
    proxy.deliver(1).await;
    timeout(LIMIT, asking).await.expect("answered").unwrap()
}

#[tokio::test]
async fn who_has_no_answer_yet_is_not_told_that_the_channel_may_not_be_heard() {
    for given in [true, false] {
        let options = RedisServer::options().user("app on >pw ~* &* +@all");
        let server = options.start().await;
        let giver = connect(server.url()).await.semaphore("asked");
        let object = |client: &Client| client.semaphore("asked");
        let waits = |semaphore: &RSemaphore| {
            let semaphore = semaphore.clone();
            tokio::spawn(async move { semaphore.acquire(1).await })
        };
        let give = async {
            if given {
                giver.release(1).await.unwrap();
            }
        };
        let keys = ["redisson_sc:{asked}", "redisson_sc_queue:{asked}"];
        let answer = asking_when_refused(&server, keys, object, waits, give).await;
        taken_or_denied(given, answer);

        set_user(&mut server.connection().await, &["app", "+subscribe"]).await;
        let _: () = redis::cmd("ACL")
            .arg(&["LOG", "RESET"])
            .query_async(&mut server.connection().await)
            .await
            .unwrap();
        let holder = connect(server.url()).await.lock("asked lock");
        holder.lock().await.unwrap();
        let object = |client: &Client| client.lock("asked lock");
        let waits = |lock: &RLock| {
            let lock = lock.clone();
            tokio::spawn(async move { lock.lock().await })
        };
        let give = async {
            if given {
                holder.unlock().await.unwrap();
            }
        };
        let keys = [
            "redisson_lock__channel:{asked lock}",
            "redisson_lock_waiters:{asked lock}",
        ];
        let answer = asking_when_refused(&server, keys, object, waits, give).await;
        taken_or_denied(given, answer);
    }
}

fn taken_or_denied(given: bool, answer: Result<(), Error>) {
    match answer {
        Ok(()) => assert!(given),
        Err(error) => {
            assert!(!given, "{error}");
            assert!(matches!(&error, Error::PermissionDenied { .. }), "{error}");
        }
    }
}

/// A user in the URL is who comes in, with a password or without.
#[tokio::test]
async fn a_user_without_a_password_is_not_taken_for_another() {
    let server = RedisServer::options()
        .user("open on nopass ~* &* +@all")
        .user("locked on >secret ~* &* +@all")
        .start()
        .await;
    let address = format!("127.0.0.1:{}", server.port());
    let client = Client::builder(format!("redis://open@{address}"))
        .client_name("by-name")
        .connect()
        .await
        .unwrap();
    let mut control = server.connection().await;
    let task = waiter(&mut control, &client.semaphore("open"), 1).await;
    let list: String = redis::cmd("CLIENT")
        .arg("LIST")
        .query_async(&mut control)
        .await
        .unwrap();
    // Both connections are of this user, and go by the client's name.
    let ours = |line: &&str| line.contains("user=open ") && line.contains("name=by-name ");
    assert_eq!(list.lines().filter(ours).count(), 2, "{list}");
    task.abort();
    let error = Client::connect(format!("redis://locked@{address}"))
        .await
        .unwrap_err();
    let Error::Authentication { detail, .. } = &error else {
        panic!("{error}");
    };
    assert!(detail.starts_with("WRONGPASS"), "{detail}");
}

/// Free permits need no queue.
#[tokio::test]
async fn waiting_without_a_command_of_the_queue_is_denied() {
    for missing in ["zadd", "hset", "pexpire"] {
        let (server, client) = limited(&format!("~* &* +@all -{missing}")).await;
        let mut control = server.connection().await;
        let semaphore = client.semaphore("queued");
        semaphore.try_set_permits(1).await.unwrap();
        semaphore.acquire(1).await.unwrap();
        let told = timeout(LIMIT, semaphore.acquire(1)).await.expect(missing);
        denied(&told.unwrap_err(), "queued");
        let told = timeout(LIMIT, semaphore.try_acquire_for(1, LIMIT)).await;
        denied(&told.expect("told").unwrap_err(), "queued");
        assert_eq!(semaphore.try_acquire(1).await, Ok(false));
        semaphore.release(2).await.unwrap();
        semaphore.acquire(2).await.unwrap();
        assert_eq!(read(&server, "queued").await.value, ["0"]);
        for key in ["queue", "grants"] {
            let key = format!("redisson_sc_{key}:{{queued}}");
            assert!(!control.exists::<_, bool>(key).await.unwrap(), "{missing}");
        }
    }
}

/// A path has no room for user, password and database.
#[tokio::test]
async fn a_socket_takes_them_as_parameters() {
    let server = RedisServer::options()
        .user("app on >secret ~* &* +@all")
        .start()
        .await;
    let mut control = server.connection().await;
    let path = server.directory().join("socket");
    // The server makes it at its start only, so one stands in for it.
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let port = server.port();
    let bridge = tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut far = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
                tokio::io::copy_bidirectional(&mut near, &mut far).await
            });
        }
    });
    let url = format!("redis+unix://{}?db=2&user=app&pass=secret", path.display());
    let client = Client::connect(url).await.unwrap();
    client.semaphore("local").release(3).await.unwrap();
    let list: String = redis::cmd("CLIENT")
        .arg("LIST")
        .query_async(&mut control)
        .await
        .unwrap();
    let ours = |line: &str| line.contains("user=app ") && line.contains("db=2 ");
    assert!(list.lines().any(ours), "{list}");
    bridge.abort();
}

/// The listeners are not told that a lock is free which is not, nor does it come free without their being told.
#[tokio::test]
async fn a_lock_comes_free_and_its_listeners_are_told_or_neither_happens() {
    for rule in ["-del", "resetchannels"] {
        // The first unlock is the usual case; the second one is not, because of the notes.
        for noted in [false, true] {
            let (server, client) = limited("~* &* +@all").await;
            let mut control = server.connection().await;
            let mut messages = Channel::pattern(&server, "redisson_lock__channel:*").await;
            let door = client.lock("door");
            if noted {
                let notes = "redisson_lock_notes:{door}";
                let _: () = control.hset(notes, "x", "1").await.unwrap();
            }
            door.with_lease(LIMIT).lock().await.unwrap();
            set_user(&mut control, &["app", rule]).await;
            let what = format!("{rule}, {noted}");
            denied(&door.unlock().await.unwrap_err(), "door");
            denied(&door.force_unlock().await.unwrap_err(), "door");
            assert_eq!(messages.until_marker().await, [], "{what}");
            let found = read(&server, "door").await;
            assert_eq!(found.value, [format!("{}=1", door.owner())], "{what}");
            assert!(found.ttl.is_some(), "{what}");

            set_user(&mut control, &["app", "+@all", "&*"]).await;
            door.unlock().await.unwrap();
            assert_eq!(messages.until_marker().await.len(), 1, "{what}");
            assert!(!door.is_locked().await.unwrap());
        }
    }
}
