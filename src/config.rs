//! Every setting of a client, with its default.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::credentials::CredentialsProvider;
use crate::tls::Tls;

/// How long the server's record of a client's last calls lives at the least; see `engine::once`.
const RECORD_LIFE: Duration = Duration::from_secs(600);

/// Maps the names that the code uses to the names that stand in Redis, as Redisson's `NameMapper` does.
///
/// Must agree with the mapper that the Java side is configured with.
#[derive(Clone, Default)]
pub struct NameMapper(Option<Arc<Mapping>>);

type Mapping = dyn Fn(&str) -> String + Send + Sync;

impl NameMapper {
    /// Puts `prefix` in front of every name.
    #[must_use]
    pub fn prefix(prefix: impl Into<String>) -> Self {
        let prefix = prefix.into();
        Self::custom(move |name| format!("{prefix}{name}"))
    }

    /// Puts `suffix` behind every name.
    #[must_use]
    pub fn suffix(suffix: impl Into<String>) -> Self {
        let suffix = suffix.into();
        Self::custom(move |name| format!("{name}{suffix}"))
    }

    /// Any function; must give the same answer each time.
    ///
    /// If it panics, the method panics that was given the name, or the first call on a handle of the classic recipes;
    /// nothing else is harmed.
    #[must_use]
    pub fn custom(map: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        NameMapper(Some(Arc::new(map)))
    }

    /// Runs the user's code: not to be called under a lock, or when something is dropped.
    pub(crate) fn map(&self, name: &str) -> String {
        match &self.0 {
            Some(map) => map(name),
            None => name.to_owned(),
        }
    }
}

impl fmt::Debug for NameMapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "NameMapper(custom)"
        } else {
            "NameMapper(identity)"
        })
    }
}

/// The messages that wake waiters in a cluster; see
/// [`ClientBuilder::sharded_pubsub`](crate::ClientBuilder::sharded_pubsub).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShardedPubSub {
    /// Sharded ones where the first node that is asked knows them (`PUBSUB SHARDNUMSUB`), as Redis 7.0 and later do.
    #[default]
    Auto,
    /// Sharded ones: `SPUBLISH`, `SSUBSCRIBE`.
    On,
    /// Plain ones: `PUBLISH`, `SUBSCRIBE`.
    Off,
}

/// The protocol of connections; see [`ClientBuilder::protocol`](crate::ClientBuilder::protocol).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protocol {
    /// Known to every server.
    #[default]
    Resp2,
    /// Known to Redis from 6.0 on, and to Valkey.
    Resp3,
}

/// The settings of a client, as [`ClientBuilder`](crate::ClientBuilder) collects them; [`new`](Config::new) has the default times.
#[derive(Clone, Default)]
pub(crate) struct Config {
    pub(crate) url: String,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) database: Option<i64>,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) credentials: Option<Arc<dyn CredentialsProvider>>,
    pub(crate) tls: Option<Tls>,
    /// The sentinels' URLs.
    pub(crate) sentinels: Option<Vec<String>>,
    /// User and password where a sentinel wants them and its URL has none.
    pub(crate) sentinel_login: Option<(Option<String>, String)>,
    pub(crate) sentinel_tls: Option<Tls>,
    pub(crate) sharded_pubsub: ShardedPubSub,
    /// How often a cluster is asked for its slots while all is well.
    pub(crate) scan_interval: Duration,
    /// So many replicas must have a change before it counts.
    pub(crate) replicas: Option<u32>,
    pub(crate) client_name: Option<String>,
    pub(crate) name_mapper: NameMapper,
    pub(crate) response_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) retry_window: Duration,
    /// How long a call may take besides its wait.
    pub(crate) call_timeout: Option<Duration>,
    pub(crate) safety_interval: Duration,
    pub(crate) local_hand_off: Duration,
    pub(crate) lock_watchdog_timeout: Duration,
    /// How long a waiter of a fair lock that is gone holds the others up.
    pub(crate) fair_lock_wait_timeout: Duration,
    /// The permits of all guards are on record.
    pub(crate) watch_semaphores: bool,
    pub(crate) least_record_life: Duration,
}

impl Config {
    pub(crate) fn new(url: impl Into<String>) -> Self {
        Config {
            url: url.into(),
            scan_interval: Duration::from_secs(5),
            response_timeout: Duration::from_secs(3),
            connect_timeout: Duration::from_secs(10),
            retry_window: Duration::from_secs(30),
            safety_interval: Duration::from_secs(5),
            local_hand_off: Duration::from_millis(5),
            lock_watchdog_timeout: Duration::from_secs(30),
            fair_lock_wait_timeout: Duration::from_secs(300),
            watch_semaphores: true,
            least_record_life: RECORD_LIFE,
            ..Config::default()
        }
    }

    /// How long the server keeps the record that makes a repeated call harmless.
    pub(crate) fn record_life(&self) -> Duration {
        self.least_record_life.max(self.retry_window * 4)
    }

    /// How long after its first sending a call may be repeated: the record must still be there.
    pub(crate) fn repeat_horizon(&self) -> Duration {
        self.record_life() / 2
    }
}
