//! The count-down latch: what it does, what it costs, and trouble that only it has; the rest is in `tests/hazards`.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::support::clients::{LIMIT, builder, connect, patient, served, start_controlled, stored};
use crate::support::monitor::Monitor;
use crate::support::polls::poll_once;
use crate::support::proxy::{Fate, Proxy};
use crate::support::server::RedisServer;
use crate::support::waiters::until_subscribers;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{CountDownLatch, Error, NameMapper, RCountDownLatch, Result};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::timeout;

/// Over before anything happens.
const SHORT: Duration = Duration::from_millis(30);

fn channel(name: &str) -> String {
    format!("redisson_countdownlatch__channel__{{{name}}}")
}

/// A caller in a task that waits when this returns: its client listens.
async fn waiter(
    control: &mut MultiplexedConnection,
    latch: &RCountDownLatch,
) -> JoinHandle<Result<()>> {
    let call = latch.clone();
    let task = tokio::spawn(async move { call.wait().await });
    until_subscribers(control, &channel(latch.name()), 1).await;
    // Answered behind the waiter's own questions.
    latch.count().await.unwrap();
    task
}

/// By the trait alone, in Redis and in memory.
#[tokio::test]
async fn every_implementation_keeps_the_contract() {
    let (server, mut control) = start_controlled().await;
    let client = connect(server.url()).await;
    let in_redis: Arc<dyn CountDownLatch> = Arc::new(client.count_down_latch("any"));
    let in_memory: Arc<dyn CountDownLatch> =
        Arc::new(redisson_semaphore::memory::CountDownLatch::new("any"));
    for latch in [in_redis, in_memory] {
        assert_eq!((latch.name(), latch.count().await), ("any", Ok(0)));
        assert_eq!(latch.wait_for(Duration::ZERO).await, Ok(true));
        assert_eq!(latch.try_set_count(2).await, Ok(true));
        assert_eq!(latch.try_set_count(2).await, Ok(false));
        assert_eq!(latch.wait_for(SHORT).await, Ok(false));
        let other = latch.clone_handle();
        let waits: Vec<_> = [None, Some(LIMIT), Some(Duration::MAX)]
            .into_iter()
            .map(|wait| {
                let latch = latch.clone_handle();
                tokio::spawn(async move {
                    match wait {
                        Some(wait) => latch.wait_for(wait).await,
                        None => latch.wait().await.map(|()| true),
                    }
                })
            })
            .collect();
        if format!("{latch:?}").contains("RCountDownLatch") {
            until_subscribers(&mut control, &channel("any"), 1).await;
        }
        // All have begun to wait.
        yield_now().await;
        other.count_down().await.unwrap();
        assert_eq!(latch.count().await, Ok(1));
        assert!(waits.iter().all(|wait| !wait.is_finished()));
        other.count_down().await.unwrap();
        for wait in waits {
            assert_eq!(timeout(LIMIT, wait).await.unwrap().unwrap(), Ok(true));
        }
        latch.wait().await.unwrap();
        other.count_down().await.unwrap();
        assert_eq!(latch.count().await, Ok(0));
        assert_eq!(latch.try_set_count(0).await, Ok(true));
        assert_eq!(latch.wait_for(Duration::ZERO).await, Ok(true));
        assert_eq!(latch.try_set_count(1).await, Ok(false), "it is there");
        other.count_down().await.unwrap();
        assert_eq!(latch.try_set_count(1).await, Ok(true));
        latch.count_down().await.unwrap();
    }
}

/// Three hundred callers of one client wait: no caller costs a script of its own, and an opening costs one.
#[tokio::test]
async fn an_opening_costs_one_script_however_many_wait() {
    let (server, mut control) = start_controlled().await;
    // Nothing is sent twice where the machine is slow.
    let connect = async || patient(server.url()).connect().await.unwrap();
    let client = connect().await;
    let elsewhere = connect().await.count_down_latch("crowd");
    let latch = client.count_down_latch("crowd");
    latch.try_set_count(1).await.unwrap();
    let waits: Vec<_> = (0..300)
        .map(|_| {
            let latch = latch.clone();
            tokio::spawn(async move { latch.wait().await })
        })
        .collect();
    until_subscribers(&mut control, &channel("crowd"), 1).await;
    latch.count().await.unwrap();
    let mut monitor = Monitor::start(&server).await;
    elsewhere.count_down().await.unwrap();
    for wait in waits {
        served(wait).await;
    }
    let commands = monitor.until_marker().await;
    let scripts = commands.iter().filter(|command| command.is_script());
    assert_eq!(
        scripts.count(),
        2,
        "to count down, and to look: {commands:?}"
    );
}

/// The count passes zero within a batch. The waiter's client looks for no other reason.
#[tokio::test]
async fn more_count_downs_than_the_count_open_it() {
    let (server, mut control) = start_controlled().await;
    let latch = connect(server.url()).await.count_down_latch("passed");
    let elsewhere = connect(server.url()).await.count_down_latch("passed");
    assert_eq!(latch.try_set_count(3).await, Ok(true));
    let waits = waiter(&mut control, &elsewhere).await;
    // The first one departs alone.
    let all = futures::future::join_all((0..5).map(|_| latch.count_down())).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    served(waits).await;
}

#[tokio::test]
async fn a_latch_that_vanishes_lets_its_waiters_go() {
    let (server, mut control) = start_controlled().await;
    let client = connect(server.url()).await;
    let latch = client.count_down_latch("vanishing");
    // By its time to live, which no message announces; the client looks for nothing else.
    latch.try_set_count(1).await.unwrap();
    let _: () = control.pexpire("vanishing", 300).await.unwrap();
    timeout(LIMIT, latch.wait())
        .await
        .expect("it is gone")
        .unwrap();
    // When any client deletes it.
    latch.try_set_count(1).await.unwrap();
    let waits = waiter(&mut control, &latch).await;
    let elsewhere = connect(server.url()).await.count_down_latch("vanishing");
    assert_eq!(elsewhere.delete().await, Ok(true));
    served(waits).await;
    latch.try_set_count(1).await.unwrap();
    // It has a time to live of more than Lua writes out by itself.
    let _: () = control
        .pexpire("vanishing", 200_000_000_000_000)
        .await
        .unwrap();
    let waits = waiter(&mut control, &latch).await;
    assert_eq!(latch.delete().await, Ok(true));
    served(waits).await;
}

#[tokio::test]
async fn what_all_objects_can_do() {
    let server = RedisServer::start().await;
    let client = builder(server.url())
        .name_mapper(NameMapper::prefix("app:"))
        .connect()
        .await
        .unwrap();
    let mut channels = crate::support::channel::Channel::pattern(&server, "*").await;
    let latch = client.count_down_latch("object");
    assert!(!latch.exists().await.unwrap() && !latch.object().touch().await.unwrap());
    assert!(matches!(
        latch.object().rename("b").await,
        Err(Error::NoSuchObject { .. })
    ));
    latch.try_set_count(4).await.unwrap();
    assert!(latch.exists().await.unwrap() && latch.object().touch().await.unwrap());
    assert!(latch.object().size_in_memory().await.unwrap() > 0);
    assert!(latch.object().copy("copied").await.unwrap());
    assert!(!latch.object().copy("copied").await.unwrap());
    let copied = client.count_down_latch("copied");
    copied.count_down().await.unwrap();
    assert!(latch.object().copy_and_replace("copied").await.unwrap());
    assert_eq!(copied.count().await, Ok(4));
    assert!(latch.object().rename_nx("copied").await.unwrap().is_none());
    let renamed = latch.object().rename("renamed").await.unwrap();
    assert_eq!((renamed.name(), renamed.count().await), ("renamed", Ok(4)));
    let renamed = renamed
        .object()
        .rename_nx("free")
        .await
        .unwrap()
        .expect("it is free");
    assert_eq!(stored(&server, "app:free").await, ["4"]);
    assert!(renamed.object().unlink().await.unwrap());
    assert_eq!(copied.delete().await, Ok(true));
    // A zero would let a JVM look, and it would wait on; any other number is nothing to it.
    let messages = channels.until_marker().await;
    let payloads: Vec<_> = messages.iter().map(|message| &*message.payload).collect();
    assert_eq!(
        payloads,
        ["1", "1"],
        "one was set, one deleted: {messages:?}"
    );
}

/// A server that knows the script, and a proxy in front of it.
async fn start() -> (RedisServer, Proxy) {
    let server = RedisServer::start().await;
    let latch = connect(server.url()).await.count_down_latch("warm-up");
    latch.try_set_count(1).await.unwrap();
    let proxy = Proxy::start(&server).await;
    (server, proxy)
}

/// It was open when the client looked for a caller that has gone.
#[tokio::test]
async fn a_late_answer_lets_no_caller_through_that_came_after_the_look() {
    let (server, proxy) = start().await;
    let mut control = server.connection().await;
    let client = connect(proxy.url()).await;
    let latch = client.count_down_latch("late");
    proxy.at_script(1, Fate::HoldReply);
    {
        let mut early = pin!(latch.wait());
        assert!(poll_once(&mut early).await.is_pending());
        proxy.until_struck(1).await;
        let _: () = control.set("late", 1).await.unwrap();
    }
    let mut later = pin!(latch.wait_for(SHORT));
    assert!(poll_once(&mut later).await.is_pending());
    proxy.deliver(1).await;
    assert_eq!(later.await, Ok(false));
}
