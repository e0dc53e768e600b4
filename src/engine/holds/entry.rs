//! One entry of the table: what one id holds of an object, when that ends, and when it is renewed.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::Moment;
use crate::engine::request::Arg;
use crate::lease::{Change, Lease};

/// How something that is held is renewed.
#[derive(Clone, Copy)]
pub(crate) struct Renewing {
    /// The word for it in `lua/engine/renew.lua`.
    pub(crate) kind: &'static str,
    /// An id as the script reads it.
    pub(crate) id: fn(&Arc<str>) -> Arg,
    /// The other keys that the script uses, for an object and an id.
    pub(crate) others: fn(&str, &str, &LeaseEntry) -> Vec<Arc<str>>,
    /// One call renews so many at the most.
    pub(crate) most: usize,
    /// How long it lasts from then on.
    pub(crate) lease: Duration,
}

impl Renewing {
    /// Where the script uses the objects alone.
    pub(crate) fn nothing_else(_: &str, _: &str, _: &LeaseEntry) -> Vec<Arc<str>> {
        Vec::new()
    }

    /// Entries with the same kind are renewed by one call.
    pub(super) fn kind(&self) -> (&'static str, Duration) {
        (self.kind, self.lease)
    }
}

/// When an entry is renewed.
#[derive(Clone, Copy)]
pub(super) struct Due {
    pub(super) at: Instant,
    /// From then on together with others.
    pub(super) early: Instant,
}

impl Due {
    fn now() -> Self {
        let at = Instant::now();
        Due { at, early: at }
    }
}

pub(crate) struct LeaseEntry {
    pub(super) lease: Lease,
    pub(super) renewing: Renewing,
    /// Its end is put off.
    renewed: bool,
    /// The number of the change by which it came into the table, and of the last one: an answer to a renewal that departed before that
    /// says nothing.
    pub(super) since: u64,
    pub(super) version: u64,
    /// When it ends, as far as the server has answered.
    until: Moment,
    /// `None`: a call has it.
    pub(super) due: Option<Due>,
    /// It was refused in a call with others, and is renewed in one of its own.
    alone: bool,
    /// The refusal has been reported.
    reported: bool,
    /// Its primitive knows this of it besides.
    beside: Option<Box<dyn Any + Send>>,
}

impl LeaseEntry {
    pub(super) fn new(until: Moment, renewing: Renewing, renewed: bool, number: u64) -> Self {
        let mut entry = LeaseEntry {
            lease: Lease::granted(until),
            renewing,
            renewed,
            since: number,
            version: number,
            until,
            due: None,
            alone: false,
            reported: false,
            beside: None,
        };
        entry.schedule();
        entry
    }

    pub(super) fn with(self, beside: Option<Box<dyn Any + Send>>) -> Self {
        LeaseEntry { beside, ..self }
    }

    pub(crate) fn beside<T: Any>(&self) -> Option<&T> {
        self.beside.as_ref()?.downcast_ref()
    }

    pub(crate) fn take_beside<T: Any>(&mut self) -> Option<Box<T>> {
        self.beside.take()?.downcast().ok()
    }

    pub(crate) fn put_beside(&mut self, beside: Box<impl Any + Send>) {
        self.beside = Some(beside);
    }

    /// It has no holder here: its end is of use where a guard keeps it later.
    pub(super) fn is_only_remembered(&self) -> bool {
        !self.renewed && self.beside.is_none() && !self.lease.is_shared()
    }

    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lease.is_lost()
    }

    pub(crate) fn is_renewed(&self) -> bool {
        self.renewed && !self.is_lost()
    }

    /// It is renewed from now on, or no more.
    pub(crate) fn set_renewed(&mut self, renewed: bool) {
        self.renewed = renewed;
    }

    /// It is renewed no more, and has a lease of its own: the former lease does not follow it.
    pub(super) fn detach(&mut self) {
        self.renewed = false;
        self.lease = Lease::granted(self.until);
        self.show_end();
    }

    /// Due a third of the lease behind what the server has confirmed, and together with others from half of that time on. But not before
    /// a tenth of that time has passed, or half of what is left: what was granted is confirmed soon, and what failed fails again. A longer
    /// lease is renewed as often: its holder is to learn where it is lost.
    pub(super) fn schedule(&mut self) {
        let (now, period) = (Instant::now(), self.renewing.lease / 3);
        let soon = now + self.soon().min(self.until.remaining() / 2);
        let before = |time: Instant, pause| time.checked_sub(pause).unwrap_or(now).max(soon);
        let at = before(self.until.timer(), 2 * period).min(now + period);
        let early = before(at, period / 2);
        self.due = Some(Due { at, early });
    }

    /// The same where no call has it, which would do that when it ends.
    pub(super) fn reschedule(&mut self) {
        if self.due.is_some() {
            self.schedule();
        }
    }

    fn soon(&self) -> Duration {
        (self.renewing.lease / 30).max(Duration::from_millis(1))
    }

    /// When it is due, unless a call has it, or it is not renewed.
    pub(super) fn due_at(&self) -> Option<Instant> {
        self.due.filter(|_| self.renewed).map(|due| due.at)
    }

    /// When it is looked for again, where it does not go along with others now.
    pub(super) fn due_behind(&self, now: Instant) -> Option<Instant> {
        let due = self.due.filter(|due| self.renewed && due.early > now)?;
        Some(due.at.max(now + self.soon()))
    }

    /// A call has it from now on, unless it is not renewed, or one has it already; whether it does.
    pub(super) fn take(&mut self) -> bool {
        self.renewed && self.due.take().is_some() && !self.is_lost()
    }

    /// As many as one call renews together with it.
    pub(super) fn most_together(&self) -> usize {
        if self.alone { 1 } else { self.renewing.most }
    }

    /// The call that had it was refused; after one with others it is tried alone at once. Returns whether to report that.
    pub(super) fn is_refused(&mut self, was_alone: bool) -> bool {
        self.alone = true;
        if !was_alone {
            self.due = Some(Due::now());
        }
        was_alone && !std::mem::replace(&mut self.reported, true)
    }

    /// It ends at `until` for the time being, the server says.
    pub(crate) fn ends(&mut self, until: Moment) {
        self.until = until;
        (self.alone, self.reported) = (false, false);
        self.show_end();
        self.reschedule();
    }

    /// It ends at `until` or later, the server says.
    pub(crate) fn lasts(&mut self, until: Moment) {
        self.ends(self.until.later(until));
    }

    /// A call departs that may let it end at `until`.
    pub(crate) fn may_end(&mut self, until: Moment) {
        self.until = self.until.earlier(until);
        self.show_end();
    }

    fn show_end(&self) {
        self.lease.set(Change::Until(Some(self.until)));
    }
}
