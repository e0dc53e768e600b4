//! [`Stats`]: what has become of a client's calls; the counters behind it, and what guards hold.
//!
//! Counting is cheap enough to be done always. With the feature `metrics` the same numbers go to the `metrics` facade once a
//! second, and waiting and hold times as they come; with the feature `spans` there is a span for each.

#[cfg(feature = "metrics")]
mod meters;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

#[cfg(feature = "metrics")]
use meters::Meters;

use crate::error::Error;

/// Counts of a client's calls by result, and its present state; see [`Client::stats`](crate::Client::stats).
///
/// A snapshot: the numbers are read one after another while others go on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Calls that were granted permits or a lock.
    pub granted: u64,
    /// Calls that were refused them: not free, or not in time.
    pub refused: u64,
    /// Calls of any kind that have failed. Calls on semaphores with arguments or names that are refused before anything is sent are not
    /// among them.
    pub failed: u64,
    /// Of these, calls whose outcome is unknown.
    pub outcomes_unknown: u64,
    /// Callers that wait now, for permits, a lock or a latch.
    pub waiting: u64,
    /// Permits that guards hold now. Permits that were acquired without a guard are not known.
    pub held_permits: u64,
    /// Locks that guards hold now, each as often as it is held.
    pub held_locks: u64,
    /// Locks, leased permits and permits of watched guards that were lost while a guard held them; counted when the guard goes.
    pub lost: u64,
    /// Requests that were sent, or asked about, once more.
    pub retries: u64,
    /// How often the connection for commands has come back.
    pub reconnections: u64,
}

/// The counters of one client.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    granted: AtomicI64,
    refused: AtomicI64,
    failed: AtomicI64,
    outcomes_unknown: AtomicI64,
    held_permits: AtomicI64,
    held_locks: AtomicI64,
    lost: AtomicI64,
    retries: AtomicI64,
    #[cfg(feature = "metrics")]
    meters: Meters,
}

/// Since when something lasts; the clock is read for metrics only.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Since {
    #[cfg(feature = "metrics")]
    began: std::time::Instant,
}

impl Counters {
    /// Something begins now.
    pub(crate) fn since(&self) -> Since {
        Since {
            #[cfg(feature = "metrics")]
            began: std::time::Instant::now(),
        }
    }

    /// A caller that has waited since then got its grant.
    pub(crate) fn note_granted(&self, _what: What, _since: Since) {
        self.granted.fetch_add(1, Relaxed);
        #[cfg(feature = "metrics")]
        self.meters.waited(_what, _since.began);
    }

    /// Somebody was not granted what it wanted.
    pub(crate) fn note_refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// A request is sent, or asked about, once more.
    pub(crate) fn note_retry(&self) {
        self.retries.fetch_add(1, Relaxed);
    }

    fn count_held(&self, what: What, amount: i64) {
        let held = match what {
            What::Permits => &self.held_permits,
            What::Lock => &self.held_locks,
        };
        held.fetch_add(amount, Relaxed);
    }

    /// A call has failed.
    #[cold]
    pub(crate) fn note_failed(&self, error: &Error) {
        self.failed.fetch_add(1, Relaxed);
        if matches!(error, Error::OutcomeUnknown { .. }) {
            self.outcomes_unknown.fetch_add(1, Relaxed);
        }
    }

    /// The same for one that is made of an answer which was none.
    #[cold]
    pub(crate) fn failed(&self, error: Error) -> Error {
        self.note_failed(&error);
        error
    }

    /// Tells the metrics how things stand.
    #[cfg(feature = "metrics")]
    pub(crate) fn publish(&self, stats: &Stats) {
        self.meters.publish(stats);
    }

    /// So many callers wait, and the connection has come back so often.
    pub(crate) fn snapshot(&self, waiting: u64, reconnections: u64) -> Stats {
        let read = |number: &AtomicI64| u64::try_from(number.load(Relaxed)).unwrap_or(0);
        Stats {
            granted: read(&self.granted),
            refused: read(&self.refused),
            failed: read(&self.failed),
            outcomes_unknown: read(&self.outcomes_unknown),
            waiting,
            held_permits: read(&self.held_permits),
            held_locks: read(&self.held_locks),
            lost: read(&self.lost),
            retries: read(&self.retries),
            reconnections,
        }
    }
}

/// Counts since the last time are reported, too, but for reconnections, which are counted elsewhere.
#[cfg(feature = "metrics")]
impl Drop for Counters {
    fn drop(&mut self) {
        self.publish(&self.snapshot(0, 0));
    }
}

/// The kinds of things that callers wait for, and that guards hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Permits,
    Lock,
}

#[cfg(any(feature = "metrics", feature = "spans"))]
impl What {
    /// In metrics and spans.
    pub(crate) fn word(self) -> &'static str {
        match self {
            What::Permits => "permits",
            What::Lock => "lock",
        }
    }
}

/// The counted hold of a guard; nothing where holds are not counted. Hidden in the traits, so users cannot name it.
#[derive(Debug, Default)]
pub struct Holding(Option<Held>);

#[derive(Debug)]
struct Held {
    counters: Arc<Counters>,
    what: What,
    amount: u32,
    since: Since,
    /// As long as it, or what was split off it, is there.
    #[cfg(feature = "spans")]
    _span: tracing::Span,
}

impl Holding {
    pub(crate) fn new(counters: &Arc<Counters>, what: What, _name: &str, amount: u32) -> Self {
        counters.count_held(what, amount.into());
        Holding(Some(Held {
            counters: Arc::clone(counters),
            what,
            amount,
            since: counters.since(),
            #[cfg(feature = "spans")]
            _span: tracing::info_span!(
                "hold",
                name = _name,
                what = what.word(),
                amount = i64::from(amount)
            ),
        }))
    }

    /// Lets another guard hold so much of it, which is no more than there is.
    pub(crate) fn split(&mut self, amount: u32) -> Holding {
        Holding(self.0.as_mut().map(|held| {
            held.amount -= amount;
            Held {
                counters: Arc::clone(&held.counters),
                what: held.what,
                amount,
                since: held.since,
                #[cfg(feature = "spans")]
                _span: held._span.clone(),
            }
        }))
    }

    /// Takes over what another guard holds of the same thing.
    pub(crate) fn merge(&mut self, mut other: Holding) {
        if let (Some(held), Some(other)) = (&mut self.0, &mut other.0) {
            held.amount += std::mem::take(&mut other.amount);
        }
    }

    /// It was lost on the way.
    pub(crate) fn note_lost(&self) {
        if let Some(held) = &self.0 {
            held.counters.lost.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.counters.count_held(self.what, -i64::from(self.amount));
        #[cfg(feature = "metrics")]
        if self.amount > 0 {
            self.counters.meters.held(self.what, self.since.began);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_guards_hold_is_split_merged_and_given_back() {
        let counters = Arc::new(Counters::default());
        let mut all = Holding::new(&counters, What::Permits, "seats", 5);
        let lock = Holding::new(&counters, What::Lock, "door", 1);
        let two = all.split(2);
        assert_eq!(counters.snapshot(0, 0).held_permits, 5);
        drop(two);
        assert_eq!(counters.snapshot(0, 0).held_permits, 3);
        let one = all.split(1);
        all.merge(one);
        assert_eq!(counters.snapshot(0, 0).held_permits, 3);
        lock.note_lost();
        assert_eq!(counters.snapshot(0, 0).held_locks, 1);
        drop(lock);
        drop(all);
        let stats = Stats {
            lost: 1,
            ..Stats::default()
        };
        assert_eq!(counters.snapshot(0, 0), stats);
    }
}
