//! The part of a client that all its objects share.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::{EnterGuard, Handle};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::holds::LeaseTable;
use super::log::{self, Seldom};
use super::records::Records;
use super::registry::Registry;
use super::renewal::renew;
use super::wakeups::Wakeups;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::outside::{self, Runtime};
use crate::stats::{Counters, Stats};
use crate::sync::unlocked;
use crate::transport::{Connection, Endpoint};

/// The shared part of a client: its connections, its identity, its objects.
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) connection: Connection,
    pub(crate) wakeups: Wakeups,
    pub(crate) runtime: Runtime,
    id: String,
    pub(crate) stats: Arc<Counters>,
    sequence: AtomicU64,
    /// In microseconds; 0 where it is not known.
    round_trip: AtomicU64,
    owners: AtomicU64,
    pub(crate) objects: Registry,
    pub(crate) holds: LeaseTable,
    /// The server refuses calls for now.
    pub(super) refuses: Seldom,
    /// Leases could not be renewed.
    pub(crate) not_renewed: Seldom,
    pub(crate) records: Records,
    client_name: Arc<str>,
    /// How many objects have calls that are not answered yet.
    busy: AtomicUsize,
    /// Since when it is being shut down.
    closing: OnceLock<Instant>,
    /// How many requests were given up by the shutdown without an answer.
    unsettled: AtomicUsize,
    /// Shut down, and the connection closed.
    finished: AtomicBool,
    /// Dropped with it.
    #[cfg(feature = "blocking")]
    pub(crate) end: OnceLock<tokio::sync::oneshot::Sender<()>>,
    /// One shutdown waits for what is left; others wait behind it.
    settling: tokio::sync::Mutex<()>,
    /// How the shutdown went.
    ended: OnceLock<Result<()>>,
    /// Notified when no object has unanswered calls any more; the shutdown waits for it.
    idle: Arc<Notify>,
}

/// Lower numbers are for users that pick one.
const FIRST_OWNER: u64 = 1 << 32;

impl Core {
    /// Timers are those of the caller's runtime, which lives as long as the call; as long as this is there, and there is none, the client's.
    pub(super) fn outside(&self) -> Option<EnterGuard<'_>> {
        Handle::try_current().is_err().then(|| self.runtime.enter())
    }

    /// The same with its timers being those of the client, where it is polled outside of a runtime.
    pub(crate) async fn within<F: Future>(&self, future: F) -> F::Output {
        outside::entering(|| self.outside(), future).await
    }

    /// Connects, in the current runtime where none is given.
    pub(crate) async fn connect(config: Config, runtime: Option<Handle>) -> Result<Arc<Self>> {
        let connecting = async {
            let endpoint = Endpoint::new(&config)?;
            let connection = Connection::open(endpoint, config.sharded_pubsub).await?;
            Ok(Self::new(config, connection))
        };
        Runtime::of(runtime).within(connecting).await
    }

    /// Connects in the background.
    pub(crate) fn connect_lazy(config: Config, runtime: Option<Handle>) -> Result<Arc<Self>> {
        let endpoint = Endpoint::new(&config)?;
        let runtime = Runtime::of(runtime);
        let _runtime = runtime.enter();
        let connection = Connection::lazy(endpoint, config.sharded_pubsub);
        Ok(Self::new(config, connection))
    }

    fn new(config: Config, connection: Connection) -> Arc<Self> {
        let wakeups = Wakeups::new(connection.layout(), config.safety_interval);
        let id = outside::uuid().to_string();
        let client_name = config.client_name.clone().unwrap_or_default().into();
        let core = Arc::new(Core {
            config,
            connection,
            wakeups,
            runtime: Runtime::current(),
            id,
            stats: Arc::default(),
            sequence: AtomicU64::new(0),
            round_trip: AtomicU64::new(0),
            owners: AtomicU64::new(FIRST_OWNER),
            objects: Registry::default(),
            holds: LeaseTable::default(),
            refuses: Seldom::default(),
            not_renewed: Seldom::default(),
            records: Records::default(),
            client_name,
            busy: AtomicUsize::new(0),
            closing: OnceLock::new(),
            unsettled: AtomicUsize::new(0),
            finished: AtomicBool::new(false),
            #[cfg(feature = "blocking")]
            end: OnceLock::new(),
            settling: tokio::sync::Mutex::default(),
            ended: OnceLock::new(),
            idle: Arc::default(),
        });
        (core.runtime).spawn(renew(Arc::downgrade(&core), core.holds.woken()));
        #[cfg(feature = "metrics")]
        tokio::spawn(publish(Arc::downgrade(&core)));
        core
    }

    /// The client's id: a random UUID, as Redisson's is.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The name that the user gave; empty where there is none.
    pub(crate) fn client_name(&self) -> &Arc<str> {
        &self.client_name
    }

    /// The number of the next call or batch: rises within the client, whatever the object.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next_sequences(1)
    }

    /// The first of so many numbers for what the client has in queues: tickets.
    pub(crate) fn next_sequences(&self, count: u64) -> u64 {
        self.sequence.fetch_add(count, Ordering::Relaxed) + 1
    }

    /// How long a script takes from here to the server and back, lately.
    pub(crate) fn round_trip(&self) -> Duration {
        Duration::from_micros(self.round_trip.load(Ordering::Relaxed))
    }

    /// A script has taken so long.
    pub(crate) fn note_round_trip(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let before = self.round_trip.load(Ordering::Relaxed);
        let now = if before == 0 {
            took
        } else {
            before - before / 8 + took / 8
        };
        self.round_trip.store(now, Ordering::Relaxed);
    }

    /// Counts of the calls by result.
    pub(crate) fn snapshot(&self) -> Stats {
        let reconnections = self.connection.reconnects();
        self.stats.snapshot(self.objects.waiting(), reconnections)
    }

    /// How many entries there are of each kind: none of them may grow with what has been. The simulator asks.
    pub(crate) fn entries(&self) -> Vec<(&'static str, usize)> {
        let (unused, uncertain) = self.records.count();
        vec![
            ("objects", self.objects.count()),
            ("busy", self.busy()),
            ("channels", self.wakeups.count()),
            ("holds", self.holds.entries()),
            ("records", unused),
            ("uncertain", uncertain),
            ("links", self.connection.count()),
        ]
    }

    /// The number of the next owner of a lock.
    pub(crate) fn next_owner(&self) -> u64 {
        self.owners.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::SeqCst)
    }

    /// The error for a call on the object called `name`, as the client has ended: it was shut down, or else its runtime has ended.
    pub(crate) fn gone(&self, name: &str) -> Error {
        let name = name.to_owned();
        match self.closing.get() {
            Some(_) => Error::ShutDown { name },
            None => Error::RuntimeEnded { name },
        }
    }

    /// For how long it has been shutting down.
    pub(crate) fn closing_for(&self) -> Duration {
        self.closing.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    /// A request has been given up by the shutdown, or with the runtime; it may have been carried out.
    pub(crate) fn note_unsettled(&self) {
        self.unsettled.fetch_add(1, Ordering::SeqCst);
    }

    /// The runtime has ended before the deferred calls `deferred` on the object called `name` were sent.
    pub(crate) fn abandoned(&self, name: &str, deferred: Vec<String>) {
        deferred.iter().for_each(|_| self.note_unsettled());
        let calls = deferred.into_iter().map(|call| (call, 1));
        log::abandoned(name, &log::list_of(calls));
    }

    /// The runtime has ended while `calls` on the object called `name` were under way.
    pub(crate) fn lost(&self, name: &str, calls: &str) {
        if !calls.is_empty() {
            self.note_unsettled();
            log::lost(name, calls);
        }
    }

    /// An object has calls to answer; whether it is counted already is `busy`.
    pub(crate) fn note_busy(&self, busy: &mut bool) {
        if !std::mem::replace(busy, true) {
            self.busy.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// How many have such calls.
    pub(super) fn busy(&self) -> usize {
        self.busy.load(Ordering::SeqCst)
    }

    /// It has none any more.
    pub(crate) fn note_idle(&self, busy: &mut bool) {
        if std::mem::take(busy) && self.busy.fetch_sub(1, Ordering::SeqCst) == 1 {
            // Leaves a permit, so that shutdown can't miss it. The object is locked, and the shutdown's waker is the user's.
            let idle = Arc::clone(&self.idle);
            unlocked(move || idle.notify_one());
        }
    }

    /// Ends all waiting, refuses new calls, and carries out what has been asked for, for `limit` at the most. However
    /// often, and by however many, it is asked for: it ends once.
    pub(crate) async fn shutdown(self: &Arc<Self>, limit: Option<Duration>) -> Result<()> {
        let window = self.config.retry_window + Duration::from_secs(1);
        let limit = limit.map_or(window, |limit| limit.min(window));
        // The rest is counted then.
        let _ = tokio::time::timeout(limit, self.settle()).await.is_ok();
        self.ended.get_or_init(|| self.end()).clone()
    }

    /// Waits until all has been carried out, or the client has ended.
    async fn settle(self: &Arc<Self>) {
        let _settling = self.settling.lock().await;
        if self.closing.set(Instant::now()).is_ok() {
            self.objects.close();
        }
        while !self.is_finished() {
            if self.busy() > 0 {
                self.idle.notified().await;
                continue;
            }
            self.give_all_records_back().await;
            // Guards that were dropped meanwhile have had releases to send, too.
            if self.busy() == 0 && self.records.are_given_back() {
                return;
            }
        }
    }

    fn end(&self) -> Result<()> {
        // A task that sees that it has finished is not busy any more.
        let left = self.busy() + self.unsettled.load(Ordering::SeqCst);
        self.finished.store(true, Ordering::SeqCst);
        self.idle.notify_one();
        self.wakeups.close();
        self.connection.close();
        if left == 0 {
            return Ok(());
        }
        Err(Error::Unfinished {
            left,
            waited: self.closing_for(),
        })
    }
}

/// Tells the metrics every second how things stand, and once more at the end of the client.
#[cfg(feature = "metrics")]
async fn publish(core: std::sync::Weak<Core>) {
    while let Some(core) = core.upgrade() {
        core.stats.publish(&core.snapshot());
        let finished = core.is_finished();
        drop(core);
        if finished {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Wake, Waker};

    use super::*;
    use crate::sync::Mutex;

    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    /// Its waker may run anything, calls on the same object included.
    #[tokio::test]
    async fn a_shutdown_is_woken_when_the_last_object_is_unlocked() {
        let config = Config::new("redis://127.0.0.1:1");
        let core = Core::connect_lazy(config, None).expect("a valid URL");
        let object = Mutex::new(false);
        core.note_busy(&mut object.lock());
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut shutdown = pin!(core.shutdown(None));
        let polled = shutdown.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        let mut locked = object.lock();
        core.note_idle(&mut locked);
        assert!(!woken.0.load(Ordering::SeqCst));
        drop(locked);
        assert!(woken.0.load(Ordering::SeqCst));
        shutdown.await.unwrap();
    }
}
