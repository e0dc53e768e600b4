//! What the owners of this client hold of one lock: the table of [`engine::holds`](crate::engine::holds), told of all that happens.
//!
//! How often an owner holds the lock is known here, and said to the script, which sets what it makes of that. So neither a write that a
//! failover lost nor one of a lost hold that was left over counts for long.

use std::ops::RangeInclusive;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::call::{Call, Claim, Locks, Note};
use crate::clock::Moment;
use crate::engine::Core;
use crate::engine::holds::{Count, Renewing};
use crate::engine::keys::Keys;
use crate::engine::request::{Arg, Script};
use crate::error::Error;
use crate::lease::Lease;
use crate::lua;
use crate::queue::{Grant, Held, InVain, Outcome, QueueKeys, Result, Ticket};

static RENEWAL: LazyLock<Script> = LazyLock::new(|| Script::new(lua::RENEW_LOCKS));

/// One script call renews so many locks at the most, as Redisson's does.
const MOST_RENEWED: usize = 100;

pub(super) struct Holds {
    core: Arc<Core>,
    name: String,
    lock: Arc<str>,
    /// Leases have changed, and nobody has been told.
    changed: bool,
}

/// The field in the lock's hash that stands for an owner.
pub(super) fn owner(core: &Core, number: u64) -> Arc<str> {
    format!("{}:{number}", core.id()).into()
}

impl Holds {
    pub(super) fn new(core: &Arc<Core>, keys: &Keys, _: &QueueKeys, _: &Arc<str>) -> Self {
        Holds {
            core: Arc::clone(core),
            name: keys.name().to_owned(),
            lock: Arc::clone(keys.object()),
            changed: false,
        }
    }

    fn owner(&self, number: u64) -> Arc<str> {
        owner(&self.core, number)
    }

    /// The number of the owner that holds the lock, as far as is known here.
    fn holder(&self) -> Option<(u64, Arc<str>)> {
        let owner = self.core.holds.holder(&self.lock)?;
        let number = owner.rsplit(':').next()?.parse().ok()?;
        Some((number, owner))
    }

    fn watchdog(&self) -> Duration {
        self.core.config.lock_watchdog_timeout
    }

    fn renewing(&self) -> Renewing {
        Renewing {
            script: &RENEWAL,
            several: false,
            owner: |owner| Arg::Text(Arc::clone(owner)),
            most: MOST_RENEWED,
            lease: self.watchdog(),
        }
    }

    /// A step departs behind which all that `number` holds lasts for `lease`.
    fn may_end(&mut self, number: u64, lease: Duration) {
        let (owner, until) = (self.owner(number), Moment::now() + lease);
        self.core.holds.departs(&self.lock, &owner, until, lease);
        self.changed = true;
    }

    /// It has departed in vain.
    fn in_vain(&mut self, number: u64, why: InVain) {
        let (holds, owner) = (&self.core.holds, self.owner(number));
        match why == InVain::Unknown {
            true => holds.is_not_answered(&self.lock, &owner),
            false => holds.stays(&self.lock, &owner),
        }
        self.changed = true;
    }

    fn lost(&mut self, number: u64) {
        self.core.holds.lost(&self.lock, &self.owner(number));
        self.changed = true;
    }
}

impl Held<Locks> for Holds {
    fn header(&self) -> Arg {
        let Some((number, owner)) = self.holder() else {
            return Arg::Word("");
        };
        let holds = &self.core.holds;
        let count = match holds.count(&self.lock, &owner) {
            Count::Held(count) => count,
            Count::Over => 0,
        };
        // A hold that is renewed does not end by another one that is not.
        let watched = holds.is_watched(&self.lock, &owner);
        let least = if watched {
            self.watchdog().as_millis()
        } else {
            0
        };
        Arg::Text(format!("{number}:{count}:{least}").into())
    }

    fn queued(&mut self, _: &Call) -> Note {
        Note::default()
    }

    fn departs(&mut self, call: &Call, note: &mut Note) {
        match *call {
            Call::Take(claim) => self.asks(claim, self.lease_time(claim)),
            Call::Release(number, hold) => {
                let (holds, lock, owner) = (&self.core.holds, &self.lock, self.owner(number));
                note.hold = hold.or_else(|| holds.latest(lock, &owner));
                // Another one may be there by now.
                note.gone = hold.is_some_and(|hold| holds.is_gone(lock, &owner, hold));
                holds.leaves(lock, &owner, note.hold, true);
                let left = holds.term_without(lock, &owner, note.hold);
                note.lease = left.map_or(self.watchdog(), |term| term.lease(self.watchdog()));
                if left.is_some() && !note.gone {
                    self.may_end(number, note.lease);
                }
            }
            Call::Force => {}
        }
    }

    fn answered(
        &mut self,
        call: &Call,
        note: &Note,
        result: Result<Claim>,
        sent: Moment,
    ) -> Result<Claim> {
        let (holds, lock) = (&self.core.holds, &self.lock);
        self.changed = true;
        match (*call, &result) {
            (Call::Take(claim), Ok(Outcome::Number(_))) => self.lost(claim.owner),
            (Call::Release(number, _), Ok(Outcome::Number(-1))) => {
                if !note.gone {
                    self.lost(number);
                }
                return Err(Error::NotHeld {
                    name: self.name.clone(),
                    owner: self.owner(number).to_string(),
                });
            }
            (Call::Release(number, _), Ok(Outcome::Number(left))) => {
                let until = (*left > 0).then(|| sent + note.lease);
                holds.released(lock, &self.owner(number), note.hold, until);
            }
            (Call::Force, Ok(_)) => holds.all_lost(lock, holds.kept()),
            _ => {}
        }
        result
    }

    fn failed(&mut self, call: &Call, note: &mut Note, why: InVain) {
        match *call {
            Call::Take(claim) => self.asked_in_vain(claim, why),
            Call::Release(number, hold) => {
                let (holds, owner) = (&self.core.holds, self.owner(number));
                match note.hold {
                    // A guard is spent. One that nobody has would be renewed for ever.
                    Some(hold) if matches!(why, InVain::Unknown | InVain::Forbidden) => {
                        holds.spend(&self.lock, &owner, hold)
                    }
                    Some(held) if hold.is_some() => holds.spend(&self.lock, &owner, held),
                    _ => holds.leaves(&self.lock, &owner, note.hold, false),
                }
                self.in_vain(number, why);
            }
            Call::Force => {}
        }
    }

    fn granted(&mut self, grant: Grant<Claim>, _: u64, until: Moment) {
        let (claim, owner) = (grant.want, self.owner(grant.want.owner));
        if grant.taken.count == 1 {
            // What it is believed to hold has been lost unnoticed.
            self.lost(claim.owner);
        }
        let (holds, renewing) = (&self.core.holds, self.renewing());
        let (number, term) = (grant.ticket, claim.term());
        holds.taken(&self.lock, &owner, number, term, until, renewing);
        self.changed = true;
    }

    fn asks(&mut self, claim: Claim, lease: Duration) {
        self.may_end(claim.owner, lease);
    }

    fn asked_in_vain(&mut self, claim: Claim, why: InVain) {
        match why {
            InVain::Taken => self.lost(claim.owner),
            why => self.in_vain(claim.owner, why),
        }
    }

    fn extended(&mut self, ticket: Ticket, claim: Claim, sent: Option<Moment>) {
        if !self.has(ticket, claim) {
            return;
        }
        let (holds, owner, renewing) = (&self.core.holds, self.owner(claim.owner), self.renewing());
        match sent {
            Some(sent) => holds.ends(&self.lock, &owner, sent + claim.lease(), renewing),
            None => holds.lost(&self.lock, &owner),
        }
        self.changed = true;
    }

    fn has(&self, ticket: Ticket, claim: Claim) -> bool {
        let (holds, owner) = (&self.core.holds, self.owner(claim.owner));
        !holds.is_gone(&self.lock, &owner, ticket) && holds.count(&self.lock, &owner) != Count::Over
    }

    fn lease(&self, _: Ticket) -> Option<Lease> {
        None
    }

    fn lease_time(&self, claim: Claim) -> Duration {
        let owner = self.owner(claim.owner);
        match self.core.holds.is_watched(&self.lock, &owner) {
            true => claim.lease().max(self.watchdog()),
            false => claim.lease(),
        }
    }

    /// The owner that holds the lock does not wait for it.
    fn passing(&self) -> Option<RangeInclusive<Claim>> {
        let (owner, _) = self.holder()?;
        let claim = |set, lease| Claim {
            owner,
            fenced: set,
            watched: set,
            lease,
        };
        Some(claim(false, 0)..=claim(true, u64::MAX))
    }

    fn has_all(&self) -> bool {
        self.holder().is_some()
    }

    fn looks_after(&self) -> Option<Duration> {
        None
    }

    fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}
