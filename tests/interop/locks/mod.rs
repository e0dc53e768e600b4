//! One server with the real Redisson on one side and this crate on the other, for locks. Each test binary uses a part.
#![allow(dead_code, unreachable_pub)]

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, Error, RLock, Result};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::support::monitor::Monitor;
pub use crate::support::peer::NEWEST;
use crate::support::peer::{self, JavaPeer, PeerError, PendingCall};
use crate::support::server::RedisServer;
use crate::support::waiters::{until, until_subscribers};

/// The newest version, and with `REDISSONS=all` the oldest one, too.
pub fn versions() -> Vec<&'static str> {
    peer::versions(&[NEWEST, "3.16.8"])
}

/// What is not done by then is not done at all; still shorter than the lease that a test leaves to holders.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// The time to live of a lock that is held without a lease, in tests that do not wait for its end: so whoever gets
/// the lock within [`PATIENCE`] was woken.
pub const LONG: Duration = Duration::from_secs(30);

const NO_SAFETY_NET: Duration = Duration::from_secs(24 * 60 * 60);

pub struct World {
    pub rust: Client,
    pub java: JavaPeer,
    /// What stands in front of Java's owners.
    pub java_id: String,
    pub redis: MultiplexedConnection,
    pub server: RedisServer,
}

impl World {
    /// Both sides renew every third of `watchdog`.
    pub async fn start(version: &str, watchdog: Duration) -> World {
        let server = RedisServer::start().await;
        let millis = watchdog.as_millis().to_string();
        let arguments = ["--watchdog", &millis];
        let java = JavaPeer::start_with(version, &server.url(), &arguments).await;
        let id = java.call("clientId", json!({})).await.expect("it has one");
        World {
            java_id: id.value.as_str().expect("a text").to_owned(),
            rust: client(&server, watchdog).await,
            redis: server.connection().await,
            java,
            server,
        }
    }

    /// What Redisson returns; panics with what it throws.
    pub async fn java(&self, op: &str, args: Value) -> Value {
        let shown = args.to_string();
        match timeout(PATIENCE, self.java.call(op, args)).await {
            Ok(Ok(answer)) => answer.value,
            Ok(Err(error)) => panic!("Redisson's {op} {shown}: {error}"),
            Err(_) => panic!("Redisson's {op} {shown} hangs"),
        }
    }

    /// What Redisson throws.
    pub async fn java_error(&self, op: &str, args: Value) -> PeerError {
        let answer = timeout(PATIENCE, self.java.call(op, args)).await;
        answer.expect("an answer").expect_err("an exception")
    }

    /// The owner that a Java thread is.
    pub async fn java_owner(&self, thread: &str) -> String {
        let number = self.java("threadId", json!({ "thread": thread })).await;
        format!("{}:{number}", self.java_id)
    }

    /// Waits until as many connections listen for the lock.
    pub async fn until_listeners(&mut self, name: &str, count: u64) {
        until_subscribers(&mut self.redis, &channel(name), count).await;
    }
}

pub async fn client(server: &RedisServer, watchdog: Duration) -> Client {
    Client::builder(server.url())
        .safety_interval(NO_SAFETY_NET)
        .lock_watchdog_timeout(watchdog)
        .connect()
        .await
        .expect("the server runs")
}

pub fn channel(name: &str) -> String {
    format!("redisson_lock__channel:{{{name}}}")
}

/// Counts how often somebody has looked at a lock in vain: each such attempt of either side is one script, which
/// reads the time to live once.
pub struct Attempts(Monitor);

impl Attempts {
    pub async fn count(server: &RedisServer) -> Attempts {
        Attempts(Monitor::start(server).await)
    }

    /// Waits for `count` attempts in vain from now on. A Java caller tries twice, before it subscribes and after, and
    /// is parked then.
    pub async fn until(&mut self, name: &str, count: usize) {
        let mut seen = 0;
        let what = format!("{count} attempts on {name:?}");
        until(&what, PATIENCE, async || {
            let commands = self.0.until_marker().await;
            let looks = commands
                .iter()
                .filter(|command| command.is_lua() && command.name == "PTTL");
            seen += looks.filter(|command| command.args == [name]).count();
            seen >= count
        })
        .await;
    }

    /// Forgets what has been.
    pub async fn skip(&mut self) {
        self.0.until_marker().await;
    }
}

/// `lock` in a task.
pub fn locking(lock: &RLock) -> JoinHandle<Result<()>> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.lock().await })
}

/// What a Rust caller has got in the end.
pub async fn returned<T>(what: &str, caller: JoinHandle<T>) -> T {
    let answer = timeout(PATIENCE, caller).await;
    answer
        .unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"))
        .expect("no panic")
}

/// What a Java caller has got in the end.
pub async fn served(what: &str, caller: PendingCall) -> Value {
    match timeout(PATIENCE, caller).await {
        Ok(Ok(answer)) => answer.value,
        Ok(Err(error)) => panic!("{what}: {error}"),
        Err(_) => panic!("{what}: not within {PATIENCE:?}"),
    }
}

/// The answer of a call here, as the Java peer gives it.
pub fn as_java_says(answer: Result<Value>) -> Value {
    match answer {
        Ok(value) => value,
        Err(Error::NotHeld { .. }) => json!("IllegalMonitorStateException"),
        Err(error) => panic!("{error}"),
    }
}
