//! Renewal: tasks of a client put off the end of all that it holds without a lease; one for all that is to last equally
//! long.
//!
//! Every third of that time it goes through everything in the table of [`holds`](super::holds) that is to be renewed, up to
//! [`MOST_KEYS`] of a kind (and of a slot, in a cluster) with one script call, and several calls at a time: one after the other, many
//! calls to a server far away would take longer than a lock lasts. What could not be renewed because the server
//! did not answer is tried again soon, not only in the next period. A call that is refused for good, as it is for the
//! sake of one key that the server forbids, is made again in halves until that key is alone: the others are renewed.
//! What the server says is not held any more is told as lost; what could not be renewed in time is lost by its lease's
//! own clock.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::{StreamExt, stream};
use tokio::time::Instant;

use super::core::Core;
use super::holds::{Place, Renewal, Renewing};
use super::request::{Arg, Request};
use crate::clock::Moment;
use crate::transport::{Failure, Reason, Refusal, Value};

/// One script call renews this many at the most, as Redisson's does.
const MOST_KEYS: usize = 100;

/// Script calls for this many are under way at a time: eight, unless they have been halved.
const MOST_UNDER_WAY: usize = 8 * MOST_KEYS;

impl Core {
    /// There is something to renew that lasts for `lease` then.
    pub(crate) fn renew(self: &Arc<Self>, lease: Duration) {
        if self.holds.begin_renewing(lease) {
            self.runtime.spawn(renew(Arc::downgrade(self), lease));
        }
    }

    /// One thing is to be renewed at once.
    pub(crate) fn renew_now(self: &Arc<Self>, place: Place) {
        let core = Arc::clone(self);
        self.runtime
            .spawn(async move { core.renew_all(vec![place]).await });
    }

    /// One round, for all that is still to be renewed of `places`; `false` if something was not answered.
    async fn renew_all(&self, mut places: Vec<Place>) -> bool {
        let mut done = true;
        let mut most = MOST_KEYS;
        while !places.is_empty() {
            let slot = |lock: &str| self.connection.slot(lock);
            let mut rest = std::mem::take(&mut places);
            rest.sort_by_cached_key(|(lock, _)| slot(lock));
            // What is still to be renewed is seen as each call is made: a round may take long.
            let calls = std::iter::from_fn(|| {
                let (renewing, some) = self.holds.next_renewals(&mut rest, most, slot)?;
                Some(self.renew_some(renewing, some))
            });
            let mut calls = stream::iter(calls).buffer_unordered(MOST_UNDER_WAY / most);
            let mut largest = 0;
            while let Some(answered) = calls.next().await {
                match answered {
                    Ok(answered) => done &= answered,
                    Err(refused) => {
                        largest = largest.max(refused.len());
                        places.extend(refused.into_iter().map(|renewal| renewal.place));
                    }
                }
            }
            drop(calls);
            most = largest / 2;
        }
        done
    }

    /// One call for `some` of a kind; `Ok(false)` if it was not answered. Several that are refused for good come back:
    /// it may be about one of them.
    async fn renew_some(
        &self,
        renewing: Renewing,
        some: Vec<Renewal>,
    ) -> Result<bool, Vec<Renewal>> {
        let lease = renewing.lease;
        let places = some.iter().map(|renewal| &renewal.place);
        let owners = places.clone().map(|(_, owner)| (renewing.owner)(owner));
        let request = Request::script(
            renewing.script,
            places.map(|(lock, _)| Arc::clone(lock)).collect(),
            std::iter::once(Arg::millis(lease)).chain(owners).collect(),
        );
        let until = Moment::now() + lease;
        let answers = match self.try_once(&request).await {
            Ok(Value::Array(answers)) if answers.len() == some.len() => answers,
            Ok(other) => {
                tracing::error!(?other, "unexpected answer to a renewal");
                return Ok(false);
            }
            Err(Failure::Refused(refusal)) if is_about_a_key(&refusal) => {
                let [Renewal { place, .. }] = &*some else {
                    return Err(some);
                };
                let (lock, owner) = place;
                let why = &refusal.detail;
                tracing::warn!(key = &**lock, owner = &**owner, %why, "not renewed");
                return Ok(true);
            }
            Err(failure) => {
                tracing::warn!(%failure, "not renewed; it will be tried again");
                return Ok(false);
            }
        };
        for (renewal, answer) in some.iter().zip(answers) {
            if self.holds.renewed(renewal, answer == Value::Int(1), until) {
                let (lock, owner) = &renewal.place;
                tracing::warn!(key = &**lock, owner = &**owner, "lost");
            }
        }
        self.holds.tell();
        Ok(true)
    }
}

/// Renews what lasts for `lease` as long as there is anything to renew, and anybody who holds the client.
async fn renew(core: Weak<Core>, lease: Duration) {
    let period = lease / 3;
    let mut next = Instant::now() + period;
    loop {
        tokio::time::sleep_until(next).await;
        let began = Instant::now();
        let Some(core) = core.upgrade() else { return };
        if core.is_finished() {
            return;
        }
        let places = core.holds.to_renew(lease);
        if places.is_empty() {
            return;
        }
        next = if core.renew_all(places).await {
            began + period
        } else {
            Instant::now() + soon(period)
        };
    }
}

/// Whether a call without the one key that is to blame may be carried out.
fn is_about_a_key(refusal: &Refusal) -> bool {
    refusal.is_final(false) && refusal.reason != Reason::Authentication
}

/// When to try again after an error.
fn soon(period: Duration) -> Duration {
    (period / 10).max(Duration::from_millis(1))
}
