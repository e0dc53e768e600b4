//! Something else for the server to do: a processor that falls asleep between scripts takes several times as long for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::Result;
use crate::meter::ServerUse;

/// To see what a `PING` costs.
const TRIAL: Duration = Duration::from_secs(1);

/// Asks one `PING` after the other, which takes some third of the server's processor, until it is dropped.
pub(crate) struct Pinger {
    count: Arc<AtomicU64>,
    micros_each: f64,
    task: JoinHandle<()>,
}

impl Pinger {
    /// Starts on a server that has nothing else to do for now.
    pub(crate) async fn start(redis: &mut MultiplexedConnection) -> Result<Pinger> {
        let count = Arc::new(AtomicU64::new(0));
        let task = tokio::spawn(ping(redis.clone(), Arc::clone(&count)));
        let mut pinger = Pinger {
            count,
            micros_each: 0.0,
            task,
        };
        let (before, pings) = (ServerUse::read(redis).await?, pinger.count());
        sleep(TRIAL).await;
        let (after, pings) = (ServerUse::read(redis).await?, pinger.count() - pings);
        pinger.micros_each = (after.cpu_micros - before.cpu_micros) as f64 / pings.max(1.0);
        Ok(pinger)
    }

    /// How often it has asked.
    pub(crate) fn count(&self) -> f64 {
        self.count.load(Ordering::Relaxed) as f64
    }

    /// What so many have cost the server.
    pub(crate) fn micros(&self, pings: f64) -> f64 {
        pings * self.micros_each
    }
}

impl Drop for Pinger {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn ping(mut redis: MultiplexedConnection, count: Arc<AtomicU64>) {
    while redis::cmd("PING")
        .query_async::<()>(&mut redis)
        .await
        .is_ok()
    {
        count.fetch_add(1, Ordering::Relaxed);
    }
}
