//! Callers that come again as soon as they have been served.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use redisson_semaphore::{Held, LeasedSemaphore, RLock, RSemaphore};
use tokio::task::JoinSet;

const PATIENCE: Duration = Duration::from_secs(60);

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

impl Turns for RLock {
    type Held = ();

    async fn take(&self) {
        self.lock().await.expect("locked");
    }

    async fn give(&self, (): ()) {
        self.unlock().await.expect("unlocked");
    }
}

/// Callers at work.
#[derive(Debug)]
pub struct Crowd {
    callers: JoinSet<()>,
    stopped: Arc<AtomicBool>,
    served: Arc<AtomicUsize>,
}

impl Crowd {
    /// Starts a task for each of these objects.
    pub fn start<T: Turns>(objects: impl IntoIterator<Item = T>, hold: Duration) -> Crowd {
        let stopped = Arc::<AtomicBool>::default();
        let served = Arc::<AtomicUsize>::default();
        let mut callers = JoinSet::new();
        for object in objects {
            let (stopped, served) = (Arc::clone(&stopped), Arc::clone(&served));
            callers.spawn(async move {
                while !stopped.load(Ordering::Relaxed) {
                    let held = object.take().await;
                    served.fetch_add(1, Ordering::Relaxed);
                    if hold > Duration::ZERO {
                        tokio::time::sleep(hold).await;
                    }
                    object.give(held).await;
                }
            });
        }
        Crowd {
            callers,
            stopped,
            served,
        }
    }

    pub fn served(&self) -> usize {
        self.served.load(Ordering::Relaxed)
    }

    /// Waits until `count` more callers have been served.
    pub async fn until_served(&self, count: usize) {
        let goal = self.served() + count;
        let what = format!("{count} callers more are served");
        super::waiters::until(&what, PATIENCE, async || self.served() >= goal).await;
    }

    /// Lets all callers finish their turn.
    pub async fn stop(mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        while let Some(caller) = self.callers.join_next().await {
            caller.expect("no caller panics");
        }
    }
}
