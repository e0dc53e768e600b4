//! Wrong arguments, foreign keys and messages: a clear error that names the object and says whether anything
//! took effect; nothing is lost.

use std::time::Duration;

use crate::support::clients::{
    LIMIT, builder, connect, limited, publish, served, start_controlled, stored,
};
use crate::support::refusals::{all_operations, assert_clear};
use crate::support::snapshot::{snapshot, snapshot_all};
use crate::support::waiters::{channel, waiter};
use redis::AsyncCommands;
use redisson_semaphore::{
    Client, Effect, Error, LeasedSemaphore as _, Lock, MAX_PERMITS, NameMapper,
};
use tokio::time::timeout;

#[tokio::test]
async fn a_counter_that_is_no_number_is_told_and_left_alone() {
    let (server, mut control) = start_controlled().await;
    let client = connect(server.url()).await;
    let texts = "text|1.5| 7|7 |0x10|007|+1|-0|-||1e3|inf|nan|99999999999999999999|-99999999999999999999|1\0|7\n|unreadable 5|stale";
    let texts = texts
        .split('|')
        .map(str::as_bytes)
        .chain([&b"\xff\xfe"[..]]);
    for (number, text) in texts.enumerate() {
        let semaphore = client.semaphore(&format!("text-{number}"));
        let _: () = control.set(semaphore.name(), text).await.unwrap();
        let before = snapshot(&mut control, semaphore.name()).await;
        for (operation, error) in all_operations(&semaphore).await {
            // `try_set` does not set an existing key, whatever its value.
            let error = match error {
                Some(error) => error,
                None if operation.starts_with("try_set") => continue,
                None => panic!("{operation} on {text:?}"),
            };
            let Error::NotANumber { found, .. } = &error else {
                panic!("{operation} on {text:?}: {error}");
            };
            assert_eq!(*found, String::from_utf8_lossy(text), "{operation}");
            assert_clear(&error, semaphore.name());
        }
        assert_eq!(snapshot(&mut control, semaphore.name()).await, before);
    }
    // The text becomes a number, and the same client goes on.
    let semaphore = client.semaphore("text-0");
    let _: () = control.set("text-0", "2").await.unwrap();
    semaphore.acquire(2).await.unwrap();
    assert_eq!(stored(&server, "text-0").await, ["0"]);
}

#[tokio::test]
async fn a_key_that_changes_its_type_tells_those_who_wait() {
    let (server, mut control) = start_controlled().await;
    let semaphore = connect(server.url()).await.semaphore("changing");
    for wrong_type in [false, true] {
        let first = waiter(&mut control, &semaphore, 1).await;
        let second = waiter(&mut control, &semaphore, 2).await;
        let _: () = control.del("changing").await.unwrap();
        let _: () = match wrong_type {
            true => control.hset("changing", "field", 1).await.unwrap(),
            false => control.set("changing", "text").await.unwrap(),
        };
        publish(&mut control, "changing", "1").await;
        for task in [first, second] {
            let error = timeout(LIMIT, task).await.unwrap().unwrap().unwrap_err();
            let told = matches!(error, Error::WrongType { .. });
            assert_eq!(told, wrong_type, "{error}");
            assert_clear(&error, "changing");
        }
        let _: () = control.del("changing").await.unwrap();
    }
    semaphore.try_set_permits(1).await.unwrap();
    semaphore.acquire(1).await.unwrap();
}

#[tokio::test]
async fn a_counter_that_java_has_pushed_past_the_range_can_be_used_up() {
    let (server, mut control) = start_controlled().await;
    let semaphore = connect(server.url()).await.semaphore("past");
    let past = 3_000_000_000_i64;
    let _: () = control.set("past", past).await.unwrap();
    assert_eq!(semaphore.available_permits().await, Ok(past));
    let error = semaphore.release(1).await.unwrap_err();
    assert!(matches!(error, Error::OutOfRange { available, .. } if available == past));
    assert_clear(&error, "past");
    assert_eq!(stored(&server, "past").await, [past.to_string()]);
    semaphore.acquire(MAX_PERMITS).await.unwrap();
    assert!(semaphore.try_acquire(1).await.unwrap());
    let left = past - i64::from(MAX_PERMITS) - 1;
    assert_eq!(stored(&server, "past").await, [left.to_string()]);
    semaphore.release(1).await.unwrap();
    assert_eq!(semaphore.drain_permits().await, Ok(left + 1));
}

/// The error of each object with this name.
async fn errors_of_objects(client: &Client, name: &str) -> Vec<Option<Error>> {
    let semaphore = client.semaphore(name);
    let operations = all_operations(&semaphore).await.into_iter();
    let mut errors: Vec<_> = operations.map(|(_, error)| error).collect();
    let ids = client.permit_expirable_semaphore(name);
    errors.extend([
        semaphore.acquire(0).await.err(),
        semaphore.release(0).await.err(),
        semaphore.exists().await.err(),
        semaphore.delete().await.err(),
        semaphore.expire(LIMIT).await.err(),
        semaphore.remaining_ttl().await.err(),
        semaphore.object().size_in_memory().await.err(),
        semaphore.object().rename("good").await.err(),
        semaphore.object().copy("good").await.err(),
        ids.acquire().await.err(),
        ids.release("00ff").await.err(),
        ids.available_permits().await.err(),
        ids.set_permits(1).await.err(),
        ids.holders().await.err(),
        ids.delete().await.err(),
        ids.expire(LIMIT).await.err(),
        client.lock(name).try_lock().await.err(),
    ]);
    let good = client.semaphore("good");
    errors.extend([
        good.object().rename(name).await.err(),
        good.object().rename_nx(name).await.err(),
        good.object().copy(name).await.err(),
        good.object().copy_and_replace(name).await.err(),
    ]);
    errors
}

/// The same for objects that only a cluster can refuse, for the slots of their keys.
async fn errors_of_others(client: &Client, name: &str) -> Vec<Option<Error>> {
    let fair = client.fair_semaphore(name, 1);
    vec![
        client.count_down_latch(name).count().await.err(),
        client.string_lock(name).lock().await.err(),
        client.timestamp_semaphore(name, 1).acquire().await.err(),
        client.set_semaphore(name, 1).try_acquire().await.err(),
        client.slot_semaphore(name, 1).holders().await.err(),
        fair.try_acquire_for(LIMIT).await.err(),
        fair.release("a").await.err(),
        fair.refresh("a").await.err(),
        fair.release_all().await.err(),
    ]
}

/// A request of hundreds of megabytes would hold up, or end, the connection that all share.
#[tokio::test]
async fn names_that_cannot_be_used_are_refused_by_every_operation() {
    let (server, mut control) = start_controlled().await;
    let single = connect(server.url()).await;
    // This server is never asked.
    let cluster = || builder("redis+cluster://127.0.0.1:1".to_owned());
    let apart = cluster().connect_lazy().unwrap();
    // The mapped name counts.
    let mapped = cluster().name_mapper(NameMapper::prefix("{"));
    let mapped = mapped.connect_lazy().unwrap();
    let most = "n".repeat(64 * 1024);
    let too_long = format!("{most}n");
    let names = ["", "a{b", "a}b", "a{}b", "{", "}", "}{", "{}"].map(|name| (&apart, name));
    let names = names.into_iter().chain([(&mapped, "good")]);
    for (client, name) in names.chain([(&single, ""), (&single, &too_long)]) {
        let mut errors = errors_of_objects(client, name).await;
        if std::ptr::eq(client, &single) {
            errors.extend(errors_of_others(client, name).await);
        }
        for (number, error) in errors.into_iter().enumerate() {
            let error = error.unwrap_or_else(|| panic!("call {number} of {name:?}"));
            let told = matches!(error, Error::InvalidName { .. });
            assert!(told, "call {number} of {name:?}: {error}");
            assert_eq!(error.effect(), Effect::NotApplied);
            // The error does not repeat the whole name.
            assert!(error.to_string().len() < 1000);
        }
    }
    let sets = single.set_semaphore("sets", 1);
    for told in [sets.release(&too_long).await, sets.refresh(&too_long).await] {
        assert!(matches!(told, Err(Error::InvalidName { .. })), "{told:?}");
    }
    assert!(snapshot_all(&mut control).await.is_empty());
    let longest = single.semaphore(&most);
    longest.try_set_permits(1).await.unwrap();
    longest.acquire(1).await.unwrap();
}

#[tokio::test]
async fn foreign_messages_neither_kill_nor_serve_a_waiter() {
    let (server, mut control) = start_controlled().await;
    let client = connect(server.url()).await;
    let semaphore = client.semaphore("spoken-to");
    let other = connect(server.url()).await.semaphore("spoken-to");
    semaphore.try_set_permits(1).await.unwrap();
    let task = waiter(&mut control, &semaphore, 2).await;
    let long = [b'x'; 100_000];
    let payloads = "text||-5|0|99999999999999999999|1.5".split('|');
    let payloads = payloads.map(str::as_bytes);
    for payload in payloads.chain([&b"\x00\xff\xfe\r\n"[..], &long]) {
        let heard = control.publish(channel("spoken-to"), payload).await;
        assert_eq!(heard, Ok(1), "the waiter does not listen any more");
        semaphore.available_permits().await.unwrap();
        assert!(!task.is_finished(), "after {payload:?}");
        assert_eq!(stored(&server, "spoken-to").await, ["1"]);
    }
    other.release(1).await.unwrap();
    served(task).await;
    assert_eq!(stored(&server, "spoken-to").await, ["0"]);
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
    // An error shows an address as a user would type it.
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
    let (server, mut control) = start_controlled().await;
    let mapped = builder(server.url()).name_mapper(NameMapper::prefix("app:"));
    let client = mapped.connect().await.unwrap();
    let (lock, latch) = (client.lock("l"), client.count_down_latch("c"));
    let beside = client.semaphore("beside");
    let record = format!("redisson_sc_once:{{app:beside}}:{}", client.id());
    let token = "redisson_lock_token:{app:fenced}";
    for key in [
        "app:s",
        "app:l",
        "app:c",
        "app:t",
        "app:f:owner",
        "app:slots:300",
        &record,
        token,
    ] {
        let _: () = control.rpush(key, 1).await.unwrap();
    }
    let release = client.semaphore("s").release(1).await;
    let slots = client.slot_semaphore("slots", 300);
    for (told, object, at) in [
        (release, "s", "app:s"),
        (lock.try_lock().await.map(drop), "l", "app:l"),
        (lock.is_held().await.map(drop), "l", "app:l"),
        (latch.count_down().await, "c", "app:c"),
        (
            client
                .timestamp_semaphore("t", 2)
                .try_acquire()
                .await
                .map(drop),
            "t",
            "app:t",
        ),
        (
            client.fair_semaphore("f", 2).try_acquire().await.map(drop),
            "f",
            "app:f:owner",
        ),
        // A slot that no client can have taken is not called free.
        (slots.holders().await.map(drop), "slots", "app:slots:300"),
        (
            slots.release_all().await.map(drop),
            "slots",
            "app:slots:300",
        ),
        // Not the object's own key, but one beside it.
        (beside.add_permits(1).await, "beside", &record),
        (
            client.fenced_lock("fenced").try_lock().await.map(drop),
            "fenced",
            token,
        ),
    ] {
        let error = told.unwrap_err();
        let Error::WrongType {
            name, key, found, ..
        } = &error
        else {
            panic!("{error}");
        };
        assert_eq!(
            (&**name, &**key, found.as_deref()),
            (object, at, Some("list"))
        );
        let text = error.to_string();
        assert!(text.contains(at) && text.contains("list"), "{text}");
        assert_clear(&error, object);
    }
    // A client that may not ask for the type gives an error without it.
    let (server, client) = limited("~* &* +@all -type").await;
    let _: () = server.connection().await.rpush("list", 1).await.unwrap();
    let error = client.semaphore("list").release(1).await.unwrap_err();
    let told = matches!(&error, Error::WrongType { key, found: None, .. } if key == "list");
    assert!(told, "{error}");
    assert_clear(&error, "list");
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
