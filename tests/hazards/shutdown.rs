//! Clients that are shut down: waiters get an error, pending releases are carried out, and unknown outcomes are resolved.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redisson_semaphore::{Effect, Error};
use tokio::time::timeout;

use crate::lost::builder;
use crate::subject::{Books, End, Expected, HOUR, Kind, Subject, in_time, until_heard};
use crate::subjects::for_every_subject;
use crate::support::clients::{LIMIT, connections};
use crate::support::polls::poll_once;
use crate::support::proxy::{LOST_REPLIES, Proxy};
use crate::support::server::RedisServer;
use crate::support::waiters::until;

fn told_of_the_end<T>(what: &str, told: redisson_semaphore::Result<T>) {
    let error = told.map(drop).expect_err(what);
    assert!(matches!(error, Error::ShutDown { .. }), "{what}: {error}");
    assert_eq!(error.effect(), Effect::NotApplied, "{what}");
    let text = error.to_string();
    assert!(text.contains("nothing took effect"), "{what}: {text}");
}

/// A shutdown with callers that wait, and with calls whose callers have gone.
async fn waiters_and_debts<S: Subject>() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let elsewhere = builder(server.url()).connect().await.unwrap();
    let client = builder(server.url()).connect().await.unwrap();
    let expected = Expected::of::<S>(&elsewhere, &mut redis).await;
    let name = format!("{}-shut", S::NAME);
    let holder = S::new(&elsewhere, &name);
    holder.close().await.unwrap();
    let closed = holder.left(&mut redis).await;
    let waits = [None, Some(HOUR)].map(|limit| {
        let subject = S::new(&client, &name);
        tokio::spawn(async move { subject.take(limit).await })
    });
    until_heard(&mut redis, &name).await;
    until("both wait", LIMIT, async || client.stats().waiting == 2).await;
    // The server answers these calls after the last check of the waiters, which listen by then.
    for _ in 0..2 {
        assert_eq!(
            S::new(&client, &name).take(Some(Duration::ZERO)).await,
            Ok(false)
        );
    }
    let mut debts = Vec::new();
    for (call, kind) in S::CALLS {
        if *kind == Kind::Give {
            let subject = S::new(&client, &format!("{}-owed-{call}", S::NAME));
            subject.prepare(call).await.unwrap();
            debts.push((subject, *call));
        }
    }
    assert!(!debts.is_empty());
    for (subject, call) in &debts {
        // The call may end with its first poll, if it waits for no reply.
        let _ = poll_once(&mut pin!(subject.call(call))).await;
    }
    timeout(LIMIT, client.shutdown())
        .await
        .expect("it ends")
        .unwrap();
    for (subject, call) in &debts {
        let left = subject.left(&mut redis).await;
        assert_eq!(left, expected.after(call), "{}: {call} is owed", S::NAME);
    }
    for waits in waits {
        let told = timeout(LIMIT, waits).await.expect("it is told").unwrap();
        match told {
            Err(error) if S::LOOKS && error.effect() == Effect::Unknown => {}
            told => told_of_the_end(&name, told),
        }
    }
    assert_eq!(holder.left(&mut redis).await, closed);
    // Later calls get the same error, and a second shutdown does no harm.
    client.shutdown().await.unwrap();
    let late = S::new(&client, &format!("{}-late", S::NAME));
    for limit in [None, Some(Duration::ZERO), Some(HOUR)] {
        let told = timeout(LIMIT, late.take(limit)).await;
        told_of_the_end(S::NAME, told.expect("it is told"));
    }
    until("no connection for messages is left", LIMIT, async || {
        connections(&mut redis.clone(), "pubsub").await == 0
    })
    .await;
    // The waiters that have ended do not block other clients.
    holder.open().await.unwrap();
    let next = S::new(&elsewhere, &name);
    assert_eq!(next.take(Some(LIMIT)).await, Ok(true), "{name}");
}

#[tokio::test]
async fn whoever_waits_is_told_and_what_is_owed_is_carried_out() {
    for_every_subject!(waiters_and_debts);
}

/// Makes every call after the shutdown.
async fn behind_the_end<S: Subject>() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = builder(server.url()).connect().await.unwrap();
    let mut prepared = Vec::new();
    for (call, _) in S::CALLS {
        let subject = S::new(&client, &format!("{}-end-{call}", S::NAME));
        subject.prepare(call).await.unwrap();
        prepared.push((subject.left(&mut redis).await, subject, *call));
    }
    client.shutdown().await.unwrap();
    for (before, subject, call) in prepared {
        let told = in_time(&subject, call).await;
        if !call.ends_with("drop") {
            told_of_the_end(call, told);
        }
        let left = subject.left(&mut redis).await;
        assert_eq!(left, before, "{}: {call} after the end", S::NAME);
    }
}

#[tokio::test]
async fn calls_after_the_end_are_told_and_do_nothing() {
    for_every_subject!(behind_the_end);
}

/// A shutdown while replies are lost: it resolves every unknown outcome before it ends.
async fn doubts<S: Subject>() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let proxy = Proxy::start(&server).await;
    let elsewhere = builder(server.url()).connect().await.unwrap();
    let expected = Expected::of::<S>(&elsewhere, &mut redis).await;
    let mut hits = 0;
    for (call, kind) in S::CALLS {
        for fate in LOST_REPLIES {
            let client = builder(proxy.url()).connect().await.unwrap();
            let subject = S::new(&client, &format!("{}-{fate:?}-{call}", S::NAME));
            let subject = Arc::new(subject);
            subject.prepare(call).await.unwrap();
            let struck = proxy.struck();
            proxy.at_script(1, fate);
            let begun = Arc::clone(&subject);
            let begun = tokio::spawn(async move { begun.call(call).await });
            until("it is hit, or has its answer", LIMIT, async || {
                let hit = proxy.struck() > struck;
                hit || begun.is_finished() && !call.ends_with("drop")
            })
            .await;
            hits += u64::from(proxy.struck() > struck);
            let ended = timeout(LIMIT, client.shutdown()).await;
            ended.expect("it ends").unwrap();
            let told = timeout(LIMIT, begun).await.expect("it is told").unwrap();
            let left = subject.left(&mut redis).await;
            let allowed = expected.in_the_end(call, End::told(*kind, &told));
            let what = format!("{} {call}, {fate:?}: told {told:?}", S::NAME);
            assert!(
                allowed.contains(&&*left),
                "{what}: there is {left}, not {allowed:?}"
            );
            proxy.clear_fates();
        }
    }
    assert!(hits > 0);
}

#[tokio::test]
async fn what_is_in_doubt_is_settled() {
    for_every_subject!(doubts);
}

/// A shutdown while the server is away: it reports that releases may be left, or resolves them if the server comes back.
async fn unsent<S: Subject>() {
    let mut server = RedisServer::options().appendonly().start().await;
    let client = builder(server.url()).connect().await.unwrap();
    let patient = builder(server.url()).connect().await.unwrap();
    let mut books = Books::new(Expected::of::<S>(&client, &mut server.connection().await).await);
    let mut debts = Vec::new();
    for (number, client) in [&client, &patient].into_iter().enumerate() {
        for (call, kind) in S::CALLS {
            if *kind == Kind::Give {
                let subject = S::new(client, &format!("{}-{number}-{call}", S::NAME));
                subject.prepare(call).await.unwrap();
                debts.push((number, subject, *call));
            }
        }
    }
    server.stop().await;
    for (_, subject, call) in &debts {
        let _ = poll_once(&mut pin!(subject.call(call))).await;
    }
    let hurried = client.shutdown_for(Duration::from_millis(100));
    let error = timeout(LIMIT, hurried)
        .await
        .expect("it ends")
        .expect_err("the server is away");
    assert!(matches!(error, Error::Unfinished { .. }), "{error}");
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    let mut patient_end = Box::pin(patient.shutdown());
    assert!(poll_once(&mut patient_end.as_mut()).await.is_pending());
    server.restart().await;
    timeout(LIMIT, patient_end)
        .await
        .expect("it ends")
        .expect("the server is back");
    let mut redis = server.connection().await;
    for (number, subject, call) in debts {
        let end = if number == 1 { End::Done } else { End::Either };
        let what = format!("{} {call}, client {number}", S::NAME);
        books.settled(&mut redis, what, subject, call, end).await;
    }
}

#[tokio::test]
async fn what_was_not_sent_is_carried_out_or_told() {
    for_every_subject!(unsent);
}
