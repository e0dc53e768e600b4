//! The holds of this client's owners of one lock: entries in the table of [`engine::holds`](crate::engine::holds), changed by each call and
//! answer.
//!
//! How often an owner holds the lock is known here, and said to the script, which sets what it makes of that. So neither a write that a
//! failover lost nor one of a lost hold that was left over counts for long.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::call::{Call, Claim, Kind, Note, Who};
use super::places::Places;
use super::times::Times;
use crate::clock::Moment;
use crate::engine::Core;
use crate::engine::holds::{Kept, LeaseEntry, Renewing};
use crate::engine::keys::Keys;
use crate::engine::request::Arg;
use crate::error::Error;
use crate::queue::{
    Grant, Held, NotDone, Outcome, Overtaking, Primitive, QueueKeys, Result, Ticket,
};
use crate::redisson::names;

/// Scripts look at so many holds of a reader at the most.
const MOST_HOLDS: usize = 1024;

/// One script call renews so many locks at the most, as Redisson's does.
const MOST_RENEWED: usize = 100;

/// The lock as a primitive of the queue.
pub(super) struct Locks;

impl Primitive for Locks {
    const KIND: &'static str = "lock";
    const WAIT: &'static str = "lock";
    const MOST_ASKED: usize = 64;
    type Want = Claim;
    type Call = Call;
    type Held = Holds;

    fn give_back(grant: Grant<Claim>) -> Call {
        Call::Release(grant.want.who(), Some(grant.ticket))
    }
}

pub(super) struct Holds {
    core: Arc<Core>,
    name: String,
    lock: Arc<str>,
    /// Of a read-write lock, which may have several holders.
    pub(super) shared: bool,
    /// How far the table had come when the last batch departed.
    departed: Kept,
    /// Of a fair lock: its callers that wait.
    fair: Option<Places>,
}

/// Changes what `owner` holds of `lock`, where that is anything.
pub(super) fn change<T>(
    core: &Core,
    lock: &str,
    owner: &str,
    change: impl FnOnce(&mut Times, &mut LeaseEntry) -> T,
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

/// The keys of a reader's holds. A server that has not all of them, as their slot is on its way, must not renew some.
fn holds_of_reader(lock: &str, owner: &str, entry: &LeaseEntry) -> Vec<Arc<str>> {
    let reads = !owner.ends_with(Kind::Write.tail());
    let count = entry
        .beside::<Times>()
        .filter(|_| reads)
        .map_or(0, Times::count);
    let numbers = 1..=count.min(MOST_HOLDS);
    numbers
        .map(|number| names::of_read_hold(lock, owner, number))
        .collect()
}

impl Holds {
    pub(super) fn new(core: &Arc<Core>, keys: &Keys, _: &QueueKeys) -> Self {
        Holds {
            core: Arc::clone(core),
            name: keys.name().to_owned(),
            lock: Arc::clone(keys.object()),
            shared: false,
            departed: core.holds.kept(),
            fair: None,
        }
    }

    /// Of a fair lock.
    pub(super) fn fair(core: &Arc<Core>, keys: &Keys, queue: &QueueKeys) -> Self {
        Holds {
            fair: Some(Places::default()),
            ..Holds::new(core, keys, queue)
        }
    }

    /// The callers that wait for a fair lock.
    pub(super) fn places(&mut self) -> &mut Places {
        self.fair.get_or_insert_default()
    }

    /// Those of a read-write lock.
    pub(super) fn shared(core: &Arc<Core>, keys: &Keys, queue: &QueueKeys) -> Self {
        Holds {
            shared: true,
            ..Holds::new(core, keys, queue)
        }
    }

    fn field(&self, who: Who) -> Arc<str> {
        who.field(&self.core)
    }

    /// The owner that nobody else can hold the lock beside, as far as is known here.
    fn holder(&self) -> Option<Who> {
        let kind = if self.shared {
            Kind::Write
        } else {
            Kind::Plain
        };
        let holds_alone = |field: &str| field.ends_with(kind.tail());
        let field = self.core.holds.holder(&self.lock, holds_alone)?;
        let owner = field.strip_suffix(kind.tail())?;
        let number = owner.rsplit(':').next()?.parse().ok()?;
        Some(Who { number, kind })
    }

    /// How often an owner holds it as this client knows.
    fn known(&self, who: Who) -> usize {
        let count = |times: &Times, entry: &LeaseEntry| (!entry.is_lost()).then(|| times.count());
        self.look(who, count).flatten().unwrap_or_default()
    }

    /// Reads what an owner holds, where that is anything.
    fn look<T>(&self, who: Who, read: impl FnOnce(&Times, &LeaseEntry) -> T) -> Option<T> {
        let owner = self.field(who);
        let read = |entry: &LeaseEntry| Some(read(entry.beside::<Times>()?, entry));
        self.core.holds.look(&self.lock, &owner, read).flatten()
    }

    fn change<T>(
        &self,
        who: Who,
        changed: impl FnOnce(&mut Times, &mut LeaseEntry) -> T,
    ) -> Option<T> {
        change(&self.core, &self.lock, &self.field(who), changed)
    }

    fn watchdog(&self) -> Duration {
        self.core.config.lock_watchdog_timeout
    }

    fn renewing(&self) -> Renewing {
        Renewing {
            kind: if self.shared { "read-write" } else { "locks" },
            id: |owner| Arg::Text(Arc::clone(owner)),
            others: if self.shared {
                holds_of_reader
            } else {
                Renewing::nothing_else
            },
            most: MOST_RENEWED,
            lease: self.watchdog(),
        }
    }

    fn lost(&self, who: Who) {
        self.core.holds.lost(&self.lock, &self.field(who));
    }
}

impl Held<Locks> for Holds {
    fn header(&mut self, wants: &mut dyn Iterator<Item = Claim>) -> Arc<str> {
        self.departed = self.core.holds.kept();
        if self.shared {
            let owners: BTreeSet<_> = wants.map(Claim::who).collect();
            let known = owners.into_iter().map(|who| (who, self.known(who)));
            let known = known.filter(|(_, count)| *count > 0);
            let texts = known.map(|(who, count)| format!("{who}={count}"));
            return texts.collect::<Vec<_>>().join(",").into();
        }
        let Some(who) = self.holder() else {
            return Arc::default();
        };
        format!("{who}:{}", self.known(who)).into()
    }

    fn departs(&mut self, call: &Call, note: &mut Note) {
        let Call::Release(who, hold) = *call else {
            return;
        };
        let known = self.change(who, |times, _| {
            note.hold = hold.or_else(|| times.latest());
            // Another one may be there by now.
            note.gone = hold.is_some_and(|hold| !times.has(hold));
            times.leaves(note.hold, true);
            note.count = times.count();
        });
        note.gone |= known.is_none() && hold.is_some();
    }

    fn answered(
        &mut self,
        call: &Call,
        note: &Note,
        result: Result<Claim>,
        _: Moment,
    ) -> Result<Claim> {
        match (*call, &result) {
            (Call::Take(claim), Ok(Outcome::Number(_))) => self.lost(claim.who()),
            (Call::Release(who, _), Ok(Outcome::Number(-1))) => {
                if !note.gone {
                    self.lost(who);
                }
                return Err(Error::NotHeld {
                    name: self.name.clone(),
                    owner: format!("{}:{}", self.core.id(), who.number),
                });
            }
            (Call::Release(who, _), Ok(Outcome::Number(left))) => {
                let remove = |times: &mut Times, _: &mut LeaseEntry| times.remove(note.hold);
                if *left == 0 || self.change(who, remove) != Some(true) {
                    self.core.holds.end(&self.lock, &self.field(who));
                }
            }
            // The other side of a read-write lock may be held still.
            (Call::Force(_), Ok(Outcome::Number(0))) if self.shared => {}
            (Call::Force(_), Ok(_)) => {
                let holds = &self.core.holds;
                holds.all_lost(&self.lock, holds.kept(), |_| false);
            }
            _ => {}
        }
        result
    }

    fn failed(&mut self, call: &Call, note: &mut Note, why: NotDone) {
        let Call::Release(who, hold) = *call else {
            return;
        };
        self.change(who, |times, _| match note.hold {
            // A guard is spent. One that nobody has would be renewed for ever.
            Some(held) if hold.is_some() || why == NotDone::Unknown => times.spend(held),
            _ => times.leaves(note.hold, false),
        });
    }

    fn granted(&mut self, grant: Grant<Claim>, _: u64, until: Moment) {
        let (claim, number) = (grant.want, grant.ticket);
        if let Some(places) = &self.fair {
            places.wake(claim.owner);
        }
        if grant.taken.count == 1 {
            // The holds that stand in the table were lost unnoticed.
            self.lost(claim.who());
        }
        let add = |times: &mut Times| times.add(number, claim.watched);
        // Holds that have ended by this client's clock alone count as well, as the server has counted them.
        let mut before = None;
        let once_more = self.change(claim.who(), |times, entry| {
            if entry.is_lost() {
                before = Some(std::mem::take(times));
                return false;
            }
            add(times);
            entry.lasts(until);
            true
        });
        if once_more != Some(true) {
            let before = before.filter(|_| grant.taken.count > 1);
            let mut times = before.unwrap_or_default();
            add(&mut times);
            let (field, holds) = (self.field(claim.who()), &self.core.holds);
            // Readers hold it together, and with the writer that is one of them.
            let as_reader = Who {
                kind: Kind::Read,
                ..claim.who()
            };
            let (write, reader) = (Kind::Write.tail(), self.field(as_reader));
            let (shared, reads) = (self.shared, claim.kind == Kind::Read);
            let stays = |other: &str| {
                let owner = other.strip_suffix(write).unwrap_or(other);
                shared && (owner == &*reader || reads && !other.ends_with(write))
            };
            let (renewing, watched) = (self.renewing(), times.is_watched());
            // Grants that came by messages since the batch departed are newer.
            holds.all_lost(&self.lock, self.departed, stays);
            holds.keep_beside(&self.lock, &field, until, renewing, watched, times);
        }
    }

    fn not_granted(&mut self, claim: Claim) {
        self.lost(claim.who());
    }

    fn extended(&mut self, ticket: Ticket, claim: Claim, sent: Option<Moment>) {
        if !self.has(ticket, claim) {
            return;
        }
        match sent {
            Some(sent) => {
                let until = sent + claim.lease();
                self.change(claim.who(), |_, entry| entry.lasts(until));
            }
            None => self.lost(claim.who()),
        }
    }

    fn has(&self, ticket: Ticket, claim: Claim) -> bool {
        let has = |times: &Times, entry: &LeaseEntry| {
            times.has(ticket) && times.count() > 0 && !entry.is_lost()
        };
        self.look(claim.who(), has) == Some(true)
    }

    fn lease_time(&self, claim: Claim) -> Duration {
        claim.lease()
    }

    /// Owners that hold the lock do not wait for it; those that read, for the other side.
    fn overtaking(&self) -> Overtaking<Claim> {
        let claim = |owner, kind, watched, lease| Claim {
            owner,
            kind,
            watched,
            lease,
            share: None,
        };
        if let Some(Who { number, .. }) = self.holder() {
            let first = claim(number, Kind::Plain, false, 0);
            let last = claim(number, Kind::Write, true, u64::MAX);
            return Overtaking::These(vec![first..=last]);
        }
        let owners = match self.shared {
            true => self.core.holds.holders(&self.lock),
            false => Vec::new(),
        };
        let numbers = owners.iter().filter_map(|owner| owner.rsplit(':').next());
        let numbers = numbers.filter_map(|number| number.parse().ok());
        let reads = |number| {
            let first = claim(number, Kind::Read, false, 0);
            first..=claim(number, Kind::Read, true, u64::MAX)
        };
        Overtaking::These(numbers.map(reads).collect())
    }

    fn has_all(&self) -> bool {
        self.holder().is_some()
    }

    fn waiting(&self) -> usize {
        self.fair.as_ref().map_or(0, Places::len)
    }

    fn last_calls(&mut self) -> Vec<Call> {
        self.fair.as_mut().map_or_else(Vec::new, Places::close)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::queue::Taken;

    /// A grant that another client has made while the batch was under way is newer than what its answer tells.
    #[tokio::test]
    async fn a_late_answer_takes_nothing_from_a_newer_grant() {
        let config = Config::new("redis://127.0.0.1:1");
        let core = Core::connect_lazy(config, None).expect("it is lazy");
        let (keys, queue) = names::of_lock("l", &core.config.name_mapper, core.id());
        let mut holds = Holds::new(&core, &keys, &queue);
        let grant = |owner| {
            let claim = Claim {
                owner,
                kind: Kind::Plain,
                watched: true,
                lease: 30_000,
                share: None,
            };
            let taken = Taken { token: 0, count: 1 };
            Grant {
                taken,
                ..Grant::new(claim, owner)
            }
        };
        let until = Moment::now() + Duration::from_secs(30);
        let has = |holds: &Holds, owner| holds.has(owner, grant(owner).want);
        holds.granted(grant(1), 0, until);
        holds.header(&mut std::iter::empty());
        holds.granted(grant(2), 0, until);
        assert!(!has(&holds, 1) && has(&holds, 2));
        holds.granted(grant(3), 0, until);
        assert!(has(&holds, 2) && has(&holds, 3));
        holds.header(&mut std::iter::empty());
        holds.granted(grant(4), 0, until);
        assert!(!has(&holds, 2) && !has(&holds, 3) && has(&holds, 4));
    }
}
