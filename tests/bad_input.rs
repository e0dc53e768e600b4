//! Wrong arguments, foreign keys and messages, servers that refuse: a clear error that names the object
//! and says whether anything took effect; nothing is lost.

mod support;

use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{
    Client, ClientBuilder, Effect, Error, MAX_PERMITS, NameMapper, RSemaphore, Result,
};
use support::channel::Channel;
use support::server::RedisServer;
use support::snapshot::{Snapshot, snapshot, snapshot_all};
use support::waiters::{channel, until, until_linked, waiter};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use support::proxy::{Fate, Proxy};

const LIMIT: Duration = Duration::from_secs(10);

fn builder(url: String) -> ClientBuilder {
    Client::builder(url)
        .response_timeout(Duration::from_millis(300))
        .retry_window(Duration::from_secs(3))
        .safety_interval(Duration::from_secs(3600))
}

async fn connect(url: String) -> Client {
    builder(url).connect().await.expect("the server runs")
}

async fn read(server: &RedisServer, key: &str) -> Snapshot {
    snapshot(&mut server.connection().await, key).await
}

async fn acl(server: &mut MultiplexedConnection, rules: &[&str]) {
    let mut command = redis::cmd("ACL");
    command.arg("SETUSER").arg(rules);
    let _: () = command.query_async(server).await.unwrap();
}

/// Every operation on the counter, with its answer if it is an error.
async fn all_operations(semaphore: &RSemaphore) -> Vec<(&'static str, Option<Error>)> {
    let short = Duration::from_millis(200);
    vec![
        ("acquire", semaphore.acquire(1).await.err()),
        ("try_acquire", semaphore.try_acquire(1).await.err()),
        (
            "try_acquire_for",
            semaphore.try_acquire_for(1, short).await.err(),
        ),
        ("permit", semaphore.permit(1).await.err()),
        ("release", semaphore.release(1).await.err()),
        (
            "release_if_exists",
            semaphore.release_if_exists(1).await.err(),
        ),
        ("add_permits", semaphore.add_permits(1).await.err()),
        (
            "add_permits, negative",
            semaphore.add_permits(-1).await.err(),
        ),
        ("drain_permits", semaphore.drain_permits().await.err()),
        (
            "available_permits",
            semaphore.available_permits().await.err(),
        ),
        ("try_set_permits", semaphore.try_set_permits(1).await.err()),
        (
            "try_set_permits_for",
            semaphore.try_set_permits_for(1, LIMIT).await.err(),
        ),
    ]
}

/// Asserts that the error names the object and says that nothing took effect.
fn assert_clear(error: &Error, name: &str) {
    let text = error.to_string();
    assert!(text.contains(&format!("{name:?}")), "no name: {text}");
    assert!(text.contains("nothing"), "no effect told: {text}");
    assert_eq!(error.effect(), Effect::None, "{text}");
}

async fn served(task: JoinHandle<Result<()>>) {
    timeout(LIMIT, task)
        .await
        .expect("a waiter is not served")
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn zero_permits_touch_nothing() {
    let server = RedisServer::start().await;
    let client = connect(server.url()).await;
    let semaphore = client.semaphore("zero");
    let mut messages = Channel::pattern(&server, "*").await;
    semaphore.acquire(0).await.unwrap();
    assert!(semaphore.try_acquire(0).await.unwrap());
    assert!(semaphore.try_acquire_for(0, LIMIT).await.unwrap());
    semaphore.release(0).await.unwrap();
    assert!(!semaphore.release_if_exists(0).await.unwrap());
    drop(semaphore.permit(0).await.unwrap());
    semaphore.permit(0).await.unwrap().release().await.unwrap();
    client.shutdown().await.unwrap();
    assert!(
        snapshot_all(&mut server.connection().await)
            .await
            .is_empty()
    );
    assert_eq!(messages.until_marker().await, []);
}

#[tokio::test]
async fn more_permits_than_java_can_count_are_refused() {
    let server = RedisServer::start().await;
    let semaphore = connect(server.url()).await.semaphore("many");
    semaphore.try_set_permits(5).await.unwrap();
    let before = snapshot_all(&mut server.connection().await).await;
    for permits in [MAX_PERMITS + 1, u32::MAX] {
        for error in [
            semaphore.acquire(permits).await.err(),
            semaphore.try_acquire(permits).await.err(),
            semaphore.try_acquire_for(permits, LIMIT).await.err(),
            semaphore
                .try_acquire_for(permits, Duration::ZERO)
                .await
                .err(),
            semaphore
                .try_acquire_for(permits, Duration::MAX)
                .await
                .err(),
            semaphore.release(permits).await.err(),
            semaphore.release_if_exists(permits).await.err(),
            semaphore.try_set_permits(permits).await.err(),
            semaphore.try_set_permits_for(permits, LIMIT).await.err(),
            semaphore.permit(permits).await.err(),
            semaphore.try_permit(permits).await.err(),
            semaphore.permit_for(permits, LIMIT).await.err(),
        ] {
            let error = error.expect("refused");
            assert!(
                matches!(&error, Error::InvalidPermits { permits: told, .. } if *told == permits),
                "{error}"
            );
            assert_clear(&error, "many");
        }
    }
    let after = snapshot_all(&mut server.connection().await).await;
    assert!(after["many"] == before["many"] && after.len() == before.len());
}

#[tokio::test]
async fn a_counter_that_is_no_number_is_told_and_left_alone() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let texts: &[&[u8]] = &[
        b"text",
        b"1.5",
        b" 7",
        b"7 ",
        b"0x10",
        b"007",
        b"+1",
        b"-0",
        b"-",
        b"",
        b"1e3",
        b"inf",
        b"nan",
        b"99999999999999999999",
        b"-99999999999999999999",
        b"1\0",
        b"\xff\xfe",
        b"7\n",
        b"unreadable 5",
        b"stale",
    ];
    for (number, text) in texts.iter().enumerate() {
        let semaphore = client.semaphore(&format!("text-{number}"));
        let _: () = control.set(semaphore.name(), *text).await.unwrap();
        let before = snapshot(&mut control, semaphore.name()).await;
        for (operation, error) in all_operations(&semaphore).await {
            // What exists is not set again, whatever it is.
            let error = match error {
                Some(error) => error,
                None if operation.starts_with("try_set") => continue,
                None => panic!("{operation} on {text:?}"),
            };
            let found = String::from_utf8_lossy(text).into_owned();
            assert!(
                matches!(&error, Error::NotANumber { found: told, .. } if *told == found),
                "{operation} on {text:?}: {error}"
            );
            assert_clear(&error, semaphore.name());
        }
        assert_eq!(snapshot(&mut control, semaphore.name()).await, before);
    }
    // It becomes a number: the same client goes on.
    let semaphore = client.semaphore("text-0");
    let _: () = control.set("text-0", "2").await.unwrap();
    semaphore.acquire(2).await.unwrap();
    assert_eq!(read(&server, "text-0").await.value, ["0"]);
}

#[tokio::test]
async fn a_key_of_another_type_is_told_and_left_alone() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let _: () = control.hset("hash", "field", 1).await.unwrap();
    let _: () = control.rpush("list", 1).await.unwrap();
    for name in ["hash", "list"] {
        let semaphore = client.semaphore(name);
        let before = snapshot(&mut control, name).await;
        for (operation, error) in all_operations(&semaphore).await {
            let error = error.unwrap_or_else(|| panic!("{operation} on a {name}"));
            assert!(
                matches!(error, Error::WrongType { .. }),
                "{operation}: {error}"
            );
            assert_clear(&error, name);
        }
        assert_eq!(snapshot(&mut control, name).await, before);
    }
}

#[tokio::test]
async fn a_key_that_changes_its_type_tells_those_who_wait() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let semaphore = connect(server.url()).await.semaphore("changing");
    for (value, wrong_type) in [("text", false), ("hash", true)] {
        let first = waiter(&mut control, &semaphore, 1).await;
        let second = waiter(&mut control, &semaphore, 2).await;
        if wrong_type {
            let _: () = control.del("changing").await.unwrap();
            let _: () = control.hset("changing", "field", 1).await.unwrap();
        } else {
            let _: () = control.set("changing", value).await.unwrap();
        }
        let _: u64 = control.publish(channel("changing"), "1").await.unwrap();
        for task in [first, second] {
            let error = timeout(LIMIT, task).await.unwrap().unwrap().unwrap_err();
            assert_eq!(
                matches!(error, Error::WrongType { .. }),
                wrong_type,
                "{error}"
            );
            assert_clear(&error, "changing");
        }
        let _: () = control.del("changing").await.unwrap();
    }
    semaphore.try_set_permits(1).await.unwrap();
    semaphore.acquire(1).await.unwrap();
}

#[tokio::test]
async fn results_outside_of_32_bits_are_refused() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let semaphore = connect(server.url()).await.semaphore("range");
    let refused = |error: Error, counter: i64, change: i64| {
        assert!(
            matches!(error, Error::OutOfRange { available, delta, .. }
                if (available, delta) == (counter, change)),
            "{error}"
        );
        assert_clear(&error, "range");
    };
    let most = i64::from(MAX_PERMITS);
    let _: () = control.set("range", most - 1).await.unwrap();
    refused(semaphore.release(2).await.unwrap_err(), most - 1, 2);
    refused(
        semaphore.release(MAX_PERMITS).await.unwrap_err(),
        most - 1,
        most,
    );
    refused(
        semaphore.release_if_exists(2).await.unwrap_err(),
        most - 1,
        2,
    );
    refused(semaphore.add_permits(2).await.unwrap_err(), most - 1, 2);
    assert_eq!(read(&server, "range").await.value, [(most - 1).to_string()]);
    semaphore.release(1).await.unwrap();
    assert_eq!(read(&server, "range").await.value, [most.to_string()]);

    let lowest = i64::from(i32::MIN);
    let _: () = control.set("range", lowest + 1).await.unwrap();
    refused(semaphore.add_permits(-2).await.unwrap_err(), lowest + 1, -2);
    refused(
        semaphore.add_permits(i32::MIN).await.unwrap_err(),
        lowest + 1,
        lowest,
    );
    assert_eq!(semaphore.drain_permits().await, Ok(lowest + 1));

    // Two that fit one by one and not together: one of them.
    let _: () = control.set("range", most - 1).await.unwrap();
    let (one, other) = tokio::join!(semaphore.release(1), semaphore.release(1));
    assert_eq!(u8::from(one.is_ok()) + u8::from(other.is_ok()), 1);
    refused(
        one.or(other).map_or_else(|e| e, |()| semaphore_error(most)),
        most,
        1,
    );
    assert_eq!(read(&server, "range").await.value, [most.to_string()]);
}

/// Stands for the error of the call that was refused where the other one's answer is at hand.
fn semaphore_error(available: i64) -> Error {
    Error::OutOfRange {
        name: "range".to_owned(),
        available,
        delta: 1,
    }
}

#[tokio::test]
async fn a_counter_that_java_has_pushed_past_the_range_can_be_used_up() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let semaphore = connect(server.url()).await.semaphore("past");
    let past = 3_000_000_000_i64;
    let _: () = control.set("past", past).await.unwrap();
    assert_eq!(semaphore.available_permits().await, Ok(past));
    let error = semaphore.release(1).await.unwrap_err();
    assert!(matches!(error, Error::OutOfRange { available, .. } if available == past));
    assert_clear(&error, "past");
    assert_eq!(read(&server, "past").await.value, [past.to_string()]);
    semaphore.acquire(MAX_PERMITS).await.unwrap();
    assert!(semaphore.try_acquire(1).await.unwrap());
    let left = past - i64::from(MAX_PERMITS) - 1;
    assert_eq!(read(&server, "past").await.value, [left.to_string()]);
    semaphore.release(1).await.unwrap();
    assert_eq!(semaphore.drain_permits().await, Ok(left + 1));
}

#[tokio::test]
async fn names_that_cannot_be_used_are_refused_by_every_operation() {
    let server = RedisServer::start().await;
    let client = connect(server.url()).await;
    for name in ["", "a{b", "a}b", "a{}b", "{", "}", "}{", "{}"] {
        let semaphore = client.semaphore(name);
        let mut errors = all_operations(&semaphore).await;
        errors.extend([
            ("exists", semaphore.exists().await.err()),
            ("delete", semaphore.delete().await.err()),
            ("rename", semaphore.rename("good").await.err()),
            ("copy", semaphore.copy("good").await.err()),
            ("expire", semaphore.expire(LIMIT).await.err()),
            ("remaining_ttl", semaphore.remaining_ttl().await.err()),
            ("size_in_memory", semaphore.size_in_memory().await.err()),
            ("acquire 0", semaphore.acquire(0).await.err()),
            ("release 0", semaphore.release(0).await.err()),
        ]);
        for (operation, error) in errors {
            let error = error.unwrap_or_else(|| panic!("{operation} of {name:?}"));
            assert!(
                matches!(error, Error::InvalidName { .. }),
                "{operation}: {error}"
            );
            assert_clear(&error, name);
        }
        let good = client.semaphore("good");
        for error in [
            good.rename(name).await.err(),
            good.rename_nx(name).await.err(),
            good.copy(name).await.err(),
            good.copy_and_replace(name).await.err(),
        ] {
            assert!(
                matches!(error, Some(Error::InvalidName { .. })),
                "{error:?}"
            );
        }
    }
    // What counts is the mapped name.
    let mapped = builder(server.url())
        .name_mapper(NameMapper::prefix("{"))
        .connect()
        .await
        .unwrap();
    let error = mapped.semaphore("good").release(1).await.unwrap_err();
    assert!(matches!(error, Error::InvalidName { .. }), "{error}");
    assert!(
        snapshot_all(&mut server.connection().await)
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn foreign_messages_neither_kill_nor_serve_a_waiter() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let semaphore = client.semaphore("spoken-to");
    let other = connect(server.url()).await.semaphore("spoken-to");
    semaphore.try_set_permits(1).await.unwrap();
    let task = waiter(&mut control, &semaphore, 2).await;
    let payloads: &[&[u8]] = &[
        b"text",
        b"",
        b"-5",
        b"0",
        b"99999999999999999999",
        b"\x00\xff\xfe\r\n",
        b"1.5",
        &[b'x'; 100_000],
    ];
    for payload in payloads {
        let heard: u64 = control
            .publish(channel("spoken-to"), *payload)
            .await
            .unwrap();
        assert_eq!(heard, 1, "the waiter does not listen any more");
        semaphore.available_permits().await.unwrap();
        assert!(!task.is_finished(), "after {payload:?}");
        assert_eq!(read(&server, "spoken-to").await.value, ["1"]);
    }
    other.release(1).await.unwrap();
    served(task).await;
    assert_eq!(read(&server, "spoken-to").await.value, ["0"]);
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
            matches!(&error, Error::Authentication { server, .. } if *server == address),
            "{error}"
        );
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
    acl(&mut control, &["app", "resetpass", ">second"]).await;
    server.disconnect("app").await;
    // The first to notice may have sent something; after that nothing is.
    let _ = client.semaphore("scout").exists().await;
    let error = timeout(LIMIT, semaphore.try_acquire(1))
        .await
        .unwrap()
        .unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert_clear(&error, "locked-out");
    assert!(
        error.to_string().contains("authentication failed"),
        "{error}"
    );
    assert!(!error.to_string().contains("first"), "{error}");
    assert_eq!(read(&server, "locked-out").await.value, ["3"]);
    acl(&mut control, &["app", "resetpass", ">first"]).await;
    until("the client is back", LIMIT, async || {
        semaphore.release(1).await.is_ok()
    })
    .await;
    served(task).await;
    assert_eq!(read(&server, "locked-out").await.value, ["0"]);
}

/// A server whose user `app` may do what `rules` say, and a client of that user.
async fn limited(rules: &str) -> (RedisServer, Client) {
    let server = RedisServer::options()
        .user(&format!("app on >pw {rules}"))
        .start()
        .await;
    let client = connect(server.url_as("app", "pw")).await;
    (server, client)
}

fn denied(error: &Error, name: &str) {
    assert!(matches!(error, Error::PermissionDenied { .. }), "{error}");
    assert_clear(error, name);
}

#[tokio::test]
async fn a_forbidden_script_command_is_told() {
    let (server, client) = limited("~* &* +@all -evalsha -eval").await;
    let semaphore = client.semaphore("forbidden");
    let mut control = server.connection().await;
    let _: () = control.set("forbidden", 5).await.unwrap();
    for (operation, error) in all_operations(&semaphore).await {
        denied(&error.unwrap_or_else(|| panic!("{operation}")), "forbidden");
    }
    denied(&semaphore.delete().await.unwrap_err(), "forbidden");
    assert!(semaphore.exists().await.unwrap());
    assert_eq!(read(&server, "forbidden").await.value, ["5"]);
    // A caller that has been refused does not stand in anyone's way later.
    acl(&mut control, &["app", "+@all"]).await;
    semaphore.acquire(5).await.unwrap();
}

#[tokio::test]
async fn a_forbidden_key_is_told() {
    let (server, client) = limited("~open* ~redisson* &* +@all").await;
    let mut control = server.connection().await;
    let _: () = control.set("closed", 5).await.unwrap();
    let semaphore = client.semaphore("closed");
    for (operation, error) in all_operations(&semaphore).await {
        denied(&error.unwrap_or_else(|| panic!("{operation}")), "closed");
    }
    for error in [
        semaphore.exists().await.unwrap_err(),
        semaphore.delete().await.unwrap_err(),
        semaphore.remaining_ttl().await.unwrap_err(),
    ] {
        denied(&error, "closed");
    }
    let open = client.semaphore("open");
    open.release(1).await.unwrap();
    denied(&open.rename("closed").await.unwrap_err(), "open");
    assert_eq!(read(&server, "closed").await.value, ["5"]);
    assert_eq!(read(&server, "open").await.value, ["1"]);
}

#[tokio::test]
async fn what_cannot_be_announced_is_not_carried_out() {
    for rules in [
        "~* &* +@all -publish",
        "~* resetchannels &redisson_sc:{other} +@all",
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

#[tokio::test]
async fn the_others_of_a_batch_do_not_suffer_from_one_that_is_forbidden() {
    let (server, client) = limited("~* &* +@all -publish").await;
    let mut control = server.connection().await;
    let semaphore = client.semaphore("mixed");
    let _: () = control.set("mixed", 5).await.unwrap();
    for _ in 0..20 {
        let busy = semaphore.clone();
        let (_, first, second, release, tried, drained) = tokio::join!(
            busy.available_permits(),
            semaphore.acquire(1),
            semaphore.acquire(2),
            semaphore.release(7),
            semaphore.try_acquire(1),
            semaphore.available_permits(),
        );
        denied(&release.unwrap_err(), "mixed");
        first.unwrap();
        second.unwrap();
        assert!(tried.unwrap());
        drained.unwrap();
        assert_eq!(snapshot(&mut control, "mixed").await.value, ["1"]);
        let _: i64 = control.incr("mixed", 4).await.unwrap();
    }
}

#[tokio::test]
async fn a_channel_that_may_not_be_heard_is_told_to_those_who_would_wait() {
    for rules in [
        "~* &* +@all -subscribe",
        "~* resetchannels &redisson_sc:{other} +@all",
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
            denied(&error.unwrap_err(), "deaf");
            other.release(1).await.unwrap();
            served(waiting).await;
        }
        // And when it becomes allowed, waiting works.
        acl(&mut control, &["app", "allchannels", "+@all"]).await;
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
    // The caller joins while something else is under way, and its own question takes a while.
    proxy.at_script(2, Fate::LoseReply);
    let (seen, acquired) = tokio::join!(semaphore.available_permits(), semaphore.acquire(1));
    assert_eq!(seen, Ok(3));
    assert_eq!(proxy.struck(), 1);
    assert_eq!(acquired, Ok(()));
    assert_eq!(read(&server, "busy").await.value, ["2"]);
}

#[tokio::test]
async fn a_replica_refuses_changes() {
    let primary = RedisServer::start().await;
    connect(primary.url())
        .await
        .semaphore("copied")
        .try_set_permits(5)
        .await
        .unwrap();
    let replica = RedisServer::options().replica_of(&primary).start().await;
    until_linked(&mut replica.connection().await).await;
    let client = builder(replica.url())
        .retry_window(Duration::from_millis(100))
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("copied");
    assert_eq!(semaphore.available_permits().await, Ok(5));
    for (operation, error) in all_operations(&semaphore).await {
        match error {
            Some(error) => {
                assert!(
                    matches!(error, Error::ReadOnly { .. }),
                    "{operation}: {error}"
                );
                assert_clear(&error, "copied");
            }
            None => assert!(
                operation == "available_permits" || operation.starts_with("try_set"),
                "{operation}"
            ),
        }
    }
    for error in [
        semaphore.delete().await.unwrap_err(),
        semaphore.rename("elsewhere").await.unwrap_err(),
        semaphore.expire(LIMIT).await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
    }
    assert_eq!(read(&primary, "copied").await.value, ["5"]);
    assert_eq!(read(&replica, "copied").await.value, ["5"]);
}

#[tokio::test]
async fn a_server_that_is_away_at_connect() {
    let mut server = RedisServer::start().await;
    let url = server.url();
    let short = Duration::from_millis(200);
    server.stop().await;
    let connecting = Client::builder(url.clone())
        .connect_timeout(short)
        .connect();
    let error = timeout(LIMIT, connecting).await.unwrap().expect_err("away");
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert_clear(&error, &format!("127.0.0.1:{}", server.port()));
    // One that comes while it is tried is found.
    let connecting = tokio::spawn(Client::connect(url.clone()));
    server.restart().await;
    let client = timeout(LIMIT, connecting).await.unwrap().unwrap().unwrap();
    client.semaphore("there").release(1).await.unwrap();
    // One that accepts and says nothing.
    server.freeze();
    let connecting = Client::builder(url).connect_timeout(short).connect();
    let error = timeout(LIMIT, connecting)
        .await
        .unwrap()
        .expect_err("silent");
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    server.thaw();
}

#[tokio::test]
async fn a_server_that_is_away_during_calls() {
    let mut server = RedisServer::options().appendonly().start().await;
    let client = builder(server.url())
        .retry_window(Duration::from_millis(400))
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("away");
    semaphore.try_set_permits(5).await.unwrap();
    // Sent, not answered.
    server.freeze();
    let error = timeout(LIMIT, semaphore.release(1))
        .await
        .unwrap()
        .unwrap_err();
    assert!(
        matches!(&error, Error::OutcomeUnknown { name, operation: "release", .. } if name == "away"),
        "{error}"
    );
    assert_eq!(error.effect(), Effect::Unknown);
    // Never sent: others stand in front of it, or there is no connection.
    for error in [
        semaphore.release(1).await.unwrap_err(),
        semaphore.try_acquire(1).await.unwrap_err(),
        semaphore.acquire(1).await.unwrap_err(),
        semaphore.delete().await.unwrap_err(),
    ] {
        if matches!(
            error,
            Error::OutcomeUnknown {
                operation: "acquire",
                ..
            }
        ) {
            continue;
        }
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        assert_clear(&error, "away");
    }
    server.thaw();
    // The release that was sent is carried out once, the others are not.
    until("the client is back", LIMIT, async || {
        semaphore.available_permits().await == Ok(6)
    })
    .await;
    server.stop().await;
    let scouted = client.semaphore("scout").exists().await.unwrap_err();
    assert!(scouted.to_string().contains("scout"), "{scouted}");
    for error in [
        semaphore.release(1).await.unwrap_err(),
        semaphore.acquire(1).await.unwrap_err(),
        semaphore.try_acquire(1).await.unwrap_err(),
        semaphore.expire(LIMIT).await.unwrap_err(),
        semaphore.available_permits().await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        assert_clear(&error, "away");
    }
    server.restart().await;
    until("the client is back", LIMIT, async || {
        semaphore.available_permits().await.is_ok()
    })
    .await;
    assert_eq!(read(&server, "away").await.value, ["6"]);
}

#[tokio::test]
async fn forgotten_scripts_are_sent_again() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let semaphore = connect(server.url()).await.semaphore("flushed");
    let mut flush = async || {
        let _: () = redis::cmd("SCRIPT")
            .arg("FLUSH")
            .query_async(&mut control)
            .await
            .unwrap();
    };
    for _ in 0..5 {
        flush().await;
        semaphore.release(3).await.unwrap();
        flush().await;
        semaphore.acquire(2).await.unwrap();
        flush().await;
        assert!(semaphore.expire(LIMIT).await.unwrap());
        assert!(semaphore.clear_expire().await.unwrap());
        flush().await;
        assert_eq!(semaphore.drain_permits().await, Ok(1));
        flush().await;
        let waiting = semaphore.clone();
        let waiting = tokio::spawn(async move { waiting.acquire(1).await });
        semaphore.release(1).await.unwrap();
        served(waiting).await;
    }
    assert_eq!(semaphore.available_permits().await, Ok(0));
}

#[tokio::test]
async fn urls_and_settings_that_make_no_sense() {
    for url in [
        "",
        "nonsense",
        "http://127.0.0.1:1",
        "redis://",
        "redis://:secret@host:port",
        "127.0.0.1:6379",
    ] {
        // An address without a scheme, and none at all, may be read as something that is not there.
        let connecting = Client::builder(url).connect_timeout(Duration::from_millis(100));
        let error = connecting.connect().await.expect_err(url);
        assert!(
            matches!(error, Error::Configuration { .. }),
            "{url}: {error}"
        );
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    let error = Client::connect("rediss://:secret@127.0.0.1:6379")
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Configuration { .. }), "{error}");
    assert!(error.to_string().contains("TLS") && !error.to_string().contains("secret"));

    let url = || Client::builder("redis://127.0.0.1:1");
    for value in [Duration::ZERO, Duration::MAX] {
        for (setting, builder) in [
            ("response_timeout", url().response_timeout(value)),
            ("connect_timeout", url().connect_timeout(value)),
            ("retry_window", url().retry_window(value)),
            ("safety_interval", url().safety_interval(value)),
        ] {
            let error = builder.connect().await.unwrap_err();
            assert!(matches!(error, Error::Configuration { .. }), "{error}");
            assert!(error.to_string().contains(setting), "{error}");
        }
    }
}

#[tokio::test]
async fn times_to_live_that_redis_cannot_store() {
    let server = RedisServer::start().await;
    let semaphore = connect(server.url()).await.semaphore("short-lived");
    semaphore.try_set_permits(3).await.unwrap();
    let before = read(&server, "short-lived").await;
    for ttl in [Duration::ZERO, Duration::from_micros(999), Duration::MAX] {
        for error in [
            semaphore.try_set_permits_for(1, ttl).await.err(),
            semaphore.expire(ttl).await.err(),
        ] {
            let error = error.expect("refused");
            assert!(
                matches!(&error, Error::InvalidDuration { value, .. } if *value == ttl),
                "{error}"
            );
            assert_clear(&error, "short-lived");
        }
    }
    assert_eq!(read(&server, "short-lived").await, before);
    // The longest that is accepted is accepted by Redis, too.
    assert!(
        semaphore
            .expire(Duration::from_millis(1 << 53))
            .await
            .unwrap()
    );
    assert!(semaphore.delete().await.unwrap());
    let longest = Duration::from_millis(1 << 53);
    assert!(semaphore.try_set_permits_for(1, longest).await.unwrap());
    let ttl = read(&server, "short-lived").await.ttl.unwrap();
    assert!(longest - ttl < Duration::from_secs(60), "{ttl:?}");
}
