//! Shrinks a history that fails to few events.

use super::judge::Fault;
use super::plan::Plan;
use super::run;

/// Leaves out events, first many and then single ones, as long as the same judge still objects.
pub fn shrunk(plan: &Plan, fault: &Fault) -> Plan {
    let mut best = plan.clone();
    let mut part = plan.events.len();
    while part > 1 {
        part = part.div_ceil(2);
        let mut from = 0;
        while from < best.events.len() {
            let mut fewer = best.clone();
            let to = (from + part).min(best.events.len());
            fewer.events.drain(from..to);
            let found = run::carry_out(&fewer).fault;
            if found.is_some_and(|found| found.judge == fault.judge) {
                best = fewer;
            } else {
                from = to;
            }
        }
    }
    best
}
