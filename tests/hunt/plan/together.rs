//! Count-downs that several callers of a client ask for at the same time: they travel together.

use fastrand::Rng;

use super::calls::{Admin, AdminCall};
use super::chance::chance;
use super::{Event, What};

/// Some of those that there are anyway are asked for by more than one. Drawn apart.
pub(super) fn they_count_down(seed: u64, events: &mut Vec<Event>) {
    let rng = &mut Rng::with_seed(seed ^ 0x746f_6765_7468_6572);
    let counts = |event: &Event| {
        let what = AdminCall::CountDown;
        matches!(&event.what, What::Admin(_, Admin { what: call, .. }) if *call == what)
    };
    let mut more = Vec::new();
    for event in events.iter().filter(|event| counts(event)) {
        if chance(rng, 30) {
            more.extend((0..rng.usize(1..4)).map(|_| event.clone()));
        }
    }
    events.extend(more);
}
