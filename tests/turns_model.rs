//! A model of the rule of turns (`src/engine/turns/mod.rs`), without Redis: it converges and starves nobody.
//!
//! Processes with callers in a loop of acquire, hold, release share permits by the rule: each reads the line when it
//! asks, and tells others that their turn has come, who hear of it some time later. Time is in microseconds.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use proptest::prelude::*;

const SLACK: f64 = 5_000.0;
const SLACK_PART: f64 = 10.0;
const PATIENCE: f64 = 5_000.0;
const END: f64 = 20e6;
/// From here on waits count: the line has been through several times.
const SETTLED: f64 = 10e6;

/// What happens when.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A caller of this process gives its permit back, and comes again.
    Release(usize),
    /// This process hears that its turn has come, or looks whether others came.
    Look(usize),
}

#[derive(Debug, Default)]
struct Process {
    /// When those who wait came.
    line: VecDeque<f64>,
    /// Its place in the line of all: when the first of them came.
    place: Option<f64>,
    /// When it was told that its turn has come.
    told: Option<f64>,
    /// From then on it does nothing.
    frozen_at: Option<f64>,
    waits: Vec<f64>,
    /// When it has taken a permit.
    served_at: Vec<f64>,
}

struct Model {
    now: f64,
    free: usize,
    /// How often somebody has asked.
    questions: usize,
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
            questions: 0,
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
            if matches!(event, Event::Release(_)) {
                self.free += 1;
                process.line.push_back(self.now);
            }
            self.ask(index);
        }
    }

    /// How many permits are kept for `other`, which is told of it by `index`.
    fn keep(&mut self, other: usize, index: usize) -> usize {
        let now = self.now;
        let process = &mut self.processes[other];
        match process.told {
            Some(at) if now - at >= PATIENCE => {
                (process.place, process.told) = (None, None);
                return 0;
            }
            Some(_) => return 1,
            None => process.told = Some(now),
        }
        let delay = self.random.f64() * 900.0 + 100.0;
        self.at(delay, Event::Look(other));
        self.at(PATIENCE + 1.0, Event::Look(index));
        1
    }

    /// What the script does for the process.
    fn ask(&mut self, index: usize) {
        self.questions += 1;
        let now = self.now;
        self.processes[index].told = None;
        let others = (0..self.processes.len()).filter(|other| *other != index);
        let mut line: VecDeque<(f64, usize)> = others
            .filter_map(|other| Some((self.processes[other].place?, other)))
            .collect();
        line.make_contiguous()
            .sort_by(|one, two| one.0.total_cmp(&two.0));
        let mut kept = 0;
        while self.free > kept {
            let first = line.front().copied();
            let limit = first.map_or(f64::INFINITY, |(since, _)| {
                (since + SLACK + now / SLACK_PART) / (1.0 + 1.0 / SLACK_PART)
            });
            let own = self.processes[index].line.front().copied();
            match (own, first) {
                (Some(came), _) if came <= limit => self.serve(index, came),
                (_, Some((_, other))) => {
                    kept += self.keep(other, index);
                    line.pop_front();
                }
                _ => break,
            }
        }
        let process = &mut self.processes[index];
        process.place = process.line.front().copied();
    }

    fn serve(&mut self, index: usize, came: f64) {
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
        model.processes[0].frozen_at = Some(SETTLED);
        model.run();
        let lost = model.processes[0].served_at.iter().filter(|at| **at > SETTLED - 1.1 * hold).count();
        let left = permits - lost.min(permits);
        let served: usize = model.processes[1..].iter().map(|process| process.waits.len()).sum();
        let possible = (END - SETTLED) / hold * left as f64;
        prop_assert!(served as f64 >= 0.8 * possible, "{served} of {possible}");
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, ..ProptestConfig::default() })]

    #[test]
    fn a_crowd_of_processes_has_equal_shares_and_asks_no_more_than_two(
        processes in 2..100_usize,
        permits in 1..4_usize,
        seed: u64,
    ) {
        let mut model = Model::new(&vec![1; processes], permits, 5_000.0, seed);
        model.run();
        let served: Vec<usize> = model.processes.iter().map(|process| process.served_at.len()).collect();
        let total: usize = served.iter().sum();
        let questions = model.questions as f64 / total as f64;
        prop_assert!(questions <= 4.0, "{questions} a grant");
        if processes > permits {
            let (min, max) = (served.iter().min(), served.iter().max());
            let most = min.map(|min| min + 3 + min / 5);
            prop_assert!(max <= most.as_ref(), "{served:?}");
        }
    }
}
