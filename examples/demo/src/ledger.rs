//! The waiters and holders, by the events of both sides.
//!
//! Events of the JVM arrive later than they happened, so all are put in order by their times before they
//! count. As a caller says "held" after acquiring and "released" before releasing, on the clock of one
//! machine, a settled ledger never shows more holders than there are permits.

use serde_json::Value;

use crate::{Error, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Rust,
    Java,
}

/// In the order in which things of the same moment happen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Doing {
    #[default]
    Nothing,
    Waiting,
    Holding,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    /// In microseconds since 1970.
    pub(crate) at: u64,
    pub(crate) side: Side,
    /// Counted from 0 on each side.
    pub(crate) worker: usize,
    pub(crate) doing: Doing,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Worker {
    pub(crate) doing: Doing,
    pub(crate) since: u64,
    pub(crate) turns: u64,
}

pub(crate) struct Ledger {
    unsettled: Vec<Event>,
    rust: Vec<Worker>,
    java: Vec<Worker>,
}

impl Event {
    /// The Java peer's lines about its workers.
    pub(crate) fn of_java(told: &Value) -> Result<Event> {
        let doing = match told["event"].as_str() {
            Some("waiting") => Doing::Waiting,
            Some("held") => Doing::Holding,
            Some("released") => Doing::Nothing,
            _ => return Err(format!("the JVM says {told}").into()),
        };
        let number = |field: &str| {
            told[field]
                .as_u64()
                .ok_or_else(|| Error::from(format!("no {field} in {told}")))
        };
        Ok(Event {
            at: number("at")?,
            side: Side::Java,
            worker: number("worker")? as usize - 1,
            doing,
        })
    }
}

impl Ledger {
    pub(crate) fn new(workers: usize) -> Ledger {
        Ledger {
            unsettled: Vec::new(),
            rust: vec![Worker::default(); workers],
            java: vec![Worker::default(); workers],
        }
    }

    pub(crate) fn note(&mut self, event: Event) {
        self.unsettled.push(event);
    }

    /// Brings the workers up to a moment.
    pub(crate) fn settle(&mut self, moment: u64) {
        self.unsettled.sort_by_key(|event| (event.at, event.doing));
        let due = self.unsettled.partition_point(|event| event.at <= moment);
        for event in self.unsettled.drain(..due) {
            let side = match event.side {
                Side::Rust => &mut self.rust,
                Side::Java => &mut self.java,
            };
            let Some(worker) = side.get_mut(event.worker) else {
                continue;
            };
            worker.doing = event.doing;
            worker.since = event.at;
            worker.turns += u64::from(event.doing == Doing::Holding);
        }
    }

    pub(crate) fn workers(&self, side: Side) -> &[Worker] {
        match side {
            Side::Rust => &self.rust,
            Side::Java => &self.java,
        }
    }

    pub(crate) fn holders(&self, side: Side) -> usize {
        self.workers(side)
            .iter()
            .filter(|worker| worker.doing == Doing::Holding)
            .count()
    }

    pub(crate) fn turns(&self, side: Side) -> u64 {
        self.workers(side).iter().map(|worker| worker.turns).sum()
    }
}
