//! Clients without periodic checks, and actions on their connections.

use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, ClientBuilder, Result};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::proxy::Proxy;
use super::server::RedisServer;
use super::snapshot::snapshot;
use super::waiters::{channel, until};

/// A caller that has not been served by then hangs.
pub const LIMIT: Duration = Duration::from_secs(15);
/// A client notices a lost reply after this time.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_millis(300);
pub const NEVER: Duration = Duration::from_secs(3600);

/// The types of connections that are killed, alone and together.
pub const KINDS: [&[&str]; 3] = [&["normal"], &["pubsub"], &["normal", "pubsub"]];

/// Settings of a client that notices a lost reply fast, and checks for permits only when there is a reason.
pub fn builder(url: String) -> ClientBuilder {
    Client::builder(url)
        .response_timeout(RESPONSE_TIMEOUT)
        .retry_window(Duration::from_secs(8))
        .safety_interval(NEVER)
        .scan_interval(Duration::from_secs(1))
}

/// The same settings where no reply is lost: only the limit of the test ends a call.
pub fn patient(url: String) -> ClientBuilder {
    builder(url)
        .response_timeout(LIMIT)
        .retry_window(LIMIT)
        .call_timeout(LIMIT)
}

pub async fn connect(url: String) -> Client {
    builder(url).connect().await.expect("the server runs")
}

/// Waits until a waiter has been served.
pub async fn served(task: JoinHandle<Result<()>>) {
    timeout(LIMIT, task)
        .await
        .expect("a waiter is not served")
        .expect("a waiter panicked")
        .expect("a waiter is served");
}

/// The counter as the server stores it; nothing if there is none.
pub async fn stored(server: &RedisServer, name: &str) -> Vec<String> {
    snapshot(&mut server.connection().await, name).await.value
}

/// How many connections of a type (`normal`, `pubsub`) the code under test has.
pub async fn connections(server: &mut MultiplexedConnection, kind: &str) -> usize {
    let list: String = redis::cmd("CLIENT")
        .arg(&["LIST", "TYPE", kind])
        .query_async(server)
        .await
        .unwrap();
    list.lines()
        .filter(|line| line.contains("user=default"))
        .count()
}

/// Publishes a message on a semaphore's channel. Returns how many connections have heard it.
pub async fn publish(server: &mut MultiplexedConnection, name: &str, payload: &str) -> u64 {
    server.publish(channel(name), payload).await.unwrap()
}

/// Releases permits as Redisson does: with one message, and no second one.
pub async fn release_as_redisson(server: &mut MultiplexedConnection, name: &str, permits: u32) {
    let total: i64 = server.incr(name, permits).await.unwrap();
    publish(server, name, &total.to_string()).await;
}

/// Ends the connections of a type. Returns how many there were.
pub async fn kill(server: &mut MultiplexedConnection, kind: &str) -> usize {
    redis::cmd("CLIENT")
        .arg(&["KILL", "USER", "default", "TYPE", kind])
        .query_async(server)
        .await
        .unwrap()
}

/// Waits until the counter in the server is `permits`.
pub async fn until_stored(server: &RedisServer, name: &str, permits: i64) {
    let mut control = server.connection().await;
    let expected = [permits.to_string()];
    until(&format!("{name} holds {permits}"), LIMIT, async || {
        snapshot(&mut control, name).await.value == expected
    })
    .await;
}

/// A server, and a connection to it that belongs to the test.
pub async fn start_controlled() -> (RedisServer, MultiplexedConnection) {
    let server = RedisServer::start().await;
    let control = server.connection().await;
    (server, control)
}

/// A server whose user `app` may do what `rules` say, and a client of that user.
pub async fn limited(rules: &str) -> (RedisServer, Client) {
    let server = RedisServer::options()
        .user(&format!("app on >pw {rules}"))
        .start()
        .await;
    let builder = patient(server.url_as("app", "pw")).lock_watchdog_timeout(NEVER);
    let client = builder.connect().await.expect("the server runs");
    (server, client)
}

/// How many scripts the server has carried out.
pub async fn scripts(server: &mut MultiplexedConnection) -> u64 {
    commands(server, "eval").await
}

/// How many calls of commands with this beginning of a name there were, also in scripts.
pub async fn commands(server: &mut MultiplexedConnection, name: &str) -> u64 {
    let info: String = redis::cmd("INFO")
        .arg("commandstats")
        .query_async(server)
        .await
        .unwrap();
    let calls = |line: &str| -> Option<u64> {
        let (_, rest) = line.split_once("calls=")?;
        rest.split(',').next()?.parse().ok()
    };
    let name = format!("cmdstat_{name}");
    let counted = info.lines().filter(|line| line.starts_with(&name));
    counted.filter_map(calls).sum()
}

/// How many errors that begin with `word` the server has returned. Servers of 6.2 count the errors of scripts under other words.
pub async fn errors(server: &mut MultiplexedConnection, word: &str) -> u64 {
    let mut command = redis::cmd("INFO");
    let info: String = command.arg("all").query_async(server).await.unwrap();
    let words = match info.contains("redis_version:6.") {
        true => vec!["@user_script_", "ERR"],
        false => vec![word],
    };
    let marks = words.iter().map(|word| format!("errorstat_{word}:count="));
    let count = |mark: String| info.lines().find_map(|line| line.strip_prefix(&*mark));
    let counts = marks.filter_map(count);
    counts
        .map(|count| count.trim().parse::<u64>().unwrap())
        .sum()
}

/// Loads the scripts of semaphores into the server's cache, so that each call is one script call.
pub async fn warm_up(server: &RedisServer) {
    let semaphore = connect(server.url()).await.semaphore("warm-up");
    assert!(semaphore.try_set_permits(1).await.unwrap());
    semaphore.release(1).await.unwrap();
    semaphore.delete().await.unwrap();
}

/// A server that knows the scripts of semaphores, and a proxy in front of it.
pub async fn start_behind_a_proxy() -> (RedisServer, Proxy) {
    let server = RedisServer::start().await;
    warm_up(&server).await;
    let proxy = Proxy::start(&server).await;
    (server, proxy)
}
