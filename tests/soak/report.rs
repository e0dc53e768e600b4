//! The live line, the table at the end, and the verdict.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::books::{Entries, Standing};
use crate::faults::{Done, Fault};
use crate::java::{Account, REDISSON};
use crate::watch::Seen;
use crate::witness::Witness;
use crate::{BUSY, COMES_BACK, GROUPS, Result};

/// Where nobody watches, one line in so many seconds.
const QUIET_PACE: Duration = Duration::from_secs(10);

pub(crate) struct View {
    began: Instant,
    duration: Duration,
    shown: Instant,
    live: bool,
}

impl View {
    pub(crate) fn new(duration: Duration) -> View {
        let live = std::io::stdout().is_terminal();
        let began = Instant::now();
        println!("soak: {} s of faults", duration.as_secs());
        View {
            began,
            duration,
            shown: began,
            live,
        }
    }

    pub(crate) fn show(&mut self, fault: Fault, done: &Done, entries: &Entries, seen: &Seen) {
        if !self.live && self.shown.elapsed() < QUIET_PACE {
            return;
        }
        self.shown = Instant::now();
        let faults: u64 = done.times.values().sum();
        let free = seen.available.get(BUSY).copied().unwrap_or(0);
        let line = format!(
            "{:>4}/{} s  {} turns, {} dropped, {} errors; {faults} faults; {free} free; longest wait {:.2} s; {}",
            self.began.elapsed().as_secs(),
            self.duration.as_secs(),
            entries.turns(),
            entries.dropped(),
            entries.errors().values().sum::<u64>(),
            seconds(seen.longest),
            fault.name(),
        );
        if self.live {
            print!("\r\x1b[K{line}");
            let _ = std::io::stdout().flush();
        } else {
            println!("{line}");
        }
    }
}

fn seconds(micros: u64) -> f64 {
    Duration::from_micros(micros).as_secs_f64()
}

/// How the run ended.
pub(crate) struct Outcome {
    pub(crate) duration: Duration,
    pub(crate) done: Done,
    pub(crate) java: Account,
    /// Processes that did not end.
    pub(crate) hung: usize,
    /// Processes to which the ring's permit did not come any more.
    pub(crate) stuck: usize,
    /// What the semaphores hold at the end, by group.
    pub(crate) counters: [i64; GROUPS.len()],
    pub(crate) seen: Seen,
}

/// Permits that are not where they should be.
#[derive(Debug, Default)]
struct Balance {
    lost: i64,
    doubled: i64,
    died: usize,
    killed_with: i64,
}

impl Balance {
    /// Compares what each process has told with what the server says.
    fn of(entries: &Entries, witness: &Witness) -> Balance {
        let mut balance = Balance::default();
        for process in &entries.processes {
            balance.died += usize::from(process.standing == Standing::Died);
            for (group, _) in GROUPS {
                let Some(client) = &process.client else {
                    continue;
                };
                let taken = witness.taken(group, Some(client));
                if process.standing == Standing::Killed && COMES_BACK.contains(&group) {
                    // All of it must be back by now, to the permit.
                    balance.lost += taken.max(0);
                    balance.doubled += (-taken).max(0);
                    continue;
                }
                let held = process.ledger.held(group);
                balance.lost += (taken - held.at_most).max(0);
                balance.doubled += (held.surely - taken).max(0);
                if process.standing == Standing::Killed {
                    balance.killed_with += taken;
                }
            }
        }
        balance
    }
}

impl Outcome {
    /// Prints the table; an error says what was not as promised.
    pub(crate) fn report(&self, entries: &Entries, witness: &Witness) -> Result<()> {
        let balance = Balance::of(entries, witness);
        let errors = entries.errors();
        let count = |standing| {
            let all = entries.processes.iter();
            all.filter(|process| process.standing == standing).count()
        };
        let peak = |group: &[&str]| entries.peaks.get(group).map_or(0, |peak| peak.most);
        println!("\n\n| fault | times |\n|---|---|");
        for (fault, times) in &self.done.times {
            println!("| {} | {times} |", fault.name());
        }
        println!(
            "\n| what came of it, {} s | |\n|---|---|",
            self.duration.as_secs()
        );
        let row = |what: &str, value: String| println!("| {what} | {value} |");
        row("connections killed", self.done.connections.to_string());
        row(
            "server restarts and crashes",
            self.done.restarts.to_string(),
        );
        row("acquisitions of Rust callers", entries.turns().to_string());
        row("futures and guards dropped", entries.dropped().to_string());
        row(
            "errors seen by Rust callers",
            errors.values().sum::<u64>().to_string(),
        );
        row(
            "Rust processes that ended in good order, killed",
            format!("{}, {}", count(Standing::Ended), count(Standing::Killed)),
        );
        row(
            "permits that those killed took along (put back)",
            balance.killed_with.to_string(),
        );
        row(
            "permits lost, doubled by this crate",
            format!("{}, {}", balance.lost, balance.doubled),
        );
        let by_group = |number: &dyn Fn(usize) -> i64| {
            let all = GROUPS.iter().enumerate();
            let all = all.map(|(index, (_, limit))| format!("{} of {limit}", number(index)));
            all.collect::<Vec<_>>().join(", ")
        };
        row(
            "most held at one moment",
            by_group(&|index| peak(GROUPS[index].0)),
        );
        row(
            "permits at the end",
            by_group(&|index| self.counters[index]),
        );
        row(
            "longest wait while permits were free, faults included",
            format!("{:.2} s", seconds(self.seen.longest)),
        );
        row(
            "hung waiters",
            (self.seen.hung.len() + self.stuck).to_string(),
        );
        row("next grant after a restart", recovery(&entries.recoveries));
        row(
            &format!("Redisson {REDISSON}: acquisitions, errors"),
            format!(
                "{}, {}",
                self.java.turns,
                self.java.errors.values().sum::<u64>()
            ),
        );
        row(
            "Redisson: permits lost (put back), times that threads hung",
            format!("{}, {}", self.java.lost, self.java.hung),
        );
        for (error, times) in errors.iter().take(10) {
            println!("{times} times: {error}");
        }
        println!();
        self.verdict(&balance, entries, witness, errors.len())
    }

    fn verdict(
        &self,
        balance: &Balance,
        entries: &Entries,
        witness: &Witness,
        errors: usize,
    ) -> Result<()> {
        let mut wrong = Vec::new();
        let mut check = |holds: bool, what: &str| {
            if !holds {
                wrong.push(what.to_owned());
            }
        };
        check(balance.lost == 0, "permits are lost");
        check(balance.doubled == 0, "permits are doubled");
        check(balance.died == 0, "a process died");
        check(errors == 0, "callers saw errors");
        check(self.hung == 0, "a process did not end");
        check(self.seen.hung.is_empty(), "waiters hung");
        check(self.stuck == 0, "the ring does not turn any more");
        check(entries.turns() > 0, "nothing was acquired");
        check(self.java.turns > 0, "Redisson acquired nothing");
        for group in COMES_BACK {
            let strangers = witness.taken(group, None);
            check(
                strangers == 0,
                "somebody else holds what comes back by itself",
            );
        }
        for (counter, (group, limit)) in self.counters.iter().zip(GROUPS) {
            let limit = i64::from(limit);
            check(*counter == limit, "the counters are not what they were");
            check(*counter == witness.counters(group), "the file was misread");
            let peak = entries.peaks.get(group).map_or(0, |peak| peak.most);
            check(peak <= limit, "more was held than there is");
        }
        if wrong.is_empty() {
            return Ok(());
        }
        Err(wrong.join("; ").into())
    }
}

fn recovery(micros: &[u64]) -> String {
    let mut sorted = micros.to_vec();
    sorted.sort_unstable();
    let at = |share: f64| {
        let index = (sorted.len() as f64 * share).ceil() as usize;
        sorted.get(index.saturating_sub(1)).copied()
    };
    match (at(0.5), at(0.99), sorted.last()) {
        (Some(median), Some(p99), Some(most)) => format!(
            "p50 {:.3} s, p99 {:.3} s, max {:.3} s of {}",
            seconds(median),
            seconds(p99),
            seconds(*most),
            sorted.len()
        ),
        _ => "no restart".to_owned(),
    }
}
