//! Wrong arguments, foreign keys and messages: a clear error that names the object and says whether anything
//! took effect; nothing is lost.

use std::time::Duration;

use crate::support::clients::{LIMIT, builder, connect, served};
use crate::support::refusals::{all_operations, assert_clear};
use crate::support::server::RedisServer;
use crate::support::snapshot::{Snapshot, snapshot, snapshot_all};
use crate::support::waiters::{channel, waiter};
use redis::AsyncCommands;
use redisson_semaphore::{
    Client, Effect, Error, LeasedSemaphore as _, Lock, MAX_PERMITS, NameMapper,
};
use tokio::time::timeout;

async fn read(server: &RedisServer, key: &str) -> Snapshot {
    snapshot(&mut server.connection().await, key).await
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
    let single = connect(server.url()).await;
    // It is never asked.
    let cluster = Client::builder("redis+cluster://127.0.0.1:1").connect_lazy();
    let cluster = cluster.unwrap();
    let empty = [(&single, "")].into_iter();
    let apart = ["", "a{b", "a}b", "a{}b", "{", "}", "}{", "{}"];
    for (client, name) in empty.chain(apart.map(|name| (&cluster, name))) {
        let semaphore = client.semaphore(name);
        let mut errors = all_operations(&semaphore).await;
        errors.extend([
            ("exists", semaphore.exists().await.err()),
            ("delete", semaphore.delete().await.err()),
            ("rename", semaphore.object().rename("good").await.err()),
            ("copy", semaphore.object().copy("good").await.err()),
            ("expire", semaphore.expire(LIMIT).await.err()),
            ("remaining_ttl", semaphore.remaining_ttl().await.err()),
            (
                "size_in_memory",
                semaphore.object().size_in_memory().await.err(),
            ),
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
            good.object().rename(name).await.err(),
            good.object().rename_nx(name).await.err(),
            good.object().copy(name).await.err(),
            good.object().copy_and_replace(name).await.err(),
        ] {
            assert!(
                matches!(error, Some(Error::InvalidName { .. })),
                "{error:?}"
            );
        }
    }
    // What counts is the mapped name.
    let mapped = builder("redis+cluster://127.0.0.1:1".to_owned())
        .name_mapper(NameMapper::prefix("{"))
        .connect_lazy()
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
async fn urls_and_settings_that_make_no_sense() {
    for url in [
        "",
        "nonsense",
        "http://127.0.0.1:1",
        "redis://",
        "redis://:secret@host:port",
        "redis://:secr et@127.0.0.1:1",
        " redis://:secret@127.0.0.1:1",
        "redis://:secret@127.0.0.1:1?db=3",
        "redis://:sec?ret@127.0.0.1:1",
        "redis://:secret@127.0.0.1:1/#x",
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
    // An address is told as one would type it.
    let connecting = Client::builder("redis://[::1]:1").connect_timeout(Duration::from_millis(100));
    let error = connecting.connect().await.unwrap_err();
    assert!(
        matches!(&error, Error::Unavailable { name, .. } if name == "[::1]:1"),
        "{error}"
    );

    let url = || Client::builder("redis://127.0.0.1:1");
    for value in [Duration::ZERO, Duration::MAX] {
        for (setting, builder) in [
            ("response_timeout", url().response_timeout(value)),
            ("connect_timeout", url().connect_timeout(value)),
            ("retry_window", url().retry_window(value)),
            ("safety_interval", url().safety_interval(value)),
            ("scan_interval", url().scan_interval(value)),
        ] {
            let error = builder.connect().await.unwrap_err();
            assert!(matches!(error, Error::Configuration { .. }), "{error}");
            assert!(error.to_string().contains(setting), "{error}");
        }
    }
}

/// The error says where to look: the key as it stands in Redis, and what is there.
#[tokio::test]
async fn a_wrong_type_is_told_with_its_key() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = builder(server.url())
        .name_mapper(NameMapper::prefix("app:"))
        .connect()
        .await
        .unwrap();
    let told = |error: Error, object: &str, at: &str, what: &str| {
        let Error::WrongType {
            name, key, found, ..
        } = &error
        else {
            panic!("{error}");
        };
        let expected = (object, at, Some(what));
        assert_eq!((name.as_str(), key.as_str(), found.as_deref()), expected);
        let text = error.to_string();
        assert!(text.contains(at) && text.contains(what), "{text}");
        assert_clear(&error, object);
    };
    for key in ["app:s", "app:l", "app:t", "app:f:owner", "app:slots:2"] {
        let _: () = control.rpush(key, 1).await.unwrap();
    }
    let semaphore = client.semaphore("s");
    told(
        semaphore.release(1).await.unwrap_err(),
        "s",
        "app:s",
        "list",
    );
    let lock = client.lock("l");
    told(lock.try_lock().await.unwrap_err(), "l", "app:l", "list");
    told(lock.is_held().await.unwrap_err(), "l", "app:l", "list");
    let recipe = client.timestamp_semaphore("t", 2);
    told(
        recipe.try_acquire().await.unwrap_err(),
        "t",
        "app:t",
        "list",
    );
    let recipe = client.fair_semaphore("f", 2);
    let error = recipe.try_acquire().await.unwrap_err();
    told(error, "f", "app:f:owner", "list");
    // Not the object's own key, but one beside it.
    let semaphore = client.semaphore("beside");
    let record = format!("redisson_sc_once:{{app:beside}}:{}", client.id());
    let _: () = control.rpush(&record, 1).await.unwrap();
    let error = semaphore.add_permits(1).await.unwrap_err();
    told(error, "beside", &record, "list");
    let fenced = client.fenced_lock("fenced");
    let token = "redisson_lock_token:{app:fenced}";
    let _: () = control.rpush(token, 1).await.unwrap();
    told(
        fenced.try_lock().await.unwrap_err(),
        "fenced",
        token,
        "list",
    );
}

/// Who may not ask is told what is known.
#[tokio::test]
async fn a_wrong_type_is_told_without_the_permission_to_ask_for_it() {
    let server = RedisServer::options()
        .user("app on >secret ~* &* +@all -type")
        .start()
        .await;
    let mut control = server.connection().await;
    let _: () = control.rpush("list", 1).await.unwrap();
    let client = connect(server.url_as("app", "secret")).await;
    let error = client.semaphore("list").release(1).await.unwrap_err();
    assert!(
        matches!(&error, Error::WrongType { key, found: None, .. } if key == "list"),
        "{error}"
    );
    assert_clear(&error, "list");
}

/// A request of hundreds of megabytes would hold up, or end, the connection that all share.
#[tokio::test]
async fn names_that_are_too_long_are_refused() {
    const MOST: usize = 64 * 1024;
    let server = RedisServer::start().await;
    let client = connect(server.url()).await;
    let (long, too_long) = ("n".repeat(MOST), "n".repeat(MOST + 1));
    let semaphore = client.semaphore(&too_long);
    let short = client.semaphore("short");
    short.try_set_permits(1).await.unwrap();
    let sets = client.set_semaphore("sets", 1);
    let mut control = server.connection().await;
    let before: Vec<_> = snapshot_all(&mut control).await.into_keys().collect();
    let errors = [
        semaphore.release(1).await.unwrap_err(),
        semaphore.try_acquire_for(1, LIMIT).await.unwrap_err(),
        semaphore.delete().await.unwrap_err(),
        short.object().rename(&too_long).await.unwrap_err(),
        client.lock(&too_long).try_lock().await.unwrap_err(),
        client.string_lock(&too_long).try_lock().await.unwrap_err(),
        client
            .set_semaphore(&too_long, 1)
            .try_acquire()
            .await
            .unwrap_err(),
        sets.release(&too_long).await.unwrap_err(),
        sets.refresh(&too_long).await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, Error::InvalidName { .. }), "{error}");
        assert_eq!(error.effect(), Effect::NotApplied);
        // It is not repeated as a whole.
        assert!(error.to_string().len() < 1000);
    }
    assert!(snapshot_all(&mut control).await.into_keys().eq(before));
    let longest = client.semaphore(&long);
    longest.try_set_permits(1).await.unwrap();
    longest.acquire(1).await.unwrap();
}

#[cfg(not(feature = "tls-rustls"))]
#[tokio::test]
async fn tls_that_is_not_built_in_is_told() {
    let error = Client::connect("rediss://:secret@127.0.0.1:6379")
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Configuration { .. }), "{error}");
    assert!(error.to_string().contains("tls-rustls"), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
    assert!(!error.to_string().contains("not a Redis URL"), "{error}");
}
