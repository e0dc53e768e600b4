//! Many callers at once, each in a loop of acquire, hold, release.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::Semaphore;
use crate::Result;
use crate::waits::Waits;

#[derive(Clone, Copy)]
pub(crate) struct Order {
    /// How many permits each caller takes at a time.
    pub(crate) permits: u32,
    pub(crate) time: Duration,
    pub(crate) hold: Duration,
}

/// The observations of one caller.
#[derive(Default)]
struct Tally {
    waits: Vec<u32>,
    /// The turns within the time; the last turn counts in part.
    turns: f64,
    /// How long the caller held its permits within the time.
    held: Duration,
}

/// Runs one caller for each semaphore and answers as the Java peer's `crowd` command does, with the turns of the caller
/// that had the fewest. `grants` counts all grants.
pub(crate) async fn run<S: Semaphore>(
    semaphores: Vec<S>,
    order: Order,
    grants: &Arc<AtomicU64>,
) -> Result<Value> {
    let began = Instant::now();
    let end = began + order.time;
    let mut callers = JoinSet::new();
    for semaphore in semaphores {
        callers.spawn(call(semaphore, end, order, Arc::clone(grants)));
    }
    let mut waits = Waits::default();
    let (mut turns, mut least, mut held) = (0.0, f64::INFINITY, Duration::ZERO);
    while let Some(tally) = callers.join_next().await {
        let tally = tally??;
        turns += tally.turns;
        least = tally.turns.min(least);
        held += tally.held;
        for micros in tally.waits {
            waits.add(micros.into());
        }
    }
    Ok(json!({
        "acquisitions": waits.count(),
        "inTime": turns,
        "leastInTime": least,
        "heldMicros": held.as_micros() as u64,
        "waits": waits.to_json(),
        "millis": began.elapsed().as_millis() as u64,
    }))
}

async fn call<S: Semaphore>(
    semaphore: S,
    end: Instant,
    order: Order,
    grants: Arc<AtomicU64>,
) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut began = Instant::now();
    while began < end {
        semaphore.acquire(order.permits).await?;
        let got = Instant::now();
        grants.fetch_add(1, Ordering::Relaxed);
        let wait = (got - began).as_micros();
        tally.waits.push(u32::try_from(wait).unwrap_or(u32::MAX));
        if !order.hold.is_zero() {
            tokio::time::sleep(order.hold).await;
            tally.held += Instant::now().min(end).saturating_duration_since(got);
        }
        semaphore.release(order.permits).await?;
        let ended = Instant::now();
        tally.turns += if ended <= end {
            1.0
        } else {
            (end - began).as_secs_f64() / (ended - began).as_secs_f64()
        };
        began = ended;
    }
    Ok(tally)
}
