//! What all processes have told so far.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::GROUPS;
use crate::journal::{Line, Step, now};
use crate::ledger::{Ledger, Peak, group_of};

/// A moment is settled when it is this long past, in microseconds.
const WELL_PAST: u64 = 5_000_000;

/// Longer than any fault of the run lasts and any way to notice it takes.
pub(crate) const HUNG: Duration = Duration::from_secs(20);

/// How a process stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Works,
    /// By the driver.
    Killed,
    /// In good order.
    Ended,
    /// By itself, or by a panic.
    Died,
}

/// One Rust process.
#[derive(Debug)]
pub(crate) struct Process {
    /// Where it stands in the ring.
    pub(crate) place: usize,
    pub(crate) client: Option<String>,
    pub(crate) ledger: Ledger,
    pub(crate) standing: Standing,
    /// The server is back since then, and this process has not got anything yet.
    recovering_since: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Entries {
    pub(crate) processes: Vec<Process>,
    /// The JVM that works now and those before it.
    pub(crate) java: Ledger,
    pub(crate) peaks: HashMap<&'static [&'static str], Peak>,
    /// How long each process took to its next grant after the server was back, in microseconds.
    pub(crate) recoveries: Vec<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Books(Mutex<Entries>);

impl Books {
    pub(crate) fn open(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().expect("no panic under this lock")
    }

    /// A new process; returns its number.
    pub(crate) fn begin(&self, place: usize) -> usize {
        let mut entries = self.open();
        entries.processes.push(Process {
            place,
            client: None,
            ledger: Ledger::default(),
            standing: Standing::Works,
            recovering_since: None,
        });
        entries.processes.len() - 1
    }

    pub(crate) fn enter(&self, process: usize, line: Line) {
        let mut entries = self.open();
        match line {
            Line::Client(id) => entries.processes[process].client = Some(id),
            Line::End => entries.processes[process].standing = Standing::Ended,
            Line::Step { at, caller, step } => {
                let Process {
                    ledger,
                    recovering_since,
                    ..
                } = &mut entries.processes[process];
                let change = ledger.enter(at, caller, &step);
                let recovered = match step {
                    Step::Got(_) => recovering_since.take_if(|since| *since <= at),
                    _ => None,
                };
                entries.recoveries.extend(recovered.map(|since| at - since));
                entries.note_change(at, caller, change);
            }
        }
    }

    pub(crate) fn enter_java(&self, at: u64, thread: usize, step: &Step) {
        let mut entries = self.open();
        let change = entries.java.enter(at, thread, step);
        entries.note_change(at, thread, change);
    }

    /// The process has ended, and its journal has been read to the end.
    pub(crate) fn ended(&self, process: usize, killed: bool) {
        let mut entries = self.open();
        let Process {
            ledger, standing, ..
        } = &mut entries.processes[process];
        if *standing == Standing::Works {
            *standing = if killed {
                Standing::Killed
            } else {
                Standing::Died
            };
        }
        // What it held is given back later than this.
        let held = GROUPS.map(|(group, _)| (group, ledger.held(group).surely));
        let at = now();
        for (group, surely) in held {
            entries.peaks.entry(group).or_default().enter(at, -surely);
        }
    }

    /// The server answers again.
    pub(crate) fn server_is_back(&self) {
        let at = now();
        for process in &mut self.open().processes {
            if process.standing == Standing::Works && process.client.is_some() {
                process.recovering_since = Some(at);
            }
        }
    }

    /// Whether somebody has not got anything since then.
    pub(crate) fn somebody_recovers(&self) -> bool {
        let entries = self.open();
        let mut works = entries
            .processes
            .iter()
            .filter(|p| p.standing == Standing::Works);
        works.any(|process| process.recovering_since.is_some())
    }

    /// Waits until the ring's permit has been everywhere; how many processes it has not come to.
    pub(crate) async fn until_the_ring_has_turned(&self) -> usize {
        let since = now();
        let end = Instant::now() + HUNG;
        let not_reached = || {
            let entries = self.open();
            let waits = |p: &&Process| p.standing == Standing::Works && p.ledger.ring_got < since;
            entries.processes.iter().filter(waits).count()
        };
        loop {
            let waiting = not_reached();
            if waiting == 0 || Instant::now() > end {
                return waiting;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Looks at moments that are past: all of them, if nobody tells anything any more.
    pub(crate) fn settle(&self, all: bool) {
        let until = if all { u64::MAX } else { now() - WELL_PAST };
        for peak in self.open().peaks.values_mut() {
            peak.settle(until);
        }
    }
}

impl Entries {
    fn note_change(&mut self, at: u64, caller: usize, change: i64) {
        let peak = self.peaks.entry(group_of(caller)).or_default();
        peak.enter(at, change);
    }

    pub(crate) fn turns(&self) -> u64 {
        self.processes.iter().map(|p| p.ledger.turns).sum()
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.processes.iter().map(|p| p.ledger.dropped).sum()
    }

    pub(crate) fn errors(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for process in &self.processes {
            for (error, count) in &process.ledger.errors {
                *all.entry(error.clone()).or_default() += count;
            }
        }
        all
    }
}
