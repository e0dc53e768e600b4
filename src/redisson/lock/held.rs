//! The holds of this client's owners of one lock: entries in the table of [`engine::holds`](crate::engine::holds), changed by each call and
//! answer.
//!
//! How often an owner holds the lock is known here, and said to the script, which sets what it makes of that. So neither a write that a
//! failover lost nor one of a lost hold that was left over counts for long.

use std::ops::RangeInclusive;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::call::{Call, Claim, Locks, Note};
use super::fair::Places;
use super::times::{Term, Times};
use crate::clock::Moment;
use crate::engine::Core;
use crate::engine::holds::{Entry, Renewing};
use crate::engine::keys::Keys;
use crate::engine::request::{Arg, Script};
use crate::error::Error;
use crate::lua;
use crate::queue::{Grant, Held, InVain, Outcome, QueueKeys, Result, Ticket};

static RENEWAL: LazyLock<Script> = LazyLock::new(|| Script::new(lua::RENEW_LOCKS));

/// One script call renews so many locks at the most, as Redisson's does.
const MOST_RENEWED: usize = 100;

pub(super) struct Holds {
    core: Arc<Core>,
    name: String,
    lock: Arc<str>,
    /// Leases have changed, and their waiters have not been woken.
    changed: bool,
    /// Of a fair lock: its callers that wait.
    fair: Option<Places>,
}

/// The field in the lock's hash that stands for an owner.
pub(super) fn owner(core: &Core, number: u64) -> Arc<str> {
    format!("{}:{number}", core.id()).into()
}

/// Changes what `owner` holds of `lock`, where that is anything.
pub(super) fn change<T>(
    core: &Core,
    lock: &str,
    owner: &str,
    change: impl FnOnce(&mut Times, &mut Entry) -> T,
) -> Option<T> {
    let changed = core.holds.change(lock, owner, |entry| {
        let mut times = entry.take_beside::<Times>()?;
        let changed = change(&mut times, entry);
        entry.set_renewed(times.is_watched());
        entry.put_beside(times);
        Some(changed)
    });
    changed.flatten()
}

impl Holds {
    pub(super) fn new(core: &Arc<Core>, keys: &Keys, _: &QueueKeys, _: &Arc<str>) -> Self {
        Holds {
            core: Arc::clone(core),
            name: keys.name().to_owned(),
            lock: Arc::clone(keys.object()),
            changed: false,
            fair: None,
        }
    }

    /// Of a fair lock.
    pub(super) fn fair(core: &Arc<Core>, keys: &Keys, queue: &QueueKeys, id: &Arc<str>) -> Self {
        Holds {
            fair: Some(Places::default()),
            ..Holds::new(core, keys, queue, id)
        }
    }

    pub(super) fn is_fair(&self) -> bool {
        self.fair.is_some()
    }

    /// The callers that wait for a fair lock.
    pub(super) fn places(&mut self) -> &mut Places {
        self.fair.get_or_insert_default()
    }

    fn owner(&self, number: u64) -> Arc<str> {
        owner(&self.core, number)
    }

    /// The number of the owner that holds the lock, as far as is known here.
    fn holder(&self) -> Option<u64> {
        let owner = self.core.holds.holder(&self.lock)?;
        owner.rsplit(':').next()?.parse().ok()
    }

    /// Reads what an owner holds, where that is anything.
    fn look<T>(&self, number: u64, read: impl FnOnce(&Times, &Entry) -> T) -> Option<T> {
        let owner = self.owner(number);
        let read = |entry: &Entry| Some(read(entry.beside::<Times>()?, entry));
        self.core.holds.look(&self.lock, &owner, read).flatten()
    }

    fn change<T>(
        &mut self,
        number: u64,
        changed: impl FnOnce(&mut Times, &mut Entry) -> T,
    ) -> Option<T> {
        self.changed = true;
        change(&self.core, &self.lock, &self.owner(number), changed)
    }

    /// Whether one of an owner's holds is renewed: its lease is not shorter than a renewal makes it.
    fn is_watched(&self, number: u64) -> bool {
        self.core.holds.is_renewed(&self.lock, &self.owner(number))
    }

    fn watchdog(&self) -> Duration {
        self.core.config.lock_watchdog_timeout
    }

    fn renewing(&self) -> Renewing {
        Renewing {
            script: &RENEWAL,
            several: false,
            id: |owner| Arg::Text(Arc::clone(owner)),
            most: MOST_RENEWED,
            lease: self.watchdog(),
        }
    }

    /// A step departs behind which all that `number` holds lasts for `lease`.
    fn may_end(&mut self, number: u64, lease: Duration) {
        let until = Moment::now() + lease;
        self.change(number, |_, entry| entry.may_end(until, lease));
    }

    fn lost(&mut self, number: u64) {
        self.core.holds.lost(&self.lock, &self.owner(number));
        self.changed = true;
    }
}

impl Held<Locks> for Holds {
    fn header(&self) -> Arg {
        let Some(number) = self.holder() else {
            return Arg::Word("");
        };
        let count = self.look(number, |times, entry| match entry.is_lost() {
            true => 0,
            false => times.count(),
        });
        let count = count.unwrap_or(0);
        // A hold that is renewed does not end by another one that is not.
        let least = if self.is_watched(number) {
            self.watchdog().as_millis()
        } else {
            0
        };
        Arg::Text(format!("{number}:{count}:{least}").into())
    }

    fn departs(&mut self, call: &Call, note: &mut Note) {
        match *call {
            Call::Take(claim) => self.asks(claim, self.lease_time(claim)),
            Call::Release(number, hold) => {
                let watchdog = self.watchdog();
                let left = self.change(number, |times, entry| {
                    note.hold = hold.or_else(|| times.latest());
                    // Another one may be there by now.
                    note.gone = hold.is_some_and(|hold| !times.has(hold));
                    times.leaves(note.hold, true);
                    let left = times.term_without(note.hold)?;
                    let lease = match left {
                        Term::Watched => watchdog,
                        Term::Limited(lease) => lease,
                    };
                    if !note.gone {
                        entry.may_end(Moment::now() + lease, lease);
                    }
                    Some(lease)
                });
                note.gone |= left.is_none() && hold.is_some();
                note.lease = left.flatten().unwrap_or(watchdog);
            }
            Call::Force | Call::Leave(..) => {}
        }
    }

    fn answered(
        &mut self,
        call: &Call,
        note: &Note,
        result: Result<Claim>,
        sent: Moment,
    ) -> Result<Claim> {
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
                let (until, left) = (sent + note.lease, *left > 0);
                let left = left
                    && self.change(number, |times, entry| {
                        times.remove(note.hold) && {
                            entry.ends(until);
                            true
                        }
                    }) == Some(true);
                if !left {
                    self.core.holds.end(&self.lock, &self.owner(number));
                }
            }
            (Call::Force, Ok(_)) => {
                let holds = &self.core.holds;
                holds.all_lost(&self.lock, holds.kept());
            }
            _ => {}
        }
        result
    }

    fn failed(&mut self, call: &Call, note: &mut Note, why: InVain) {
        match *call {
            Call::Take(claim) => self.asked_in_vain(claim, why),
            Call::Release(number, hold) => {
                let unknown = why == InVain::Unknown;
                self.change(number, |times, entry| {
                    match note.hold {
                        // A guard is spent. One that nobody has would be renewed for ever.
                        Some(held) if hold.is_some() || unknown || why == InVain::Forbidden => {
                            times.spend(held);
                        }
                        _ => times.leaves(note.hold, false),
                    }
                    entry.in_vain(unknown);
                });
            }
            Call::Force | Call::Leave(..) => {}
        }
    }

    fn granted(&mut self, grant: Grant<Claim>, _: u64, until: Moment) {
        let (claim, number) = (grant.want, grant.ticket);
        if let Some(places) = &self.fair {
            places.wake(claim.owner);
        }
        if grant.taken.count == 1 {
            // The holds that stand in the table were lost unnoticed.
            self.lost(claim.owner);
        }
        // Holds that have ended by this client's clock alone count as well, as the server has counted them.
        let mut before = None;
        let once_more = self.change(claim.owner, |times, entry| {
            if entry.is_lost() {
                before = Some(std::mem::take(times));
                return false;
            }
            times.add(number, claim.term());
            entry.ends(until);
            true
        });
        if once_more != Some(true) {
            let before = before.filter(|_| grant.taken.count > 1);
            let mut times = before.unwrap_or_default();
            times.add(number, claim.term());
            let (owner, holds) = (self.owner(claim.owner), &self.core.holds);
            holds.keep_alone(
                &self.lock,
                &owner,
                until,
                self.renewing(),
                times.is_watched(),
                times,
            );
        }
    }

    fn asks(&mut self, claim: Claim, lease: Duration) {
        self.may_end(claim.owner, lease);
    }

    fn asked_in_vain(&mut self, claim: Claim, why: InVain) {
        match why {
            InVain::Taken => self.lost(claim.owner),
            why => {
                let unknown = why == InVain::Unknown;
                self.change(claim.owner, |_, entry| entry.in_vain(unknown));
            }
        }
    }

    fn extended(&mut self, ticket: Ticket, claim: Claim, sent: Option<Moment>) {
        if !self.has(ticket, claim) {
            return;
        }
        match sent {
            Some(sent) => {
                self.change(claim.owner, |_, entry| entry.ends(sent + claim.lease()));
            }
            None => self.lost(claim.owner),
        }
    }

    fn has(&self, ticket: Ticket, claim: Claim) -> bool {
        let has = |times: &Times, entry: &Entry| {
            times.has(ticket) && times.count() > 0 && !entry.is_lost()
        };
        self.look(claim.owner, has) == Some(true)
    }

    fn lease_alone(&self, claim: Claim) -> Duration {
        claim.lease()
    }

    fn lease_time(&self, claim: Claim) -> Duration {
        match self.is_watched(claim.owner) {
            true => claim.lease().max(self.watchdog()),
            false => claim.lease(),
        }
    }

    /// The owner that holds the lock does not wait for it.
    fn passing(&self) -> Option<RangeInclusive<Claim>> {
        let owner = self.holder()?;
        let claim = |set, lease| Claim {
            owner,
            fenced: set,
            watched: set,
            lease,
            share: None,
        };
        Some(claim(false, 0)..=claim(true, u64::MAX))
    }

    fn has_all(&self) -> bool {
        self.holder().is_some()
    }

    fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    fn waiting(&self) -> usize {
        self.fair.as_ref().map_or(0, Places::len)
    }

    fn last_calls(&mut self) -> Vec<Call> {
        self.fair.as_mut().map_or_else(Vec::new, Places::close)
    }
}
