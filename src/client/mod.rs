//! [`Client`]: connections, identity, and handles to objects.

mod builder;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

pub use builder::ClientBuilder;

use crate::Answer;
use crate::config::Config;
use crate::engine::Core;
use crate::error::Result;
use crate::recipes::{FairSemaphore, SetSemaphore, SlotSemaphore, StringLock, TimestampSemaphore};
use crate::redisson::{
    RCountDownLatch, RFairLock, RFencedLock, RLock, RPermitExpirableSemaphore, RReadWriteLock,
    RSemaphore,
};
use crate::state::ConnectionState;
use crate::stats::Stats;

/// A client of one Redis server: two connections, however many objects and waiters; or of a cluster: two to each of its
/// masters.
///
/// One connection carries commands; a second one, made when the first caller has to wait, receives wake-ups.
/// A connection that is lost comes back by itself for as long as that takes, with growing, jittered
/// pauses; calls wait for it through the [`retry_window`](ClientBuilder::retry_window), and callers that
/// wait for permits go on waiting.
///
/// Cheap to clone; the clones are one client. When the last clone and the last handle are gone, and what
/// they have deferred has been carried out, the connections are closed; waiters left asleep elsewhere may keep them open
/// for about a minute. A client belongs to the tokio runtime that it was made in, or to that of [`ClientBuilder::runtime`], and
/// [ends with it](crate::Error::RuntimeEnded). Calls may be made in any runtime.
///
/// Methods that take a name make a handle, without I/O. A name or setting that cannot be used is an error of the handle's first operation.
/// Names have 64 KiB at the most.
#[derive(Clone)]
pub struct Client {
    core: Arc<Core>,
}

impl Client {
    /// Connects with the default settings.
    ///
    /// `url` is `redis://[[user]:password@]host[:port][/database]`, with reserved characters of user and password
    /// percent-encoded (`%40` for `@`), `rediss://` for the same by TLS (with the feature `tls-rustls`),
    /// `redis+unix:///path[?db=..&user=..&pass=..]`, or, of a cluster, `redis+cluster://[[user]:password@]host[:port],..` with
    /// one of its nodes or several (`rediss+cluster://` by TLS); or, of a master and replicas without sentinels,
    /// `redis+replicated://[[user]:password@]host[:port],..[/database]` (`rediss+replicated://`).
    ///
    /// # Errors
    ///
    /// Those of [`ClientBuilder::connect`].
    pub async fn connect(url: impl Into<String>) -> Result<Self> {
        Self::builder(url).connect().await
    }

    /// All settings, to be changed before [`connect`](ClientBuilder::connect).
    pub fn builder(url: impl Into<String>) -> ClientBuilder {
        ClientBuilder::of(Config::new(url))
    }

    /// The semaphore called `name`. Redisson: `getSemaphore(String)`.
    #[must_use]
    pub fn semaphore(&self, name: &str) -> RSemaphore {
        RSemaphore::new(&self.core, name)
    }

    /// The lock called `name`. Its guards exclude each other; for calls without a guard the handle is an owner of its own.
    /// Redisson: `getLock(String)`.
    #[must_use]
    pub fn lock(&self, name: &str) -> RLock {
        RLock::new(&self.core, name)
    }

    /// The lock called `name` that gives fencing tokens; see [`lock`](Self::lock). Redisson: `getFencedLock(String)`.
    #[must_use]
    pub fn fenced_lock(&self, name: &str) -> RFencedLock {
        RFencedLock::new(&self.core, name)
    }

    /// The lock called `name` that its callers get in their order; see [`lock`](Self::lock). Redisson: `getFairLock(String)`.
    #[must_use]
    pub fn fair_lock(&self, name: &str) -> RFairLock {
        RFairLock::new(&self.core, name)
    }

    /// The read-write lock called `name`, with two sides; see [`lock`](Self::lock). Redisson: `getReadWriteLock(String)`.
    #[must_use]
    pub fn read_write_lock(&self, name: &str) -> RReadWriteLock {
        RReadWriteLock::new(&self.core, name)
    }

    /// The count-down latch called `name`. Redisson: `getCountDownLatch(String)`.
    #[must_use]
    pub fn count_down_latch(&self, name: &str) -> RCountDownLatch {
        RCountDownLatch::new(&self.core, name)
    }

    /// The semaphore called `name` whose permits have ids and leases. Redisson: `getPermitExpirableSemaphore(String)`.
    #[must_use]
    pub fn permit_expirable_semaphore(&self, name: &str) -> RPermitExpirableSemaphore {
        RPermitExpirableSemaphore::new(&self.core, name)
    }

    /// The timestamp semaphore called `name`, of the classic recipes.
    #[must_use]
    pub fn timestamp_semaphore(&self, name: &str, limit: u32) -> TimestampSemaphore {
        TimestampSemaphore::new(&self.core, name, limit)
    }

    /// The fair semaphore called `name`, of the classic recipes.
    #[must_use]
    pub fn fair_semaphore(&self, name: &str, limit: u32) -> FairSemaphore {
        FairSemaphore::new(&self.core, name, limit)
    }

    /// The set semaphore called `name`, of the classic recipes.
    #[must_use]
    pub fn set_semaphore(&self, name: &str, limit: u32) -> SetSemaphore {
        SetSemaphore::new(&self.core, name, limit)
    }

    /// The slot strings called `name`, of the classic recipes.
    #[must_use]
    pub fn slot_semaphore(&self, name: &str, limit: u32) -> SlotSemaphore {
        SlotSemaphore::new(&self.core, name, limit)
    }

    /// The string lock `lock:name`, of the classic recipes.
    #[must_use]
    pub fn string_lock(&self, name: &str) -> StringLock {
        StringLock::new(&self.core, name)
    }

    /// The client's id, a random UUID: it stands in the keys of its records.
    #[must_use]
    pub fn id(&self) -> &str {
        self.core.id()
    }

    /// Asks the server whether it is there: for a readiness probe. Nothing is waited for but the answer, until the
    /// server has been silent for the response time-out; Redis: `PING`, which the ACL may forbid.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](crate::Error::Unavailable) at once where there is no connection at the moment, and when no answer comes;
    /// [`RefusedForNow`](crate::Error::RefusedForNow), [`Authentication`](crate::Error::Authentication) or [`Tls`](crate::Error::Tls) where
    /// that is why; [`ShutDown`](crate::Error::ShutDown) after the shutdown; [`RuntimeEnded`](crate::Error::RuntimeEnded) after the end of
    /// the client's runtime.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time.
    pub async fn ping(&self) -> Result<()> {
        self.core.within(self.core.ping()).await
    }

    /// For the tool `rsem`, as the other hidden methods: they are no part of the crate's API, and may change at any time.
    ///
    /// Sends a command that only reads, once, and returns the answer; in a cluster to `master`, or to the one that has its key. Keys are not
    /// mapped. It ends when the server is silent for the response time-out. A command that changes something may have done so although it
    /// fails.
    #[doc(hidden)]
    pub async fn ask(&self, master: Option<&str>, words: &[&str]) -> Result<Answer> {
        self.core.within(self.core.ask(master, words)).await
    }

    /// The masters of a cluster, that [`ask`](Self::ask) takes; of a single server none.
    #[doc(hidden)]
    #[must_use]
    pub fn masters(&self) -> Vec<String> {
        self.core.connection.masters()
    }

    /// Whether sharded messages wake waiters.
    #[doc(hidden)]
    #[must_use]
    pub fn has_sharded_messages(&self) -> bool {
        self.core.connection.messages().are_sharded()
    }

    /// Whether the connection for commands stands, and each change of that, without asking the server.
    ///
    /// It says nothing about the connection for wake-ups, which is there only while a caller waits.
    ///
    /// A state that is borrowed from the receiver must not be held across an `await`: the client could not change it meanwhile.
    #[must_use]
    pub fn connection_state(&self) -> watch::Receiver<ConnectionState> {
        self.core.connection.state()
    }

    /// Counts of this client's calls by result, and its present state: cheap, without I/O.
    ///
    /// With the feature `metrics` the same numbers go to the recorder of the [`metrics`](https://docs.rs/metrics) facade once a second, and all
    /// clients of a process add up: the counters `redisson_semaphore_granted_total`, `_refused_total`, `_failed_total`, `_outcomes_unknown_total`,
    /// `_lost_total`, `_retries_total` and `_reconnections_total`, and the gauges `redisson_semaphore_waiting`, `_held_permits` and
    /// `_held_locks`. As they come, the histograms `redisson_semaphore_wait_seconds` (of what was granted) and
    /// `redisson_semaphore_hold_seconds` (of guards) are reported, with the label `what`, which is `permits` or `lock`. Names of objects are no labels, as they may be many. The recorder has to be there before the client is made.
    ///
    /// With the feature `spans` there is a span of [`tracing`](https://docs.rs/tracing) at the level `INFO` for each wait, `wait`, and one for as long as a
    /// guard holds something, `hold`: with the `name` of the object, `what`, and the `amount` of permits.
    ///
    /// ```no_run
    /// # async fn watch(client: redisson_semaphore::Client) {
    /// let stats = client.stats();
    /// println!("{} wait, {} permits are held", stats.waiting, stats.held_permits);
    /// # }
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.core.snapshot()
    }

    /// How many entries the client keeps, of each kind.
    #[doc(hidden)]
    #[must_use]
    pub fn entries(&self) -> Vec<(&'static str, usize)> {
        self.core.entries()
    }

    /// Carries out deferred calls, above all the releases of dropped guards, and ends the client.
    ///
    /// Callers that wait get [`ShutDown`](crate::Error::ShutDown), and so does every later call. A caller whose request was sent and not
    /// answered gets [`OutcomeUnknown`](crate::Error::OutcomeUnknown). A guard that is dropped after this can't give its permits back, and
    /// neither can a call that has been granted some and was left unpolled until now. A second call waits for the first one, and returns the
    /// same.
    ///
    /// # Errors
    ///
    /// [`Unfinished`](crate::Error::Unfinished) if something could not be carried out within the retry window. A call without a known outcome has
    /// the retry window from its first sending, even if its caller has its error already; after that it gets one more try, not another window. A call that the server
    /// refuses for a missing permission is tried once more and then given up. Where it has no caller, only the log reports that.
    pub async fn shutdown(&self) -> Result<()> {
        self.core.within(self.core.shutdown(None)).await
    }

    /// As [`shutdown`](Self::shutdown), but ends after `limit`, also with deferred calls left: for a service that has only so
    /// long before it is killed. Calls that could not be carried out in time are given up.
    ///
    /// Where several shut the client down, the shortest limit counts.
    ///
    /// # Errors
    ///
    /// [`Unfinished`](crate::Error::Unfinished) if something could not be carried out within `limit`, or the retry window where that is shorter.
    ///
    /// # Cancel safety
    ///
    /// A shutdown that has begun goes on with the next call; wait for one of them to its end.
    pub async fn shutdown_for(&self, limit: Duration) -> Result<()> {
        self.core.within(self.core.shutdown(Some(limit))).await
    }
}

#[cfg(feature = "blocking")]
impl Client {
    /// `end` is dropped when the client is not in use any more, and has no deferred calls.
    pub(crate) fn ends_with(&self, end: tokio::sync::oneshot::Sender<()>) {
        let _ = self.core.end.set(end);
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}
