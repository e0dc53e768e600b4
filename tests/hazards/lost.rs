//! Requests and replies that are lost or late: each call takes effect once.

use std::time::Duration;

use futures::future::join_all;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{ClientBuilder, Effect, Error};

use crate::subject::{Books, End, Expected, HOUR, Subject, in_time, pass};
use crate::subjects::for_every_subject;
use crate::support::clients::{self, LIMIT, scripts};
use crate::support::proxy::{Fate, Proxy};
use crate::support::server::RedisServer;
use crate::support::waiters::until;

/// More requests than any call makes.
const MOST: u64 = 20;

/// Notices a lost reply at once.
pub fn builder(url: String) -> ClientBuilder {
    clients::builder(url)
        .response_timeout(Duration::from_millis(60))
        .lock_watchdog_timeout(HOUR)
}

async fn each_call_takes_effect_once<S: Subject>(fate: Fate, late: bool) {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let proxy = Proxy::start(&server).await;
    let client = builder(proxy.url()).connect().await.unwrap();
    let mut books = Books::new(Expected::of::<S>(&client, &mut redis).await);
    let mut hits = 0;
    for (call, _) in S::CALLS {
        for n in 1.. {
            assert!(n < MOST, "{call} never ends to ask");
            let name = format!("{}-{n}-{call}", S::NAME);
            let what = format!("{name}: {fate:?} at request {n}");
            let subject = S::new(&client, &name);
            subject.prepare(call).await.unwrap();
            let struck = proxy.struck();
            proxy.at_script(n, fate);
            assert_eq!(in_time(&subject, call).await, Ok(true), "{what}");
            let other = S::new(&client, &name);
            books
                .settled(&mut redis, what.clone(), subject, call, End::Done)
                .await;
            let hit = proxy.struck() > struck;
            proxy.clear_fates();
            if !hit {
                break;
            }
            hits += 1;
            if late {
                pass::<S>(&client, &name).await.unwrap();
            }
            if fate == Fate::HoldRequest || fate == Fate::HoldReply {
                proxy.deliver(1).await;
            }
            let left = other.left(&mut redis).await;
            assert_eq!(left, books.expected().after(call), "{what}, behind it");
        }
    }
    assert!(hits >= S::CALLS.len() / 2, "{hits} calls were hit");
    books.close(&mut redis, client).await;
}

async fn with_their_connection<S: Subject>() {
    each_call_takes_effect_once::<S>(Fate::LoseReplyAndClose, false).await;
}

async fn in_silence<S: Subject>() {
    each_call_takes_effect_once::<S>(Fate::LoseReply, false).await;
}

async fn requests<S: Subject>() {
    each_call_takes_effect_once::<S>(Fate::LoseRequest, false).await;
}

async fn late_requests<S: Subject>() {
    each_call_takes_effect_once::<S>(Fate::HoldRequest, false).await;
}

async fn later_requests<S: Subject>() {
    each_call_takes_effect_once::<S>(Fate::HoldRequest, true).await;
}

async fn late_replies<S: Subject>() {
    each_call_takes_effect_once::<S>(Fate::HoldReply, true).await;
}

#[tokio::test]
async fn replies_are_lost_with_their_connection() {
    for_every_subject!(with_their_connection);
}

#[tokio::test]
async fn replies_are_lost_in_silence() {
    for_every_subject!(in_silence);
}

#[tokio::test]
async fn requests_are_lost_with_their_connection() {
    for_every_subject!(requests);
}

#[tokio::test]
async fn requests_arrive_behind_their_repetition() {
    for_every_subject!(late_requests);
}

#[tokio::test]
async fn requests_arrive_behind_what_others_did_since() {
    for_every_subject!(later_requests);
}

#[tokio::test]
async fn replies_are_late() {
    for_every_subject!(late_replies);
}

/// Replies are lost, and the repetitions refused: nobody knows, and nobody is told that nothing happened.
async fn a_refusal_denies_nothing<S: Subject>() {
    let server = RedisServer::options()
        .user("app on >pw ~* &* +@all")
        .start()
        .await;
    let mut redis = server.connection().await;
    let proxy = Proxy::start(&server).await;
    let client = builder(proxy.url_as("app", "pw")).retry_window(Duration::from_secs(2));
    let client = client.connect().await.unwrap();
    let mut books = Books::new(Expected::of::<S>(&client, &mut redis).await);
    let mut subjects = Vec::new();
    for (call, _) in S::CALLS {
        let subject = S::new(&client, &format!("{}-denied-{call}", S::NAME));
        subject.prepare(call).await.unwrap();
        subjects.push(subject);
    }
    let carried_out = scripts(&mut redis).await;
    proxy.mute();
    let calls = subjects.iter().zip(S::CALLS);
    let calls = join_all(calls.map(|(subject, (call, _))| in_time(subject, call)));
    let refuse = async {
        // Calls may travel together.
        until("some have been carried out", LIMIT, async || {
            scripts(&mut redis).await > carried_out
        })
        .await;
        set_user(&mut redis, &["-evalsha", "-eval"]).await;
        proxy.clear();
    };
    let (all, ()) = tokio::join!(calls, refuse);
    set_user(&mut redis, &["+@all"]).await;
    let mut unknown = 0;
    for ((subject, told), (call, kind)) in subjects.into_iter().zip(all).zip(S::CALLS) {
        let what = format!("{} {call}: told {told:?}", S::NAME);
        let is_unknown = |error: &Error| error.effect() == Effect::Unknown;
        unknown += usize::from(told.as_ref().is_err_and(is_unknown));
        let end = End::told(*kind, &told);
        books.settled(&mut redis, what, subject, call, end).await;
    }
    assert!(unknown > 0, "nobody was told that it is not known");
    books.close(&mut redis, client).await;
}

async fn set_user(redis: &mut MultiplexedConnection, rules: &[&str]) {
    let mut command = redis::cmd("ACL");
    command.arg(&["SETUSER", "app"]).arg(rules);
    command.exec_async(redis).await.unwrap();
}

#[tokio::test]
async fn a_refusal_behind_a_lost_reply_denies_nothing() {
    for_every_subject!(a_refusal_denies_nothing);
}
