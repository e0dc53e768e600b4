//! What is renewed, as long as it is held.

use std::sync::Arc;
use std::time::Duration;

use super::holding::{Renewing, Version};
use super::{Holds, Place};
use crate::clock::Moment;
use crate::lease::Change;

/// What is to be renewed; its answer is about something else as soon as the version is another one.
pub(crate) struct Renewal {
    pub(crate) place: Place,
    version: Version,
}

impl Holds {
    /// Whether a task has to be started that renews what lasts for `lease`.
    pub(crate) fn begin_renewing(&self, lease: Duration) -> bool {
        self.lock().renewing.insert(lease)
    }

    /// All that there is to renew of what lasts for `lease`; where there is nothing, the task that renews it ends.
    pub(crate) fn to_renew(&self, lease: Duration) -> Vec<Place> {
        let mut state = self.lock();
        let mut places = Vec::new();
        for (object, owners) in &state.by_object {
            let due = owners
                .values()
                .filter(|held| held.renewing.lease == lease && held.is_watched());
            places.extend(due.map(|held| (Arc::clone(object), Arc::clone(&held.owner))));
        }
        if places.is_empty() {
            state.renewing.remove(&lease);
        }
        places
    }

    /// Takes up to `most` of `places` out that are to be renewed now, in the same way and in the same slot; they are in
    /// the order of their slots.
    pub(crate) fn next_renewals(
        &self,
        places: &mut Vec<Place>,
        most: usize,
        slot: impl Fn(&str) -> u16,
    ) -> Option<(Renewing, Vec<Renewal>)> {
        let mut state = self.lock();
        let mut alike: Option<Renewing> = None;
        let mut some = Vec::new();
        while some.len() < alike.map_or(most, |renewing| most.min(renewing.most))
            && let Some((lock, owner)) = places.last()
        {
            if let Some(holding) = state.of(lock, owner).filter(|held| held.is_watched()) {
                let renewing = *alike.get_or_insert(holding.renewing);
                let fits = |first: &Renewal| slot(&first.place.0) == slot(lock);
                if !renewing.is_like(&holding.renewing) || !some.first().is_none_or(fits) {
                    break;
                }
                some.push(Renewal {
                    place: (Arc::clone(lock), Arc::clone(owner)),
                    version: holding.version(),
                });
            }
            places.pop();
        }
        alike.map(|renewing| (renewing, some))
    }

    /// The server has answered to a renewal: whether the owner holds the lock, at least until `until` then. Returns
    /// whether that is a loss.
    pub(crate) fn renewed(&self, renewal: &Renewal, held: bool, until: Moment) -> bool {
        let (lock, owner) = &renewal.place;
        let mut state = self.lock();
        // The answer is about what was held then; a step that has come in between has an answer of its own.
        let holding = state.of(lock, owner);
        let Some(holding) = holding.filter(|held| held.version() == renewal.version) else {
            return false;
        };
        if held {
            holding.lasts(until);
            let lease = holding.lease.clone();
            state.changed.push(lease);
            return false;
        }
        // That it is given back is not a loss.
        if holding.is_leaving() {
            return false;
        }
        if let Some(holding) = state.take(lock, owner) {
            state.change(holding.lease, Change::Lost);
        }
        true
    }
}
