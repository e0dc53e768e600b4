//! Callers of a lock that come again as soon as they have been served.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redisson_semaphore::{Client, RLock};
use tokio::task::JoinSet;

const LIMIT: Duration = Duration::from_secs(30);
const LEASE: Duration = Duration::from_secs(60);

/// How a caller takes the lock and gives it back.
#[derive(Debug, Clone, Copy)]
pub enum Way {
    Lock,
    Timed,
    Leased,
    Reentrant,
    Fenced,
}

impl Way {
    async fn turn(self, lock: &RLock, hold: Duration) {
        match self {
            Way::Lock | Way::Fenced => lock.lock().await.unwrap(),
            Way::Timed => assert!(lock.try_lock_for(LIMIT).await.unwrap(), "starved"),
            Way::Leased => lock.with_lease(LEASE).lock().await.unwrap(),
            Way::Reentrant => {
                lock.lock().await.unwrap();
                lock.lock().await.unwrap();
            }
        }
        if hold > Duration::ZERO {
            tokio::time::sleep(hold).await;
        }
        if let Way::Reentrant = self {
            lock.unlock().await.unwrap();
        }
        lock.unlock().await.unwrap();
    }
}

/// Callers of one client at work: they come again as soon as they have been served.
pub struct LockCrowd {
    callers: JoinSet<()>,
    stopped: Arc<AtomicBool>,
    grants: Arc<AtomicU64>,
    longest_wait: Arc<AtomicU64>,
}

impl LockCrowd {
    pub fn start(client: &Client, callers: usize, way: Way, hold: Duration) -> LockCrowd {
        let mut tasks = JoinSet::new();
        let stopped = Arc::<AtomicBool>::default();
        let (grants, longest_wait) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        for _ in 0..callers {
            let lock = match way {
                Way::Fenced => client.fenced_lock("door").as_lock().clone(),
                _ => client.lock("door"),
            };
            let (grants, longest_wait) = (Arc::clone(&grants), Arc::clone(&longest_wait));
            let stopped = Arc::clone(&stopped);
            tasks.spawn(async move {
                while !stopped.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    way.turn(&lock, hold).await;
                    grants.fetch_add(1, Ordering::Relaxed);
                    let waited = began.elapsed().saturating_sub(hold).as_millis();
                    longest_wait.fetch_max(waited as u64, Ordering::Relaxed);
                }
            });
        }
        LockCrowd {
            callers: tasks,
            stopped,
            grants,
            longest_wait,
        }
    }

    pub fn grants(&self) -> u64 {
        self.grants.load(Ordering::Relaxed)
    }

    /// The longest that anybody has waited, and then been served.
    pub fn longest_wait(&self) -> Duration {
        Duration::from_millis(self.longest_wait.load(Ordering::Relaxed))
    }

    /// Lets all finish their turn.
    pub async fn stop(mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        while let Some(caller) = self.callers.join_next().await {
            caller.expect("no caller panics");
        }
    }
}
