//! The one table of what the owners of a client hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::Kept;
use super::holding::Holding;
use crate::lease::{Change, Lease};

#[derive(Default)]
pub(super) struct Table {
    /// By object and by owner.
    pub(super) by_object: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Holding>>,
    /// How many entries there are.
    pub(super) size: usize,
    pub(super) last_number: u64,
    /// As many entries as there may be until those that are over are looked for.
    most: usize,
    /// There is a task that renews what lasts so long.
    pub(super) renewing: BTreeSet<Duration>,
    /// Something has changed of these, and nobody has been told.
    pub(super) changed: Vec<Lease>,
}

/// Entries that are over are not looked for among fewer than this.
pub(super) const FEW: usize = 1000;

impl Table {
    pub(super) fn of(&mut self, lock: &str, owner: &str) -> Option<&mut Holding> {
        self.by_object.get_mut(lock)?.get_mut(owner)
    }

    /// Notes what an owner holds who has held nothing.
    pub(super) fn insert(&mut self, lock: &Arc<str>, holding: Holding) {
        self.tidy();
        let owners = self.by_object.entry(Arc::clone(lock)).or_default();
        if owners.insert(Arc::clone(&holding.owner), holding).is_none() {
            self.size += 1;
        }
    }

    /// Takes out what `owner` holds.
    pub(super) fn take(&mut self, lock: &str, owner: &str) -> Option<Holding> {
        let owners = self.by_object.get_mut(lock)?;
        let holding = owners.remove(owner)?;
        if owners.is_empty() {
            self.by_object.remove(lock);
        }
        self.size -= 1;
        Some(holding)
    }

    /// Nobody holds anything of it any more.
    pub(super) fn lose_all(&mut self, lock: &str, Kept(last): Kept) {
        let Some(owners) = self.by_object.get_mut(lock) else {
            return;
        };
        let (gone, stay) = std::mem::take(owners)
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(_, holding)| holding.since() <= last);
        if stay.is_empty() {
            self.by_object.remove(lock);
        } else {
            *owners = stay;
        }
        self.size -= gone.len();
        for holding in gone.into_values() {
            self.change(holding.lease, Change::Lost);
        }
    }

    /// Takes the hold of `owner` with this number out. What is left, if anything is.
    pub(super) fn remove(
        &mut self,
        lock: &str,
        owner: &str,
        number: Option<u64>,
    ) -> Option<&mut Holding> {
        if !self.of(lock, owner)?.remove(number) {
            self.end(lock, owner);
        }
        self.of(lock, owner)
    }

    /// All that `owner` holds has been given back.
    pub(super) fn end(&mut self, lock: &str, owner: &str) {
        if let Some(holding) = self.take(lock, owner) {
            self.change(holding.lease, Change::Ended);
        }
    }

    pub(super) fn change(&mut self, lease: Lease, change: Change) {
        lease.change(change);
        self.changed.push(lease);
    }

    /// Makes room: what has run out is of no use to anybody, and what is only remembered mostly not.
    fn tidy(&mut self) {
        if self.size >= self.most {
            self.by_object.retain(|_, owners| {
                owners.retain(|_, holding| !holding.remembered && !holding.lease.is_lost());
                !owners.is_empty()
            });
            self.size = self.by_object.values().map(BTreeMap::len).sum();
            self.most = FEW.max(2 * self.size);
        }
    }
}
