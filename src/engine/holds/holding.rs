//! What one owner holds of an object: each time that it has taken it, and when all of it ends.

use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use crate::api::HoldId;
use crate::clock::Moment;
use crate::engine::request::{Arg, Script};
use crate::lease::{Change, Lease};

/// For how long a lock is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Term {
    /// For as long as it is held: it is renewed.
    Watched,
    /// For this long at the most.
    Limited(Duration),
}

impl Term {
    /// The time to live that is set.
    pub(crate) fn lease(self, watchdog_timeout: Duration) -> Duration {
        match self {
            Term::Watched => watchdog_timeout,
            Term::Limited(lease) => lease,
        }
    }
}

/// How something that is held is renewed.
#[derive(Clone, Copy)]
pub(crate) struct Renewing {
    /// Its keys are the objects, its arguments the lease, and for each object its owner; or, where it may have several, how many,
    /// and each of them.
    pub(crate) script: &'static LazyLock<Script>,
    pub(crate) several: bool,
    /// An owner as the script reads it.
    pub(crate) owner: fn(&Arc<str>) -> Arg,
    /// One call renews so many at the most.
    pub(crate) most: usize,
    /// How long it lasts from then on.
    pub(crate) lease: Duration,
}

impl Renewing {
    /// Whether one call renews both.
    pub(super) fn is_like(&self, other: &Renewing) -> bool {
        std::ptr::eq(self.script, other.script) && self.lease == other.lease
    }
}

/// Tells what an owner holds from what it held before.
pub(super) type Version = (u64, u64);

/// What one owner holds of a lock without having lost it in between.
pub(super) struct Holding {
    pub(super) owner: Arc<str>,
    /// The latest last; never empty in the table.
    holds: Vec<Held>,
    /// The number of the first one, which may have been given back.
    since: u64,
    /// How many steps have said, or may have said, when it ends.
    steps: u64,
    /// One for all: they end together.
    pub(super) lease: Lease,
    /// When, as far as the server has answered.
    until: Moment,
    /// Steps that may have changed that.
    pending: Option<Pending>,
    pub(super) renewing: Renewing,
    /// Nobody keeps it.
    pub(super) remembered: bool,
}

/// Steps of the owner without an answer, of which each makes all that is left last for a lease of its own.
struct Pending {
    /// When it ends at the earliest by one of them.
    end: Moment,
    /// Whether one of them makes the end come sooner than a renewal would.
    shortens: bool,
    /// The last one will not be answered any more: what the server says later counts.
    unanswered: bool,
}

/// One time that the lock was taken.
struct Held {
    number: u64,
    /// Whether somebody has its id, and will give this one back.
    /// `None`: it is on its way to its caller.
    claim: Option<Weak<u64>>,
    term: Term,
    /// Its release has been sent.
    leaving: bool,
    /// It could not be given back: it counts no more, unless it is given back after all.
    spent: bool,
}

impl Held {
    fn new(number: u64, term: Term) -> Self {
        Held {
            number,
            claim: None,
            term,
            leaving: false,
            spent: false,
        }
    }

    /// Whether nobody has its id.
    fn is_free(&self) -> bool {
        let claim = self.claim.as_ref();
        claim.is_some_and(|claim| claim.strong_count() == 0)
    }

    /// It could not be given back.
    fn spend(&mut self) {
        (self.leaving, self.spent) = (true, true);
    }
}

impl Holding {
    /// `owner` has taken the lock for `term`, which ends at `until` for the time being.
    pub(super) fn new(
        owner: &Arc<str>,
        number: u64,
        term: Term,
        until: Moment,
        renewing: Renewing,
    ) -> Self {
        Holding {
            owner: Arc::clone(owner),
            holds: vec![Held::new(number, term)],
            since: number,
            steps: 0,
            lease: Lease::granted(until),
            until,
            pending: None,
            renewing,
            remembered: false,
        }
    }

    /// It has taken the lock once more.
    pub(super) fn add(&mut self, number: u64, term: Term, until: Moment) {
        self.forget_spent();
        self.holds.push(Held::new(number, term));
        self.ends(until);
    }

    /// The caller of the hold with this number has it, and will give it back, as long as somebody has its id.
    pub(super) fn claim(&mut self, id: &HoldId) -> Option<Lease> {
        let mut holds = self.holds.iter_mut();
        let held = holds.find(|held| held.number == id.number())?;
        held.claim = Some(id.watch());
        Some(self.lease.clone())
    }

    /// Takes the hold with this number out; whether any are left.
    pub(super) fn remove(&mut self, number: Option<u64>) -> bool {
        self.holds.retain(|held| Some(held.number) != number);
        !self.holds.is_empty()
    }

    /// The number of its first hold.
    pub(super) fn since(&self) -> u64 {
        self.since
    }

    /// How often it is held; `None`: not any more, but that could not be given back.
    pub(super) fn count(&self) -> Option<u32> {
        let live = self.holds.iter().filter(|held| !held.spent).count();
        (live > 0).then(|| u32::try_from(live).unwrap_or(u32::MAX))
    }

    /// The hold with this number could not be given back.
    pub(super) fn spend(&mut self, number: u64) {
        let mut holds = self.holds.iter_mut();
        let held = holds.find(|held| held.number == number);
        held.into_iter().for_each(Held::spend);
    }

    /// The server counts what does, from now on.
    pub(super) fn forget_spent(&mut self) {
        self.holds.retain(|held| !held.spent);
    }

    pub(super) fn has(&self, number: u64) -> bool {
        self.holds.iter().any(|held| held.number == number)
    }

    /// The latest that nobody has the id of, or the latest.
    pub(super) fn latest(&self) -> Option<u64> {
        let find = |is_it: fn(&Held) -> bool| self.holds.iter().rev().find(|held| is_it(held));
        let free = find(|held| held.is_free() && !held.spent && !held.leaving);
        // What could not be given back is, where nothing else is left; and what is being given back last of all.
        let spent = || find(|held| held.is_free() && !held.leaving);
        let any = || find(|held| !held.leaving);
        let latest = free.or_else(spent).or_else(any).or(self.holds.last());
        latest.map(|held| held.number)
    }

    /// The term that counts when the hold with this number has gone; `None` where none is left.
    pub(super) fn term_without(&self, number: Option<u64>) -> Option<Term> {
        let stays = |held: &&Held| !held.leaving && Some(held.number) != number;
        let rest = self.holds.iter().filter(stays);
        // A hold that is renewed stays so, whatever was taken on top of it.
        rest.map(|held| held.term)
            .reduce(|below, term| match below {
                Term::Watched => below,
                Term::Limited(_) => term,
            })
    }

    /// It is renewed no more, and has a lease of its own: nobody is told by the former one what becomes of it.
    pub(super) fn detach(&mut self) {
        self.set_term(Term::Limited(self.renewing.lease));
        self.lease = Lease::granted(self.until);
        self.show_end();
    }

    /// From now on all of it is held for `term`.
    pub(super) fn set_term(&mut self, term: Term) {
        for held in &mut self.holds {
            held.term = term;
        }
    }

    /// The hold with this number is about to be given back, or is not, after all.
    pub(super) fn leaves(&mut self, number: Option<u64>, leaving: bool) {
        let mut holds = self.holds.iter_mut();
        if let Some(held) = holds.find(|held| Some(held.number) == number) {
            // One that is given back after all counts until then.
            held.spent &= !leaving;
            held.leaving = leaving || held.spent;
        }
    }

    /// All of them are about to be given back.
    pub(super) fn is_leaving(&self) -> bool {
        self.holds.iter().all(|held| held.leaving)
    }

    /// One of them is to be renewed; what is about to be given back is not.
    pub(super) fn is_watched(&self) -> bool {
        let watched = |held: &Held| held.term == Term::Watched && !held.leaving;
        self.holds.iter().any(watched) && !self.lease.is_lost()
    }

    /// Another one as soon as a step of the owner departs or is answered.
    pub(super) fn version(&self) -> Version {
        (self.since, self.steps)
    }

    /// All that is left ends at `until` for the time being, the server says.
    pub(super) fn ends(&mut self, until: Moment) {
        self.steps += 1;
        self.until = until;
        self.pending = None;
        self.show_end();
    }

    /// It ends at `until` or later, the server says, and no step has come in between.
    pub(super) fn lasts(&mut self, until: Moment) {
        let end = self.end();
        // Whenever a step arrives that sets no shorter lease than a renewal, the end is put off by it; not to when it was before, perhaps.
        let settles = |steps: &mut Pending| steps.unanswered || !steps.shortens;
        let before = match self.pending.take_if(settles) {
            Some(_) => end,
            None => self.until,
        };
        self.until = before.later(until);
        self.show_end();
    }

    /// It may end at `until` already, by a step that sets this lease.
    pub(super) fn may_end(&mut self, until: Moment, lease: Duration) {
        self.steps += 1;
        let before = self.pending.take();
        self.pending = Some(Pending {
            end: before
                .as_ref()
                .map_or(until, |steps| steps.end.earlier(until)),
            shortens: lease < self.renewing.lease || before.is_some_and(|steps| steps.shortens),
            unanswered: false,
        });
        self.show_end();
    }

    /// It does not, after all.
    pub(super) fn stays(&mut self) {
        self.steps += 1;
        self.pending = None;
        self.show_end();
    }

    /// Nobody will learn whether it does, but by what the server says of it later.
    pub(super) fn is_not_answered(&mut self) {
        self.steps += 1;
        if let Some(steps) = &mut self.pending {
            steps.unanswered = true;
        }
    }

    /// When it ends at the earliest.
    fn end(&self) -> Moment {
        let pending = self.pending.as_ref();
        pending.map_or(self.until, |steps| steps.end.earlier(self.until))
    }

    fn show_end(&self) {
        // Who waits for it is told when nothing is locked.
        self.lease.change(Change::Until(Some(self.end())));
    }
}
