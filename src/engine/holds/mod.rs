//! What the owners of one client hold, as far as is known here: one table, which outlives the handles.
//!
//! Guards, leases, renewal, and what the scripts are told of an owner's count go by it. A lock has one entry, as only
//! one owner can hold it, for as long as anything of it is held; each time that the lock was taken has a number of its
//! own there, by which it is given back. Of a semaphore whose permits have ids, each permit that is kept has an entry, its
//! id being the owner.

mod holding;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use self::holding::{Holding, Version};
pub(crate) use self::holding::{Renewing, Term};
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

/// What is to be renewed; its answer is about something else as soon as the version is another one.
pub(crate) struct Renewal {
    pub(crate) place: Place,
    version: Version,
}

/// All that the owners of one client hold.
///
/// What changes is told by [`tell`](Holds::tell): whoever calls must do so afterwards, when nothing is locked.
#[derive(Default)]
pub(crate) struct Holds {
    state: Mutex<State>,
}

/// What was kept at a certain time.
#[derive(Clone, Copy)]
pub(crate) struct Kept(u64);

#[derive(Default)]
struct State {
    /// By object and by owner.
    by_object: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Holding>>,
    /// How many entries there are.
    size: usize,
    last_number: u64,
    /// As many entries as there may be until those that are over are looked for.
    most: usize,
    /// There is a task that renews what lasts so long.
    renewing: BTreeSet<Duration>,
    /// Something has changed of these, and nobody has been told.
    changed: Vec<Lease>,
}

/// Entries that are over are not looked for among fewer than this.
const FEW: usize = 1000;

impl State {
    fn of(&mut self, lock: &str, owner: &str) -> Option<&mut Holding> {
        self.by_object.get_mut(lock)?.get_mut(owner)
    }

    /// Notes what an owner holds who has held nothing.
    fn insert(&mut self, lock: &Arc<str>, holding: Holding) {
        self.tidy();
        let owners = self.by_object.entry(Arc::clone(lock)).or_default();
        if owners.insert(Arc::clone(&holding.owner), holding).is_none() {
            self.size += 1;
        }
    }

    /// Takes out what `owner` holds.
    fn take(&mut self, lock: &str, owner: &str) -> Option<Holding> {
        let owners = self.by_object.get_mut(lock)?;
        let holding = owners.remove(owner)?;
        if owners.is_empty() {
            self.by_object.remove(lock);
        }
        self.size -= 1;
        Some(holding)
    }

    /// Nobody holds anything of it any more.
    fn lose_all(&mut self, lock: &str, Kept(last): Kept) {
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
    fn remove(&mut self, lock: &str, owner: &str, number: Option<u64>) -> Option<&mut Holding> {
        if !self.of(lock, owner)?.remove(number) {
            self.end(lock, owner);
        }
        self.of(lock, owner)
    }

    /// All that `owner` holds has been given back.
    fn end(&mut self, lock: &str, owner: &str) {
        if let Some(holding) = self.take(lock, owner) {
            self.change(holding.lease, Change::Ended);
        }
    }

    fn change(&mut self, lease: Lease, change: Change) {
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

impl Holds {
    /// How many entries there are.
    pub(super) fn entries(&self) -> usize {
        self.lock().size
    }

    fn lock(&self) -> MutexGuard<'_, State> {
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
        self.counted(lock, owner, Holding::count)
    }

    /// The same before the hold with this number is given back.
    pub(crate) fn count_with(&self, lock: &str, owner: &str, number: Option<u64>) -> Count {
        self.counted(lock, owner, |holding| Some(holding.count_with(number)))
    }

    fn counted(
        &self,
        lock: &str,
        owner: &str,
        count: impl FnOnce(&Holding) -> Option<u32>,
    ) -> Count {
        match self.lock().of(lock, owner) {
            None => Count::Held(0),
            Some(holding) if holding.lease.is_lost() => Count::Over,
            Some(holding) => count(holding).map_or(Count::Over, Count::Held),
        }
    }

    /// Whether anything is known of `object`.
    pub(crate) fn keeps_some_of(&self, object: &str) -> bool {
        self.lock().by_object.contains_key(object)
    }

    /// Whether some owner here holds `lock`.
    pub(crate) fn is_held(&self, lock: &str) -> bool {
        let state = self.lock();
        let owners = state.by_object.get(lock);
        owners.is_some_and(|owners| owners.values().any(|holding| !holding.lease.is_lost()))
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

    /// `owner` has taken the lock for `term`, and all that it holds ends at `until` for the time being. Returns the lease
    /// and what tells the new hold from others.
    pub(crate) fn taken(
        &self,
        lock: &Arc<str>,
        owner: &Arc<str>,
        term: Term,
        until: Moment,
        renewing: Renewing,
    ) -> (Lease, HoldId) {
        let mut state = self.lock();
        state.last_number += 1;
        let id = HoldId::new(state.last_number);
        if let Some(holding) = state.of(lock, owner)
            && !holding.lease.is_lost()
        {
            holding.add(&id, term, until);
            let lease = holding.lease.clone();
            state.changed.push(lease.clone());
            return (lease, id);
        }
        let holding = Holding::new(owner, &id, term, until, renewing);
        let lease = holding.lease.clone();
        // Whoever held it before has lost it.
        let all = Kept(state.last_number);
        state.lose_all(lock, all);
        state.insert(lock, holding);
        (lease, id)
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
        let id = HoldId::new(state.last_number);
        let holding = Holding::new(owner, &id, term, until, renewing);
        let lease = holding.lease.clone();
        if !lease.is_lost() {
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

    /// A step of `owner` departs that makes all that is left end at `until`; whether it arrives is not known yet.
    pub(crate) fn departs(&self, lock: &str, owner: &str, until: Moment) {
        self.change(lock, owner, |holding| holding.may_end(until));
    }

    /// It has not taken effect.
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

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use futures::FutureExt;
    use tokio::time::Instant;

    use super::super::request::{Arg, Script};
    use super::*;

    static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new("return 1"));
    static OTHER: LazyLock<Script> = LazyLock::new(|| Script::new("return 2"));

    const SECOND: Duration = Duration::from_secs(1);
    const WATCHDOG: Duration = Duration::from_secs(30);
    const RENEWING: Renewing = Renewing {
        script: &SCRIPT,
        several: false,
        owner: |owner| Arg::Text(Arc::clone(owner)),
        most: 100,
        lease: WATCHDOG,
    };
    const SHORT: Term = Term::Limited(SECOND);
    const LONG: Term = Term::Limited(Duration::from_secs(60));

    fn after(seconds: u32) -> Moment {
        (Instant::now() + seconds * SECOND).into()
    }

    /// `a` takes the lock `x` for `term`.
    fn take(holds: &Holds, term: Term, until: Moment) -> (Lease, u64) {
        let (lease, id) = holds.taken(&"x".into(), &"a".into(), term, until, RENEWING);
        (lease, id.number())
    }

    fn release(holds: &Holds, number: Option<u64>, left: bool) {
        holds.released("x", "a", number, left.then(|| after(60)));
    }

    /// The locks whose renewal is due.
    fn due(holds: &Holds) -> Vec<Renewal> {
        let renewals = holds.next_renewals(&mut holds.to_renew(WATCHDOG), 100, |_| 0);
        renewals.map_or_else(Vec::new, |(_, some)| some)
    }

    #[tokio::test(start_paused = true)]
    async fn holds_are_counted_and_end_together() {
        let holds = Holds::default();
        let (lease, first) = take(&holds, Term::Watched, after(60));
        let (_, second) = take(&holds, SHORT, after(60));
        assert_eq!(holds.count("x", "a"), Count::Held(2));
        assert_eq!(holds.count("x", "b"), Count::Held(0));
        assert_eq!(
            holds.term_without("x", "a", Some(second)),
            Some(Term::Watched)
        );
        assert_eq!(holds.term_without("x", "a", Some(first)), Some(SHORT));
        release(&holds, Some(first), true);
        assert_eq!(holds.term_without("x", "a", Some(second)), None);
        assert!(holds.is_held("x") && !holds.is_watched("x", "a"));
        release(&holds, Some(second), false);
        assert!(!holds.is_held("x") && !lease.is_lost());
        assert!(holds.lock().by_object.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_number_the_latest_that_is_nobodys_is_meant() {
        let holds = Holds::default();
        let take = |term| {
            let (lease, id) = holds.taken(&"x".into(), &"a".into(), term, after(60), RENEWING);
            (lease, id)
        };
        assert_eq!(holds.latest("x", "a"), None);
        let (_, first) = take(SHORT);
        drop(take(LONG));
        let (lease, third) = take(SHORT);
        let second = holds.latest("x", "a");
        assert_eq!(second, Some(first.number() + 1));
        assert_eq!(holds.term_without("x", "a", second), Some(SHORT));
        release(&holds, second, true);
        assert_eq!(holds.latest("x", "a"), Some(third.number()));
        let number = first.number();
        drop(first);
        assert_eq!(holds.latest("x", "a"), Some(number));
        release(&holds, Some(number), true);
        // One that was given back already does not stand for another.
        assert!(holds.is_gone("x", "a", number));
        release(&holds, Some(number), true);
        assert_eq!(holds.count("x", "a"), Count::Held(1));
        release(&holds, Some(third.number()), false);
        assert!(!lease.is_lost() && !holds.is_held("x"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_lost_is_not_what_is_held() {
        let holds = Holds::default();
        let (old, number) = take(&holds, SHORT, after(1));
        tokio::time::sleep(SECOND).await;
        assert!(old.is_lost() && !holds.is_held("x"));
        assert_eq!(holds.count("x", "a"), Count::Over);
        assert!(!holds.is_gone("x", "a", number), "it may be left over");
        let (new, later) = take(&holds, SHORT, after(1));
        assert!(holds.is_gone("x", "a", number) && !holds.is_gone("x", "a", later));
        assert_eq!(holds.count("x", "a"), Count::Held(1));
        // Another owner has it.
        holds.taken(&"x".into(), &"b".into(), LONG, after(60), RENEWING);
        assert!(new.is_lost() && holds.is_gone("x", "a", later));
        assert_eq!(holds.count("x", "a"), Count::Held(0));
        let lease = holds.lease("x", "b").unwrap();
        holds.lost("x", "a");
        assert!(!lease.is_lost());
        holds.all_lost("x", holds.kept());
        assert!(lease.is_lost() && holds.lease("x", "b").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_that_is_not_answered_may_bring_the_end_nearer() {
        let holds = Holds::default();
        let (lease, _) = take(&holds, LONG, after(60));
        holds.departs("x", "a", after(1));
        assert_eq!(lease.remaining(), Some(SECOND));
        holds.departs("x", "a", after(2));
        assert_eq!(lease.remaining(), Some(SECOND));
        holds.stays("x", "a");
        assert_eq!(lease.remaining(), Some(60 * SECOND));
        holds.departs("x", "a", after(100));
        assert_eq!(lease.remaining(), Some(60 * SECOND));
        take(&holds, LONG, after(100));
        assert_eq!(lease.remaining(), Some(100 * SECOND));
        holds.departs("x", "a", after(1));
        tokio::time::sleep(SECOND).await;
        assert!(lease.is_lost());
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_that_will_not_be_answered_counts_until_the_next_renewal() {
        let holds = Holds::default();
        let (lease, _) = take(&holds, Term::Watched, after(30));
        let earlier = due(&holds);
        holds.departs("x", "a", after(10));
        let meanwhile = due(&holds);
        holds.is_not_answered("x", "a");
        for renewal in [&earlier[0], &meanwhile[0]] {
            assert!(!holds.renewed(renewal, true, after(40)));
            assert_eq!(lease.remaining(), Some(10 * SECOND));
        }
        assert!(!holds.renewed(&due(&holds)[0], true, after(40)));
        assert_eq!(lease.remaining(), Some(40 * SECOND));
        // One that is still to be answered is told by its own answer.
        holds.departs("x", "a", after(10));
        assert!(!holds.renewed(&due(&holds)[0], true, after(50)));
        assert_eq!(lease.remaining(), Some(10 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_held_without_a_lease_is_renewed_until_it_leaves() {
        let holds = Holds::default();
        assert!(holds.begin_renewing(WATCHDOG) && !holds.begin_renewing(WATCHDOG));
        let (lease, _) = take(&holds, SHORT, after(30));
        assert!(due(&holds).is_empty());
        assert!(holds.begin_renewing(WATCHDOG), "there was nothing to renew");
        let (_, watched) = take(&holds, Term::Watched, after(30));
        assert!(!holds.begin_renewing(WATCHDOG));
        let renewals = due(&holds);
        assert!(!holds.renewed(&renewals[0], true, after(40)));
        assert_eq!(lease.remaining(), Some(40 * SECOND));
        // An end is only ever put off.
        assert!(!holds.renewed(&renewals[0], true, after(20)));
        assert_eq!(lease.remaining(), Some(40 * SECOND));
        holds.departs("x", "a", after(1));
        assert!(!holds.renewed(&renewals[0], true, after(50)));
        assert_eq!(lease.remaining(), Some(SECOND));
        holds.stays("x", "a");
        assert_eq!(lease.remaining(), Some(40 * SECOND));
        // The answer comes late: it was renewed before its end was brought nearer.
        let (_, limited) = take(&holds, SHORT, after(60));
        let renewals = due(&holds);
        holds.departs("x", "a", after(30));
        holds.released("x", "a", Some(limited), Some(after(30)));
        assert!(!holds.renewed(&renewals[0], true, after(50)));
        assert_eq!(lease.remaining(), Some(30 * SECOND));

        holds.leaves("x", "a", Some(watched), true);
        assert!(due(&holds).is_empty());
        holds.leaves("x", "a", Some(watched), false);
        assert_eq!(due(&holds).len(), 1);
        release(&holds, Some(watched), true);
        assert!(due(&holds).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_held_any_more_when_it_is_to_be_renewed() {
        let holds = Holds::default();
        let (lease, _) = take(&holds, Term::Watched, after(30));
        let renewals = due(&holds);
        assert!(holds.renewed(&renewals[0], false, after(30)));
        assert!(lease.is_lost() && holds.lease("x", "a").is_none());
        // The answer comes when it is given back, or when that has been taken anew.
        let (lease, number) = take(&holds, Term::Watched, after(30));
        assert!(!holds.renewed(&renewals[0], false, after(30)));
        let renewals = due(&holds);
        holds.leaves("x", "a", Some(number), true);
        assert!(!holds.renewed(&renewals[0], false, after(30)));
        holds.spend("x", "a", number);
        assert!(!holds.renewed(&renewals[0], false, after(30)));
        assert!(!lease.is_lost() && lease.lost().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn what_could_not_be_given_back_does_not_count() {
        let holds = Holds::default();
        let (lease, first) = take(&holds, LONG, after(60));
        let (_, second) = take(&holds, Term::Watched, after(60));
        holds.spend("x", "a", second);
        assert_eq!(holds.count("x", "a"), Count::Held(1));
        assert_eq!(holds.count_with("x", "a", Some(second)), Count::Held(2));
        assert!(!holds.is_watched("x", "a") && !holds.is_gone("x", "a", second));
        holds.leaves("x", "a", Some(second), false);
        assert!(!holds.is_watched("x", "a"));
        assert_eq!(holds.term_without("x", "a", Some(first)), None);
        holds.spend("x", "a", first);
        assert_eq!(holds.count("x", "a"), Count::Over, "it may be left over");
        assert_eq!(holds.count_with("x", "a", Some(first)), Count::Held(1));
        assert!(!lease.is_lost() && holds.is_held("x"));
        // Taken anew, it is counted from one on.
        let (_, third) = take(&holds, LONG, after(60));
        assert_eq!(holds.count_with("x", "a", Some(third)), Count::Held(1));
        assert!(holds.is_gone("x", "a", first) && holds.is_gone("x", "a", second));
    }

    #[tokio::test(start_paused = true)]
    async fn renewals_are_those_of_the_moment() {
        let holds = Holds::default();
        for number in 0..25 {
            let script = if number < 20 { &SCRIPT } else { &OTHER };
            let renewing = Renewing { script, ..RENEWING };
            let lock = format!("lock-{number}").into();
            holds.taken(&lock, &"a".into(), Term::Watched, after(60), renewing);
        }
        let mut places = holds.to_renew(WATCHDOG);
        places.sort();
        assert_eq!(places.len(), 25);
        let mut seen = 0;
        while let Some((renewing, some)) = holds.next_renewals(&mut places, 8, |_| 0) {
            assert!(!some.is_empty() && some.len() <= 8);
            let lock = &some[0].place.0;
            let other = lock["lock-".len()..].parse::<u32>().unwrap() >= 20;
            assert_eq!(std::ptr::eq(renewing.script, &raw const OTHER), other);
            seen += some.len();
            // Each one of a call takes the next one away.
            if let Some((lock, owner)) = places.last() {
                holds.released(lock, owner, holds.latest(lock, owner), None);
                seen += 1;
            }
        }
        assert_eq!((seen, places.len()), (25, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn many_hold_something_of_one_object() {
        let holds = Holds::default();
        let object = "x".into();
        let keep = |owner: &str, term, until, lease| {
            let renewing = Renewing { lease, ..RENEWING };
            holds.keep(&object, &owner.into(), term, until, renewing)
        };
        let one = keep("one", Term::Watched, after(30), WATCHDOG);
        let two = keep("two", Term::Watched, after(5), 5 * SECOND);
        let three = keep("three", SHORT, after(60), WATCHDOG);
        assert!(keep("late", Term::Watched, Moment::now(), WATCHDOG).is_lost());
        assert!(keep("one", Term::Watched, after(99), WATCHDOG).is_same(&one));
        assert_eq!(one.remaining(), Some(30 * SECOND), "as the server said");
        let owners = |lease| -> Vec<String> {
            let places = holds.to_renew(lease).into_iter();
            places.map(|(_, owner)| owner.to_string()).collect()
        };
        // What lasts for another time is renewed at other times.
        assert!(holds.begin_renewing(WATCHDOG) && holds.begin_renewing(5 * SECOND));
        assert_eq!(
            (owners(WATCHDOG), owners(5 * SECOND)),
            (vec!["one".to_owned()], vec!["two".to_owned()])
        );
        assert!(keep("three", Term::Watched, after(1), WATCHDOG).is_same(&three));
        assert_eq!(owners(WATCHDOG), ["one", "three"]);
        holds.ends(&object, &"one".into(), after(40), RENEWING);
        assert_eq!(one.remaining(), Some(40 * SECOND));
        holds.keep_no_more("x", "one");
        assert_eq!(owners(WATCHDOG), ["three"]);
        holds.ends(&object, &"one".into(), after(50), RENEWING);
        assert_eq!(one.remaining(), Some(40 * SECOND), "it is told nothing");
        let one = keep("one", Term::Watched, after(1), WATCHDOG);
        assert_eq!(one.remaining(), Some(50 * SECOND));
        holds.keep_no_more("x", "one");
        holds.ends(&object, &"four".into(), after(20), RENEWING);
        let four = keep("four", Term::Watched, after(1), WATCHDOG);
        assert_eq!(four.remaining(), Some(20 * SECOND));
        holds.released("x", "four", None, None);
        holds.released("x", "three", None, None);
        holds.lost("x", "two");
        assert!(two.is_lost() && !one.is_lost() && !three.is_lost() && !four.is_lost());
        assert!(owners(5 * SECOND).is_empty() && holds.begin_renewing(5 * SECOND));
        let five = keep("five", Term::Watched, after(30), WATCHDOG);
        holds.all_lost("x", holds.kept());
        assert!(five.is_lost() && !one.is_lost());
        assert_eq!(holds.lock().size, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_run_out_makes_room() {
        let holds = Holds::default();
        for number in 0..10 * FEW {
            let lock = format!("lock-{number}").into();
            holds.taken(&lock, &"a".into(), SHORT, after(1), RENEWING);
            if number % FEW == 0 {
                tokio::time::sleep(SECOND).await;
            }
        }
        assert!(holds.lock().size <= 2 * FEW);
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_keeps_makes_room() {
        let holds = Holds::default();
        let keep = |number: usize, term| {
            let owner = format!("{number}").into();
            holds.keep(&"x".into(), &owner, term, after(30), RENEWING)
        };
        let kept: Vec<_> = (0..10).map(|number| keep(number, Term::Watched)).collect();
        for number in 0..10 * FEW {
            holds.ends(
                &"x".into(),
                &format!("{number}").into(),
                after(60),
                RENEWING,
            );
        }
        assert!(holds.lock().size <= 2 * FEW);
        // What is kept behind that lasts as long as the server has said.
        let last = keep(10 * FEW - 1, Term::Watched);
        for lease in kept.iter().chain([&last]) {
            assert_eq!(lease.remaining(), Some(60 * SECOND));
        }
    }
}
