//! Requests and replies that are lost or late: each call takes effect once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::future::join_all;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{ClientBuilder, Effect, Error};

use crate::subject::{Books, End, Expected, HOUR, Subject, in_time, pass, tolerance};
use crate::subjects::for_every_subject;
use crate::support::acl::set_user;
use crate::support::clients::{self, LIMIT, RESPONSE_TIMEOUT};
use crate::support::monitor::Monitor;
use crate::support::proxy::{Fate, Proxy};
use crate::support::server::RedisServer;
use crate::support::snapshot::{Snapshot, snapshot_all};
use crate::support::waiters::until;

/// More requests than any call makes.
const MOST: u64 = 20;

/// Notices a lost reply soon. Only the limit of the test ends a call.
pub fn builder(url: String) -> ClientBuilder {
    clients::patient(url)
        .response_timeout(RESPONSE_TIMEOUT)
        .lock_watchdog_timeout(HOUR)
}

/// When a held request or reply arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrival {
    AtOnce,
    /// After the calls of another caller.
    BehindOthers,
    /// After the shutdown of the client.
    AtTheEnd,
}

/// The fate of a request, and the arrival of a message that is held.
#[derive(Debug, Clone, Copy)]
struct Trouble {
    fate: Fate,
    arrival: Arrival,
}

const TROUBLES: [Trouble; 7] = [
    Trouble::new(Fate::LoseReplyAndClose, Arrival::AtOnce),
    Trouble::new(Fate::LoseReply, Arrival::AtOnce),
    Trouble::new(Fate::LoseRequest, Arrival::AtOnce),
    Trouble::new(Fate::HoldRequest, Arrival::AtOnce),
    Trouble::new(Fate::HoldRequest, Arrival::BehindOthers),
    Trouble::new(Fate::HoldRequest, Arrival::AtTheEnd),
    Trouble::new(Fate::HoldReply, Arrival::BehindOthers),
];

impl Trouble {
    const fn new(fate: Fate, arrival: Arrival) -> Trouble {
        Trouble { fate, arrival }
    }

    /// Strikes each request of each call in turn.
    async fn strikes<S: Subject>(self, server: &RedisServer, expected: Expected) {
        let Trouble { fate, arrival } = self;
        let holds = matches!(fate, Fate::HoldRequest | Fate::HoldReply);
        let mut redis = server.connection().await;
        let proxy = Proxy::start(server).await;
        let client = builder(proxy.url()).connect().await.unwrap();
        let mut books = Books::new(expected);
        let mut hits = 0;
        for (call, _) in S::CALLS {
            for n in 1.. {
                assert!(n < MOST, "{call} never ends to ask");
                let name = format!("{}-{fate:?}-{arrival:?}-{n}-{call}", S::NAME);
                let what = format!("{name}: {self:?} at request {n}");
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
                if arrival == Arrival::BehindOthers {
                    pass::<S>(&client, &name).await.unwrap();
                }
                if holds && arrival != Arrival::AtTheEnd {
                    proxy.deliver(1).await;
                }
                let left = other.left(&mut redis).await;
                assert_eq!(left, books.expected().after(call), "{what}, behind it");
            }
        }
        assert!(hits >= S::CALLS.len() / 2, "{hits} calls were hit");
        books.close(&mut redis, client).await;
        if arrival == Arrival::AtTheEnd {
            arrives_at_the_end(&mut redis, &proxy, hits as u64).await;
        }
    }
}

/// Asserts that late requests make no holder, and create or change no key. Only the ends of leases and of records may move.
async fn arrives_at_the_end(redis: &mut MultiplexedConnection, proxy: &Proxy, held: u64) {
    // The other cases still use this server.
    let mine = |all: BTreeMap<String, Snapshot>| -> BTreeMap<String, Snapshot> {
        let end = format!("{:?}", Arrival::AtTheEnd);
        let named = |key: &str| key.contains(&end);
        all.into_iter().filter(|(key, _)| named(key)).collect()
    };
    let began = Instant::now();
    let before = mine(snapshot_all(redis).await);
    proxy.deliver(held).await;
    let after = mine(snapshot_all(redis).await);
    assert!(!before.is_empty());
    for (key, one) in &before {
        let Some(two) = after.get(key) else {
            // The record of a call that was answered at once is deleted soon.
            assert!(key.contains("_once:"), "{key} has gone");
            continue;
        };
        let renewed = key.ends_with("-refresh") || key.starts_with("redisson_sc_grants:");
        let refreshed = renewed && one.members() == two.members();
        // Each copy of a batch renews the life of its record.
        let recorded = key.contains("_once:") && one.value == two.value;
        let same = refreshed || recorded || one.matches(two, tolerance(began));
        assert!(same, "{key}: {one:?}, {two:?}");
    }
    let made = after.keys().find(|key| !before.contains_key(*key));
    assert_eq!(made, None, "it is made");
}

async fn each_call_takes_effect_once<S: Subject>() {
    let server = RedisServer::start().await;
    let client = builder(server.url()).connect().await.unwrap();
    let expected = Expected::of::<S>(&client, &mut server.connection().await).await;
    let troubles = TROUBLES.into_iter();
    join_all(troubles.map(|trouble| trouble.strikes::<S>(&server, expected.clone()))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_lost_or_late_each_call_takes_effect_once() {
    for_every_subject!(each_call_takes_effect_once);
}

/// Replies are lost, and the retries are refused: errors say that the outcome is unknown, not that nothing happened.
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
    let mut monitor = Monitor::start(&server).await;
    proxy.mute();
    let calls = subjects.iter().zip(S::CALLS);
    let calls = join_all(calls.map(|(subject, (call, _))| in_time(subject, call)));
    let refuse = async {
        // Calls may share a batch.
        until("some have been carried out", LIMIT, async || {
            monitor.scripts().await > 0
        })
        .await;
        set_user(&mut redis, &["app", "-evalsha", "-eval"]).await;
        proxy.clear();
    };
    let (all, ()) = tokio::join!(calls, refuse);
    set_user(&mut redis, &["app", "+@all"]).await;
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

#[tokio::test]
async fn a_refusal_behind_a_lost_reply_denies_nothing() {
    for_every_subject!(a_refusal_denies_nothing);
}
