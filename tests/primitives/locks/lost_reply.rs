//! Forced unlocks whose replies are lost or whose requests arrive late: a lock is forced open once.

use std::time::Duration;

use crate::support::proxy::{Fate, Proxy};
use crate::support::server::RedisServer;
use crate::support::waiters::until_subscribers;
use redisson_semaphore::{Client, ClientBuilder, Error};
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

/// Its caller has been told that nobody knows what became of it. The next owner keeps the lock.
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
