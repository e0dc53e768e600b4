//! How long after a release on one side a caller on the other side has its permit.
//!
//! One side is parked in `acquire` on an empty semaphore, the other releases. The time runs from just before
//! the release is called until just after the acquire has returned, on the clock of this one machine: it
//! holds both libraries, two trips to the server and the waking of a thread.

use std::pin::pin;
use std::time::Duration;

use redisson_semaphore::RSemaphore;
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::ledger::Side;
use crate::report::millis;
use crate::stage::{KEYS_LIVE, Stage};
use crate::view::View;
use crate::{Result, java, now_micros};

const ROUNDS: usize = 200;
/// Both sides run the code a few times first.
const WARM_UP: usize = 20;
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct WakeUps {
    pub(crate) rust_to_java: Times,
    pub(crate) java_to_rust: Times,
}

/// Sorted times in microseconds.
pub(crate) struct Times(Vec<u64>);

impl Times {
    /// The time that `percent` of all did not exceed.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        Duration::from_micros(self.0[rank - 1])
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

/// Both directions, one after the other.
pub(crate) async fn measure(stage: &mut Stage, view: &mut View) -> Result<WakeUps> {
    let semaphore = stage.client.semaphore(&stage.names.wakeups);
    semaphore.try_set_permits_for(0, KEYS_LIVE).await?;
    view.line(&format!(
        "Wake-ups: one side waits, the other releases, {ROUNDS} times each way"
    ))?;
    Ok(WakeUps {
        rust_to_java: rounds(stage, view, &semaphore, Side::Java).await?,
        java_to_rust: rounds(stage, view, &semaphore, Side::Rust).await?,
    })
}

/// All rounds of one direction; `woken` is the side that waits.
async fn rounds(
    stage: &mut Stage,
    view: &mut View,
    semaphore: &RSemaphore,
    woken: Side,
) -> Result<Times> {
    let direction = match woken {
        Side::Java => "Rust -> Java",
        Side::Rust => "Java -> Rust",
    };
    let mut times = Vec::with_capacity(ROUNDS);
    for round in 0..WARM_UP + ROUNDS {
        let time = match woken {
            Side::Java => wake_java(stage, semaphore).await,
            Side::Rust => wake_rust(stage, semaphore).await,
        };
        let time = time.map_err(|error| format!("{direction}, round {}: {error}", round + 1))?;
        if round >= WARM_UP {
            times.push(time);
        }
        view.progress(|| format!("  {direction}  {} of {ROUNDS}", times.len()))?;
    }
    times.sort_unstable();
    let times = Times(times);
    view.line(&format!(
        "  {direction}  p50 {}, p99 {}",
        millis(times.percentile(50)),
        millis(times.percentile(99))
    ))?;
    Ok(times)
}

/// Rust has never waited yet, so the channel's only listener is the Java caller: it listens while it waits.
async fn wake_java(stage: &mut Stage, semaphore: &RSemaphore) -> Result<u64> {
    let channel = format!("redisson_sc:{{{}}}", semaphore.name());
    let waiter = stage
        .java
        .begin("acquire", json!({ "name": semaphore.name() }));
    stage.control.until_listeners(&channel, 1).await;
    pause().await;
    let released = now_micros();
    semaphore.release(1).await?;
    let woken = java::answer(waiter, "acquire in Java").await?.ended;
    stage.control.until_listeners(&channel, 0).await;
    Ok(woken.saturating_sub(released))
}

/// The calls of one client take effect in their order: when the second call is answered, the first one has
/// found no permit and waits.
async fn wake_rust(stage: &mut Stage, semaphore: &RSemaphore) -> Result<u64> {
    let channel = format!("redisson_sc:{{{}}}", semaphore.name());
    let mut waiter = pin!(semaphore.acquire(1));
    let parked = async {
        let available = semaphore.available_permits().await?;
        stage.control.until_listeners(&channel, 1).await;
        pause().await;
        Ok(available)
    };
    let available: redisson_semaphore::Result<i64> = tokio::select! {
        biased;
        _ = &mut waiter => return Err("a permit was there before one was released".into()),
        available = parked => available,
    };
    if available? != 0 {
        return Err("the semaphore is not empty".into());
    }
    let release = stage
        .java
        .begin("release", json!({ "name": semaphore.name() }));
    match timeout(PATIENCE, waiter).await {
        Ok(acquired) => acquired?,
        Err(_) => return Err(format!("acquire in Rust was not woken within {PATIENCE:?}").into()),
    }
    let woken = now_micros();
    let released = java::answer(release, "release in Java").await?.began;
    Ok(woken.saturating_sub(released))
}

/// Lets the waiter come to rest; of varying length, so that the rounds don't fall into step with anything.
async fn pause() {
    sleep(Duration::from_micros(fastrand::u64(3_000..7_000))).await;
}
