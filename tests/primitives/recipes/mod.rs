//! The classic recipes: their queue, their faults, and programs in Java and Python beside them.

mod bad_input;
mod beside_peers;
mod contention;
mod crowd;
mod line;
mod peers;
mod releases;
mod waits;

use std::time::Duration;

use crate::layouts::{Handle, Layout};
use crate::support::clients::LIMIT;
use crate::support::server::RedisServer;
use crate::support::waiters::until_in_queue;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, Held, Result};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const NEVER: Duration = Duration::from_secs(3600);

async fn start() -> (RedisServer, MultiplexedConnection, Client) {
    let server = RedisServer::start().await;
    let redis = server.connection().await;
    let client = connect(&server).await;
    (server, redis, client)
}

async fn connect(server: &RedisServer) -> Client {
    Client::connect(server.url()).await.unwrap()
}

/// `acquire` in a task.
fn acquire(semaphore: &Handle) -> JoinHandle<Result<Held>> {
    let semaphore = semaphore.clone();
    tokio::spawn(async move { semaphore.acquire().await })
}

/// `acquire` in a task whose caller is in the queue when this returns.
async fn waiter(semaphore: &Handle) -> JoinHandle<Result<Held>> {
    let task = acquire(semaphore);
    tokio::task::yield_now().await;
    // These calls are answered after the request of the task.
    semaphore.holders().await.unwrap();
    semaphore.release("nobody").await.unwrap();
    task
}

async fn served(task: JoinHandle<Result<Held>>) -> Held {
    let held = timeout(LIMIT, task).await.expect("nobody is served");
    held.unwrap().unwrap()
}

/// The keys of a queue, and of the notes about its waiters.
fn line_of(layout: Layout, name: &str) -> (String, String) {
    let key = |what: &str| format!("redisson_sc_recipe_{what}:{}:{{{name}}}", layout.word());
    (key("queue"), key("notes"))
}

/// Waits until `count` clients are in the queue that all processes see.
async fn until_in_line(redis: &mut MultiplexedConnection, layout: Layout, name: &str, count: u64) {
    until_in_queue(redis, &line_of(layout, name).0, count).await;
}

/// A peer holds the lock under this name.
async fn lock_as_peer(redis: &mut MultiplexedConnection, name: &str, holder: &str) {
    let key = format!("lock:{name}");
    let () = redis.pset_ex(key, holder, 600_000).await.unwrap();
}

async fn unlock_as_peer(redis: &mut MultiplexedConnection, name: &str) {
    let () = redis.del(format!("lock:{name}")).await.unwrap();
}
