//! The picture of the workers at one moment.

use std::time::Duration;

use crate::crowd::{DURATION, LIMIT, WORKERS};
use crate::gauge::Reading;
use crate::ledger::{Doing, Ledger, Side, Worker};
use crate::view::{BOLD, CYAN, DIM, YELLOW, paint};

/// A point in time, and what the server said then.
pub(crate) struct Moment {
    /// In microseconds since 1970.
    pub(crate) at: u64,
    /// The time since the workers began.
    pub(crate) passed: Duration,
    pub(crate) reading: Reading,
}

/// One line.
pub(crate) fn short(moment: &Moment, ledger: &Ledger) -> String {
    format!(
        "  {:4.1} s  Rust: {} hold, {} turns  Java: {} hold, {} turns  available {}, most {}",
        moment.passed.as_secs_f64(),
        ledger.holders(Side::Rust),
        ledger.turns(Side::Rust),
        ledger.holders(Side::Java),
        ledger.turns(Side::Java),
        moment.reading.available,
        moment.reading.most,
    )
}

/// A line for each pair of workers, and the sums above; not wider than 79 characters.
pub(crate) fn full(moment: &Moment, ledger: &Ledger) -> Vec<String> {
    let (rust, java) = (ledger.holders(Side::Rust), ledger.holders(Side::Java));
    let free = (LIMIT as usize).saturating_sub(rust + java);
    let slots = [
        paint(YELLOW, &"R ".repeat(rust)),
        paint(CYAN, &"J ".repeat(java)),
        paint(DIM, &". ".repeat(free)),
    ];
    let mut lines = vec![
        format!(
            "  [ {}]  available {}, most held at once {} of {LIMIT}   {:4.1} of {} s",
            slots.concat(),
            moment.reading.available,
            moment.reading.most,
            moment.passed.as_secs_f64(),
            DURATION.as_secs(),
        ),
        String::new(),
        format!(
            "  {}{}",
            paint(BOLD, &heading("Rust tasks", rust, ledger.turns(Side::Rust))),
            paint(
                BOLD,
                &heading("Java threads", java, ledger.turns(Side::Java))
            ),
        ),
    ];
    for number in 0..WORKERS {
        lines.push(format!(
            "  {}{}",
            cell(
                number,
                &ledger.workers(Side::Rust)[number],
                YELLOW,
                moment.at
            ),
            cell(number, &ledger.workers(Side::Java)[number], CYAN, moment.at),
        ));
    }
    lines
}

const CELL: usize = 38;

fn heading(side: &str, holders: usize, turns: u64) -> String {
    let text = format!("{side}: {holders} hold, {turns} turns");
    format!("{text:CELL$}")
}

fn cell(number: usize, worker: &Worker, colour: &str, moment: u64) -> String {
    let millis = moment.saturating_sub(worker.since) / 1000;
    let (style, doing) = match worker.doing {
        Doing::Nothing => (DIM, String::new()),
        Doing::Waiting => (DIM, format!("waits {millis:4} ms")),
        Doing::Holding => (colour, format!("HOLDS {millis:4} ms")),
    };
    let text = format!("{:2}  {doing:16}{:4} turns", number + 1, worker.turns);
    paint(style, &format!("{text:CELL$}"))
}
