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

/// An operation whose outcome stays unknown to the caller; what is held once the server answers again.
async fn unknown_at_first(
    layout: Layout,
    lose: impl Fn(&Proxy),
    held: usize,
    call: impl AsyncFnOnce(&Handle, &str) -> Error,
) {
    let (server, proxy) = start().await;
    let client = builder(proxy.url())
        .retry_window(Duration::from_millis(300))
        .connect_timeout(Duration::from_millis(300))
        .connect()
        .await
        .unwrap();
    let semaphore = layout.make(&client, "unknown", Shape::new(2));
    let one = semaphore.acquire().await.unwrap();
    lose(&proxy);
    let error = timeout(LIMIT, call(&semaphore, one.id())).await;
    let error = error.expect("it ends");
    assert!(
        matches!(&error, Error::OutcomeUnknown { name, .. } if name == "unknown"),
        "{error}"
    );
    assert_eq!(error.effect(), Effect::Unknown);
    proxy.clear();
    let other = Client::connect(server.url()).await.unwrap();
    let other = layout.make(&other, "unknown", Shape::new(2));
    // It may be carried out, and then be given back.
    semaphore.release("nobody").await.unwrap();
    let settled = async || other.holders().await.unwrap().len() == held;
    until(&format!("{held} are held"), LIMIT, settled).await;
    client.shutdown().await.unwrap();
    assert!(settled().await);
}

#[tokio::test]
async fn an_acquisition_whose_outcome_is_unknown_leaves_nothing_taken() {
    for layout in [Layout::Fair, Layout::Set, Layout::Slots] {
        for lose in [Proxy::mute, Proxy::blackhole] {
            let call = async |semaphore: &Handle, _: &str| semaphore.acquire().await.unwrap_err();
            unknown_at_first(layout, lose, 1, call).await;
            let call =
                async |semaphore: &Handle, _: &str| semaphore.try_acquire().await.unwrap_err();
            unknown_at_first(layout, lose, 1, call).await;
        }
    }
}

#[tokio::test]
async fn a_release_whose_outcome_is_unknown_is_carried_out() {
    for layout in [Layout::Fair, Layout::Set, Layout::Slots] {
        for lose in [Proxy::mute, Proxy::blackhole] {
            let call =
                async |semaphore: &Handle, id: &str| semaphore.release(id).await.unwrap_err();
            unknown_at_first(layout, lose, 0, call).await;
        }
    }
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

/// Many callers while replies are lost all the time; in the end nobody holds, and nobody waits.
#[tokio::test]
async fn a_few_callers_lose_replies_all_the_time() {
    for layout in crate::layouts::ALL {
        let (server, proxy) = start().await;
        let client = builder(proxy.url()).connect().await.unwrap();
        let semaphore = layout.make(&client, "few", Shape::new(2));
        for n in (2..1000).step_by(4) {
            proxy.at_script(n, Fate::LoseReplyAndClose);
        }
        let held = std::sync::Arc::new(std::sync::atomic::AtomicI64::new(0));
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let (semaphore, held) = (semaphore.clone(), held.clone());
                tokio::spawn(async move {
                    for _ in 0..15 {
                        let permit = semaphore.permit().await.unwrap();
                        let now = held.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
                        assert!(now <= 2, "{now} permits are held");
                        tokio::task::yield_now().await;
                        held.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        assert!(permit.release().await.unwrap(), "it was told lost");
                    }
                })
            })
            .collect();
        for task in tasks {
            timeout(LIMIT * 2, task)
                .await
                .expect("a caller hangs")
                .unwrap();
        }
        assert!(proxy.struck() >= 5, "{} replies were lost", proxy.struck());
        proxy.clear_fates();
        assert!(semaphore.holders().await.unwrap().is_empty());
        client.shutdown().await.unwrap();
        let mut control = server.connection().await;
        let line: bool = control
            .exists(format!(
                "redisson_sc_recipe_queue:{}:{{few}}",
                layout.word()
            ))
            .await
            .unwrap();
        assert!(!line, "{layout:?}: somebody waits still");
    }
}

/// Calls behind the question of somebody who waits are told at the end of their own time, not at the next look at all.
#[tokio::test]
async fn calls_behind_one_who_waits_are_told_in_time() {
    let (mut server, _proxy) = start().await;
    let window = Duration::from_millis(2500);
    let client = builder(server.url())
        .retry_window(window)
        .connect_timeout(Duration::from_millis(300))
        .connect()
        .await
        .unwrap();
    let shape = Shape::new(1).check(Duration::from_millis(100));
    let semaphore = Layout::Fair.make(&client, "queued", shape);
    let _ = semaphore.acquire().await.unwrap();
    let waiter = semaphore.clone();
    let waiter = tokio::spawn(async move { waiter.acquire().await });
    let mut redis = server.connection().await;
    until_listening(&mut redis, "queued", 1).await;
    server.freeze();
    // A look is on its way by then.
    tokio::time::sleep(Duration::from_millis(300)).await;
    const CALLS: u32 = 8;
    let calls = (0..CALLS).map(|number| {
        let semaphore = semaphore.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(125) * number).await;
            let begun = std::time::Instant::now();
            semaphore.release("nobody").await.unwrap_err();
            begun.elapsed().saturating_sub(window)
        }
    });
    let late: Duration = futures::future::join_all(calls).await.iter().sum();
    assert!(
        late < CALLS * Duration::from_millis(250),
        "{late:?} too late in all"
    );
    waiter.abort();
    server.thaw();
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

/// The same without a connection: nothing was sent, and nothing will be.
#[tokio::test]
async fn a_wait_that_ends_without_a_connection_leaves_nothing_to_be_sent() {
    let mut server = RedisServer::start().await;
    let client = builder(server.url())
        .retry_window(Duration::from_millis(600))
        .connect()
        .await
        .unwrap();
    let semaphore = Layout::Set.make(&client, "gone", Shape::new(2));
    semaphore.holders().await.unwrap();
    server.stop().await;
    // Another one finds out that the connection has gone.
    client.string_lock("other").is_locked().await.unwrap_err();
    let ended = timeout(LIMIT, semaphore.try_acquire_for(Duration::from_millis(100)));
    let error = ended.await.expect("it ends").unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert_eq!(error.effect(), Effect::NotApplied);
    server.restart().await;
    timeout(LIMIT, async {
        assert!(semaphore.holders().await.unwrap().is_empty());
        assert!(!semaphore.release("nobody").await.unwrap());
        assert!(semaphore.holders().await.unwrap().is_empty());
    })
    .await
    .expect("the server is back");
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

/// The same where the call had set out, but has found no connection.
#[tokio::test]
async fn a_dropped_call_that_found_no_connection_is_not_carried_out_later() {
    let mut server = RedisServer::options().appendonly().start().await;
    let window = Duration::from_millis(1500);
    let client = builder(server.url()).retry_window(window).connect().await;
    let client = client.unwrap();
    let semaphore = Layout::Set.make(&client, "away", Shape::new(3));
    let held = semaphore.acquire().await.unwrap();
    server.stop().await;
    client.string_lock("other").is_locked().await.unwrap_err();
    let mut all = Box::pin(semaphore.release_all());
    assert!(poll_once(&mut all.as_mut()).await.is_pending());
    drop(all);
    // By the time that this one is told its caller has been missed.
    let error = timeout(LIMIT, semaphore.try_acquire()).await.unwrap();
    assert_eq!(error.unwrap_err().effect(), Effect::NotApplied);
    server.restart().await;
    let holders = timeout(LIMIT, semaphore.holders()).await.unwrap().unwrap();
    assert_eq!(holders.len(), 1);
    assert_eq!(holders[0].id(), held.id());
    assert!(
        timeout(LIMIT, semaphore.release(held.id()))
            .await
            .unwrap()
            .unwrap()
    );
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
