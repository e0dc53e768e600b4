//! Deletes records that are not needed any more.
//!
//! The script names the number of the last call on each record, and a record with a later one stays. So it may arrive
//! late, twice, or never, and no call has to wait for it: a call that is under way meanwhile has a later number.
//!
//! In a cluster a script has the records of one slot only.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use futures::future::join_all;
use futures::{StreamExt, stream};

use super::core::Core;
use super::records::TOGETHER;
use super::request::{Arg, Request, Script};
use crate::lua;
use crate::transport::Failure;

static FORGET: LazyLock<Script> = LazyLock::new(|| Script::new(lua::FORGET));

/// A record is left for one of these at least, and for two at the most.
const PACE: Duration = Duration::from_millis(500);
/// So many scripts are on their way to a server at once.
const AT_ONCE: usize = 16;
/// The shutdown waits for that for so long.
const LAST_CHANCE: Duration = Duration::from_secs(1);

impl Core {
    /// The call with this number on the record at `key` has been answered when it was sent for the first time.
    pub(super) fn record_is_unneeded(self: &Arc<Self>, key: &Arc<str>, number: u64) {
        let starts = self.records.lock().note(key, number);
        if starts {
            self.runtime.spawn(watch(Arc::downgrade(self)));
        }
    }

    /// The object of the record at `key` has callers that wait.
    pub(crate) fn record_is_awaited(&self, key: &Arc<str>) {
        self.records.lock().wait(key);
    }

    /// A call on the record at `key` has been sent, and not answered.
    pub(super) fn record_is_needed(&self, key: &Arc<str>) {
        let life = self.config.record_life();
        self.records.lock().note_unanswered(key, life);
    }

    /// Whether a call on the record at `key` may arrive late.
    pub(crate) fn record_is_uncertain(&self, key: &Arc<str>) -> bool {
        self.records.lock().is_uncertain(key)
    }

    /// Deletes what is left, as far as the servers are there.
    pub(super) async fn give_all_records_back(&self) {
        let giving = async {
            self.give_records_back(self.records.take_all()).await;
            let _running = self.records.round().await;
        };
        // The remaining records expire by themselves.
        let _ = tokio::time::timeout(LAST_CHANCE, giving).await.is_ok();
    }

    /// Deletes the records that were not used for a while. Returns whether there may be more later.
    async fn give_unused_records_back(&self) -> bool {
        let _round = self.records.round().await;
        let unused = self.records.take_unused(self.config.record_life());
        let left = self.give_records_back(unused).await;
        let mut state = self.records.lock();
        state.put_back(&left);
        state.watched = state.is_worth_a_look();
        state.watched
    }

    /// Deletes these, at all masters side by side; those that are left.
    async fn give_records_back(&self, records: impl IntoIterator<Item = Unused>) -> Vec<Unused> {
        let mut by_master: BTreeMap<String, Vec<Unused>> = BTreeMap::new();
        for one in records {
            let master = self.connection.master_of(&one.0);
            by_master.entry(master).or_default().push(one);
        }
        let all = by_master
            .into_values()
            .map(|some| self.give_back_at_one(some));
        join_all(all).await.into_iter().flatten().collect()
    }

    /// The same at one master. Where it does not answer, nothing more is sent to it.
    async fn give_back_at_one(&self, mut records: Vec<Unused>) -> Vec<Unused> {
        let slot = |(key, _): &Unused| self.connection.slot(key);
        records.sort_by_cached_key(slot);
        let alike = records.chunk_by(|one, two| slot(one) == slot(two));
        let is_away = &AtomicBool::new(false);
        let send = |some: Vec<Unused>| async move {
            if is_away.load(Ordering::Relaxed) {
                return some;
            }
            match self.try_once(&forget(&some)).await {
                Ok(_) => return Vec::new(),
                Err(Failure::Refused(refusal)) => {
                    if refusal.is_final(false) {
                        self.records.lock().switch_off();
                    }
                }
                Err(_) => is_away.store(true, Ordering::Relaxed),
            }
            some
        };
        let parts: Vec<_> = alike
            .flat_map(|alike| alike.chunks(TOGETHER))
            .map(<[Unused]>::to_vec)
            .collect();
        let sent = stream::iter(parts).map(send).buffer_unordered(AT_ONCE);
        sent.concat().await
    }
}

/// Records, and the number of the last call on each.
type Unused = (Arc<str>, u64);

fn forget(unused: &[Unused]) -> Request {
    let keys = unused.iter().map(|(key, _)| Arc::clone(key)).collect();
    let numbers = unused.iter().map(|(_, number)| Arg::Sequence(*number));
    Request::script(&FORGET, keys, numbers.collect())
}

/// Looks after the records as long as there are any.
async fn watch(core: Weak<Core>) {
    loop {
        tokio::time::sleep(PACE).await;
        let Some(core) = core.upgrade().filter(|core| !core.is_finished()) else {
            return;
        };
        if !core.give_unused_records_back().await {
            return;
        }
    }
}
