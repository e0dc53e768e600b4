//! The classic recipes when replies are lost and requests arrive late: every call takes effect once.

use std::time::Duration;

use crate::layouts::{Handle, Layout, Shape};
use crate::support::log;
use crate::support::monitor::Monitor;
use crate::support::polls::poll_once;
use crate::support::server::RedisServer;
use crate::support::waiters::{until, until_listening};
use futures::future::join_all;
use redis::AsyncCommands;
use redisson_semaphore::{Client, ClientBuilder, Effect, Error, Lock as _};
use tokio::time::timeout;
use tracing::Level;

use crate::support::proxy::{Fate, Proxy};

const LIMIT: Duration = Duration::from_secs(15);

fn builder(url: String) -> ClientBuilder {
    Client::builder(url)
        .response_timeout(Duration::from_millis(60))
        .retry_window(Duration::from_secs(8))
        .safety_interval(Duration::from_secs(3600))
}

/// A server that has been told the scripts, and a proxy in front of it.
async fn start() -> (RedisServer, Proxy) {
    let server = RedisServer::start().await;
    let client = Client::connect(server.url()).await.unwrap();
    for layout in crate::layouts::ALL {
        let semaphore = layout.make(&client, &format!("warm-up-{layout:?}"), Shape::new(1));
        semaphore.holders().await.unwrap();
    }
    let proxy = Proxy::start(&server).await;
    (server, proxy)
}

/// Longer than any call is repeated.
const HORIZON: Duration = Duration::from_secs(301);

/// Whether the next call on `semaphore` has to be put on record, as its script is told.
async fn record_flag(server: &RedisServer, semaphore: &Handle) -> String {
    let mut monitor = Monitor::start(server).await;
    semaphore.release("nobody").await.unwrap();
    let commands = monitor.until_marker().await;
    let script = commands.iter().find(|command| command.name == "EVALSHA");
    let args = &script.expect("a script was called").args;
    let keys: usize = args[1].parse().unwrap();
    args[2 + keys..][3].clone()
}

/// The next answer goes on record, as do those behind it for as long as the record lives, however little they change: what was sent before does
/// nothing when it arrives.
#[tokio::test]
async fn after_an_unknown_outcome_each_answer_goes_on_record() {
    for layout in [Layout::Fair, Layout::Set, Layout::Slots] {
        let (server, proxy) = start().await;
        let client = builder(proxy.url()).connect().await.unwrap();
        let semaphore = layout.make(&client, "doubtful", Shape::new(2));
        let one = semaphore.acquire().await.unwrap();
        assert_eq!(record_flag(&server, &semaphore).await, "0");
        proxy.at_script(1, Fate::HoldRequest);
        let tried = semaphore.clone();
        let tried = tokio::spawn(async move { tried.try_acquire().await });
        proxy.until_struck(1).await;
        proxy.blackhole();
        tokio::time::pause();
        tokio::time::sleep(HORIZON).await;
        tokio::time::resume();
        proxy.clear();
        let error = timeout(LIMIT, tried).await.unwrap().unwrap().unwrap_err();
        assert_eq!(error.effect(), Effect::Unknown, "{error}");
        let answered = timeout(LIMIT, semaphore.release("nobody")).await;
        assert_eq!(answered.expect("the server answers"), Ok(false));
        assert_eq!(record_flag(&server, &semaphore).await, "1", "{layout:?}");
        proxy.deliver(1).await;
        let holders = semaphore.holders().await.unwrap();
        let ids: Vec<_> = holders.iter().map(|held| held.id()).collect();
        assert_eq!(ids, [one.id()], "{layout:?}");
    }
}

/// A wait that ends while the server is silent: what was sent at its beginning may be carried out, so nobody is told that
/// nothing was; and what is carried out is given back.
#[tokio::test]
async fn a_wait_that_ends_in_silence_is_told_what_is_known_of_all_that_was_sent() {
    let (mut server, _proxy) = start().await;
    let client = builder(server.url())
        .retry_window(Duration::from_millis(900))
        .connect_timeout(Duration::from_millis(300))
        .connect()
        .await
        .unwrap();
    let semaphores = crate::layouts::ALL.map(|layout| {
        let semaphore = layout.make(&client, &format!("silence-{layout:?}"), Shape::new(1));
        (layout, semaphore)
    });
    let lock = client.string_lock("silence");
    for (_, semaphore) in &semaphores {
        semaphore.holders().await.unwrap();
    }
    server.freeze();
    let wait = Duration::from_millis(150);
    let waits = semaphores
        .each_ref()
        .map(|(_, semaphore)| semaphore.try_acquire_for(wait));
    let (ended, locked) = timeout(LIMIT, async {
        tokio::join!(futures::future::join_all(waits), lock.try_lock_for(wait))
    })
    .await
    .expect("they end");
    let told = |error: &Error| {
        matches!(error, Error::OutcomeUnknown { .. }) && error.effect() == Effect::Unknown
    };
    for ((layout, _), ended) in semaphores.iter().zip(ended) {
        let error = ended.unwrap_err();
        assert!(told(&error), "{layout:?}: {error}");
    }
    let error = locked.unwrap_err();
    assert!(told(&error), "{error}");
    server.thaw();
    let other = Client::connect(server.url()).await.unwrap();
    for (layout, _) in &semaphores {
        let semaphore = layout.make(&other, &format!("silence-{layout:?}"), Shape::new(1));
        until(&format!("{layout:?}: nobody holds"), LIMIT, async || {
            semaphore.try_acquire().await.unwrap().is_some()
        })
        .await;
    }
    let lock = other.string_lock("silence");
    until("nobody holds the lock", LIMIT, async || {
        lock.try_lock().await.unwrap()
    })
    .await;
}

/// Only releases are owed: what was asked for besides, by callers who have gone before it was sent, is forgotten.
#[tokio::test]
async fn what_was_dropped_before_it_was_sent_is_not_carried_out_later() {
    for layout in [Layout::Fair, Layout::Set, Layout::Slots] {
        let (server, proxy) = start().await;
        let client = builder(proxy.url()).connect().await.unwrap();
        let semaphore = layout.make(&client, "dropped", Shape::new(3));
        let one = semaphore.acquire().await.unwrap();
        let two = semaphore.acquire().await.unwrap();
        let mut control = server.connection().await;
        // Under way, so that the others are queued behind it.
        proxy.at_script(1, Fate::HoldReply);
        let first = semaphore.clone();
        let first = tokio::spawn(async move { first.release("nobody").await });
        proxy.until_struck(1).await;
        let scripts = proxy.scripts();
        {
            let mut all = std::pin::pin!(semaphore.release_all());
            let mut tried = std::pin::pin!(semaphore.try_acquire());
            let mut release = std::pin::pin!(semaphore.release(two.id()));
            assert!(poll_once(&mut release).await.is_pending());
            assert!(poll_once(&mut all).await.is_pending());
            assert!(poll_once(&mut tried).await.is_pending());
        }
        proxy.let_go();
        let _ = timeout(LIMIT, first)
            .await
            .expect("it is repeated")
            .unwrap();
        let holders = timeout(LIMIT, semaphore.holders()).await.unwrap().unwrap();
        let ids: Vec<_> = holders.iter().map(|held| held.id()).collect();
        assert_eq!(ids, [one.id()], "{layout:?}");
        assert!(proxy.scripts() > scripts);
        let counter: Option<u64> = control.get("dropped:counter").await.unwrap_or_default();
        assert!(
            counter.is_none_or(|counter| counter == 2),
            "{layout:?}: it was taken and given back"
        );
    }
}

/// The runtime ends: what will not be released any more is named.
#[test]
fn what_is_owed_when_the_runtime_ends_is_named() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().build().unwrap()
    };
    log::record();
    let (outside, inside) = (runtime(), runtime());
    let (_server, proxy) = outside.block_on(start());
    let url = proxy.url();
    let (semaphore, permits) = inside.block_on(async move {
        let builder = Client::builder(url).response_timeout(Duration::from_secs(60));
        let client = builder.connect().await.unwrap();
        let semaphore = Layout::Set.make(&client, "ended", Shape::new(9));
        let permits = [
            semaphore.permit().await.unwrap(),
            semaphore.permit().await.unwrap(),
        ];
        (semaphore, permits)
    });
    let ids = permits.each_ref().map(|permit| permit.id().to_owned());
    let [on_its_way, queued] = permits;
    let before = proxy.scripts();
    proxy.at_script(1, Fate::HoldReply);
    inside.spawn(async move { drop(on_its_way) });
    outside.block_on(proxy.until_scripts(before + 1));
    let acquiring = semaphore.clone();
    inside.block_on(async move {
        drop(queued);
        let mut acquire = std::pin::pin!(acquiring.acquire());
        assert!(poll_once(&mut acquire).await.is_pending());
    });
    inside.shutdown_timeout(LIMIT);
    outside.block_on(until("both are named", LIMIT, async || {
        let lines = log::lines(Level::ERROR, "name=\"ended\"");
        let named = |id: &String| lines.iter().any(|line| line.text.contains(id));
        ids.iter().all(named)
    }));
}

/// The server is away for longer than a lease while somebody waits to ask it.
#[tokio::test]
async fn what_is_granted_behind_an_outage_is_not_over_already() {
    const LEASE: Duration = Duration::from_secs(2);
    let leased = crate::layouts::ALL
        .into_iter()
        .filter(|layout| *layout != Layout::Set);
    join_all(leased.map(async |layout| {
        let (server, proxy) = start().await;
        let client = builder(proxy.url()).connect().await.unwrap();
        let semaphore = layout.make(&client, "away", Shape::new(1).lease(LEASE));
        let _ = semaphore.acquire().await.unwrap();
        let waiter = semaphore.clone();
        let waiter = tokio::spawn(async move { waiter.acquire().await });
        until_listening(&mut server.connection().await, "away", 1).await;
        drop(server);
        // When the first lease is over it asks; it is the second one that makes its question too old.
        tokio::time::sleep(2 * LEASE + LEASE / 4).await;
        let server = RedisServer::start().await;
        proxy.lead_to(&server);
        let held = timeout(LIMIT, waiter).await.expect("served").unwrap();
        let held = held.unwrap();
        let left = held.remaining().unwrap();
        assert!(!left.is_zero(), "{layout:?}: it is over");
        assert_eq!(semaphore.holders().await.unwrap().len(), 1, "{layout:?}");
        assert!(semaphore.release(held.id()).await.unwrap(), "{layout:?}");
    }))
    .await;
}

/// The client is shut down while a question is on its way: who is named in it may be granted what he asked for.
#[tokio::test]
async fn who_is_on_the_way_at_the_end_of_the_client_is_not_told_that_nothing_was_sent() {
    let (server, proxy) = start().await;
    let builder = builder(proxy.url()).response_timeout(Duration::from_secs(60));
    let client = builder.connect().await.unwrap();
    let semaphore = Layout::Set.make(&client, "closing", Shape::new(1));
    semaphore.holders().await.unwrap();
    proxy.at_script(1, Fate::HoldReply);
    let waiter = semaphore.clone();
    let waiter = tokio::spawn(async move { waiter.acquire().await });
    proxy.until_struck(1).await;
    let shutdown = tokio::spawn(async move { client.shutdown().await });
    let error = timeout(LIMIT, waiter).await.expect("it ends").unwrap();
    let error = error.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    proxy.let_go();
    timeout(LIMIT, shutdown).await.unwrap().unwrap().unwrap();
    let held: u64 = server.connection().await.scard("closing").await.unwrap();
    assert_eq!(held, 0, "it was not given back");
}
