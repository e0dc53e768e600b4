//! Rust tasks and Java threads that compete for the permits of one semaphore.

use std::time::Duration;

use redisson_semaphore::RSemaphore;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use crate::board::{Moment, full, short};
use crate::gauge::Gauge;
use crate::ledger::{Doing, Event, Ledger, Side};
use crate::stage::{KEYS_LIVE, Stage};
use crate::view::View;
use crate::{Result, java, now_micros};

pub(crate) const LIMIT: u32 = 8;
pub(crate) const WORKERS: usize = 12;
pub(crate) const DURATION: Duration = Duration::from_secs(12);
const HOLD_MILLIS: (u64, u64) = (20, 120);
const FRAME: Duration = Duration::from_millis(100);
/// After the end every worker finishes its turn. A worker that waits longer than this has been forgotten.
const LAST_TURN: Duration = Duration::from_secs(20);

/// The outcome.
pub(crate) struct Crowd {
    pub(crate) took: Duration,
    pub(crate) rust: u64,
    pub(crate) java: u64,
    pub(crate) most_held: i64,
    pub(crate) held_at_end: i64,
    pub(crate) available_at_end: i64,
}

pub(crate) async fn compete(stage: &mut Stage, view: &mut View) -> Result<Crowd> {
    let semaphore = stage.client.semaphore(&stage.names.crowd);
    semaphore.try_set_permits_for(LIMIT, KEYS_LIVE).await?;
    let mut gauge = Gauge::create(&stage.control, &stage.names.gauge, semaphore.name()).await?;
    view.line(&format!(
"Crowd: {WORKERS} Rust tasks, {WORKERS} Java threads, {LIMIT} permits; each holds one for {}-{} ms",
        HOLD_MILLIS.0, HOLD_MILLIS.1
    ))?;

    let began = Instant::now();
    let (stop, stopping) = watch::channel(false);
    let (tell, mut told) = mpsc::unbounded_channel();
    for number in 0..WORKERS {
        stage.workers.spawn(work(Worker {
            number,
            semaphore: semaphore.clone(),
            gauge: gauge.clone(),
            tell: tell.clone(),
            stopping: stopping.clone(),
        }));
    }
    let started = stage.java.begin(
        "workers",
        json!({
            "name": semaphore.name(), "threads": WORKERS, "permits": 1, "gauge": stage.names.gauge,
            "holdMillisMin": HOLD_MILLIS.0, "holdMillisMax": HOLD_MILLIS.1,
        }),
    );
    java::answer(started, "starting the Java threads").await?;

    let mut ledger = Ledger::new(WORKERS);
    let mut frames = interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Each frame shows the moment of the frame before it: by now both sides have reported their events of that moment.
    let mut last: Option<Moment> = None;
    let (mut rust, mut java, mut java_stops) = (0, None, None);
    while java.is_none() || !stage.workers.is_empty() {
        tokio::select! {
            event = stage.java.event() => {
                ledger.note(Event::of_java(&event.ok_or("the JVM has ended")?)?);
            }
            Some(event) = told.recv() => ledger.note(event),
            Some(turns) = stage.workers.join_next() => rust += turns??,
            () = sleep_until(began + DURATION), if java_stops.is_none() => {
                stop.send_replace(true);
                java_stops = Some(stage.java.begin("stopWorkers", json!({})));
            }
            answer = async { java_stops.as_mut().expect("asked before").await },
                if java_stops.is_some() && java.is_none() =>
            {
                java = Some(answer?.value.as_u64().unwrap_or(0));
            }
            _ = frames.tick() => {
                let reading = gauge.read().await?;
                let moment = Moment { at: now_micros(), passed: began.elapsed(), reading };
                if let Some(moment) = last.replace(moment) {
                    ledger.settle(moment.at);
                    view.show(|| full(&moment, &ledger), || short(&moment, &ledger))?;
                }
            }
            () = sleep_until(began + DURATION + LAST_TURN) => {
                return Err(stuck(&mut ledger).into());
            }
        }
    }
    view.clear()?;
    let took = began.elapsed();
    let reading = gauge.read().await?;
    Ok(Crowd {
        took,
        rust,
        java: java.unwrap_or(0),
        most_held: reading.most,
        held_at_end: reading.held,
        available_at_end: reading.available,
    })
}

/// The needs of one Rust task.
struct Worker {
    number: usize,
    semaphore: RSemaphore,
    gauge: Gauge,
    tell: mpsc::UnboundedSender<Event>,
    stopping: watch::Receiver<bool>,
}

/// Acquire, hold, release, until it is time to stop; returns the number of turns.
async fn work(mut worker: Worker) -> Result<u64> {
    let tell = |doing| {
        let event = Event {
            at: now_micros(),
            side: Side::Rust,
            worker: worker.number,
            doing,
        };
        // The receiver is gone when the demo has been interrupted.
        let _ = worker.tell.send(event);
    };
    let mut turns = 0;
    while !*worker.stopping.borrow() {
        tell(Doing::Waiting);
        let permit = worker.semaphore.permit(1).await?;
        turns += 1;
        tell(Doing::Holding);
        worker.gauge.add(1).await?;
        sleep(Duration::from_millis(fastrand::u64(
            HOLD_MILLIS.0..=HOLD_MILLIS.1,
        )))
        .await;
        worker.gauge.add(-1).await?;
        tell(Doing::Nothing);
        permit.release().await?;
    }
    Ok(turns)
}

fn stuck(ledger: &mut Ledger) -> String {
    ledger.settle(u64::MAX);
    let waiting = |side| {
        let workers = ledger.workers(side).iter();
        workers
            .filter(|worker| worker.doing == Doing::Waiting)
            .count()
    };
    format!(
        "{LAST_TURN:?} after the end {} Rust tasks and {} Java threads still wait for a permit",
        waiting(Side::Rust),
        waiting(Side::Java)
    )
}
