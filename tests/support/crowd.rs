//! Callers that come again as soon as they have been served, and their waiting times.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redisson_semaphore::{Client, Held, LeasedSemaphore, RLock, RSemaphore};
use tokio::task::JoinSet;

const PATIENCE: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(60);

/// An object that callers take in turn.
pub trait Turns: Clone + Send + Sync + 'static {
    type Held: Send;
    fn take(&self) -> impl Future<Output = Self::Held> + Send;
    fn give(&self, held: Self::Held) -> impl Future<Output = ()> + Send;
}

impl Turns for RSemaphore {
    type Held = ();

    async fn take(&self) {
        self.acquire(1).await.expect("acquired");
    }

    async fn give(&self, (): ()) {
        self.release(1).await.expect("released");
    }
}

impl Turns for Arc<dyn LeasedSemaphore> {
    type Held = Held;

    async fn take(&self) -> Held {
        self.acquire().await.expect("acquired")
    }

    async fn give(&self, held: Held) {
        assert!(self.release(held.id()).await.expect("released"));
    }
}

/// How a caller takes and releases the lock.
#[derive(Debug, Clone, Copy)]
pub enum Way {
    Lock,
    Timed,
    Leased,
    Reentrant,
    Fenced,
}

impl Turns for (RLock, Way) {
    type Held = ();

    async fn take(&self) {
        let (lock, way) = self;
        match way {
            Way::Lock | Way::Fenced => lock.lock().await.unwrap(),
            Way::Timed => assert!(lock.try_lock_for(PATIENCE / 2).await.unwrap(), "starved"),
            Way::Leased => lock.with_lease(LEASE).lock().await.unwrap(),
            Way::Reentrant => {
                lock.lock().await.unwrap();
                lock.lock().await.unwrap();
            }
        }
    }

    async fn give(&self, (): ()) {
        let (lock, way) = self;
        if let Way::Reentrant = way {
            lock.unlock().await.unwrap();
        }
        lock.unlock().await.unwrap();
    }
}

/// Callers at work.
#[derive(Debug)]
pub struct Crowd {
    callers: JoinSet<()>,
    stopped: Arc<AtomicBool>,
    tally: Arc<Mutex<Tally>>,
}

/// The waiting times of the callers that were served.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    pub waits: Vec<Duration>,
}

impl Crowd {
    /// Starts `callers` tasks.
    pub fn start(object: &impl Turns, callers: usize, hold: Duration) -> Crowd {
        Crowd::of(callers, hold, || object.clone())
    }

    /// Starts callers of one client, each with a lock handle of its own.
    pub fn of_locks(client: &Client, callers: usize, way: Way, hold: Duration) -> Crowd {
        Crowd::of(callers, hold, || {
            let lock = match way {
                Way::Fenced => client.fenced_lock("door").as_lock().clone(),
                _ => client.lock("door"),
            };
            (lock, way)
        })
    }

    fn of<T: Turns>(callers: usize, hold: Duration, object: impl Fn() -> T) -> Crowd {
        let stopped = Arc::<AtomicBool>::default();
        let tally = Arc::<Mutex<Tally>>::default();
        let mut tasks = JoinSet::new();
        for _ in 0..callers {
            let (object, stopped, tally) = (object(), Arc::clone(&stopped), Arc::clone(&tally));
            tasks.spawn(async move {
                while !stopped.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    let held = object.take().await;
                    let waited = began.elapsed();
                    tally.lock().expect("never poisoned").waits.push(waited);
                    if hold > Duration::ZERO {
                        tokio::time::sleep(hold).await;
                    }
                    object.give(held).await;
                }
            });
        }
        Crowd {
            callers: tasks,
            stopped,
            tally,
        }
    }

    /// How many callers have been served since the last [`take`](Self::take).
    pub fn served(&self) -> usize {
        self.tally.lock().expect("never poisoned").waits.len()
    }

    /// Takes the tally since the last call.
    pub fn take(&self) -> Tally {
        std::mem::take(&mut self.tally.lock().expect("never poisoned"))
    }

    /// Waits until `count` more callers have been served.
    pub async fn until_served(&self, count: usize) {
        let goal = self.served() + count;
        let what = format!("{count} callers more are served");
        super::waiters::until(&what, PATIENCE, async || self.served() >= goal).await;
    }

    /// Lets all callers finish their turn. Returns the tally since the last `take`.
    pub async fn stop(mut self) -> Tally {
        self.stopped.store(true, Ordering::Relaxed);
        while let Some(caller) = self.callers.join_next().await {
            caller.expect("no caller panics");
        }
        self.take()
    }
}

impl Tally {
    pub fn count(&self) -> usize {
        self.waits.len()
    }

    pub fn mean(&self) -> Duration {
        self.waits.iter().sum::<Duration>() / u32::try_from(self.count().max(1)).expect("few")
    }

    /// The wait that `percent` percent of the waits do not exceed.
    pub fn percentile(&self, percent: usize) -> Duration {
        let mut waits = self.waits.clone();
        waits.sort_unstable();
        let rank = (waits.len() * percent).div_ceil(100);
        waits.get(rank.max(1) - 1).copied().unwrap_or_default()
    }

    pub fn max(&self) -> Duration {
        self.waits.iter().max().copied().unwrap_or_default()
    }
}
