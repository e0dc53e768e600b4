//! Callers of a semaphore that loop over acquire, hold, release, and note how long they waited.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redisson_semaphore::RSemaphore;
use tokio::sync::watch;
use tokio::task::JoinSet;

const PATIENCE: Duration = Duration::from_secs(60);

/// Callers at work.
#[derive(Debug)]
pub struct Crowd {
    callers: JoinSet<()>,
    stop: watch::Sender<bool>,
    tally: Arc<Mutex<Tally>>,
}

/// How long those waited who were served.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    pub waits: Vec<Duration>,
}

impl Crowd {
    /// Lets `callers` tasks work, each taking `permits` at a time.
    pub fn start(semaphore: &RSemaphore, callers: usize, permits: u32, hold: Duration) -> Crowd {
        let (stop, stopped) = watch::channel(false);
        let tally = Arc::new(Mutex::new(Tally::default()));
        let mut tasks = JoinSet::new();
        for _ in 0..callers {
            let (semaphore, stopped, tally) =
                (semaphore.clone(), stopped.clone(), Arc::clone(&tally));
            tasks.spawn(async move {
                while !*stopped.borrow() {
                    let began = Instant::now();
                    semaphore.acquire(permits).await.expect("acquired");
                    let waited = began.elapsed();
                    tally.lock().expect("never poisoned").waits.push(waited);
                    tokio::time::sleep(hold).await;
                    semaphore.release(permits).await.expect("released");
                }
            });
        }
        Crowd {
            callers: tasks,
            stop,
            tally,
        }
    }

    /// How many have been served so far.
    pub fn served(&self) -> usize {
        self.tally.lock().expect("never poisoned").waits.len()
    }

    /// What has happened since the last call.
    pub fn take(&self) -> Tally {
        std::mem::take(&mut self.tally.lock().expect("never poisoned"))
    }

    /// Returns when so many have been served from now on.
    pub async fn until_served(&self, count: usize) {
        let goal = self.served() + count;
        let what = format!("{count} callers more are served");
        super::waiters::until(&what, PATIENCE, async || self.served() >= goal).await;
    }

    /// Lets all finish their turn; what has happened since the last `take`.
    pub async fn stop(mut self) -> Tally {
        self.stop.send_replace(true);
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

    /// The wait that so many percent do not exceed.
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
