//! A history that fails, with as few events as it takes.

use super::judge::Fault;
use super::plan::{Event, Plan, What};
use super::run;

/// So many histories are tried.
const MOST: usize = 400;

/// Leaves out events, and rounds of callers, as long as the same judge still objects to the same thing.
pub fn shrunk(plan: &Plan, fault: &Fault) -> Plan {
    let mut shrinking = Shrinking {
        best: plan.clone(),
        wanted: (fault.judge, fault.gist()),
        left: MOST,
    };
    let mut part = plan.events.len().div_ceil(2);
    while part > 0 && shrinking.left > 0 {
        let mut from = 0;
        let before = shrinking.best.events.len();
        while from < shrinking.best.events.len() {
            let to = (from + part).min(shrinking.best.events.len());
            let mut events = shrinking.best.events.clone();
            events.drain(from..to);
            if !shrinking.try_with(events) {
                from = to;
            }
        }
        if part == 1 && before == shrinking.best.events.len() {
            break;
        }
        part = if part == 1 { 1 } else { part.div_ceil(2) };
    }
    for number in 0..shrinking.best.events.len() {
        let mut events = shrinking.best.events.clone();
        if let What::Call(_, call) = &mut events[number].what
            && call.rounds > 1
        {
            call.rounds = 1;
            shrinking.try_with(events);
        }
    }
    shrinking.best
}

struct Shrinking {
    best: Plan,
    /// What the history that is left has to fail with.
    wanted: (&'static str, String),
    left: usize,
}

impl Shrinking {
    /// Whether the history with these events fails, too.
    fn try_with(&mut self, events: Vec<Event>) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let plan = Plan {
            events,
            ..self.best.clone()
        };
        let fault = run::carry_out(&plan, false).fault;
        let same = fault.is_some_and(|fault| (fault.judge, fault.gist()) == self.wanted);
        if same {
            self.best = plan;
        }
        same
    }
}
