//! Renewal: one task of a client puts off the end of all that it holds without a lease.
//!
//! It sleeps until an entry of [`holds`](super::holds) is due, a third of its lease after the last confirmation, and takes along what is
//! due soon, a hundred or more of a kind (and of a slot, in a cluster) with one script call. No call waits for another one but where
//! much is under way at its server. An entry that could not be renewed, as the server did not answer or did not let it happen, is due again
//! soon. After a call that is refused for good, as it is for the sake of one key that the server forbids, or as their slot is on its
//! way, each key is tried alone.
//! A loss that the server reports is passed on; an entry that could not be renewed in time is lost by its lease's own clock.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, LazyLock, Weak};

use futures::FutureExt;
use futures::future::OptionFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{Notify, Semaphore};

use super::core::Core;
use super::holds::{Renewal, Renewing};
use super::request::{Arg, Request, Script};
use crate::clock::Moment;
use crate::lua;
use crate::transport::{Failure, Reason, Refusal, Value};

static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new(lua::RENEW));

/// Calls about so many objects are under way at one server: one after the other they would take long where it is far away, and
/// all at once they would keep others waiting.
const OBJECTS: usize = 2000;

impl Core {
    /// One call for what is still to be renewed of `all`, when there is room for it.
    async fn renew_some(
        self: Arc<Self>,
        (renewing, all): (Renewing, Vec<Renewal>),
        room: Arc<Semaphore>,
    ) {
        let size = u32::try_from(all.len()).unwrap_or(u32::MAX);
        let _room = room.acquire_many(size).await;
        let some = self.holds.unchanged(all.clone());
        if !some.is_empty() {
            // A waker of somebody who waits for a loss may panic. The others are renewed.
            let renewed = AssertUnwindSafe(self.renew(&renewing, &some)).catch_unwind();
            if renewed.await.is_err() {
                tracing::error!("a task that was told of a loss panicked");
            }
        }
        self.holds.call_ended(&all);
    }

    async fn renew(&self, renewing: &Renewing, some: &[Renewal]) {
        let until = Moment::now() + renewing.lease;
        let answers = match self.try_once(&request(renewing, some)).await {
            Ok(Value::Array(answers)) if answers.len() == some.len() => answers,
            Ok(other) => {
                tracing::error!(?other, "unexpected answer to a renewal");
                return;
            }
            Err(Failure::Refused(refusal)) if is_about_a_key(&refusal) || refusal.parts_keys() => {
                if self.holds.refused(some) {
                    let ((key, id), why) = (&some[0].place, &refusal.detail);
                    tracing::warn!(key = &**key, owner = &**id, %why, "not renewed; it will be tried again");
                }
                return;
            }
            Err(failure) => {
                if self.not_renewed.is_due() {
                    tracing::warn!(%failure, "not renewed; it will be tried again");
                }
                return;
            }
        };
        for (renewal, answer) in some.iter().zip(answers) {
            if self.holds.renewed(renewal, answer == Value::Int(1), until) {
                let (key, id) = &renewal.place;
                tracing::warn!(key = &**key, owner = &**id, "lost");
            }
        }
    }
}

/// Renews what is held as long as the client is in use.
pub(super) async fn renew(core: Weak<Core>, woken: Arc<Notify>) {
    let mut next = None;
    let mut calls = FuturesUnordered::new();
    let mut rooms: BTreeMap<String, Arc<Semaphore>> = BTreeMap::new();
    loop {
        let due = OptionFuture::from(next.map(tokio::time::sleep_until));
        tokio::select! {
            biased;
            Some(()) = calls.next() => {}
            () = woken.notified() => {}
            Some(()) = due => {}
        }
        let Some(core) = core.upgrade() else { return };
        // Each call has one.
        let is_held = Arc::strong_count(&core) > calls.len() + 1;
        if core.is_finished() || !is_held {
            return;
        }
        for part in core.holds.take_due(|key| core.connection.slot(key)) {
            let room = rooms.entry(core.connection.master_of(&part.1[0].place.0));
            let room = room.or_insert_with(|| Arc::new(Semaphore::new(OBJECTS)));
            calls.push(Arc::clone(&core).renew_some(part, Arc::clone(room)));
        }
        next = core.holds.next();
    }
}

fn request(renewing: &Renewing, some: &[Renewal]) -> Request {
    let mut keys = Vec::new();
    let mut args = vec![Arg::millis(renewing.lease), Arg::Word(renewing.kind)];
    for of_one in some.chunk_by(|one, other| one.place.0 == other.place.0) {
        keys.push(Arc::clone(&of_one[0].place.0));
        args.push(Arg::number(of_one.len()));
        let ids = of_one.iter().map(|renewal| &renewal.place.1);
        args.extend(ids.map(renewing.id));
    }
    keys.extend(some.iter().flat_map(|renewal| renewal.others.clone()));
    Request::script(&RENEW, keys, args)
}

/// Whether a call without the one key that is to blame may be carried out.
fn is_about_a_key(refusal: &Refusal) -> bool {
    refusal.is_final(false) && refusal.reason != Reason::Authentication
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::super::holds::tests::{RENEWING, WATCHDOG};
    use super::*;
    use crate::config::Config;

    /// A change of an entry whose call waits for room leaves the entry out of the call, and it is due again.
    #[test]
    fn a_change_before_its_call_is_renewed_later() {
        let runtime = || {
            let mut runtime = Builder::new_current_thread();
            runtime
                .start_paused(true)
                .enable_all()
                .build()
                .expect("a runtime")
        };
        // Nobody drives it, so the client's own task takes nothing that is due.
        let idle = runtime();
        let core = Core::connect_lazy(
            Config::new("redis://127.0.0.1:1"),
            Some(idle.handle().clone()),
        );
        let core = core.expect("it is lazy");
        runtime().block_on(async {
            let end = || Moment::now() + WATCHDOG;
            let _lease = core.holds.keep(&"x".into(), &"a".into(), end(), RENEWING);
            tokio::time::advance(WATCHDOG / 2).await;
            let part = core.holds.take_due(|_| 0).pop().expect("it is due");
            assert!(core.holds.next().is_none(), "its call is under way");
            core.holds.change("x", "a", |entry| entry.ends(end()));
            let room = Arc::new(Semaphore::new(OBJECTS));
            Arc::clone(&core).renew_some(part, room).await;
            assert!(core.holds.next().is_some());
        });
    }
}
