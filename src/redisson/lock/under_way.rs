//! What is noted when a batch departs, and when there is no answer to it.

use super::primitive::Lock;
use super::steps::{Claim, Known, Step};
use crate::engine::holds::{Count, Term};
use crate::engine::primitive::Batch;

/// What was known when the batch under way departed.
#[derive(Default)]
pub(super) struct UnderWay {
    /// The calls, then the questions.
    pub(super) steps: Vec<(Step, Known)>,
}

impl Lock {
    pub(super) fn depart(&mut self, batch: &Batch<Self>) {
        self.taken = None;
        if batch
            .calls
            .iter()
            .any(|queued| matches!(queued.call, Step::Tend))
        {
            self.place.looks();
        }
        self.place.departs(batch, self.report(batch));
        let calls = batch.calls.iter().map(|queued| queued.call.clone());
        let asks = batch.asks.iter().map(|ask| {
            Step::Acquire(Claim {
                // The last try takes what is free.
                waits: !ask.last,
                ..ask.want.clone()
            })
        });
        // One step an owner: what is noted of one says nothing about another.
        let steps = calls.chain(asks).map(|step| {
            let known = self.known(&step);
            self.note_departure(batch, &step, &known);
            (step, known)
        });
        self.under_way = UnderWay {
            steps: steps.collect(),
        };
    }

    /// What is known of the owner of `step`.
    fn known(&self, step: &Step) -> Known {
        let (holds, key) = (&self.holds, self.keys.object());
        let lease = |term: Term| term.lease(self.times.watchdog);
        let number = match step {
            Step::Release(_, Some(id)) => Some(id.number()),
            Step::Release(owner, None) => holds.latest(key, owner),
            _ => None,
        };
        let lease = match step {
            // A hold that is renewed does not end by another one that is not.
            Step::Acquire(claim) if holds.is_watched(key, &claim.owner) => {
                lease(claim.term).max(self.times.watchdog)
            }
            Step::Acquire(claim) => lease(claim.term),
            Step::Release(owner, _) => holds
                .term_without(key, owner, number)
                .map_or(self.times.watchdog, lease),
            Step::Force | Step::Tend => self.times.watchdog,
        };
        Known {
            holds: match step {
                Step::Acquire(claim) => self.count(&claim.owner),
                Step::Release(owner, _) => holds.count_with(key, owner, number),
                Step::Force | Step::Tend => Count::Held(0),
            },
            lease,
            number,
        }
    }

    /// `step` departs with `batch`, and is noted with what it leaves held.
    fn note_departure(&self, batch: &Batch<Self>, step: &Step, known: &Known) {
        let (holds, key) = (&self.holds, self.keys.object());
        let until = batch.departed + known.lease;
        match step {
            Step::Acquire(claim) => {
                holds.departs(key, &claim.owner, until, known.lease);
            }
            Step::Release(owner, _) => {
                holds.leaves(key, owner, known.number, true);
                if holds.term_without(key, owner, known.number).is_some() {
                    holds.departs(key, owner, until, known.lease);
                }
            }
            Step::Force | Step::Tend => {}
        }
    }

    /// It has not taken effect.
    pub(super) fn note_refusal(&self, step: &Step, known: &Known) {
        let (holds, key) = (&self.holds, self.keys.object());
        let Some(owner) = step.owner() else { return };
        holds.stays(key, owner, None);
        // A guard is spent when its unlock has failed; nobody else would give that hold back.
        if let Step::Release(owner, None) = step {
            holds.leaves(key, owner, known.number, false);
        }
    }

    /// It will not take effect. The hold of a guard is spent: who had it has it no more.
    pub(super) fn note_end(&self, step: &Step) {
        if let Step::Release(owner, Some(id)) = step {
            self.holds.spend(self.keys.object(), owner, id.number());
        }
    }

    /// The same, and nobody knows: so is another hold, which would be renewed for ever.
    pub(super) fn note_nobodys(&self, step: &Step) {
        if let Step::Release(owner, None) = step {
            self.holds.spend_latest(self.keys.object(), owner);
        }
    }

    /// Nobody will know whether it has taken effect.
    pub(super) fn note_silence(&self, step: &Step, known: &Known) {
        let (holds, key) = (&self.holds, self.keys.object());
        let Some(owner) = step.owner() else { return };
        if let (Step::Release(..), Some(number)) = (step, known.number) {
            holds.spend(key, owner, number);
        }
        holds.is_not_answered(key, owner, None);
    }

    /// There is no answer to what was under way.
    pub(super) fn no_answer(&mut self, note: impl Fn(&Self, &Step, &Known)) {
        let under_way = std::mem::take(&mut self.under_way);
        for (step, known) in &under_way.steps {
            note(self, step, known);
        }
    }
}
