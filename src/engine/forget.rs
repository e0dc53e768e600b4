//! Gives records back that nobody needs any more.
//!
//! The script names the number of the last call on each record, and a record with a later one stays. So it may arrive
//! late, twice, or never, and nobody has to wait for it: a call that is under way meanwhile has a later number.
//!
//! In a cluster a script has the records of one slot only.

use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use futures::{StreamExt, stream};

use super::core::Core;
use super::records::TOGETHER;
use super::request::{Arg, Request, Script};
use crate::lua;
use crate::transport::Failure;

static FORGET: LazyLock<Script> = LazyLock::new(|| Script::new(lua::FORGET));

/// A record is left for one of these at least, and for two at the most.
const PACE: Duration = Duration::from_millis(500);
/// So many scripts are on their way at once when a client is shut down.
const AT_THE_END: usize = 16;
/// The shutdown waits for them for so long.
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
        self.records.lock().doubt(key, life);
    }

    /// Deletes what is left, as far as the server is there.
    pub(super) async fn give_all_records_back(&self) {
        let giving = async {
            let _round = self.records.round().await;
            let all = self.by_slot(self.records.take_all());
            let requests: Vec<_> = self.together(&all).map(forget).collect();
            let send = |request| async move { self.try_once(&request).await };
            let each = requests.into_iter().map(send);
            let mut each = stream::iter(each).buffer_unordered(AT_THE_END);
            while let Some(Ok(_)) = each.next().await {}
        };
        // What is left vanishes by itself.
        let _ = tokio::time::timeout(LAST_CHANCE, giving).await.is_ok();
    }

    fn by_slot(&self, records: impl IntoIterator<Item = Unused>) -> Vec<Unused> {
        let mut records: Vec<_> = records.into_iter().collect();
        records.sort_by_cached_key(|(key, _)| self.connection.slot(key));
        records
    }

    /// Those that one script can delete, of `records` in the order of their slots.
    fn together<'a>(&self, records: &'a [Unused]) -> impl Iterator<Item = &'a [Unused]> {
        let slot = |(key, _): &Unused| self.connection.slot(key);
        let by_slot = records.chunk_by(move |one, two| slot(one) == slot(two));
        by_slot.flat_map(|records| records.chunks(TOGETHER))
    }

    /// Gives those back that nobody has used for a while. Whether there may be more later.
    async fn give_unused_records_back(&self) -> bool {
        let _round = self.records.round().await;
        let unused = self.records.take_unused(self.config.record_life());
        let unused = self.by_slot(unused);
        let mut left = &unused[..];
        while let Some(some) = self.together(left).next() {
            match self.try_once(&forget(some)).await {
                Ok(_) => left = &left[some.len()..],
                Err(Failure::Refused(refusal)) if refusal.is_final(false) => {
                    self.records.lock().switch_off();
                    return false;
                }
                Err(_) => break,
            }
        }
        let mut state = self.records.lock();
        state.put_back(left);
        state.watched = state.is_worth_a_look();
        state.watched
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
