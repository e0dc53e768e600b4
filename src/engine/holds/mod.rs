//! What the owners of one client hold, as far as is known here: one table, which outlives the handles.
//!
//! Guards, leases, renewal, and what the scripts are told of an owner's count go by it. A lock has one entry, as only
//! one owner can hold it, for as long as anything of it is held; each time that the lock was taken has a number of its
//! own there, by which it is given back. Of a semaphore whose permits have ids, each permit that is kept has an entry, its
//! id being the owner.

mod holding;
mod renewals;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use self::holding::Holding;
pub(crate) use self::holding::{Renewing, Term};
pub(crate) use self::renewals::Renewal;
use self::table::Table;
use crate::api::HoldId;
use crate::clock::Moment;
use crate::lease::{Change, Lease};
use crate::sync::{Mutex, MutexGuard};

/// How often an owner holds a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    /// So often.
    Held(u32),
    /// Not any more, as its lease has run out here; Redis may still have what it held.
    Over,
}

/// One object and one owner.
pub(crate) type Place = (Arc<str>, Arc<str>);

/// All that the owners of one client hold.
///
/// What changes is told by [`tell`](Holds::tell): whoever calls must do so afterwards, when nothing is locked.
#[derive(Default)]
pub(crate) struct Holds {
    state: Mutex<Table>,
    /// Something has been noted. Many a client keeps nothing at all.
    noted: AtomicBool,
}

/// What was kept at a certain time.
#[derive(Clone, Copy)]
pub(crate) struct Kept(u64);

impl Holds {
    /// How many entries there are.
    pub(super) fn entries(&self) -> usize {
        self.lock().size
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.state.lock()
    }

    /// Tells those who wait for it what has changed. Their wakers may call anything here, or panic.
    pub(crate) fn tell(&self) {
        let changed = std::mem::take(&mut self.lock().changed);
        for lease in changed {
            lease.tell();
        }
    }

    /// Changes when `owner`'s lease of `lock` ends.
    fn change(&self, lock: &str, owner: &str, change: impl FnOnce(&mut Holding)) {
        let mut state = self.lock();
        if let Some(holding) = state.of(lock, owner) {
            change(holding);
            let lease = holding.lease.clone();
            state.changed.push(lease);
        }
    }

    /// How often `owner` holds `lock`.
    pub(crate) fn count(&self, lock: &str, owner: &str) -> Count {
        match self.lock().of(lock, owner) {
            None => Count::Held(0),
            Some(holding) if holding.lease.is_lost() => Count::Over,
            Some(holding) => holding.count().map_or(Count::Over, Count::Held),
        }
    }

    /// Whether anything is known of `object`.
    pub(crate) fn keeps_some_of(&self, object: &str) -> bool {
        self.noted.load(Ordering::Acquire) && self.lock().by_object.contains_key(object)
    }

    /// The owner here that holds `lock`.
    pub(crate) fn holder(&self, lock: &str) -> Option<Arc<str>> {
        let state = self.lock();
        let mut owners = state.by_object.get(lock)?.values();
        let holding = owners.find(|holding| !holding.lease.is_lost())?;
        Some(Arc::clone(&holding.owner))
    }

    /// The lease of what `owner` holds.
    pub(crate) fn lease(&self, lock: &str, owner: &str) -> Option<Lease> {
        Some(self.lock().of(lock, owner)?.lease.clone())
    }

    /// Whether one of `owner`'s holds is to be renewed.
    pub(crate) fn is_watched(&self, lock: &str, owner: &str) -> bool {
        let mut state = self.lock();
        state.of(lock, owner).is_some_and(|held| held.is_watched())
    }

    /// Whether `owner` does not have the hold with this number any more: it was lost, or given back.
    pub(crate) fn is_gone(&self, lock: &str, owner: &str, number: u64) -> bool {
        let mut state = self.lock();
        let holding = state.of(lock, owner);
        holding.is_none_or(|holding| !holding.has(number))
    }

    /// The hold that `owner` gives back without saying which: the latest that nobody has the id of, or the latest.
    pub(crate) fn latest(&self, lock: &str, owner: &str) -> Option<u64> {
        self.lock().of(lock, owner)?.latest()
    }

    /// The term that counts when the hold of `owner` with this number is given back; `None` where none is left.
    pub(crate) fn term_without(
        &self,
        lock: &str,
        owner: &str,
        number: Option<u64>,
    ) -> Option<Term> {
        self.lock().of(lock, owner)?.term_without(number)
    }

    /// `owner` has taken the lock for `term`, as its hold with this number, and all that it holds ends at `until` for the time being.
    pub(crate) fn taken(
        &self,
        lock: &Arc<str>,
        owner: &Arc<str>,
        number: u64,
        term: Term,
        until: Moment,
        renewing: Renewing,
    ) {
        let mut state = self.lock();
        state.last_number = state.last_number.max(number);
        if let Some(holding) = state.of(lock, owner)
            && !holding.lease.is_lost()
        {
            holding.add(number, term, until);
            let lease = holding.lease.clone();
            state.changed.push(lease);
            return;
        }
        let holding = Holding::new(owner, number, term, until, renewing);
        // Whoever held it before has lost it.
        let all = Kept(state.last_number);
        state.lose_all(lock, all);
        self.noted.store(true, Ordering::Release);
        state.insert(lock, holding);
    }

    /// The caller that has taken the hold with this number has it: its lease, and what tells it from others.
    pub(crate) fn claim(&self, lock: &str, owner: &str, number: u64) -> (Lease, HoldId) {
        let id = HoldId::new(number);
        let mut state = self.lock();
        let holding = state.of(lock, owner);
        let lease = holding.and_then(|holding| holding.claim(&id));
        (lease.unwrap_or_else(|| Lease::granted(Moment::now())), id)
    }

    /// `owner` holds something of `object` beside others, for `term`, and until `until` for the time being. What is known of
    /// it already stays, but for its term. Returns its lease, which may be lost by now.
    pub(crate) fn keep(
        &self,
        object: &Arc<str>,
        owner: &Arc<str>,
        term: Term,
        until: Moment,
        renewing: Renewing,
    ) -> Lease {
        let mut state = self.lock();
        if let Some(holding) = state.of(object, owner)
            && !holding.lease.is_lost()
        {
            holding.set_term(term);
            holding.renewing = renewing;
            holding.remembered = false;
            return holding.lease.clone();
        }
        state.last_number += 1;
        let number = state.last_number;
        let holding = Holding::new(owner, number, term, until, renewing);
        let lease = holding.lease.clone();
        if !lease.is_lost() {
            self.noted.store(true, Ordering::Release);
            state.insert(object, holding);
        }
        lease
    }

    /// It is renewed no more; when it ends is still known, though its lease is told nothing any more.
    pub(crate) fn keep_no_more(&self, object: &str, owner: &str) {
        if let Some(holding) = self.lock().of(object, owner) {
            holding.detach();
        }
    }

    /// What `owner` holds is known by the name `new` from now on, and not renewed until it is [kept](Holds::keep) again.
    pub(crate) fn rename(&self, object: &Arc<str>, owner: &str, new: &Arc<str>) {
        let mut state = self.lock();
        if let Some(mut holding) = state.take(object, owner) {
            holding.owner = Arc::clone(new);
            holding.set_term(Term::Limited(holding.renewing.lease));
            state.insert(object, holding);
        }
    }

    /// The server says that what `owner` holds ends at `until`. It is remembered for a while, though nobody keeps it.
    pub(crate) fn ends(
        &self,
        object: &Arc<str>,
        owner: &Arc<str>,
        until: Moment,
        renewing: Renewing,
    ) {
        let known = self.lock().of(object, owner).is_some();
        if !known {
            let term = Term::Limited(renewing.lease);
            self.keep(object, owner, term, until, renewing);
        }
        self.change(object, owner, |holding| {
            holding.remembered |= !known;
            holding.ends(until);
        });
    }

    /// A step of `owner` departs that makes all that is left last for `lease`, until `until`; whether it arrives is not known yet.
    pub(crate) fn departs(&self, lock: &str, owner: &str, until: Moment, lease: Duration) {
        self.change(lock, owner, |holding| holding.may_end(until, lease));
    }

    /// What has departed has not taken effect.
    pub(crate) fn stays(&self, lock: &str, owner: &str) {
        self.change(lock, owner, Holding::stays);
    }

    /// Nobody will learn whether it has: the next renewal tells how long it lasts.
    pub(crate) fn is_not_answered(&self, lock: &str, owner: &str) {
        self.change(lock, owner, Holding::is_not_answered);
    }

    /// The hold with this number is about to be given back, and is renewed no more; unless that is not to be, after
    /// all.
    pub(crate) fn leaves(&self, lock: &str, owner: &str, number: Option<u64>, leaving: bool) {
        if let Some(holding) = self.lock().of(lock, owner) {
            holding.leaves(number, leaving);
        }
    }

    /// The hold with this number has been given back. What is left ends at `until` for the time being;
    /// `None` where nothing is.
    pub(crate) fn released(
        &self,
        lock: &str,
        owner: &str,
        number: Option<u64>,
        until: Option<Moment>,
    ) {
        let mut state = self.lock();
        match until {
            None => state.end(lock, owner),
            Some(until) => {
                if let Some(left) = state.remove(lock, owner, number) {
                    left.forget_spent();
                    left.ends(until);
                    let lease = left.lease.clone();
                    state.changed.push(lease);
                }
            }
        }
    }

    /// The hold with this number could not be given back, or nobody will know whether it was, and who had it has it no more: it
    /// may be left over until its lease ends, unless it is given back as one that is nobody's.
    pub(crate) fn spend(&self, lock: &str, owner: &str, number: u64) {
        if let Some(holding) = self.lock().of(lock, owner) {
            holding.spend(number);
        }
    }

    /// The server says that `owner` does not hold the lock.
    pub(crate) fn lost(&self, lock: &str, owner: &str) {
        let mut state = self.lock();
        if let Some(holding) = state.take(lock, owner) {
            state.change(holding.lease, Change::Lost);
        }
    }

    /// What is kept now.
    pub(crate) fn kept(&self) -> Kept {
        Kept(self.lock().last_number)
    }

    /// Whoever held the lock when that was `kept` holds it no more.
    pub(crate) fn all_lost(&self, lock: &str, kept: Kept) {
        let mut state = self.lock();
        state.lose_all(lock, kept);
    }
}
