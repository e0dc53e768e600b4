//! Callers that wait for a lock while connections break and servers go away: nobody stays asleep.

use std::time::Duration;

use crate::support::server::RedisServer;
use crate::support::waiters::until_subscribers;
use redis::AsyncCommands;
use redisson_semaphore::{Client, Error, RLock, Result};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::support::proxy::Proxy;

const LIMIT: Duration = Duration::from_secs(20);
const CHANNEL: &str = "redisson_lock__channel:{door}";

/// Nothing ends or looks by itself while a test runs.
const LONG: Duration = Duration::from_secs(3600);

async fn connect(url: String) -> Client {
    Client::builder(url)
        .response_timeout(Duration::from_millis(300))
        .lock_watchdog_timeout(LONG)
        .safety_interval(LONG)
        .connect()
        .await
        .expect("the server runs")
}

/// Callers of one client that wait, when the channel is heard.
async fn waiting(server: &RedisServer, client: &Client) -> Vec<(RLock, JoinHandle<Result<()>>)> {
    let tasks = (0..3).map(|_| {
        let lock = client.lock("door");
        let call = lock.clone();
        (lock, tokio::spawn(async move { call.lock().await }))
    });
    let tasks = tasks.collect();
    until_subscribers(&mut server.connection().await, CHANNEL, 1).await;
    // Answered behind the first one's question.
    client.lock("door").is_locked().await.unwrap();
    tasks
}

/// All of them get the lock, one after the other.
async fn all_served(waiting: Vec<(RLock, JoinHandle<Result<()>>)>) {
    let served = waiting.into_iter().map(|(lock, task)| async move {
        let answer = timeout(LIMIT, task).await.expect("nobody stays asleep");
        answer.unwrap().unwrap();
        lock.unlock().await.unwrap();
    });
    futures::future::join_all(served).await;
}

/// The lock comes free while nobody hears it.
#[tokio::test]
async fn a_message_that_is_lost_with_its_connection() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let holder = connect(server.url()).await.lock("door");
    let proxy = Proxy::start(&server).await;
    let client = connect(proxy.url()).await;
    for silent in [false, true] {
        holder.lock().await.unwrap();
        let callers = waiting(&server, &client).await;
        if silent {
            proxy.blackhole();
        }
        let _: () = redis.del("door").await.unwrap();
        proxy.cut();
        proxy.clear();
        all_served(callers).await;
        assert!(matches!(holder.unlock().await, Err(Error::NotHeld { .. })));
    }
}

#[tokio::test]
async fn connections_that_are_killed_all_the_time() {
    let server = RedisServer::start().await;
    let (one, two) = (connect(server.url()).await, connect(server.url()).await);
    let tasks: Vec<_> = [&one, &two, &one, &two]
        .into_iter()
        .map(|client| {
            let lock = client.lock("door");
            tokio::spawn(async move {
                for _ in 0..30 {
                    lock.lock().await.unwrap();
                    assert_eq!(lock.hold_count().await.unwrap(), 1);
                    lock.unlock().await.unwrap();
                }
            })
        })
        .collect();
    let killer = tokio::spawn(async move {
        let mut redis = server.connection().await;
        for round in 0.. {
            let kind = ["pubsub", "normal"][round % 2];
            let kill = ["KILL", "TYPE", kind, "SKIPME", "yes"];
            let mut command = redis::cmd("CLIENT");
            let _: u64 = command.arg(&kill).query_async(&mut redis).await.unwrap();
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
    });
    for task in tasks {
        timeout(3 * LIMIT, task)
            .await
            .expect("nobody hangs")
            .unwrap();
    }
    assert!(!killer.is_finished());
    killer.abort();
}

#[tokio::test]
async fn a_restart_with_the_data_and_without_them() {
    for keeps in [false, true] {
        let options = RedisServer::options();
        let options = if keeps { options.appendonly() } else { options };
        let mut server = options.start().await;
        let holder = connect(server.url()).await.lock("door");
        let client = connect(server.url()).await;
        holder.lock().await.unwrap();
        let mut callers = waiting(&server, &client).await;
        server.restart().await;
        if keeps {
            until_subscribers(&mut server.connection().await, CHANNEL, 1).await;
            assert!(holder.is_held().await.unwrap());
            assert!(callers.iter_mut().all(|(_, task)| !task.is_finished()));
            holder.unlock().await.unwrap();
        }
        all_served(callers).await;
        if !keeps {
            // An unlock that finds its connection dead is repeated, and then passes for done.
            assert!(!holder.is_held().await.unwrap());
            assert!(matches!(holder.unlock().await, Err(Error::NotHeld { .. })));
        }
    }
}

/// Those who wait are told, those who hold are not served any more, and what is owed is carried out.
#[tokio::test]
async fn a_client_that_is_shut_down() {
    let server = RedisServer::start().await;
    let (one, two) = (connect(server.url()).await, connect(server.url()).await);
    let holder = one.lock("door");
    let guard = holder.guard().await.unwrap();
    let callers = waiting(&server, &two).await;
    two.shutdown().await.unwrap();
    for (lock, task) in callers {
        let error = timeout(LIMIT, task).await.unwrap().unwrap().unwrap_err();
        assert!(matches!(error, Error::ShutDown { .. }), "{error}");
        let error = lock.try_lock().await.unwrap_err();
        assert!(matches!(error, Error::ShutDown { .. }), "{error}");
    }
    let late = one.lock("late").guard().await.unwrap();
    drop(guard);
    one.shutdown().await.unwrap();
    drop(late);
    let mut redis = server.connection().await;
    let keys: Vec<String> = redis.keys("*").await.unwrap();
    assert_eq!(keys, ["late"], "what a dropped guard owed");
}
