//! A private server with the real Redisson on one side and this crate on the other.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, ClientBuilder, NameMapper};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::parked::{Attempts, PATIENCE};
use crate::support::clients::NEVER;
pub use crate::support::peer::NEWEST;
use crate::support::peer::{JavaPeer, PeerError, PendingCall};
use crate::support::server::RedisServer;

/// The time to live of a lock without a lease, on both sides: a waiter that gets the lock within [`PATIENCE`] was woken.
pub const LONG: Duration = Duration::from_secs(30);

pub struct World {
    pub rust: Client,
    pub java: JavaPeer,
    pub redis: MultiplexedConnection,
    pub server: RedisServer,
}

impl World {
    pub async fn start(version: &str) -> World {
        World::start_with(version, &[], |builder| builder).await
    }

    /// Both sides put `prefix` before every name.
    pub async fn with_prefix(version: &str, prefix: &str) -> World {
        World::start_with(version, &["--prefix", prefix], |builder| {
            builder.name_mapper(NameMapper::prefix(prefix))
        })
        .await
    }

    /// Both sides renew locks every third of `watchdog`.
    pub async fn with_watchdog(version: &str, watchdog: Duration) -> World {
        let millis = watchdog.as_millis().to_string();
        World::start_with(version, &["--watchdog", &millis], |builder| {
            builder.lock_watchdog_timeout(watchdog)
        })
        .await
    }

    async fn start_with(
        version: &str,
        java: &[&str],
        rust: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> World {
        let server = RedisServer::start().await;
        World {
            java: JavaPeer::start_with(version, &server.url(), java).await,
            rust: (rust(builder(&server)).connect().await).expect("the server runs"),
            redis: server.connection().await,
            server,
        }
    }

    /// A second client of this crate, as in another process.
    pub async fn another_client(&self) -> Client {
        (builder(&self.server).connect().await).expect("the server runs")
    }

    /// Counts from now on how often callers look at semaphores.
    pub async fn attempts(&self) -> Attempts {
        Attempts::count(&self.server).await
    }

    /// The answer of Redisson; panics with what it throws.
    pub async fn java(&self, op: &str, args: Value) -> Value {
        let shown = args.to_string();
        match timeout(PATIENCE, self.java.call(op, args)).await {
            Ok(Ok(answer)) => answer.value,
            Ok(Err(error)) => panic!("Redisson's {op} {shown}: {error}"),
            Err(_) => panic!("Redisson's {op} {shown} hangs"),
        }
    }

    /// The exception that Redisson throws.
    pub async fn java_error(&self, op: &str, args: Value) -> PeerError {
        let answer = timeout(PATIENCE, self.java.call(op, args)).await;
        answer.expect("an answer").expect_err("an exception")
    }

    /// The owner that a Java thread is.
    pub async fn java_owner(&self, thread: &str) -> String {
        let id = self.java("clientId", json!({})).await;
        let number = self.java("threadId", json!({ "thread": thread })).await;
        format!("{}:{number}", id.as_str().expect("a text"))
    }

    /// A Java caller that wants permits and waits for them, for ever.
    pub fn java_acquire(&self, name: &str, permits: u32, mode: Mode) -> PendingCall {
        let args = json!({"name": name, "permits": permits, "mode": mode.word()});
        self.java.begin("acquire", args)
    }

    /// A Java caller that waits for `wait`.
    pub fn java_try(&self, name: &str, permits: u32, mode: Mode, wait: Duration) -> PendingCall {
        let wait = u64::try_from(wait.as_millis()).expect("short");
        let args = json!({
            "name": name, "permits": permits, "mode": mode.word(), "waitMs": wait,
        });
        self.java.begin("tryAcquire", args)
    }

    /// The number of free permits, as Java sees it.
    pub async fn java_available(&self, name: &str) -> Value {
        self.java("availablePermits", json!({ "name": name })).await
    }

    /// The number of free permits, as Rust sees it.
    pub async fn available(&self, name: &str) -> i64 {
        let available = self.rust.semaphore(name).available_permits().await;
        available.expect("the server runs")
    }
}

/// Of Rust callers that never look without a reason: what wakes them is what is tested.
pub fn builder(server: &RedisServer) -> ClientBuilder {
    Client::builder(server.url()).safety_interval(NEVER)
}

/// How a Java caller waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A thread is blocked.
    Sync,
    /// A future is pending.
    Async,
}

impl Mode {
    pub const BOTH: [Mode; 2] = [Mode::Sync, Mode::Async];

    pub fn word(self) -> &'static str {
        match self {
            Mode::Sync => "sync",
            Mode::Async => "async",
        }
    }
}

/// The channel of the semaphore with this key.
pub fn channel(key: &str) -> String {
    if key.contains('{') {
        format!("redisson_sc:{key}")
    } else {
        format!("redisson_sc:{{{key}}}")
    }
}
