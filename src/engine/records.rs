//! Deletes records that are not needed any more.
//!
//! A record (see [`once`](super::once)) is needed while its call is unanswered, and as long as a copy of the call may still
//! arrive. Where every call of late was answered when it was sent for the first time, there is no copy: the record could
//! go at once. It is left until it was not used for half a second or a whole one, and while callers wait, as it would only be made
//! anew. One script deletes up to [`TOGETHER`] of them; in a cluster it has the records of one slot only.
//!
//! The script names the number of the last call on each record, and a record with a later one stays. So it may arrive
//! late, twice, or never, and no call has to wait for it: a call that is under way meanwhile has a later number.
//!
//! A record of a call that was sent and not answered stays for its whole time, and so does one that the server does not delete.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use futures::{StreamExt, stream};

use super::core::Core;
use super::request::{Arg, Request, Script};
use crate::clock::Moment;
use crate::lua;
use crate::sync::Mutex;

static FORGET: LazyLock<Script> = LazyLock::new(|| Script::new(lua::FORGET));

/// A record is left for one of these at least, and for two at the most.
const PACE: Duration = Duration::from_millis(500);
/// One script deletes so many at the most.
const TOGETHER: usize = 64;
/// So many scripts are on their way at once.
const AT_ONCE: usize = 16;
/// The shutdown waits for that for so long.
const LAST_CHANCE: Duration = Duration::from_secs(1);
/// Uncertain records are not looked through while they are fewer than this.
const FEW: usize = 64;

/// The records of one client.
#[derive(Default)]
pub(crate) struct Records {
    state: Mutex<State>,
    round: tokio::sync::Mutex<()>,
}

/// Records, and the number of the last call on each.
type Numbers = BTreeMap<Arc<str>, u64>;

#[derive(Default)]
struct State {
    /// Used since the last look.
    recent: Numbers,
    /// Not used since then.
    older: Numbers,
    /// Those of calls that were sent and not answered, and until when a copy may arrive.
    uncertain: BTreeMap<Arc<str>, Moment>,
    /// When there are so many uncertain records, the expired ones are dropped.
    most: usize,
    /// A task looks.
    watched: bool,
}

impl State {
    /// Whether a task is to be started.
    fn note(&mut self, key: &Arc<str>, number: u64) -> bool {
        if let Some(known) = self.recent.get_mut(key) {
            *known = number;
            return false;
        }
        if self.is_uncertain(key) {
            return false;
        }
        self.older.remove(key);
        self.recent.insert(Arc::clone(key), number);
        !std::mem::replace(&mut self.watched, true)
    }

    fn note_unanswered(&mut self, key: &Arc<str>, life: Duration) {
        self.recent.remove(key);
        self.older.remove(key);
        if self.uncertain.len() >= self.most {
            self.uncertain.retain(|_, until| !until.has_come());
            self.most = FEW.max(2 * self.uncertain.len());
        }
        self.uncertain.insert(Arc::clone(key), Moment::now() + life);
    }

    fn is_uncertain(&self, key: &str) -> bool {
        let until = self.uncertain.get(key);
        until.is_some_and(|until| !until.has_come())
    }

    /// The records that were not used for a while.
    fn take_unused(&mut self) -> Numbers {
        let used = std::mem::take(&mut self.recent);
        std::mem::replace(&mut self.older, used)
    }
}

impl Records {
    /// How many could be deleted some time, and how many are left to their time to live.
    pub(super) fn count(&self) -> (usize, usize) {
        let state = self.state.lock();
        let unneeded = state.recent.len() + state.older.len();
        (unneeded, state.uncertain.len())
    }

    /// None is left that could be deleted.
    pub(super) fn are_given_back(&self) -> bool {
        self.count().0 == 0
    }
}

impl Core {
    /// The call with this number on the record at `key` has been answered when it was sent for the first time.
    pub(super) fn note_answered(self: &Arc<Self>, key: &Arc<str>, number: u64) {
        let starts = self.records.state.lock().note(key, number);
        if starts {
            self.runtime.spawn(watch(Arc::downgrade(self)));
        }
    }

    /// A call on the record at `key` has been sent, and not answered.
    pub(super) fn note_unanswered(&self, key: &Arc<str>) {
        let life = self.config.record_life();
        self.records.state.lock().note_unanswered(key, life);
    }

    /// Callers wait for the object of the record at `key`: the next call is sure to come.
    pub(crate) fn keep_record(&self, key: &str) {
        self.records.state.lock().recent.remove(key);
    }

    /// Whether a call on the record at `key` may arrive late.
    pub(crate) fn record_is_uncertain(&self, key: &Arc<str>) -> bool {
        self.records.state.lock().is_uncertain(key)
    }

    /// Deletes what is left, as far as the servers are there.
    pub(super) async fn give_all_records_back(&self) {
        let giving = async {
            // First the older ones, then the others.
            self.give_unused_records_back().await;
            self.give_unused_records_back().await;
        };
        let _ = tokio::time::timeout(LAST_CHANCE, giving).await.is_ok();
    }

    /// Deletes the records that were not used for a while.
    async fn give_unused_records_back(&self) {
        let _round = self.records.round.lock().await;
        let unused = self.records.state.lock().take_unused();
        let mut unused: Vec<_> = unused.into_iter().collect();
        let slot = |(key, _): &(Arc<str>, u64)| self.connection.slot(key);
        unused.sort_by_cached_key(slot);
        let alike = unused.chunk_by(|one, two| slot(one) == slot(two));
        let parts: Vec<_> = alike.flat_map(|alike| alike.chunks(TOGETHER)).collect();
        let delete = async |some: &[(Arc<str>, u64)]| {
            let keys = some.iter().map(|(key, _)| Arc::clone(key)).collect();
            let numbers = some.iter().map(|(_, number)| Arg::number(*number));
            let request = Request::script(&FORGET, keys, numbers.collect());
            let _ = self.try_once(&request).await;
        };
        stream::iter(parts)
            .for_each_concurrent(AT_ONCE, delete)
            .await;
    }
}

/// Looks after the records as long as there are any that could be deleted.
async fn watch(core: Weak<Core>) {
    loop {
        tokio::time::sleep(PACE).await;
        let Some(core) = core.upgrade().filter(|core| !core.is_finished()) else {
            return;
        };
        core.give_unused_records_back().await;
        let mut state = core.records.state.lock();
        state.watched = !state.older.is_empty() || !state.recent.is_empty();
        if !state.watched {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: Duration = Duration::from_secs(600);

    fn key(number: usize) -> Arc<str> {
        format!("record-{number}").into()
    }

    fn note(state: &mut State, numbers: std::ops::Range<usize>, call: u64) {
        for number in numbers {
            state.note(&key(number), call);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_in_use_is_left_alone() {
        let mut state = State::default();
        for call in 1..5 {
            note(&mut state, 0..100, call);
            assert!(state.take_unused().is_empty(), "{call}");
        }
        note(&mut state, 0..30, 5);
        let unused = state.take_unused();
        assert_eq!(unused.len(), 70);
        assert!(unused.values().all(|call| *call == 4));
        assert_eq!(state.take_unused().len(), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn uncertainty_lasts_as_long_as_a_record() {
        let mut state = State::default();
        note(&mut state, 0..2, 1);
        state.note_unanswered(&key(0), LIFE);
        tokio::time::advance(LIFE - Duration::from_secs(1)).await;
        state.note_unanswered(&key(1), LIFE);
        note(&mut state, 0..2, 2);
        assert!(state.recent.is_empty());
        tokio::time::advance(Duration::from_secs(2)).await;
        // The other's time is not over.
        note(&mut state, 0..2, 3);
        assert_eq!(state.take_unused().len() + state.take_unused().len(), 1);
        tokio::time::advance(LIFE).await;
        note(&mut state, 0..2, 4);
        assert_eq!(state.recent.len(), 2);
        (100..200).for_each(|number| state.note_unanswered(&key(number), LIFE));
        assert_eq!(state.uncertain.len(), 100);
    }
}
