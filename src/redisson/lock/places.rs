//! The callers of one client that wait for a fair lock.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::call::{Call, Claim};
use crate::engine::wakeups::{Listener, Wake};
use crate::sync::{Followed, unlocked};
use crate::transport::Refusal;

/// The call by which an owner leaves the queue.
pub(super) fn leaving(claim: Claim) -> Call {
    Call::Leave(claim.owner, claim.share.unwrap_or(0).unsigned_abs())
}

/// The last event of a waiter: the refusal of its subscription, or `None` for any other.
pub(super) struct Waiter(pub(super) Followed<Option<Refusal>>);

impl Listener for Waiter {
    fn wake(&self, _: &str, wake: &Wake) {
        match wake {
            Wake::Lost => {}
            Wake::Refused(refusal) => self.0.set(Some(refusal.clone())),
            Wake::Confirmed | Wake::Message(_) | Wake::Check => {
                self.0.set(None);
            }
        }
    }
}

/// The callers of this client that wait for a fair lock, by the number of their owner.
#[derive(Default)]
pub(super) struct Places {
    all: BTreeMap<u64, Place>,
    closed: bool,
}

/// The callers of one owner, and whether it may stand in the queue.
#[derive(Default)]
struct Place {
    callers: Vec<(Claim, Arc<Waiter>)>,
    queues: bool,
}

impl Places {
    pub(super) fn len(&self) -> usize {
        self.all.values().map(|place| place.callers.len()).sum()
    }

    pub(super) fn join(&mut self, claim: Claim, waiter: Arc<Waiter>) {
        let place = self.all.entry(claim.owner).or_default();
        place.callers.push((claim, waiter));
    }

    pub(super) fn came(&mut self, owner: u64) {
        if let Some(place) = self.all.get_mut(&owner) {
            place.queues = false;
        }
    }

    pub(super) fn asks(&mut self, claim: Claim, waiter: &Arc<Waiter>) -> bool {
        let Some(place) = self.all.get_mut(&claim.owner) else {
            return false;
        };
        place.queues = true;
        let mut callers = place.callers.iter();
        callers.any(|(_, other)| Arc::ptr_eq(other, waiter))
    }

    /// Whether the owner's place in the queue is to be left: nobody else waits there. Where it was left before, an attempt may have come behind.
    pub(super) fn leave(&mut self, claim: Claim, waiter: &Arc<Waiter>) -> bool {
        let Some(place) = self.all.get_mut(&claim.owner) else {
            return !self.closed;
        };
        place
            .callers
            .retain(|(_, other)| !Arc::ptr_eq(other, waiter));
        let queues = place.queues;
        place.callers.is_empty() && self.all.remove(&claim.owner).is_some() && queues
    }

    /// The owner has got the lock: its other callers need not wait.
    pub(super) fn wake(&self, owner: u64) {
        let place = self.all.get(&owner);
        for (_, waiter) in place.into_iter().flat_map(|place| &place.callers) {
            let waiter = Arc::clone(waiter);
            unlocked(move || waiter.0.set(None));
        }
    }

    /// The client ends: its callers wait no more. The calls that leave their places.
    pub(super) fn close(&mut self) -> Vec<Call> {
        self.closed = true;
        let all: Vec<u64> = self.all.keys().copied().collect();
        all.into_iter().for_each(|owner| self.wake(owner));
        let places = std::mem::take(&mut self.all).into_values();
        let queued = places.filter(|place| place.queues);
        let first = queued.filter_map(|place| place.callers.first().map(|(claim, _)| *claim));
        first.map(leaving).collect()
    }
}
