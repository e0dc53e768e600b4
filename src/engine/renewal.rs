//! Renewal: tasks of a client put off the end of all that it holds without a lease; one for all that is to last equally
//! long.
//!
//! Every third of that time it goes through everything in the table of [`holds`](super::holds) that is to be renewed, a hundred or
//! more of a kind (and of a slot, in a cluster) with one script call, and several calls at a time: one after the other, many
//! calls to a server far away would take longer than a lock lasts. What could not be renewed, as the server
//! did not answer or did not let it happen, is tried again soon, not only in the next period. A call that is refused for good, as it is for the
//! sake of one key that the server forbids, is made again in halves until that key is alone: the others are renewed. So is one
//! whose keys are at two nodes of a cluster, as their slot is on its way: each of them is at one.
//! What the server says is not held any more is told as lost; what could not be renewed in time is lost by its lease's
//! own clock.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::core::Core;
use super::holds::{Place, Renewal, Renewing};
use super::request::{Arg, Request};
use super::window;
use crate::clock::Moment;
use crate::transport::{Failure, Reason, Refusal, Value};

impl Core {
    /// There is something to renew that lasts for `lease` then.
    pub(crate) fn renew(self: &Arc<Self>, lease: Duration) {
        if self.holds.begin_renewing(lease) {
            self.runtime.spawn(renew(Arc::downgrade(self), lease));
        }
    }

    /// One thing that lasts for `lease` is to be renewed at once, and not by the next round only: that is a whole period away.
    pub(crate) fn renew_now(self: &Arc<Self>, place: Place, lease: Duration) {
        let core = Arc::downgrade(self);
        let period = lease / 3;
        let next_round = Instant::now() + period;
        self.runtime.spawn(async move {
            let mut places = vec![place];
            let mut first = true;
            while let Some(core) = core.upgrade().filter(|core| !core.is_finished()) {
                places = core.renew_all(places, first).await;
                first = false;
                if places.is_empty() || Instant::now() >= next_round {
                    return;
                }
                drop(core);
                tokio::time::sleep(soon(period)).await;
            }
        });
    }

    /// One round, for all that is still to be renewed of `places`; what is to be tried again. `first`: no such round has
    /// told of it yet.
    async fn renew_all(&self, mut places: Vec<Place>, first: bool) -> Vec<Place> {
        let mut again = Vec::new();
        let mut most = usize::MAX;
        while !places.is_empty() {
            let slot = |lock: &str| self.connection.slot(lock);
            let mut rest = std::mem::take(&mut places);
            rest.sort_by_cached_key(|(lock, _)| slot(lock));
            // What is still to be renewed is seen as each call is made: a round may take long.
            let calls = std::iter::from_fn(|| {
                let (renewing, some) = self.holds.next_renewals(&mut rest, most, slot)?;
                Some((some.len(), self.renew_some(renewing, some, first)))
            });
            let mut largest = 0;
            window::each(calls, |renewed| match renewed {
                Renewed::Answered => {}
                Renewed::Not(some) => again.extend(some),
                Renewed::Refused(some) => {
                    largest = largest.max(some.len());
                    places.extend(some);
                }
            })
            .await;
            most = largest / 2;
        }
        again
    }

    /// One call for `some` of a kind.
    async fn renew_some(&self, renewing: Renewing, some: Vec<Renewal>, first: bool) -> Renewed {
        let lease = renewing.lease;
        let request = request(&renewing, &some);
        let until = Moment::now() + lease;
        let places = |some: Vec<Renewal>| some.into_iter().map(|renewal| renewal.place).collect();
        let answers = match self.try_once(&request).await {
            Ok(Value::Array(answers)) if answers.len() == some.len() => answers,
            Ok(other) => {
                tracing::error!(?other, "unexpected answer to a renewal");
                return Renewed::Not(places(some));
            }
            Err(Failure::Refused(refusal)) if is_about_a_key(&refusal) || refusal.parts_keys() => {
                let [Renewal { place, .. }] = &*some else {
                    return Renewed::Refused(places(some));
                };
                if first {
                    let ((lock, owner), why) = (place, &refusal.detail);
                    tracing::warn!(key = &**lock, owner = &**owner, %why, "not renewed; it will be tried again");
                }
                return Renewed::Not(places(some));
            }
            Err(failure) => {
                if self.not_renewed.is_due() {
                    tracing::warn!(%failure, "not renewed; it will be tried again");
                }
                return Renewed::Not(places(some));
            }
        };
        for (renewal, answer) in some.iter().zip(answers) {
            if self.holds.renewed(renewal, answer == Value::Int(1), until) {
                let (lock, owner) = &renewal.place;
                tracing::warn!(key = &**lock, owner = &**owner, "lost");
            }
        }
        self.holds.tell();
        Renewed::Answered
    }
}

fn request(renewing: &Renewing, some: &[Renewal]) -> Request {
    let (mut keys, mut args) = (Vec::new(), vec![Arg::millis(renewing.lease)]);
    let together =
        |one: &Renewal, other: &Renewal| renewing.several && one.place.0 == other.place.0;
    for of_one in some.chunk_by(together) {
        keys.push(Arc::clone(&of_one[0].place.0));
        if renewing.several {
            args.push(Arg::number(of_one.len()));
        }
        args.extend(
            of_one
                .iter()
                .map(|renewal| (renewing.owner)(&renewal.place.1)),
        );
    }
    Request::renewal(renewing.script, keys, args)
}

/// What one call has come to.
enum Renewed {
    Answered,
    /// These are to be tried again.
    Not(Vec<Place>),
    /// Several were refused: it may be about one of them.
    Refused(Vec<Place>),
}

/// Renews what lasts for `lease` as long as there is anything to renew, and anybody who holds the client.
async fn renew(core: Weak<Core>, lease: Duration) {
    let period = lease / 3;
    let mut round = Instant::now() + period;
    let mut again: Vec<Place> = Vec::new();
    loop {
        let soon = (!again.is_empty()).then(|| Instant::now() + soon(period));
        tokio::time::sleep_until(soon.map_or(round, |soon| soon.min(round))).await;
        let now = Instant::now();
        let Some(core) = core.upgrade() else { return };
        if core.is_finished() {
            return;
        }
        let first = now >= round;
        if first {
            again = core.holds.to_renew(lease);
            round = now + period;
            if again.is_empty() {
                return;
            }
        }
        again = core.renew_all(again, first).await;
    }
}

/// Whether a call without the one key that is to blame may be carried out.
fn is_about_a_key(refusal: &Refusal) -> bool {
    refusal.is_final(false) && refusal.reason != Reason::Authentication
}

/// When to try again after an error what is renewed once in a `period`.
pub(crate) fn soon(period: Duration) -> Duration {
    (period / 10).max(Duration::from_millis(1))
}
