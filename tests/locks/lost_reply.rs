//! Locks whose replies are lost and whose requests arrive late: every call takes effect once.

use std::time::Duration;

use crate::support::proxy::{Fate, Proxy};
use crate::support::server::RedisServer;
use crate::support::waiters::{until, until_subscribers};
use redis::AsyncCommands;
use redisson_semaphore::{Client, ClientBuilder, Effect, Error, Result};
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(20);
const HOUR: Duration = Duration::from_secs(3600);

fn builder(url: String) -> ClientBuilder {
    Client::builder(url)
        .response_timeout(Duration::from_millis(60))
        .retry_window(Duration::from_secs(8))
        .safety_interval(HOUR)
}

async fn connect(url: String) -> Client {
    builder(url).connect().await.expect("the server runs")
}

/// A server that knows the scripts, so that each call is one script call, and a proxy in front of it.
async fn start() -> (RedisServer, Proxy) {
    let server = RedisServer::start().await;
    let client = connect(server.url()).await;
    let lock = client.lock("warm-up");
    lock.lock().await.unwrap();
    lock.unlock().await.unwrap();
    lock.force_unlock().await.unwrap();
    let proxy = Proxy::start(&server).await;
    (server, proxy)
}

/// The first sending takes the lock away from one holder; its repetition must not take it from the next.
#[tokio::test]
async fn forced_open_once() {
    let (server, proxy) = start().await;
    let forcing = builder(proxy.url())
        .response_timeout(Duration::from_secs(1))
        .connect()
        .await
        .unwrap();
    let (first, second) = (connect(server.url()).await, connect(server.url()).await);
    let (first, second) = (first.lock("forced"), second.lock("forced"));
    first.lock().await.unwrap();
    let waits = tokio::spawn({
        let second = second.clone();
        async move { second.lock().await }
    });
    let mut control = server.connection().await;
    until_subscribers(&mut control, "redisson_lock__channel:{forced}", 1).await;
    proxy.at_script(1, Fate::LoseReply);
    let forced = tokio::spawn(async move { forcing.lock("forced").force_unlock().await });
    timeout(LIMIT, waits).await.unwrap().unwrap().unwrap();
    assert_eq!(proxy.scripts(), 1, "the repetition was faster");
    assert_eq!(timeout(LIMIT, forced).await.unwrap().unwrap(), Ok(true));
    assert!(proxy.scripts() > 1);
    assert!(second.is_held().await.unwrap(), "it was taken away twice");
    second.unlock().await.unwrap();
}

/// Its caller has been told that nobody knows what became of it. Whoever takes the lock later keeps it.
#[tokio::test]
async fn what_has_never_arrived_does_not_force_the_lock_from_who_has_it_later() {
    let (server, proxy) = start().await;
    let forcing = builder(proxy.url()).retry_window(Duration::from_millis(200));
    let forcing = forcing.connect().await.unwrap();
    let later = connect(server.url()).await.lock("forced-late");
    proxy.blackhole();
    let told = forcing.lock("forced-late").force_unlock().await;
    assert!(
        matches!(told, Err(Error::OutcomeUnknown { .. })),
        "{told:?}"
    );
    later.lock().await.unwrap();
    let before = proxy.scripts();
    proxy.clear();
    // It is asked about all the same, so that a copy which is still on its way comes too late.
    timeout(LIMIT, proxy.until_scripts(before + 1))
        .await
        .unwrap();
    assert_eq!(forcing.lock("forced-late").is_locked().await, Ok(true));
    assert!(later.is_held().await.unwrap(), "it was taken away");
    later.unlock().await.unwrap();
}

/// The first sending gives one of two holds back, and the other is lost before its repetition arrives.
#[tokio::test]
async fn given_back_before_the_rest_was_lost() {
    let (server, proxy) = start().await;
    let client = builder(proxy.url())
        .response_timeout(Duration::from_secs(2))
        .connect()
        .await
        .unwrap();
    let lock = client.lock("rest");
    let outer = lock.guard().await.unwrap();
    let inner = outer.again().await.unwrap();
    let mut control = server.connection().await;
    let scripts = proxy.scripts();
    proxy.at_script(1, Fate::LoseReply);
    let unlocked = tokio::spawn(inner.unlock());
    until(
        "the first sending has been carried out",
        LIMIT,
        async || {
            let count: Vec<i64> = control.hvals("rest").await.unwrap();
            count == [1]
        },
    )
    .await;
    let _: () = control.del("rest").await.unwrap();
    assert_eq!(proxy.scripts(), scripts + 1, "the repetition was faster");
    assert_eq!(timeout(LIMIT, unlocked).await.unwrap().unwrap(), Ok(()));
    timeout(LIMIT, outer.lost()).await.unwrap();
    assert!(proxy.scripts() > scripts + 1);
}

/// The hold before it was lost without anybody noticing: the count starts anew, and only once.
#[tokio::test]
async fn taken_once_after_a_loss_that_nobody_noticed() {
    let (server, proxy) = start().await;
    let mut control = server.connection().await;
    for holds in 1..=2 {
        for fate in [Fate::LoseReply, Fate::LoseReplyAndClose, Fate::HoldRequest] {
            {
                let client = connect(proxy.url()).await;
                let name = format!("unnoticed-{holds}-{fate:?}");
                let lock = client.lock(&name);
                for _ in 0..holds {
                    lock.lock().await.unwrap();
                }
                let old = lock.lease();
                let _: () = control.del(&name).await.unwrap();
                let struck = proxy.struck();
                proxy.at_script(1, fate);
                timeout(LIMIT, lock.lock()).await.unwrap().unwrap();
                assert_eq!(proxy.struck(), struck + 1);
                assert_eq!(lock.hold_count().await.unwrap(), 1, "{name}");
                assert!(old.is_lost() && !lock.lease().is_lost());
                lock.unlock().await.unwrap();
                assert!(!lock.is_locked().await.unwrap());
            }
        }
    }
}

/// A call whose outcome stays unknown to its caller, and what becomes of it when the server answers again.
#[tokio::test]
async fn what_a_caller_was_not_told_is_put_in_order() {
    let (server, proxy) = start().await;
    let sound = connect(server.url()).await;
    let client = builder(proxy.url())
        .retry_window(Duration::from_millis(300))
        .connect()
        .await
        .unwrap();
    let lock = client.lock("unknown");
    proxy.mute();
    let unknown = |result: Result<()>| {
        let error = result.expect_err("no answer came");
        assert_eq!(error.effect(), Effect::Unknown, "{error}");
    };
    unknown(timeout(LIMIT, lock.lock()).await.unwrap());
    let other = sound.lock("unknown");
    assert!(!other.try_lock().await.unwrap(), "it had been carried out");
    proxy.clear();
    assert!(other.try_lock_for(LIMIT).await.unwrap(), "nobody has it");
    other.unlock().await.unwrap();

    lock.lock().await.unwrap();
    let lease = lock.lease();
    proxy.mute();
    unknown(timeout(LIMIT, lock.unlock()).await.unwrap());
    proxy.clear();
    assert!(other.try_lock_for(LIMIT).await.unwrap(), "it is owed");
    assert!(matches!(lock.unlock().await, Err(Error::NotHeld { .. })));
    assert!(!lease.is_lost(), "it was given back");
    assert!(other.is_held().await.unwrap());
    other.unlock().await.unwrap();
}

/// What was never sent must not happen afterwards, neither a call nor a turn.
#[tokio::test]
async fn what_was_never_sent_never_happens() {
    let mut server = RedisServer::options().appendonly().start().await;
    let client = builder(server.url())
        .retry_window(Duration::from_millis(300))
        .connect()
        .await
        .unwrap();
    let lock = client.fenced_lock("unsent");
    assert_eq!(lock.lock_and_get_token().await, Ok(1));
    lock.unlock().await.unwrap();
    server.stop().await;
    // Now the client knows.
    lock.token().await.unwrap_err();
    let (waits, tries) = (lock.with_owner(1), lock.with_owner(2));
    let both = async { tokio::join!(waits.as_lock().lock(), tries.as_lock().try_lock()) };
    let (waited, tried) = timeout(LIMIT, both).await.expect("they are told");
    for error in [waited.unwrap_err(), tried.unwrap_err()] {
        assert_eq!(error.effect(), Effect::NotApplied, "{error}");
    }
    server.restart().await;
    until("the server is back", LIMIT, async || {
        lock.token().await.is_ok()
    })
    .await;
    assert_eq!(lock.with_owner(3).lock_and_get_token().await, Ok(2));
}
