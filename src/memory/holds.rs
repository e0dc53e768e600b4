//! [`State`]: the holders of a lock for many readers or one writer. A plain lock has writers only.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::queue::Rules;
use crate::api::{Hold, HoldId};
use crate::lease::{Change, Lease};

/// The remaining time of a lock that was taken without a lease.
pub(super) const KEPT: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(super) struct State {
    pub(super) fenced: bool,
    pub(super) holdings: Vec<Holding>,
    /// How often the lock was taken: the number, and the fencing token, of the last hold.
    taken: u64,
}

/// The lock for this owner, for so long; `None`: without an end.
pub(super) struct Claim {
    pub(super) owner: Arc<str>,
    pub(super) reads: bool,
    pub(super) term: Option<Duration>,
}

/// The holds of one owner.
pub(super) struct Holding {
    owner: Arc<str>,
    pub(super) reads: bool,
    /// The latest last.
    pub(super) holds: Vec<Held>,
    /// When the last of its leases ends that have been granted.
    latest: Instant,
    pub(super) lease: Lease,
}

/// One time that the lock was taken.
pub(super) struct Held {
    number: u64,
    /// Whether somebody has its id, and will give this one back.
    claim: Weak<u64>,
    endless: bool,
}

impl Holding {
    pub(super) fn is_of(&self, owner: &str, reads: bool) -> bool {
        *self.owner == *owner && self.reads == reads
    }

    /// `None`: a hold has no end.
    pub(super) fn expires(&self) -> Option<Instant> {
        let endless = self.holds.iter().any(|held| held.endless);
        (!endless).then_some(self.latest)
    }

    /// Sets the lease, for the holds that there are now.
    fn renew(&self) {
        self.lease.set(match self.expires() {
            Some(expires) => Change::Until(Some(expires.into())),
            None => Change::Kept(KEPT),
        });
    }
}

impl Rules for State {
    type Want = Claim;
    type Grant = Hold;

    fn expire(&mut self, now: Instant) {
        let over = |held: &mut Holding| held.expires().is_some_and(|expires| expires <= now);
        let over = self.holdings.extract_if(.., over);
        over.for_each(|held| held.lease.lose());
    }

    fn next_end(&self) -> Option<Instant> {
        self.holdings.iter().filter_map(Holding::expires).min()
    }

    /// An owner does not wait for itself, but one that reads and wants to write. Only a holder passes waiters.
    fn fits(&self, claim: &Claim, behind: bool) -> bool {
        let own = |held: &Holding| held.owner == claim.owner;
        let beside = |held: &Holding| claim.reads && (held.reads || own(held));
        let again = |held: &Holding| held.is_of(&claim.owner, claim.reads);
        let mut holdings = self.holdings.iter();
        (!behind || holdings.clone().any(own))
            && (holdings.clone().all(beside) || holdings.any(again))
    }

    fn take(&mut self, claim: &Claim) -> Hold {
        let Claim { owner, reads, term } = claim;
        self.taken += 1;
        let (now, id) = (Instant::now(), HoldId::new(self.taken));
        let mut holdings = self.holdings.iter();
        let held = holdings.position(|held| held.is_of(owner, *reads));
        let place = held.unwrap_or_else(|| {
            self.holdings.push(Holding {
                owner: Arc::clone(owner),
                reads: *reads,
                holds: Vec::new(),
                latest: now,
                lease: Lease::kept(KEPT),
            });
            self.holdings.len() - 1
        });
        let holding = &mut self.holdings[place];
        let end = term.and_then(|term| now.checked_add(term));
        // It comes no nearer while it is held.
        holding.latest = holding.latest.max(end.unwrap_or(now));
        holding.holds.push(Held {
            number: self.taken,
            claim: id.watch(),
            endless: end.is_none(),
        });
        holding.renew();
        Hold {
            lease: holding.lease.clone(),
            id,
            token: self.fenced.then_some(self.taken),
        }
    }

    fn take_back(&mut self, claim: &Claim, hold: Hold) {
        self.release(&claim.owner, claim.reads, Some(hold.id.number()));
    }
}

impl State {
    /// Gives back the owner's hold with `number`; without that its latest that nobody has the id of, or its latest. Whether there was one.
    pub(super) fn release(&mut self, owner: &str, reads: bool, number: Option<u64>) -> bool {
        let mut all = self.holdings.iter();
        let Some(at) = all.position(|held| held.is_of(owner, reads)) else {
            return false;
        };
        let holding = &mut self.holdings[at];
        let place = holding.holds.iter().rposition(|held| match number {
            Some(number) => held.number == number,
            None => held.claim.strong_count() == 0,
        });
        let latest = holding.holds.len() - 1;
        let Some(place) = place.or(number.is_none().then_some(latest)) else {
            return false;
        };
        let was_endless = holding.holds.remove(place).endless;
        if holding.holds.is_empty() {
            self.holdings.remove(at).lease.end();
            return true;
        }
        if was_endless {
            // It was held without an end until now, which counts for a while.
            holding.latest = holding.latest.max(Instant::now() + KEPT);
        }
        holding.renew();
        true
    }

    /// Takes one side away from its holders; whether there were any. Readers beside the writer are its own.
    pub(super) fn force(&mut self, reads: bool) -> bool {
        if reads == self.holdings.iter().any(|held| !held.reads) {
            return false;
        }
        let gone = std::mem::take(&mut self.holdings);
        gone.iter().for_each(|held| held.lease.lose());
        !gone.is_empty()
    }
}
