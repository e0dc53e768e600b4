//! Futures that are dropped: what was taken for them comes back, and what they gave back is given back.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use crate::lost::builder;
use crate::reconnect::waiting;
use crate::subject::{Books, End, Expected, Subject, in_time, until_heard};
use crate::subjects::for_every_subject;
use crate::support::clients::LIMIT;
use crate::support::polls::poll_times;
use crate::support::proxy::{Fate, LOST_REPLIES, Proxy};
use crate::support::server::RedisServer;
use crate::support::waiters::until;

/// More polls than any call needs.
const MOST_POLLS: usize = 200;
/// As many as one needs that goes by the clock, up to its waiting.
const MOST_POLLS_IN_VAIN: usize = 30;

async fn after_every_number_of_polls<S: Subject>() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = builder(server.url()).connect().await.unwrap();
    let mut books = Books::new(Expected::of::<S>(&client, &mut redis).await);
    let mut most = 0;
    for (call, kind) in S::CALLS {
        for polls in 0.. {
            if call.ends_with("in vain") && polls == MOST_POLLS_IN_VAIN {
                break;
            }
            assert!(polls < MOST_POLLS, "{call}: no answer");
            let name = format!("{}-{polls}-{call}", S::NAME);
            let subject = S::new(&client, &name);
            subject.prepare(call).await.unwrap();
            let answer = poll_times(subject.call(call), polls).await;
            let what = format!("{name}: dropped after {polls} polls, with {answer:?}");
            let end = End::dropped(*kind, &answer, polls);
            books.settled(&mut redis, what, subject, call, end).await;
            if answer.is_some() {
                most = most.max(polls);
                break;
            }
        }
    }
    assert!(most > 1, "no call ever waits: nothing was tested");
    books.close(&mut redis, client).await;
}

#[tokio::test]
async fn dropped_after_every_number_of_polls() {
    for_every_subject!(after_every_number_of_polls);
}

/// The reply is lost, and the caller goes: what the repetition tells is put in order.
async fn behind<S: Subject>(fate: Fate, server: &RedisServer, expected: Expected) {
    let mut redis = server.connection().await;
    let proxy = Proxy::start(server).await;
    let client = builder(proxy.url()).connect().await.unwrap();
    let mut books = Books::new(expected);
    let mut hits = 0;
    for (call, kind) in S::CALLS {
        let name = format!("{}-{fate:?}-{call}", S::NAME);
        let subject = S::new(&client, &name);
        subject.prepare(call).await.unwrap();
        let struck = proxy.struck();
        proxy.at_script(1, fate);
        let answer = tokio::select! {
            biased;
            () = proxy.until_struck(struck + 1) => None,
            answer = in_time(&subject, call) => Some(answer),
        };
        hits += u64::from(answer.is_none());
        let end = match &answer {
            Some(told) => End::told(*kind, told),
            None => End::unknown(*kind),
        };
        let what = format!("{name}: dropped behind {fate:?}, with {answer:?}");
        books.settled(&mut redis, what, subject, call, end).await;
        proxy.clear_fates();
    }
    assert!(hits > 0, "nobody was dropped");
    books.close(&mut redis, client).await;
}

async fn before_its_answer<S: Subject>() {
    let server = RedisServer::start().await;
    let client = builder(server.url()).connect().await.unwrap();
    let expected = Expected::of::<S>(&client, &mut server.connection().await).await;
    let fates = LOST_REPLIES.into_iter();
    join_all(fates.map(|fate| behind::<S>(fate, &server, expected.clone()))).await;
}

#[tokio::test]
async fn dropped_after_the_server_has_acted_and_before_its_answer() {
    for_every_subject!(before_its_answer);
}

/// The keys in which callers wait for it.
async fn queues(redis: &mut MultiplexedConnection, name: &str) -> Vec<String> {
    let mut keys: Vec<String> = redis.keys(format!("*{{{name}}}*")).await.unwrap();
    keys.retain(|key| key.contains("queue") || key.contains("waiters"));
    keys
}

/// A waiter that goes leaves the queue, whatever it has learned by then.
async fn while_it_waits<S: Subject>() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let elsewhere = builder(server.url()).connect().await.unwrap();
    let holder = S::new(&elsewhere, S::NAME);
    holder.close().await.unwrap();
    // Some keys begin with what stands before the name.
    let stands = holder.keys()[0].clone();
    let client = builder(server.url()).connect().await.unwrap();
    for polls in [1, 2, 3, 5, 8, 13, MOST_POLLS] {
        let subject = Arc::new(S::new(&client, S::NAME));
        match polls {
            MOST_POLLS => {
                let waits = waiting(&subject);
                until_heard(&mut redis, S::NAME).await;
                let tried = S::new(&client, S::NAME).take(Some(Duration::ZERO)).await;
                assert_eq!(tried, Ok(false), "{}", S::NAME);
                waits.abort();
                assert!(waits.await.unwrap_err().is_cancelled());
            }
            polls => assert_eq!(poll_times(subject.take(None), polls).await, None),
        }
        for name in [S::NAME, &*stands] {
            let what = format!("{name}: it has left the queue, {polls} polls");
            until(&what, LIMIT, async || {
                queues(&mut redis, name).await.is_empty()
            })
            .await;
        }
    }
}

#[tokio::test]
async fn a_dropped_waiter_leaves_the_queue() {
    for_every_subject!(while_it_waits);
}
