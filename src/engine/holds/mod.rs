//! All that one client holds for a time: one table, by object and id, which outlives the handles.
//!
//! Guards, leases and [renewal](super::renewal) go by it. The id is that of a permit, the entry of a guard in the grants, or the
//! owner of a lock.

mod entry;
#[cfg(test)]
pub(super) mod tests;

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio::time::Instant;

pub(crate) use self::entry::{LeaseEntry, Renewing};
use crate::clock::Moment;
use crate::lease::{Change, Lease};
use crate::sync::{Mutex, MutexGuard, unlocked};

/// An object, and the id under which something of it is held.
pub(super) type Place = (Arc<str>, Arc<str>);

/// All that one client holds.
#[derive(Default)]
pub(crate) struct LeaseTable {
    state: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    by_object: BTreeMap<Arc<str>, BTreeMap<Arc<str>, LeaseEntry>>,
    /// How many entries there are.
    size: usize,
    /// As many entries as there may be until those that are over are looked for.
    most: usize,
    /// The number of the last change.
    last: u64,
    /// Nothing is due before; `None`: nothing is due at all.
    next: Option<Instant>,
    /// Wakes the task that renews: something is due sooner than it has thought, or the client is gone.
    woken: Arc<Notify>,
}

/// Entries that are over are not looked for among fewer than this.
const FEW: usize = 1000;

/// A point in time, as the table counts.
#[derive(Clone, Copy)]
pub(crate) struct Kept(u64);

/// An entry that is renewed by a call; the answer says nothing as soon as it has changed.
#[derive(Clone)]
pub(super) struct Renewal {
    pub(super) place: Place,
    /// The other keys that the script uses.
    pub(super) others: Vec<Arc<str>>,
    version: u64,
}

impl LeaseTable {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.state.lock()
    }

    /// How many entries there are.
    pub(super) fn entries(&self) -> usize {
        self.lock().size
    }

    /// Reads an entry.
    pub(crate) fn look<T>(
        &self,
        key: &str,
        id: &str,
        read: impl FnOnce(&LeaseEntry) -> T,
    ) -> Option<T> {
        self.lock().of(key, id).map(|entry| read(entry))
    }

    /// Changes an entry.
    pub(crate) fn change<T>(
        &self,
        key: &str,
        id: &str,
        change: impl FnOnce(&mut LeaseEntry) -> T,
    ) -> Option<T> {
        self.lock().change(key, id, change)
    }

    /// The lease of what is held.
    pub(crate) fn lease(&self, key: &str, id: &str) -> Option<Lease> {
        self.look(key, id, |entry| entry.lease.clone())
    }

    /// Whether it is renewed.
    pub(crate) fn is_renewed(&self, key: &str, id: &str) -> bool {
        self.look(key, id, LeaseEntry::is_renewed) == Some(true)
    }

    /// Such an id under which `key` is held here: the one that has come last, as another client may have ended the others.
    pub(crate) fn holder(&self, key: &str, such: impl Fn(&str) -> bool) -> Option<Arc<str>> {
        let state = self.lock();
        let all = state.by_object.get(key)?.iter();
        let held = all.filter(|(id, entry)| such(id) && !entry.is_lost());
        let (id, _) = held.max_by_key(|(_, entry)| entry.since)?;
        Some(Arc::clone(id))
    }

    /// All ids under which `key` is held here.
    pub(crate) fn holders(&self, key: &str) -> Vec<Arc<str>> {
        let state = self.lock();
        let all = state.by_object.get(key).into_iter().flatten();
        let held = all.filter(|(_, entry)| !entry.is_lost());
        held.map(|(id, _)| Arc::clone(id)).collect()
    }

    /// It is held, and renewed from now on. Its end stays where it is known already; else it ends at `until` for the time being. Returns
    /// its lease, which may be lost by now.
    pub(crate) fn keep(
        &self,
        key: &Arc<str>,
        id: &Arc<str>,
        until: Moment,
        renewing: Renewing,
    ) -> Lease {
        let mut state = self.lock();
        let known = state.change(key, id, |entry| {
            entry.set_renewed(true);
            entry.renewing = renewing;
            entry.reschedule();
            entry.lease.clone()
        });
        if let Some(known) = known.filter(|lease| !lease.is_lost()) {
            return known;
        }
        state.take(key, id);
        state.insert(key, id, until, renewing, true, None)
    }

    /// It is held, with this beside it.
    pub(crate) fn keep_beside(
        &self,
        key: &Arc<str>,
        id: &Arc<str>,
        until: Moment,
        renewing: Renewing,
        renewed: bool,
        beside: impl Any + Send,
    ) {
        let mut state = self.lock();
        state.drop(key, id, Change::Lost);
        state.insert(key, id, until, renewing, renewed, Some(Box::new(beside)));
    }

    /// It is renewed no more; its end is still known, though its lease does not follow it any more.
    pub(crate) fn keep_no_more(&self, key: &str, id: &str) {
        self.change(key, id, LeaseEntry::detach);
    }

    /// It has another id from now on, and is not renewed until it is [kept](LeaseTable::keep) again.
    pub(crate) fn rename(&self, key: &Arc<str>, id: &Arc<str>, new: &Arc<str>) {
        let mut state = self.lock();
        let version = state.number();
        if let Some(mut entry) = state.take(key, id) {
            entry.version = version;
            entry.set_renewed(false);
            entry.schedule();
            state.put(key, new, entry);
        }
    }

    /// The server says that it ends at `until`. That is remembered for a while, also without a holder.
    pub(crate) fn ends(&self, key: &Arc<str>, id: &Arc<str>, until: Moment, renewing: Renewing) {
        let mut state = self.lock();
        let known = state.change(key, id, |entry| entry.ends(until));
        if known.is_none() {
            state.insert(key, id, until, renewing, false, None);
        }
    }

    /// It has been released.
    pub(crate) fn end(&self, key: &str, id: &str) {
        self.lock().drop(key, id, Change::Ended);
    }

    /// The server says that it is not held. Whether it was believed to be.
    pub(crate) fn lost(&self, key: &str, id: &str) -> bool {
        self.lock().drop(key, id, Change::Lost)
    }

    /// How far the table has come.
    pub(crate) fn kept(&self) -> Kept {
        Kept(self.lock().last)
    }

    /// All that was held of it when the table had come so far is held no more, but for what stays.
    pub(crate) fn all_lost(&self, key: &str, kept: Kept, stays: impl Fn(&str) -> bool) {
        self.lock().lose_all(key, kept, stays);
    }

    // ---- renewal ----

    /// When the task that renews has to look again; `None`: there is nothing to renew.
    pub(super) fn next(&self) -> Option<Instant> {
        self.lock().next
    }

    /// Wakes the task that renews.
    pub(super) fn woken(&self) -> Arc<Notify> {
        Arc::clone(&self.lock().woken)
    }

    /// Takes out what is due, and what goes along with it: each part for one call. An entry that is left is not looked for again before
    /// a tenth of its time has passed.
    pub(super) fn take_due(&self, slot: impl Fn(&str) -> u16) -> Vec<(Renewing, Vec<Renewal>)> {
        let (mut state, now) = (self.lock(), Instant::now());
        if state.next.is_none_or(|next| next > now) {
            return Vec::new();
        }
        let (mut taken, mut next) = (Vec::new(), None);
        for (key, all) in &mut state.by_object {
            for (id, entry) in all {
                if let Some(at) = entry.due_behind(now) {
                    next = next.into_iter().chain([at]).min();
                } else if entry.take() {
                    let (place, version) = ((Arc::clone(key), Arc::clone(id)), entry.version);
                    let kind = (slot(key), entry.renewing.kind(), entry.most_together());
                    let others = (entry.renewing.others)(key, id, entry);
                    let renewal = Renewal {
                        place,
                        others,
                        version,
                    };
                    taken.push((kind, entry.renewing, renewal));
                }
            }
        }
        state.next = next;
        drop(state);
        taken.sort_by_key(|(kind, ..)| *kind);
        let alike = taken.chunk_by(|one, other| one.0 == other.0);
        let parts = alike.flat_map(|alike| alike.chunks(alike[0].0.2));
        let calls = parts.map(|part| {
            (
                part[0].1,
                part.iter().map(|(.., one)| one.clone()).collect(),
            )
        });
        calls.collect()
    }

    /// Those that are held and have not changed since they were taken out.
    pub(super) fn unchanged(&self, mut some: Vec<Renewal>) -> Vec<Renewal> {
        let mut state = self.lock();
        some.retain(|renewal| state.renewed(renewal).is_some_and(|entry| !entry.is_lost()));
        some
    }

    /// The server has answered to a renewal: whether it is held, at least until `until` then. Returns whether that is a loss.
    pub(super) fn renewed(&self, renewal: &Renewal, held: bool, until: Moment) -> bool {
        let mut state = self.lock();
        let Some(entry) = state.renewed(renewal) else {
            return false;
        };
        if held {
            entry.lasts(until);
            return false;
        }
        let (key, id) = &renewal.place;
        state.drop(key, id, Change::Lost)
    }

    /// A call for these was refused. Returns whether to report that: it is about one, and was not reported yet.
    pub(super) fn refused(&self, some: &[Renewal]) -> bool {
        let (mut state, mut tells) = (self.lock(), false);
        for renewal in some {
            if let Some(entry) = state.renewed(renewal) {
                tells |= entry.is_refused(some.len() == 1);
                let due = entry.due_at();
                state.wakes_at(due);
            }
        }
        tells
    }

    /// The call that had these has ended, whatever has become of it.
    pub(super) fn call_ended(&self, some: &[Renewal]) {
        let mut state = self.lock();
        for (key, id) in some.iter().map(|renewal| &renewal.place) {
            if let Some(entry) = state.of(key, id).filter(|entry| entry.due.is_none()) {
                entry.schedule();
                let due = entry.due_at();
                state.wakes_at(due);
            }
        }
    }
}

impl Table {
    fn of(&mut self, key: &str, id: &str) -> Option<&mut LeaseEntry> {
        self.by_object.get_mut(key)?.get_mut(id)
    }

    fn change<T>(
        &mut self,
        key: &str,
        id: &str,
        change: impl FnOnce(&mut LeaseEntry) -> T,
    ) -> Option<T> {
        let version = self.number();
        let entry = self.of(key, id)?;
        entry.version = version;
        let changed = change(entry);
        let due = entry.due_at();
        self.wakes_at(due);
        Some(changed)
    }

    /// The entry that a call renews, unless it has changed since: that has an answer of its own.
    fn renewed(&mut self, renewal: &Renewal) -> Option<&mut LeaseEntry> {
        let (key, id) = &renewal.place;
        let entry = self.of(key, id)?;
        (entry.version == renewal.version).then_some(entry)
    }

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Something is due at that time.
    fn wakes_at(&mut self, due: Option<Instant>) {
        if let Some(due) = due
            && self.next.is_none_or(|next| due < next)
        {
            self.next = Some(due);
            self.wake();
        }
    }

    fn wake(&self) {
        let woken = Arc::clone(&self.woken);
        unlocked(move || woken.notify_one());
    }

    fn insert(
        &mut self,
        key: &Arc<str>,
        id: &Arc<str>,
        until: Moment,
        renewing: Renewing,
        renewed: bool,
        beside: Option<Box<dyn Any + Send>>,
    ) -> Lease {
        let entry = LeaseEntry::new(until, renewing, renewed, self.number()).with(beside);
        let lease = entry.lease.clone();
        self.put(key, id, entry);
        lease
    }

    fn put(&mut self, key: &Arc<str>, id: &Arc<str>, entry: LeaseEntry) {
        self.tidy();
        self.wakes_at(entry.due_at());
        let all = self.by_object.entry(Arc::clone(key)).or_default();
        if all.insert(Arc::clone(id), entry).is_none() {
            self.size += 1;
        }
    }

    fn take(&mut self, key: &str, id: &str) -> Option<LeaseEntry> {
        let all = self.by_object.get_mut(key)?;
        let entry = all.remove(id)?;
        if all.is_empty() {
            self.by_object.remove(key);
        }
        self.size -= 1;
        Some(entry)
    }

    /// Takes an entry out, whose lease ends so; whether there was one.
    fn drop(&mut self, key: &str, id: &str, change: Change) -> bool {
        let entry = self.take(key, id);
        entry.is_some_and(|entry| {
            entry.lease.set(change);
            true
        })
    }

    /// Nobody holds anything of it any more but those that stay.
    fn lose_all(&mut self, key: &str, Kept(last): Kept, stays: impl Fn(&str) -> bool) {
        let all = self.by_object.get(key).into_iter().flatten();
        let gone = all.filter(|(id, entry)| entry.since <= last && !stays(id));
        let gone: Vec<_> = gone.map(|(id, _)| Arc::clone(id)).collect();
        for id in gone {
            self.drop(key, &id, Change::Lost);
        }
    }

    /// Makes room: leases that have run out are of no use, and remembered ones rarely are.
    fn tidy(&mut self) {
        if self.size >= self.most {
            self.by_object.retain(|_, all| {
                all.retain(|_, entry| !entry.is_only_remembered() && !entry.is_lost());
                !all.is_empty()
            });
            self.size = self.by_object.values().map(BTreeMap::len).sum();
            self.most = FEW.max(2 * self.size);
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.wake();
    }
}
