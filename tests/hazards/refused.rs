//! Each command that the scripts of a primitive use is forbidden in turn: what is told and what has happened agree. A call that is
//! denied has changed nothing, and succeeds when it is allowed again; where something had changed before, the caller is told that the
//! outcome is unknown. The same holds for messages that may not be heard.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Effect, Error};
use tokio::time::timeout;

use crate::hostile::read;
use crate::reconnect::{let_in, waiting};
use crate::subject::{Books, End, Expected, Subject, in_time, tolerance, until_heard};
use crate::subjects::for_every_subject;
use crate::support::acl::set_user;
use crate::support::clients::{LIMIT, limited};
use crate::support::monitor::Monitor;
use crate::support::refusals::assert_clear;

async fn allow(redis: &mut MultiplexedConnection, rule: &str) {
    set_user(redis, &["app", "+@all", rule]).await;
}

/// Those that scripts have used since the last look.
async fn commands(monitor: &mut Monitor) -> BTreeSet<String> {
    let commands = monitor.until_marker().await.into_iter();
    let of_scripts = commands.filter(|command| command.is_lua());
    of_scripts
        .map(|command| command.name.to_lowercase())
        .collect()
}

/// A script uses these before it changes anything.
const FIRST: [&str; 2] = ["get", "set"];

async fn each_command_in_turn<S: Subject>() {
    let (server, client) = limited("~* &* +@all").await;
    let mut redis = server.connection().await;
    let mut monitor = Monitor::start(&server).await;
    let mut books = Books::new(Expected::of::<S>(&client, &mut redis).await);
    let commands = commands(&mut monitor).await;
    drop(monitor);
    for command in S::NEEDS {
        assert!(
            commands.contains(*command),
            "{} does not use {command}: {commands:?}",
            S::NAME
        );
    }
    for command in &commands {
        let mut refused = 0;
        for (call, _) in S::CALLS {
            if call.ends_with("drop") {
                // Its error is in the log.
                continue;
            }
            let name = format!("{}-{command}-{call}", S::NAME);
            let subject = S::new(&client, &name);
            subject.prepare(call).await.unwrap();
            let keys = subject.keys();
            let began = Instant::now();
            let before = read(&mut redis, &keys).await;
            allow(&mut redis, &format!("-{command}")).await;
            let told = in_time(&subject, call).await;
            allow(&mut redis, "+@all").await;
            let what = format!("{name}: {command} is forbidden, and it is told {told:?}");
            let Err(error) = told else {
                assert_eq!(told, Ok(true), "{what}");
                continue;
            };
            refused += 1;
            if error.effect() == Effect::Unknown {
                assert!(!FIRST.contains(&&**command), "{what}");
                assert!(matches!(error, Error::OutcomeUnknown { .. }), "{what}");
                assert!(error.to_string().contains(&format!("{name:?}")), "{what}");
                drop(subject);
                continue;
            }
            assert!(matches!(error, Error::PermissionDenied { .. }), "{what}");
            assert_clear(&error, &name);
            let after = read(&mut redis, &keys).await;
            let same = before.iter().zip(&after);
            let same = same.map(|(one, two)| one.matches(two, tolerance(began)));
            assert!(same.min() == Some(true), "{what}: {before:?}, {after:?}");
            if S::ONCE.contains(call) {
                continue;
            }
            let what = format!("{what}, and then it is allowed again");
            assert_eq!(in_time(&subject, call).await, Ok(true), "{what}");
            books
                .settled(&mut redis, what, subject, call, End::Done)
                .await;
        }
        // What serves nothing but the order of callers is done without.
        assert!(
            refused > 0 || !S::NEEDS.contains(&&**command),
            "{command} is forbidden, and nobody is refused"
        );
    }
    books.close(&mut redis, client).await;
}

#[tokio::test]
async fn each_command_is_refused_in_turn() {
    for_every_subject!(each_command_in_turn);
}

/// A caller that would wait, and may not listen, is told at once. It waits as soon as it may.
async fn without_messages<S: Subject>() {
    let (server, client) = limited("~* &* +@all -subscribe").await;
    let mut redis = server.connection().await;
    let holder = S::new(&client, S::NAME);
    holder.close().await.unwrap();
    let subject = Arc::new(S::new(&client, S::NAME));
    let closed = subject.left(&mut redis).await;
    for limit in [None, Some(LIMIT)] {
        let told = timeout(LIMIT, subject.take(limit)).await.expect("it ends");
        let error = told.expect_err("it may not listen");
        assert!(matches!(error, Error::PermissionDenied { .. }), "{error}");
        assert_clear(&error, S::NAME);
        // It leaves nothing behind, and stands in nobody's way.
        assert_eq!(subject.left(&mut redis).await, closed);
    }
    allow(&mut redis, "+@all").await;
    let waits = waiting(&subject);
    until_heard(&mut redis, S::NAME).await;
    holder.open().await.unwrap();
    let_in(S::NAME, waits).await;
}

#[tokio::test]
async fn a_waiter_that_may_not_listen_is_told() {
    for_every_subject!(without_messages);
}
