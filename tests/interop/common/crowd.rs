//! Rust callers for a crowd of both sides: each loops over acquire, hold, release until it is told to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, Permit, RSemaphore};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::world::World;

/// The permits held by all processes together, counted in a Redis hash as the Java peer does: `now`, and
/// `max`, the most that there ever were.
#[derive(Clone)]
pub struct Gauge {
    key: &'static str,
    redis: MultiplexedConnection,
}

const ADD: &str = r"
local now = redis.call('HINCRBY', KEYS[1], 'now', ARGV[1])
if now > tonumber(redis.call('HGET', KEYS[1], 'max') or 0) then
  redis.call('HSET', KEYS[1], 'max', now)
end";

impl Gauge {
    pub fn new(world: &World, key: &'static str) -> Gauge {
        Gauge {
            key,
            redis: world.redis.clone(),
        }
    }

    /// After permits were got; with a negative number before they are given back.
    pub async fn add(&mut self, permits: i64) {
        let () = redis::cmd("EVAL")
            .arg(ADD)
            .arg(1)
            .arg(self.key)
            .arg(permits)
            .query_async(&mut self.redis)
            .await
            .expect("the server runs");
    }

    /// `now` and `max`.
    pub async fn read(&mut self) -> (i64, i64) {
        let read: (Option<i64>, Option<i64>) = self
            .redis
            .hmget(self.key, &["now", "max"])
            .await
            .expect("the server runs");
        (read.0.unwrap_or(0), read.1.unwrap_or(0))
    }
}

/// What one caller has done.
#[derive(Debug, Default, Clone, Copy)]
pub struct Done {
    pub held: u64,
    /// Futures dropped in the middle of an acquisition.
    pub cancelled: u64,
    /// Acquisitions that ran out of their own waiting time.
    pub in_vain: u64,
}

pub struct RustCrowd {
    stop: Arc<AtomicBool>,
    /// How often each caller has held permits, until now.
    held: Vec<Arc<AtomicU64>>,
    callers: Vec<JoinHandle<Done>>,
}

impl RustCrowd {
    /// Starts `callers` tasks that want 1 to `most` permits each time, and hold them for up to `hold`.
    pub fn start(
        client: &Client,
        name: &str,
        gauge: &Gauge,
        callers: usize,
        most: u32,
        hold: Duration,
    ) -> RustCrowd {
        let stop = Arc::new(AtomicBool::new(false));
        let held: Vec<_> = (0..callers).map(|_| Arc::default()).collect();
        let callers = held.iter().enumerate().map(|(number, held)| {
            let caller = Caller {
                held: Arc::clone(held),
                semaphore: client.semaphore(name),
                gauge: gauge.clone(),
                stop: Arc::clone(&stop),
                most,
                hold,
                // Some wait as long as it takes, some have their time, some are cancelled.
                kind: number % 3,
            };
            tokio::spawn(caller.run())
        });
        RustCrowd {
            callers: callers.collect(),
            stop,
            held,
        }
    }

    /// Whether each caller has held permits so often.
    pub fn each_held(&self, times: u64) -> bool {
        self.held
            .iter()
            .all(|held| held.load(Ordering::Relaxed) >= times)
    }

    /// Lets all of them finish their turn.
    pub async fn finish(self) -> Vec<Done> {
        self.stop.store(true, Ordering::Relaxed);
        let mut done = Vec::new();
        for caller in self.callers {
            done.push(caller.await.expect("a caller does not panic"));
        }
        done
    }
}

struct Caller {
    semaphore: RSemaphore,
    gauge: Gauge,
    stop: Arc<AtomicBool>,
    held: Arc<AtomicU64>,
    most: u32,
    hold: Duration,
    kind: usize,
}

impl Caller {
    async fn run(mut self) -> Done {
        let mut done = Done::default();
        while !self.stop.load(Ordering::Relaxed) {
            let permits = fastrand::u32(1..=self.most);
            let patience = Duration::from_micros(fastrand::u64(0..20_000));
            let guard: Option<Permit> = match self.kind {
                0 => Some(
                    self.semaphore
                        .permit(permits)
                        .await
                        .expect("the server runs"),
                ),
                1 => {
                    let guard = self.semaphore.permit_for(permits, patience).await;
                    guard.expect("the server runs").or_else(|| {
                        done.in_vain += 1;
                        None
                    })
                }
                _ => match timeout(patience, self.semaphore.permit(permits)).await {
                    Ok(guard) => Some(guard.expect("the server runs")),
                    Err(_) => {
                        done.cancelled += 1;
                        None
                    }
                },
            };
            let Some(guard) = guard else { continue };
            self.gauge.add(permits.into()).await;
            tokio::time::sleep(self.hold.mul_f64(fastrand::f64())).await;
            self.gauge.add(-i64::from(permits)).await;
            self.held.fetch_add(1, Ordering::Relaxed);
            if fastrand::bool() {
                guard.release().await.expect("the server runs");
            } else {
                drop(guard);
            }
        }
        done.held = self.held.load(Ordering::Relaxed);
        done
    }
}
