//! The reports of all processes so far: a line before each request of a caller, and a line after the answer.
//!
//! A caller reports permits after it has got them, and reports their release before it makes it. So the caller surely holds the
//! permits that it has reported, and this is known of a killed process, too.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::{Instant, sleep};

use crate::{GROUPS, KILLED, RING, group_of, name_for};

/// Longer than any fault of the run, and the time to notice it.
pub(crate) const HUNG: Duration = Duration::from_secs(20);

/// A step of a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// The caller is about to ask for permits.
    Asks,
    /// The caller has got this many permits.
    Has(i64),
    /// The caller is about to release its permits.
    Gives,
    /// The caller waits for nothing and has nothing.
    Rests,
    /// A call has failed.
    Failed(String),
}

/// A line of a process.
#[derive(Debug)]
pub(crate) enum Line {
    /// The time in microseconds since 1970, the number of the caller, and its step.
    Step(u64, usize, Step),
    /// The process has ended in good order.
    End,
}

impl Line {
    /// Writes the line for the driver. A failed write ends the process.
    pub(crate) fn tell(&self) {
        let text = match self {
            Line::End => "end\n".to_owned(),
            Line::Step(at, caller, step) => {
                let what = match step {
                    Step::Asks => "asks ".to_owned(),
                    Step::Has(permits) => format!("has {permits}"),
                    Step::Gives => "gives ".to_owned(),
                    Step::Rests => "rests ".to_owned(),
                    Step::Failed(error) => format!("failed {}", error.replace('\n', " ")),
                };
                format!("{at} {caller} {what}\n")
            }
        };
        let mut out = std::io::stdout().lock();
        if out.write_all(text.as_bytes()).is_err() || out.flush().is_err() {
            std::process::exit(1);
        }
    }

    /// Parses a line. Returns `None` for a broken line, as the last line of a killed process may be.
    pub(crate) fn parse(text: &str) -> Option<Line> {
        if text == "end" {
            return Some(Line::End);
        }
        let mut words = text.splitn(4, ' ');
        let (at, caller) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let step = match (words.next()?, words.next()?) {
            ("asks", _) => Step::Asks,
            ("has", permits) => Step::Has(permits.parse().ok()?),
            ("gives", _) => Step::Gives,
            ("rests", _) => Step::Rests,
            ("failed", error) => Step::Failed(error.to_owned()),
            _ => return None,
        };
        Some(Line::Step(at, caller, step))
    }
}

/// The clock that all processes of the machine share, in microseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_micros()).unwrap_or(u64::MAX)
}

/// A process.
#[derive(Debug)]
struct Process {
    place: usize,
    works: bool,
    callers: BTreeMap<usize, Caller>,
    last_got: u64,
}

#[derive(Debug, Default)]
struct Caller {
    holds: i64,
    asked: Option<u64>,
    last_got: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Entries {
    processes: Vec<Process>,
    /// The changes of the amount that is surely held of each group, with their times.
    changes: [Vec<(u64, i64)>; GROUPS.len()],
    pub(crate) turns: u64,
    pub(crate) errors: Vec<String>,
    /// How many processes have died without being killed.
    pub(crate) died: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Books(Mutex<Entries>);

impl Books {
    pub(crate) fn open(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().expect("no panic under this lock")
    }

    /// Adds a new process, and returns its number.
    pub(crate) fn begin(&self, place: usize) -> usize {
        let mut entries = self.open();
        entries.processes.push(Process {
            place,
            works: true,
            callers: BTreeMap::new(),
            last_got: 0,
        });
        entries.processes.len() - 1
    }

    pub(crate) fn enter(&self, process: usize, line: Line) {
        let mut entries = self.open();
        match line {
            Line::End => entries.processes[process].works = false,
            Line::Step(at, caller, step) => entries.enter(process, at, caller, step),
        }
    }

    /// Records the end of a process whose reports have all been read. Its permits become free later than this.
    pub(crate) fn ended(&self, number: usize, killed: bool) {
        let mut entries = self.open();
        let works = std::mem::replace(&mut entries.processes[number].works, false);
        entries.died += usize::from(works && !killed);
        let callers: Vec<usize> = entries.processes[number].callers.keys().copied().collect();
        for caller in callers {
            entries.enter(number, now(), caller, Step::Rests);
        }
    }

    /// Waits for at most `patience` until all working processes have got something since then.
    pub(crate) async fn until_served(&self, since: u64, patience: Duration) {
        let waits = |process: &Process| process.works && process.last_got < since;
        self.until_none(waits, patience).await;
    }

    /// Waits until the ring's permit has been at every process but the one that is killed. Returns whether it has.
    pub(crate) async fn until_the_ring_has_turned(&self) -> bool {
        let since = now();
        let waits = |process: &Process| {
            let got = process.callers.get(&0).map_or(0, |caller| caller.last_got);
            process.works && process.place != KILLED && got < since
        };
        self.until_none(waits, HUNG).await
    }

    async fn until_none(&self, waits: impl Fn(&Process) -> bool, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        loop {
            if !self.open().processes.iter().any(&waits) {
                return true;
            }
            if Instant::now() > end {
                return false;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Entries {
    fn enter(&mut self, number: usize, at: u64, caller: usize, step: Step) {
        let process = &mut self.processes[number];
        let place = process.place;
        let entry = process.callers.entry(caller).or_default();
        let held = entry.holds;
        entry.asked = (step == Step::Asks).then_some(at);
        entry.holds = 0;
        match step {
            Step::Has(permits) => {
                entry.holds = permits;
                (entry.last_got, process.last_got) = (at, at);
                self.turns += 1;
            }
            Step::Failed(error) => self.errors.push(error),
            Step::Asks | Step::Gives | Step::Rests => {}
        }
        let change = entry.holds - held;
        if change != 0 {
            self.changes[group_of(name_for(place, caller))].push((at, change));
        }
    }

    /// The waiters: the semaphore of each, and since when it waits.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let works = self.processes.iter().filter(|process| process.works);
        works.flat_map(|process| {
            let callers = process.callers.iter();
            callers.filter_map(|(number, caller)| {
                Some((name_for(process.place, *number), caller.asked?))
            })
        })
    }

    /// The most of each group that all processes together surely held at one moment.
    pub(crate) fn peaks(&self) -> [i64; GROUPS.len()] {
        let mut peaks = [0; GROUPS.len()];
        for (peak, changes) in peaks.iter_mut().zip(&self.changes) {
            let mut changes = changes.clone();
            // At equal times, releases come before grants.
            changes.sort_unstable();
            let mut held = 0;
            for (_, change) in changes {
                held += change;
                *peak = held.max(*peak);
            }
        }
        peaks
    }

    pub(crate) fn summary(&self) -> String {
        let processes = self.processes.len();
        let (turns, errors) = (self.turns, self.errors.len());
        format!("{turns} acquisitions in {processes} processes, {errors} errors")
    }
}

/// The semaphore of the ring to which a process gives the permit.
pub(crate) fn next_in_ring(place: usize) -> &'static str {
    RING[(place + 1) % RING.len()]
}
