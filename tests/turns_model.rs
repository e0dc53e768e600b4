//! A model of the rule of turns (`src/engine/turns/mod.rs`), without Redis: it converges and starves nobody.
//!
//! Processes with callers in a loop of acquire, hold, release share permits by the rule, each looking at what the
//! others have left on record, and hearing of free permits some time later. Time is in microseconds.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use proptest::prelude::*;

const SLACK: f64 = 5_000.0;
const SLACK_PART: f64 = 10.0;
const PATIENCE: f64 = 5_000.0;
const SKIP: f64 = 20_000.0;
const SKIP_PART: f64 = 4.0;
const END: f64 = 20e6;
/// From here on waits count: the line has been through several times.
const SETTLED: f64 = 10e6;

/// What happens when.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A caller of this process gives its permit back, and comes again.
    Release(usize),
    /// This process hears of permits, or has paused.
    Look(usize),
}

#[derive(Debug, Default)]
struct Process {
    /// When those who wait came.
    line: VecDeque<f64>,
    /// What the others see: first and last in line, and how many wait.
    record: (f64, f64, usize),
    skip: f64,
    /// From then on it does nothing.
    frozen_at: Option<f64>,
    waits: Vec<f64>,
    /// When it has taken a permit.
    served_at: Vec<f64>,
}

struct Model {
    now: f64,
    free: usize,
    since: Option<f64>,
    hold: f64,
    processes: Vec<Process>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    random: fastrand::Rng,
}

impl Model {
    fn new(sizes: &[usize], permits: usize, hold: f64, seed: u64) -> Model {
        let mut model = Model {
            now: 0.0,
            free: permits,
            since: None,
            hold,
            processes: Vec::new(),
            events: BinaryHeap::new(),
            random: fastrand::Rng::with_seed(seed),
        };
        for (index, callers) in sizes.iter().enumerate() {
            let line: VecDeque<f64> = std::iter::repeat_n(0.0, *callers).collect();
            model.processes.push(Process {
                line,
                ..Process::default()
            });
            model.at(0.0, Event::Look(index));
        }
        model
    }

    fn at(&mut self, delay: f64, event: Event) {
        let when = (self.now + delay) as u64;
        self.events.push(Reverse((when, event)));
    }

    fn run(&mut self) {
        while let Some(Reverse((when, event))) = self.events.pop() {
            self.now = when as f64;
            if self.now > END {
                return;
            }
            let (Event::Release(index) | Event::Look(index)) = event;
            let process = &mut self.processes[index];
            if process.frozen_at.is_some_and(|at| self.now >= at) {
                continue;
            }
            let released = matches!(event, Event::Release(_));
            if released {
                self.free += 1;
                process.line.push_back(self.now);
            }
            self.take(index);
            if released && self.free > 0 {
                self.tell_others(index);
            }
        }
    }

    fn tell_others(&mut self, index: usize) {
        for other in 0..self.processes.len() {
            if other != index {
                let delay = self.random.f64() * 900.0 + 100.0;
                self.at(delay, Event::Look(other));
            }
        }
    }

    /// How many who came before `instant` wait in other processes.
    fn wanted_before(&self, index: usize, instant: f64) -> f64 {
        let others = self.processes.iter().enumerate();
        others
            .filter(|(other, process)| *other != index && process.skip <= self.now)
            .map(|(_, process)| {
                let (head, tail, want) = process.record;
                if want == 0 || head >= instant {
                    0.0
                } else if tail <= instant {
                    want as f64
                } else {
                    (want as f64 * (instant - head) / (tail - head)).ceil()
                }
            })
            .sum()
    }

    /// What the script does for the process.
    fn take(&mut self, index: usize) {
        let patience_over = self.since.is_some_and(|since| self.now - since >= PATIENCE);
        let mut held = false;
        while self.free > 0
            && let Some(&came) = self.processes[index].line.front()
        {
            let instant = came - SLACK - (self.now - came) / SLACK_PART;
            if self.wanted_before(index, instant) + 1.0 > self.free as f64 {
                if !patience_over {
                    held = true;
                    break;
                }
                for other in 0..self.processes.len() {
                    let head = self.processes[other].record.0;
                    if other != index && head < came {
                        self.processes[other].skip =
                            self.now + SKIP + (self.now - head) / SKIP_PART;
                    }
                }
            }
            self.free -= 1;
            let hold = self.hold * (0.9 + 0.2 * self.random.f64());
            self.at(hold, Event::Release(index));
            let process = &mut self.processes[index];
            process.line.pop_front();
            process.served_at.push(self.now);
            if self.now >= SETTLED {
                process.waits.push(self.now - came);
            }
        }
        if self.free == 0 {
            self.since = None;
        } else if held {
            let since = *self.since.get_or_insert(self.now);
            let pause = (since + PATIENCE - self.now).max(1.0);
            self.at(pause, Event::Look(index));
        }
        let process = &mut self.processes[index];
        process.skip = 0.0;
        let line = &process.line;
        process.record = match (line.front(), line.back()) {
            (Some(head), Some(tail)) => (*head, *tail, line.len()),
            _ => (self.now, self.now, 0),
        };
    }
}

fn mean(waits: &[f64]) -> f64 {
    waits.iter().sum::<f64>() / waits.len() as f64
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn callers_of_all_processes_wait_alike(
        sizes in prop::collection::vec(1..80_usize, 2..6),
        permits in 1..10_usize,
        hold in 1_000.0..20_000.0,
        seed: u64,
    ) {
        let hold: f64 = hold;
        let mut model = Model::new(&sizes, permits, hold, seed);
        model.run();
        let callers: usize = sizes.iter().sum();
        let fair = ((callers as f64 / permits as f64 - 1.0) * hold).max(0.0);
        // Both sides may be ahead by the allowance, and a permit may be under way for a while.
        let margin = 2.0 * (SLACK + fair / SLACK_PART) + 2.0 * hold + PATIENCE;
        for (process, callers) in model.processes.iter().zip(&sizes) {
            prop_assert!(!process.waits.is_empty(), "{callers} callers starve");
            let (mean, max) = (mean(&process.waits), process.waits.iter().copied().fold(0.0, f64::max));
            prop_assert!((mean - fair).abs() <= margin, "{callers} callers wait {mean}, fair is {fair}");
            prop_assert!(max <= 2.0 * fair + 2.0 * margin, "{callers} callers: longest {max}, fair is {fair}");
        }
    }

    #[test]
    fn a_frozen_process_costs_what_it_holds_and_little_more(
        sizes in prop::collection::vec(20..60_usize, 3..6),
        permits in 6..12_usize,
        seed: u64,
    ) {
        let hold = 5_000.0;
        let mut model = Model::new(&sizes, permits, hold, seed);
        // Its record stays for ever here, a longer time than in Redis.
        model.processes[0].frozen_at = Some(SETTLED);
        model.run();
        let lost = model.processes[0].served_at.iter().filter(|at| **at > SETTLED - 1.1 * hold).count();
        let left = permits - lost.min(permits);
        let served: usize = model.processes[1..].iter().map(|process| process.waits.len()).sum();
        let possible = (END - SETTLED) / hold * left as f64;
        prop_assert!(served as f64 >= 0.8 * possible, "{served} of {possible}");
    }
}
