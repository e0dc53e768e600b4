//! Each command that the scripts of a primitive use is forbidden in turn: errors agree with effects. A denied call has changed nothing,
//! and succeeds when the command is allowed again. If something had changed before the denial, the error says that the outcome is
//! unknown. The same holds for messages that a client may not listen to.

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

/// The commands that scripts have used since the last call.
async fn commands(monitor: &mut Monitor) -> BTreeSet<String> {
    let commands = monitor.until_marker().await.into_iter();
    let of_scripts = commands.filter(|command| command.is_lua());
    of_scripts
        .map(|command| command.name.to_lowercase())
        .collect()
}

/// Scripts use these commands before they change anything.
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
                // The error of a drop is in the log.
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
        // Scripts do without a command that serves nothing but the order of callers.
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

/// A caller that would have to wait, and may not listen, gets an error at once. The caller waits as soon as it may listen.
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
        // The call leaves nothing behind, and blocks no other caller.
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
