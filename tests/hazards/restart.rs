//! A server that is restarted or killed: waiters keep waiting, and each call takes effect once.

use std::sync::Arc;
use std::task::Poll;

use futures::future::join_all;
use tokio::time::timeout;

use crate::lost::builder;
use crate::reconnect::{let_in, waiting};
use crate::subject::{Books, End, Expected, Subject, until_heard};
use crate::subjects::for_every_subject;
use crate::support::clients::LIMIT;
use crate::support::polls::poll_once;
use crate::support::server::RedisServer;

async fn those_who_wait<S: Subject>(keeps: bool) {
    let options = RedisServer::options();
    let options = if keeps { options.appendonly() } else { options };
    let mut server = options.start().await;
    let client = builder(server.url()).connect().await.unwrap();
    let elsewhere = builder(server.url()).connect().await.unwrap();
    let name = format!("{}-{keeps}", S::NAME);
    let holder = S::new(&elsewhere, &name);
    holder.close().await.unwrap();
    let subject = Arc::new(S::new(&client, &name));
    let waits = waiting(&subject);
    until_heard(&mut server.connection().await, &name).await;
    let tried = S::new(&client, &name)
        .take(Some(std::time::Duration::ZERO))
        .await;
    assert_eq!(tried, Ok(false), "{name}");
    server.restart().await;
    if keeps {
        until_heard(&mut server.connection().await, &name).await;
        assert!(!waits.is_finished(), "{name}");
        holder.open().await.unwrap();
    } else {
        S::new(&elsewhere, &name).begin_anew().await.unwrap();
    }
    let_in(&name, waits).await;
    subject.give().await.unwrap();
    client.shutdown().await.unwrap();
}

async fn with_the_data<S: Subject>() {
    those_who_wait::<S>(true).await;
}

async fn without_the_data<S: Subject>() {
    those_who_wait::<S>(false).await;
}

#[tokio::test]
async fn whoever_waits_is_let_in_after_a_restart_with_the_data() {
    for_every_subject!(with_the_data);
}

#[tokio::test]
async fn whoever_waits_is_let_in_after_a_restart_without_the_data() {
    for_every_subject!(without_the_data);
}

/// Kills the server at each stage of the calls.
async fn killed_at_each_poll<S: Subject>() {
    let mut server = RedisServer::options().appendonly().start().await;
    let client = builder(server.url()).connect().await.unwrap();
    let mut redis = server.connection().await;
    let mut books = Books::new(Expected::of::<S>(&client, &mut redis).await);
    for polls in 0..6 {
        let mut subjects = Vec::new();
        for (call, _) in S::CALLS {
            let subject = S::new(&client, &format!("{}-{polls}-{call}", S::NAME));
            subject.prepare(call).await.unwrap();
            subjects.push(subject);
        }
        let calls = subjects.iter().zip(S::CALLS);
        let mut calls = Box::pin(join_all(
            calls.map(|(subject, (call, _))| subject.call(call)),
        ));
        let mut early = None;
        for _ in 0..polls {
            if early.is_none()
                && let Poll::Ready(told) = poll_once(&mut calls.as_mut()).await
            {
                early = Some(told);
            }
            tokio::task::yield_now().await;
        }
        server.kill().await;
        server.restart().await;
        let told = match early {
            Some(told) => told,
            None => timeout(LIMIT, &mut calls).await.expect("they are answered"),
        };
        drop(calls);
        let mut redis = server.connection().await;
        for ((subject, told), (call, _)) in subjects.into_iter().zip(told).zip(S::CALLS) {
            let what = format!("{} {call}, killed after {polls} polls", S::NAME);
            assert_eq!(told, Ok(true), "{what}");
            books
                .settled(&mut redis, what, subject, call, End::Done)
                .await;
        }
    }
    books.close(&mut server.connection().await, client).await;
}

#[tokio::test]
async fn a_server_that_is_killed_at_each_poll_of_its_callers() {
    for_every_subject!(killed_at_each_poll);
}
