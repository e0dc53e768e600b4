//! Watched semaphores: permits on record, permits that callers believe to hold, and permits that come back from dead clients.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Weak;
use std::time::Duration;

use redisson_semaphore::Permit;
use tokio::time::Instant;

use super::{Host, Judge, Object};

#[derive(Default)]
pub(super) struct Watched {
    held: BTreeMap<u64, Held>,
    /// Clients that have a handle of a watched semaphore, or had one.
    watch: BTreeSet<(usize, Host)>,
    /// Clients that have lost permits, or could not release them: permits may be on record for them without a holder.
    have_lost: BTreeSet<(usize, Host)>,
    /// Until when holders may not know that the records were changed from outside, or that the clock stepped.
    robbed: Option<Instant>,
    /// Since when each client has been on record. It may be waiting by now. These clients check on the others.
    on_record: BTreeMap<(usize, Host), Instant>,
    /// When a request of each client arrived last.
    heard: BTreeMap<Host, Instant>,
}

struct Held {
    object: usize,
    host: Host,
    permits: i64,
    permit: Weak<Permit>,
    /// Its caller was not polled for a while. A client does not renew a grant that its caller has not received.
    stalled: bool,
}

impl Watched {
    /// Whether any client has used the semaphore with a watchdog so far.
    pub(super) fn is_watched(&self, object: usize) -> bool {
        self.watch.iter().any(|(watched, _)| *watched == object)
    }

    /// How many permits on record the callers of a client hold.
    pub(super) fn held_on_record(&self, object: usize, host: Host) -> i64 {
        let held = self.held.values();
        let of_it = held.filter(|held| (held.object, held.host) == (object, host));
        of_it.map(|held| held.permits).sum()
    }
}

impl Held {
    fn is_lost(&self) -> bool {
        self.permit.upgrade().is_none_or(|permit| permit.is_lost())
    }
}

/// How long it takes until permits that were taken away are gone, and all requests under way have arrived.
const UNDER_WAY: Duration = Duration::from_secs(4);
/// Another client returns the permits of a dead client within this, after its time.
const LATE: Duration = Duration::from_secs(2);

impl Judge {
    /// A client has a handle of a watched semaphore.
    pub fn watches(&mut self, object: usize, host: Host) {
        self.watched.watch.insert((object, host));
    }

    /// A caller has got permits on record. `call`: the number of its call.
    pub fn has_on_record(
        &mut self,
        call: u64,
        object: usize,
        host: Host,
        permits: i64,
        (permit, stalled): (Weak<Permit>, bool),
    ) -> u64 {
        self.last_number += 1;
        let number = self.last_number;
        let held = Held {
            object,
            host,
            permits,
            permit,
            stalled,
        };
        self.drop_lost();
        if held.is_lost() {
            // A caller that was not polled for longer than the lease learns of the loss together with the grant.
            self.granted += 1;
            self.watched.have_lost.insert((object, host));
        } else {
            self.watched.held.insert(number, held);
            self.holds(call, object, host, permits);
        }
        number
    }

    /// A caller does not hold these permits on record any more.
    pub fn gives_from_record(&mut self, number: u64) {
        self.drop_lost();
        if let Some(held) = self.watched.held.remove(&number) {
            self.lets_go(held.object, held.host, held.permits);
        }
    }

    /// Takes lost permits from their holders, and judges whether there was a reason for the loss.
    fn drop_lost(&mut self) {
        let lost: Vec<u64> = (self.watched.held.iter())
            .filter(|(_, held)| held.is_lost())
            .map(|(number, _)| *number)
            .collect();
        for number in lost {
            let held = self.watched.held.remove(&number).expect("just seen");
            self.lets_go(held.object, held.host, held.permits);
            self.watched.have_lost.insert((held.object, held.host));
            let (host, object) = (held.host, held.object);
            self.note(format_args!(
                "c{host} has lost {} of s{object}",
                held.permits
            ));
            if !held.stalled && self.has_lost_for_nothing(host) {
                let detail =
                    format!("c{host} has lost permits of s{object}, and nothing was wrong");
                self.accuse("kept", detail);
            }
        }
    }

    /// A release has not been carried out: the permits on record come back by themselves, some time later.
    pub fn keeps_on_record(&mut self, object: usize, host: Host) {
        self.watched.have_lost.insert((object, host));
    }

    /// A caller learns that it has lost its permits.
    pub fn loses(&mut self, number: u64) {
        self.drop_lost();
        if let Some(held) = self.watched.held.get(&number) {
            let (host, object) = (held.host, held.object);
            self.accuse(
                "kept",
                format!("c{host} is told that it has lost what it holds of s{object}"),
            );
        }
    }

    /// A release reports that nothing was held, though nothing had been lost before.
    pub fn is_refused(&mut self, object: usize, host: Host) {
        if self.has_lost_for_nothing(host) {
            let detail = format!("c{host} can't give back what it holds of s{object}");
            self.accuse("effects", detail);
        }
    }

    fn has_lost_for_nothing(&self, host: Host) -> bool {
        let lasts = self.rules.watchdog + Duration::from_secs(1);
        let well = self.clients.get(&host).and_then(|client| client.well_since);
        well.is_some_and(|well| well + lasts < Instant::now())
            && self.rules.can_keep(self.rules.watchdog)
            && !self.rules.meddled
            && !self.records_are_robbed()
            && !self.closing(host)
    }

    /// Something changes the records or the clock, and it is no client of ours.
    pub fn robs_records(&mut self) {
        let until = Instant::now() + self.rules.watchdog + UNDER_WAY;
        self.watched.robbed = self.watched.robbed.max(Some(until));
    }

    pub(super) fn records_are_robbed(&self) -> bool {
        let until = self.watched.robbed;
        until.is_some_and(|until| Instant::now() <= until)
    }

    /// A request of the client has arrived.
    pub fn hears(&mut self, host: Host) {
        self.watched.heard.insert(host, Instant::now());
    }

    /// Judges the records of a semaphore. Runs again and again.
    pub fn look_at_records(&mut self, object: usize) {
        self.drop_lost();
        self.note_who_is_on_record(object);
        if self.records_are_robbed() {
            return;
        }
        let ledger = &self.ledgers[object];
        let untold = ledger.held.keys().find_map(|host| {
            let held = self.watched.held_on_record(object, *host);
            let on_record = ledger.leased.get(host).copied().unwrap_or_default();
            (held > on_record).then_some((*host, held, on_record))
        });
        if let Some((host, held, on_record)) = untold {
            let detail = format!(
                "c{host} believes to hold {held} of s{object}, of which {on_record} are on record"
            );
            self.accuse("told", detail);
            return;
        }
        let late = ledger
            .recorded
            .iter()
            .filter(|(_, permits)| **permits > 0)
            .map(|(host, _)| *host)
            .find(|host| ledger.over(*host) > 0 && self.should_be_back(object, *host));
        if let Some(host) = late {
            let detail = format!("permits of s{object} are on record of c{host}, which is dead");
            self.accuse("reclaim", detail);
        }
    }

    /// Whether another client should have returned the permits of this one.
    fn should_be_back(&self, object: usize, host: Host) -> bool {
        if !self.has_ended(host) || self.rules.meddled {
            return false;
        }
        let now = Instant::now();
        let heard = self.watched.heard.get(&host).copied();
        let since = heard.max(self.clients.get(&host).and_then(|client| client.ended_at));
        let period = self.rules.watchdog / 3;
        let due = since.map_or(now, |since| since + self.rules.watchdog);
        let mut others = self.watched.on_record.iter();
        others.any(|((number, other), began)| {
            // A client without holders may be on record only because the server has lost its last writes.
            let uses =
                self.watched.held_on_record(object, *other) > 0 || self.waits_for(object, *other);
            let looks = *number == object && !self.closing(*other) && uses;
            let well = self.clients.get(other).and_then(|other| other.well_since);
            // An eviction may hide until when the dead client was there. It has that time once more then.
            let again = match self.rules.evicts {
                true => self.rules.watchdog,
                false => Duration::ZERO,
            };
            let from = due.max(*began + again).max(well.unwrap_or(due));
            looks && now > from + period + LATE
        })
    }

    fn note_who_is_on_record(&mut self, object: usize) {
        let now = Instant::now();
        let recorded = &self.ledgers[object].recorded;
        let mut on_record = std::mem::take(&mut self.watched.on_record);
        on_record.retain(|(number, host), _| {
            *number != object || recorded.contains_key(host) || self.waits_for(object, *host)
        });
        for host in recorded.keys() {
            on_record.entry((object, *host)).or_insert(now);
        }
        self.watched.on_record = on_record;
    }

    /// Whether a caller of the client waits for the semaphore.
    pub(super) fn waits_for(&self, object: usize, host: Host) -> bool {
        let mut all = self.waiting.values();
        all.any(|waiting| waiting.is_of(Object::Semaphore(object), host))
    }

    /// Whether a server may have forgotten writes.
    pub fn may_forget(&self) -> bool {
        self.rules.forgetful
    }

    /// Judges that nothing is on record long after all permits were released.
    pub fn judge_records(&mut self) {
        let recorded = |number: &usize| !self.ledgers[*number].recorded.is_empty();
        let left = (0..self.ledgers.len()).find(recorded);
        if let Some(number) = left.filter(|_| !self.rules.meddled) {
            let recorded = &self.ledgers[number].recorded;
            let detail = format!("s{number} has on record {recorded:?}, and nobody holds any");
            self.accuse("records", detail);
        }
    }

    /// Whether this client has lost some of these permits.
    pub(super) fn has_lost_some(&self, object: usize, host: Host) -> bool {
        self.watched.have_lost.contains(&(object, host))
    }

    /// The client is gone: its callers hold no permits on record.
    pub(super) fn forgets_records(&mut self, host: Host) {
        self.watched.held.retain(|_, held| held.host != host);
        self.watched.watch.retain(|(_, other)| *other != host);
    }
}
