//! Passwords and permissions that are missing or taken away: a clear error, no effect on other callers, nothing is lost.

use std::time::Duration;

use crate::support::acl::set_user;
use crate::support::clients::{LIMIT, builder, limited, scripts, served, stored};
use crate::support::refusals::{all_operations, assert_clear};
use crate::support::server::RedisServer;
use crate::support::waiters::{until, until_notified, until_queued, until_subscribers, waiter};
use redis::AsyncCommands;
use redisson_semaphore::{Client, Error, RemainingTtl, Result};
use tokio::time::timeout;

#[tokio::test]
async fn a_wrong_password_is_told_without_being_shown() {
    let server = RedisServer::options()
        .password("right-secret")
        .user("app on >app-secret ~* &* +@all")
        .start()
        .await;
    let address = format!("127.0.0.1:{}", server.port());
    let plain = || Client::builder(format!("redis://{address}"));
    let in_url = |user: &str| format!("redis://{user}:wrong-secret@{address}");
    for connecting in [
        Client::builder(in_url("")),
        Client::builder(in_url("app")),
        Client::builder(in_url("nobody")),
        Client::builder(server.url()).password("wrong-secret"),
        plain().username("app").password("wrong-secret"),
        plain(),
    ] {
        let debug = format!("{connecting:?}");
        assert!(!debug.contains("secret"), "{debug}");
        let told = timeout(LIMIT, connecting.connect()).await.expect("at once");
        let error = told.expect_err(&debug);
        let Error::Authentication { name, detail, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(*name, address);
        // The server's own words.
        let word = detail.split(' ').next();
        assert!(matches!(word, Some("WRONGPASS" | "NOAUTH")), "{detail}");
        let told = format!("{error} {error:?}");
        assert!(!told.contains("secret"), "{told}");
    }
    let right = plain().username("app").password("app-secret");
    let client = right.connect().await.unwrap();
    assert!(!format!("{client:?}").contains("secret"));
    client.semaphore("fine").release(1).await.unwrap();
}

fn denied(error: &Error, name: &str) {
    assert!(matches!(error, Error::PermissionDenied { .. }), "{error}");
    assert_clear(error, name);
}

/// The client needs these commands before its first call.
#[tokio::test]
async fn a_command_that_is_forbidden_at_connect_is_told() {
    for (command, scheme, database) in [("select", "redis", "3"), ("role", "redis+replicated", "")]
    {
        let rules = format!("app on >pw ~* &* +@all -{command}");
        let server = RedisServer::options().user(&rules).start().await;
        let address = format!("127.0.0.1:{}", server.port());
        let url = format!("{scheme}://app:pw@{address}/{database}");
        let connecting = builder(url).connect();
        let error = timeout(LIMIT, connecting).await.expect("at once");
        let error = error.expect_err(command);
        let Error::PermissionDenied { detail, .. } = &error else {
            panic!("{error:?}");
        };
        assert!(detail.contains(&format!("'{command}'")), "{detail}");
        assert!(error.name().is_some_and(|name| name.contains(&address)));
    }
}

#[tokio::test]
async fn a_forbidden_key_is_told() {
    let (server, client) = limited("~open* ~redisson* &* +@all").await;
    let _: () = server.connection().await.set("closed", 5).await.unwrap();
    let closed = client.semaphore("closed");
    let operations = all_operations(&closed).await.into_iter();
    let errors = operations.map(|(_, error)| error).chain([
        closed.exists().await.err(),
        closed.delete().await.err(),
        closed.remaining_ttl().await.err(),
    ]);
    for error in errors {
        let error = error.expect("it is forbidden");
        denied(&error, "closed");
        let Error::PermissionDenied { detail, .. } = &error else {
            unreachable!("seen just now");
        };
        assert!(detail.contains("closed"), "{detail}");
    }
    let open = client.semaphore("open");
    open.release(1).await.unwrap();
    denied(&open.object().rename("closed").await.unwrap_err(), "open");
    assert_eq!(stored(&server, "closed").await, ["5"]);
    assert_eq!(stored(&server, "open").await, ["1"]);
}

/// The script stops at its first change, so nothing has happened, and the error says so.
#[tokio::test]
async fn a_refused_first_change_has_no_effect() {
    let (_server, client) = limited("~* &* +@all -incrby -hset -zadd").await;
    let seats = client.semaphore("seats");
    let ids = client.permit_expirable_semaphore("ids");
    let door = client.lock("door");
    assert_eq!(seats.try_set_permits(2).await, Ok(true));
    assert_eq!(ids.try_set_permits(2).await, Ok(true));
    denied(&seats.release(1).await.unwrap_err(), "seats");
    denied(&seats.try_acquire(1).await.unwrap_err(), "seats");
    denied(&ids.try_acquire().await.unwrap_err(), "ids");
    denied(&door.try_lock().await.unwrap_err(), "door");
    assert_eq!(seats.available_permits().await, Ok(2));
    assert_eq!(ids.available_permits().await, Ok(2));
    assert_eq!(door.is_locked().await, Ok(false));
}

/// A change before the announcement stays. `tests/hazards/refused.rs` forbids commands; here a channel is forbidden, too.
#[tokio::test]
async fn a_refused_announcement_is_told() {
    for (rules, missing) in [
        ("~* &* +@all -publish", ["'publish'", "rsem doctor"]),
        (
            "~* resetchannels &redisson_sc:{other} +@all",
            ["redisson_sc:{silent}"; 2],
        ),
    ] {
        let (server, client) = limited(rules).await;
        let semaphore = client.semaphore("silent");
        let told = async |call: Result<()>, left: &str| {
            let error = call.expect_err("it is not announced");
            assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error}");
            let text = error.to_string();
            let named = missing.iter().any(|what| text.contains(what));
            assert!(named && text.contains("\"silent\""), "{text}");
            assert_eq!(stored(&server, "silent").await, [left], "{rules}");
        };
        told(semaphore.try_set_permits(3).await.map(drop), "3").await;
        told(semaphore.release(1).await, "4").await;
        told(semaphore.release_if_exists(1).await.map(drop), "5").await;
        told(semaphore.add_permits(1).await, "6").await;
        // A call that announces nothing is allowed.
        assert_eq!(semaphore.drain_permits().await, Ok(6));
        semaphore.add_permits(-4).await.unwrap();
        semaphore.release(2).await.unwrap();
        assert_eq!(stored(&server, "silent").await, ["-2"], "{rules}");
        told(semaphore.release(3).await, "1").await;
        let made = async {
            assert_eq!(semaphore.delete().await, Ok(true));
            semaphore.try_set_permits_for(3, LIMIT).await
        };
        told(made.await.map(drop), "3").await;
        let left = semaphore.remaining_ttl().await.unwrap();
        assert!(
            matches!(left, RemainingTtl::Expires(_)),
            "{rules}: {left:?}"
        );
    }
}

/// The permits of a guard whose release is denied come back when its lease ends. The release is not retried as fast as it is refused.
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
    set_user(&mut control, &["app", "-set"]).await;
    let before = scripts(&mut control).await;
    denied(&held.release().await.unwrap_err(), "quiet");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let asked = scripts(&mut control).await - before;
    assert!(asked < 30, "{asked} scripts");
    set_user(&mut control, &["app", "+set"]).await;
    served(waits).await;
    until("all are there", LIMIT, async || {
        stored(&server, "quiet").await == ["4"]
    })
    .await;
}

#[tokio::test]
async fn waiters_of_different_amounts_are_told_that_the_permission_is_gone() {
    let (server, _) = limited("~* &* +@all").await;
    let mut control = server.connection().await;
    let client = builder(server.url_as("app", "pw")).safety_interval(Duration::from_millis(50));
    let semaphore = client.connect().await.unwrap().semaphore("forbidden");
    let waiting = [1, 2, 1].map(|permits| {
        let semaphore = semaphore.clone();
        tokio::spawn(async move { semaphore.acquire(permits).await })
    });
    until_subscribers(&mut control, "redisson_sc:{forbidden}", 1).await;
    set_user(&mut control, &["app", "-evalsha", "-eval"]).await;
    for waiter in waiting {
        let told = timeout(LIMIT, waiter).await.expect("it is told").unwrap();
        denied(&told.unwrap_err(), "forbidden");
    }
}

/// The client logs in as the user of the URL, with a password or without.
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

/// A path has no room for user, password and database.
#[tokio::test]
async fn a_socket_takes_them_as_parameters() {
    let server = RedisServer::options()
        .user("app on >secret ~* &* +@all")
        .start()
        .await;
    let mut control = server.connection().await;
    let path = server.directory().join("socket");
    // The server makes its socket at its start only, so a bridge stands in for it.
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
