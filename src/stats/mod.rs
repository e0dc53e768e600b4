//! [`Stats`]: what has become of a client's calls; the counters behind it, and what guards hold.
//!
//! Counting is cheap enough to be done always. With the feature `metrics` the same numbers go to the `metrics` facade once a
//! second, and waiting and hold times as they come; with the feature `spans` there is a span for each.

mod counter;
#[cfg(feature = "metrics")]
mod meters;

use std::sync::Arc;

use counter::Counter;
#[cfg(feature = "metrics")]
use meters::Meters;

use crate::error::Error;

/// What has become of a client's calls so far, and how things stand now; see [`Client::stats`](crate::Client::stats).
///
/// A snapshot: the numbers are read one after another while others go on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Calls that were granted permits or a lock.
    pub granted: u64,
    /// Calls that were refused them: not free, or not in time.
    pub refused: u64,
    /// Calls of any kind that have failed.
    pub failed: u64,
    /// Of these, calls whose outcome is unknown.
    pub outcomes_unknown: u64,
    /// Callers that wait in line now, for permits, a lock or a latch.
    pub waiting: u64,
    /// Permits that guards hold now. What was acquired without a guard is not known.
    pub held_permits: u64,
    /// Locks that guards hold now, each as often as it is held.
    pub held_locks: u64,
    /// Locks and leased permits that were lost while a guard held them; counted when the guard goes.
    pub lost: u64,
    /// Requests that were sent, or asked about, once more.
    pub retries: u64,
    /// How often the connection for commands has come back.
    pub reconnections: u64,
}

/// What counts for one client.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    granted: Counter,
    pub(crate) refused: Counter,
    failed: Counter,
    outcomes_unknown: Counter,
    held_permits: Counter,
    held_locks: Counter,
    lost: Counter,
    pub(crate) retries: Counter,
    #[cfg(feature = "metrics")]
    meters: Meters,
}

/// Since when something lasts; nobody asks for the time where nobody measures it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Since {
    #[cfg(feature = "metrics")]
    began: Option<meters::Began>,
}

impl Counters {
    /// Something begins now.
    pub(crate) fn since(&self) -> Since {
        Since {
            #[cfg(feature = "metrics")]
            began: self.meters.begin(),
        }
    }

    /// Somebody who has asked since then was granted what it wanted.
    pub(crate) fn note_granted(&self, _what: What, _since: Since) {
        self.granted.add(1);
        #[cfg(feature = "metrics")]
        self.meters.waited(_what, _since.began);
    }

    /// A call has failed.
    #[cold]
    pub(crate) fn note_failed(&self, error: &Error) {
        self.failed.add(1);
        if matches!(error, Error::OutcomeUnknown { .. }) {
            self.outcomes_unknown.add(1);
        }
    }

    /// Tells the metrics how things stand.
    #[cfg(feature = "metrics")]
    pub(crate) fn publish(&self, stats: &Stats) {
        self.meters.publish(stats);
    }

    /// So many callers wait, and the connection has come back so often.
    pub(crate) fn look(&self, waiting: u64, reconnections: u64) -> Stats {
        Stats {
            granted: self.granted.sum(),
            refused: self.refused.sum(),
            failed: self.failed.sum(),
            outcomes_unknown: self.outcomes_unknown.sum(),
            waiting,
            held_permits: self.held_permits.sum(),
            held_locks: self.held_locks.sum(),
            lost: self.lost.sum(),
            retries: self.retries.sum(),
            reconnections,
        }
    }
}

/// What has been counted since the last time is told, too.
#[cfg(feature = "metrics")]
impl Drop for Counters {
    fn drop(&mut self) {
        self.publish(&self.look(0, 0));
    }
}

/// What a guard holds.
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

/// What a guard holds, as long as it does: hidden in the traits, where nobody can name it.
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

impl Held {
    fn count(&self, amount: i64) {
        match self.what {
            What::Permits => self.counters.held_permits.add(amount),
            What::Lock => self.counters.held_locks.add(amount),
        }
    }
}

impl Holding {
    pub(crate) fn new(counters: &Arc<Counters>, what: What, _name: &str, amount: u32) -> Self {
        let held = Held {
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
        };
        held.count(amount.into());
        Holding(Some(held))
    }

    /// Lets another guard hold so much of it, which is no more than there is.
    pub(crate) fn split(&mut self, amount: u32) -> Holding {
        Holding(self.0.as_mut().map(|held| {
            held.amount -= amount;
            Held {
                counters: Arc::clone(&held.counters),
                amount,
                what: held.what,
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
            held.counters.lost.add(1);
        }
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        if let Some(held) = &self.0 {
            held.count(-i64::from(held.amount));
            #[cfg(feature = "metrics")]
            if held.amount > 0 {
                held.counters.meters.held(held.what, held.since.began);
            }
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
        assert_eq!(counters.look(0, 0).held_permits, 5);
        drop(two);
        assert_eq!(counters.look(0, 0).held_permits, 3);
        let one = all.split(1);
        all.merge(one);
        assert_eq!(counters.look(0, 0).held_permits, 3);
        lock.note_lost();
        drop((all, lock));
        let stats = Stats {
            lost: 1,
            ..Stats::default()
        };
        assert_eq!(counters.look(0, 0), stats);
    }
}
