//! Which records are not needed any more.
//!
//! A record (see [`once`](super::once)) is needed while its call is unanswered, and as long as a copy of the call may still
//! arrive. Where every call of late was answered when it was sent for the first time, there is no copy: the record could
//! go at once. It is left until it was not used for half a second or a whole one, and while callers wait, as it would only be made
//! anew. One script deletes up to [`TOGETHER`] of them ([`forget`](super::forget)).
//!
//! A record of a call that was sent and not answered stays for its whole time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::sync::{Mutex, MutexGuard};

/// One script deletes so many at the most.
pub(super) const TOGETHER: usize = 64;

/// The records of one client that could be deleted.
#[derive(Default)]
pub(crate) struct Records {
    state: Mutex<State>,
    round: tokio::sync::Mutex<()>,
}

/// Records, and the number of the last call on each.
type Numbers = BTreeMap<Arc<str>, u64>;

#[derive(Default)]
pub(super) struct State {
    /// Used since the last look.
    recent: Numbers,
    /// Not used since then.
    older: Numbers,
    /// Of objects for which callers wait: the next call is sure to come.
    waiting: Numbers,
    uncertain: Uncertain,
    /// A task looks.
    pub(super) watched: bool,
    /// The server won't have it.
    off: bool,
}

/// Records of calls that were sent and not answered: for the life of a record at least, and for two at the most.
#[derive(Default)]
struct Uncertain {
    recent: BTreeSet<Arc<str>>,
    older: BTreeSet<Arc<str>>,
    /// Since when the recent ones are gathered.
    since: Option<Moment>,
}

impl Uncertain {
    fn contains(&self, key: &Arc<str>) -> bool {
        self.recent.contains(key) || self.older.contains(key)
    }

    fn is_empty(&self) -> bool {
        self.recent.is_empty() && self.older.is_empty()
    }

    fn forget_old(&mut self, life: Duration) {
        if self.since.is_some_and(|since| since.age() >= life) {
            self.older = std::mem::take(&mut self.recent);
            self.since = (!self.older.is_empty()).then(Moment::now);
        }
    }
}

impl Records {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// How many could be deleted some time, and how many are left to their time to live.
    pub(super) fn count(&self) -> (usize, usize) {
        let state = self.lock();
        let uncertain = &state.uncertain;
        (
            state.recent.len() + state.older.len() + state.waiting.len(),
            uncertain.recent.len() + uncertain.older.len(),
        )
    }

    /// No round begins, and the running one ends, until this is dropped.
    pub(super) async fn round(&self) -> impl Drop {
        self.round.lock().await
    }

    /// The records that were not used for a while.
    pub(super) fn take_unused(&self, life: Duration) -> Numbers {
        let mut state = self.lock();
        state.uncertain.forget_old(life);
        let used = std::mem::take(&mut state.recent);
        std::mem::replace(&mut state.older, used)
    }

    /// None is left that could be deleted.
    pub(super) fn are_given_back(&self) -> bool {
        self.count().0 == 0
    }

    pub(super) fn take_all(&self) -> Numbers {
        let mut state = self.lock();
        let mut all = std::mem::take(&mut state.recent);
        all.append(&mut state.older);
        all.append(&mut state.waiting);
        all
    }
}

impl State {
    /// Whether a task is to be started.
    pub(super) fn note(&mut self, key: &Arc<str>, number: u64) -> bool {
        if let Some(known) = self.recent.get_mut(key) {
            *known = number;
            return false;
        }
        if self.off || self.is_uncertain(key) {
            return false;
        }
        self.older.remove(key);
        self.waiting.remove(key);
        self.recent.insert(Arc::clone(key), number);
        !std::mem::replace(&mut self.watched, true)
    }

    /// Callers wait for its object.
    pub(super) fn wait(&mut self, key: &Arc<str>) {
        if let Some((key, number)) = self.recent.remove_entry(key) {
            self.waiting.insert(key, number);
        }
    }

    pub(super) fn is_uncertain(&self, key: &Arc<str>) -> bool {
        self.uncertain.contains(key)
    }

    pub(super) fn note_unanswered(&mut self, key: &Arc<str>, life: Duration) {
        for sure in [&mut self.recent, &mut self.older, &mut self.waiting] {
            sure.remove(key);
        }
        self.uncertain.forget_old(life);
        self.uncertain.since.get_or_insert_with(Moment::now);
        self.uncertain.recent.insert(Arc::clone(key));
    }

    /// These have not been deleted.
    pub(super) fn put_back(&mut self, unused: &[(Arc<str>, u64)]) {
        if self.off {
            return;
        }
        for (key, number) in unused {
            if !self.recent.contains_key(key) && !self.is_uncertain(key) {
                self.older.entry(Arc::clone(key)).or_insert(*number);
            }
        }
    }

    pub(super) fn is_worth_a_look(&self) -> bool {
        !self.older.is_empty() || !self.recent.is_empty() || !self.uncertain.is_empty()
    }

    /// They are left to their time to live from now on.
    pub(super) fn switch_off(&mut self) {
        *self = State {
            off: true,
            uncertain: std::mem::take(&mut self.uncertain),
            ..State::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: Duration = Duration::from_secs(600);

    fn key(number: usize) -> Arc<str> {
        format!("record-{number}").into()
    }

    fn note(records: &Records, numbers: std::ops::Range<usize>, call: u64) {
        for number in numbers {
            records.lock().note(&key(number), call);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_in_use_is_left_alone() {
        let records = Records::default();
        for call in 1..5 {
            note(&records, 0..100, call);
            assert!(records.take_unused(LIFE).is_empty(), "{call}");
        }
        note(&records, 0..30, 5);
        let unused = records.take_unused(LIFE);
        assert_eq!(unused.len(), 70);
        assert!(unused.values().all(|call| *call == 4));
        assert_eq!(records.take_unused(LIFE).len(), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_put_back_does_not_hide_a_later_call() {
        let records = Records::default();
        note(&records, 0..3, 1);
        records.take_unused(LIFE);
        let unused: Vec<_> = records.take_unused(LIFE).into_iter().collect();
        note(&records, 0..1, 2);
        records.lock().note_unanswered(&key(1), LIFE);
        records.lock().put_back(&unused);
        let mut left: Vec<_> = records.take_all().into_iter().collect();
        left.sort();
        assert_eq!(left, [(key(0), 2), (key(2), 1)]);
    }

    #[tokio::test(start_paused = true)]
    async fn uncertainty_lasts_as_long_as_a_record() {
        let records = Records::default();
        records.lock().note_unanswered(&key(0), LIFE);
        tokio::time::advance(LIFE - Duration::from_secs(1)).await;
        note(&records, 0..1, 1);
        records.lock().note_unanswered(&key(1), LIFE);
        tokio::time::advance(Duration::from_secs(2)).await;
        // The other's time is not over.
        records.take_unused(LIFE);
        note(&records, 0..2, 1);
        assert!(records.take_all().is_empty());
        tokio::time::advance(LIFE).await;
        records.take_unused(LIFE);
        assert!(!records.lock().is_worth_a_look());
        note(&records, 0..2, 1);
        assert_eq!(records.take_all().len(), 2);
    }
}
