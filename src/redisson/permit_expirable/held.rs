//! The permits of one semaphore that this client's guards hold, in the table of [`engine::holds`](crate::engine::holds), by their ids.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::call::{Call, Permits};
use super::ids;
use crate::clock::Moment;
use crate::engine::Core;
use crate::engine::holds::Renewing;
use crate::engine::keys::Keys;
use crate::engine::request::Script;
use crate::lua;
use crate::outside;
use crate::queue::{Grant, Held, Outcome, Overtaking, Primitive, QueueKeys, Result, Ticket};

pub(super) static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(lua::PERMITS));

/// The semaphore as a primitive of the queue.
pub(super) struct PermitExpirable;

/// One script call renews so many at the most: it took 0.5 ms (redis-server 7.0.15, 2 cores of an AMD EPYC).
const MOST_RENEWED: usize = 250;

/// Instead of for ever: longer than any process lives.
pub(super) const AGES: Duration = Duration::from_secs(1 << 32);

/// How permits are renewed that last for `lease`.
pub(super) fn renewing(lease: Duration) -> Renewing {
    Renewing {
        kind: "permits",
        most: MOST_RENEWED,
        id: |id| ids::arg(id),
        others: Renewing::nothing_else,
        lease,
    }
}

/// 0: without end.
fn lease_time(millis: u64) -> Duration {
    match millis {
        0 => AGES,
        millis => Duration::from_millis(millis),
    }
}

impl Primitive for PermitExpirable {
    const KIND: &'static str = "permit_expirable_semaphore";
    const WAIT: &'static str = "acquire";
    const TELLS_AGAIN: bool = true;
    type Want = Permits;
    type Call = Call;
    type Held = Kept;

    fn give_back(grant: Grant<Permits>) -> Call {
        Call::GiveBack(grant.ticket, grant.want)
    }

    /// Permits with a lease end by themselves, and no id is given out twice.
    fn give_back_unknown(grant: Grant<Permits>) -> Option<Call> {
        (grant.want.lease == 0).then(|| Self::give_back(grant))
    }
}

pub(super) struct Kept {
    core: Arc<Core>,
    permits: Arc<str>,
    /// Ids are made of it, so that they cannot be guessed.
    pub(super) secret: Arc<str>,
    /// Something has been held that ends.
    used: bool,
}

impl Kept {
    pub(super) fn new(core: &Arc<Core>, _: &Keys, queue: &QueueKeys) -> Self {
        let mut secret = [0; 16];
        outside::random(&mut secret);
        Kept {
            core: Arc::clone(core),
            permits: Arc::clone(&queue.beside),
            secret: ids::to_hex(&secret),
            used: false,
        }
    }

    /// A permit that is made to last for so long, or without end, ends then: counted from `sent`.
    fn end(sent: Moment, millis: u64) -> Moment {
        let lease = lease_time(millis);
        sent.checked_add(lease).unwrap_or(sent + AGES)
    }

    /// The id of the one permit that a guard holds under `ticket`.
    fn id(&self, ticket: Ticket) -> Option<Arc<str>> {
        ids::of(&self.secret, ticket, 1).next()
    }

    /// Nobody holds it any more. A guard that gives it back has ended its lease before.
    fn is_gone<'a>(&self, ids: impl Iterator<Item = &'a ids::Id>) {
        for id in ids {
            self.core.holds.lost(&self.permits, id);
        }
    }
}

impl Held<PermitExpirable> for Kept {
    fn header(&mut self, _: &mut dyn Iterator<Item = Permits>) -> Arc<str> {
        Arc::clone(&self.secret)
    }

    fn queued(&mut self, call: &Call) {
        if let Call::GiveBack(ticket, permits) = call
            && permits.guard
            && let Some(id) = self.id(*ticket)
        {
            self.core.holds.end(&self.permits, &id);
        }
    }

    fn departs(&mut self, call: &Call, (): &mut ()) {
        if let Call::Prolong(id, millis) = call {
            let until = Self::end(Moment::now(), *millis);
            let holds = &self.core.holds;
            holds.change(&self.permits, id, |entry| {
                entry.may_end(until);
            });
        }
    }

    fn answered(
        &mut self,
        call: &Call,
        (): &(),
        result: Result<Permits>,
        sent: Moment,
    ) -> Result<Permits> {
        if let Call::Prolong(id, millis) = call {
            let (holds, permits) = (&self.core.holds, &self.permits);
            match result {
                Ok(Outcome::Number(1)) => {
                    let renewing = renewing(self.core.config.lock_watchdog_timeout);
                    holds.ends(permits, id, Self::end(sent, *millis), renewing);
                }
                Ok(_) => drop(holds.lost(permits, id)),
                Err(_) => {}
            }
        }
        match (call, &result) {
            (Call::Release(id), Ok(_)) => self.is_gone([id].into_iter()),
            (Call::Together(ids), Ok(Outcome::Number(0..))) => self.is_gone(ids.iter()),
            (Call::Prolong(_, 1..), Ok(_)) => self.used = true,
            _ => {}
        }
        result
    }

    fn granted(&mut self, grant: Grant<Permits>, _: u64, until: Moment) {
        let want = grant.want;
        self.used |= want.lease > 0;
        if want.guard
            && let Some(id) = self.id(grant.ticket)
        {
            let renewing = renewing(self.lease_time(want));
            let holds = &self.core.holds;
            holds.keep(&self.permits, &id, until, renewing);
        }
    }

    fn extended(&mut self, ticket: Ticket, want: Permits, sent: Option<Moment>) {
        let Some(id) = self.id(ticket).filter(|_| self.has(ticket, want)) else {
            return;
        };
        let (holds, lease) = (&self.core.holds, self.lease_time(want));
        match sent {
            Some(sent) => holds.ends(&self.permits, &id, sent + lease, renewing(lease)),
            None => drop(holds.lost(&self.permits, &id)),
        }
    }

    fn has(&self, ticket: Ticket, _: Permits) -> bool {
        let lease = self
            .id(ticket)
            .and_then(|id| self.core.holds.lease(&self.permits, &id));
        lease.is_some_and(|lease| !lease.is_lost())
    }

    fn lease_time(&self, want: Permits) -> Duration {
        lease_time(want.lease)
    }

    /// A smaller amount may be free.
    fn overtaking(&self) -> Overtaking<Permits> {
        Overtaking::Smaller
    }

    /// Others wait for an end that this client has brought nearer.
    fn checks_after(&self) -> Option<Duration> {
        self.used
            .then(|| 2 * self.core.config.lock_watchdog_timeout)
    }
}
