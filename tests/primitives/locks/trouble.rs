//! Locks on a server without memory, and many callers of one lock on a silent server.

use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, ClientBuilder, Effect, Error, Lock, RLock, Result};

use crate::support::proxy::{Fate, Proxy};
use crate::support::server::RedisServer;
use crate::support::waiters::until_lock_queued;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(20);
const HOUR: Duration = Duration::from_secs(3600);
/// Several windows of one caller after the other last longer than this, one for all of them does not.
const TOGETHER: Duration = Duration::from_secs(4);
const CALLERS: usize = 20;

fn builder(url: String) -> ClientBuilder {
    Client::builder(url)
        .response_timeout(Duration::from_millis(100))
        .connect_timeout(Duration::from_millis(200))
        .lock_watchdog_timeout(HOUR)
        .safety_interval(HOUR)
}

async fn connect(url: String, window: Duration) -> Client {
    let client = builder(url).retry_window(window).connect().await;
    client.expect("the server runs")
}

/// `lock` in a task that has been polled once.
async fn locking(lock: &RLock) -> JoinHandle<Result<()>> {
    let lock = lock.clone();
    let task = tokio::spawn(async move { lock.lock().await });
    yield_now().await;
    task
}

async fn ended<T>(what: &str, task: JoinHandle<T>) -> T {
    let answer = timeout(LIMIT, task).await;
    answer.unwrap_or_else(|_| panic!("{what}")).unwrap()
}

async fn config(redis: &mut MultiplexedConnection, name: &str, value: &str) {
    let mut command = redis::cmd("CONFIG");
    let command = command.arg(&["SET", name, value]);
    let _: () = command.query_async(redis).await.unwrap();
}

/// A lock can be given back without memory, and the next one has it.
#[tokio::test]
async fn unlock_needs_no_memory() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = connect(server.url(), LIMIT).await;
    // Its client has subscribed in the first round, and asks nothing behind that later.
    for (fenced, memory) in [(false, "0"), (false, "1"), (true, "1")] {
        let holder = client.lock("door");
        holder.lock().await.unwrap();
        let next = client.fenced_lock("door");
        let call = next.clone();
        let waits = tokio::spawn(async move {
            match fenced {
                true => call.lock_and_get_token().await.map(drop),
                false => call.lock().await,
            }
        });
        until_lock_queued(&mut redis, "door", 1).await;
        config(&mut redis, "maxmemory", memory).await;
        let unlocked = timeout(LIMIT, holder.unlock()).await;
        assert_eq!(unlocked.expect("without memory, too"), Ok(()));
        ended("the next one has it", waits).await.unwrap();
        config(&mut redis, "maxmemory", "0").await;
        next.unlock().await.unwrap();
    }
}

/// Nor when its reply is lost, and it is repeated.
#[tokio::test]
async fn a_repeated_unlock_needs_no_memory() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let proxy = Proxy::start(&server).await;
    let client = connect(proxy.url(), LIMIT).await;
    let lock = client.lock("door");
    lock.lock().await.unwrap();
    config(&mut redis, "maxmemory", "1").await;
    proxy.at_script(1, Fate::LoseReplyAndClose);
    let unlocked = timeout(LIMIT, lock.unlock()).await;
    assert_eq!(unlocked.expect("its record says so"), Ok(()));
    assert_eq!(proxy.struck(), 1);
}

/// Callers that were there before the server went away, and those that come after; what they get, and how long after
/// they came.
async fn told(callers: Vec<JoinHandle<Result<()>>>, began: Instant) -> Vec<Error> {
    let mut errors = Vec::new();
    for caller in callers {
        let error = ended("it is told", caller).await.unwrap_err();
        errors.push(error);
        assert!(
            began.elapsed() < TOGETHER,
            "{} of {CALLERS} were told within {TOGETHER:?}",
            errors.len()
        );
    }
    errors
}

/// The question of the first one was sent, and may have been carried out; nobody else was named.
#[tokio::test]
async fn every_caller_has_its_own_deadline_while_the_server_is_silent() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(&server).await;
    let client = connect(proxy.url(), Duration::from_millis(400)).await;
    client.lock("door").is_locked().await.unwrap();
    proxy.mute();
    let began = Instant::now();
    let mut callers = Vec::new();
    for _ in 0..CALLERS {
        callers.push(locking(&client.lock("door")).await);
    }
    let errors = told(callers, began).await;
    assert_eq!(errors[0].effect(), Effect::Unknown, "{}", errors[0]);
    for error in &errors[1..] {
        assert_eq!(error.effect(), Effect::NotApplied, "{error}");
    }
    proxy.clear();
    let sound = connect(server.url(), LIMIT).await.lock("door");
    assert!(sound.try_lock_for(LIMIT).await.unwrap(), "given back");
}
