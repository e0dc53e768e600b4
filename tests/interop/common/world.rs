//! A private server with the real Redisson on one side and this crate on the other.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, NameMapper};
use serde_json::{Value, json};

use super::parked::Attempts;
pub use crate::support::peer::NEWEST;
use crate::support::peer::{JavaPeer, PendingCall};
use crate::support::server::RedisServer;

/// Rust callers of these tests never look without a reason: what wakes them is what is tested.
const NO_SAFETY_NET: Duration = Duration::from_secs(24 * 60 * 60);

pub struct World {
    pub rust: Client,
    pub java: JavaPeer,
    pub redis: MultiplexedConnection,
    pub server: RedisServer,
}

impl World {
    pub async fn start(version: &str) -> World {
        World::start_with_prefix(version, "").await
    }

    /// Both sides put `prefix` before every name.
    pub async fn start_with_prefix(version: &str, prefix: &str) -> World {
        let server = RedisServer::start().await;
        let arguments: &[&str] = match prefix {
            "" => &[],
            prefix => &["--prefix", prefix],
        };
        World {
            java: JavaPeer::start_with(version, &server.url(), arguments).await,
            rust: Client::builder(server.url())
                .name_mapper(NameMapper::prefix(prefix))
                .safety_interval(NO_SAFETY_NET)
                .connect()
                .await
                .expect("the server has just been started"),
            redis: server.connection().await,
            server,
        }
    }

    /// A second client of this crate, as in another process.
    pub async fn another_client(&self) -> Client {
        Client::builder(self.server.url())
            .safety_interval(NO_SAFETY_NET)
            .connect()
            .await
            .expect("the server runs")
    }

    /// Counts from now on how often callers look at semaphores.
    pub async fn attempts(&self) -> Attempts {
        Attempts::count(&self.server).await
    }

    /// What Redisson returns; panics with what it throws.
    pub async fn java(&self, op: &str, args: Value) -> Value {
        let shown = args.to_string();
        match self.java.call(op, args).await {
            Ok(answer) => answer.value,
            Err(error) => panic!("Redisson's {op} {shown}: {error}"),
        }
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
