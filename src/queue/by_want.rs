//! Numbered things that are wanted, in the order of their numbers: all of them, and those that want the same.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;

use super::outcome::Want;

/// Something that is made for a want.
pub(super) trait Wanting {
    type Want: Want;

    fn want(&self) -> Self::Want;
}

pub(super) struct ByWant<T: Wanting> {
    all: BTreeMap<u64, T>,
    by_want: BTreeMap<T::Want, BTreeSet<u64>>,
}

impl<T: Wanting> Default for ByWant<T> {
    fn default() -> Self {
        ByWant {
            all: BTreeMap::new(),
            by_want: BTreeMap::new(),
        }
    }
}

impl<T: Wanting> ByWant<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn insert(&mut self, id: u64, one: T) {
        self.by_want.entry(one.want()).or_default().insert(id);
        self.all.insert(id, one);
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<T> {
        let one = self.all.remove(&id)?;
        if let Some(alike) = self.by_want.get_mut(&one.want()) {
            alike.remove(&id);
            if alike.is_empty() {
                self.by_want.remove(&one.want());
            }
        }
        Some(one)
    }

    pub(super) fn take_all(&mut self) -> BTreeMap<u64, T> {
        self.by_want.clear();
        std::mem::take(&mut self.all)
    }

    pub(super) fn get(&self, id: u64) -> Option<&T> {
        self.all.get(&id)
    }

    pub(super) fn has(&self, id: u64) -> bool {
        self.all.contains_key(&id)
    }

    pub(super) fn range(&self, ids: impl RangeBounds<u64>) -> impl Iterator<Item = (u64, &T)> {
        self.all.range(ids).map(|(id, one)| (*id, one))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.range(..)
    }

    /// Those that want this.
    pub(super) fn alike(&self, want: T::Want) -> impl DoubleEndedIterator<Item = u64> {
        self.by_want.get(&want).into_iter().flatten().copied()
    }

    /// How many want this.
    pub(super) fn count(&self, want: T::Want) -> usize {
        self.by_want.get(&want).map_or(0, BTreeSet::len)
    }

    /// The wants, smaller amounts first, and how many want each.
    pub(super) fn wants(
        &self,
        range: impl RangeBounds<T::Want>,
    ) -> impl Iterator<Item = (T::Want, usize)> {
        let wants = self.by_want.range(range);
        wants.map(|(want, alike)| (*want, alike.len()))
    }
}
