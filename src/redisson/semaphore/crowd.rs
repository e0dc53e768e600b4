//! The callers of one process that wait for permits of one semaphore: who of them asks, and whom a release serves.
//!
//! The first ones ask together. A smaller request behind one that does not fit may pass it, until the larger one has been
//! passed for [`PASSING_LIMIT`]; then the line stops until that one is served.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::calls::{Grant, Want};
use super::permits::Permits;
use super::steps::MOST_RUNS;
use crate::api::PASSING_LIMIT;
use crate::engine::primitive::{Ticket, Waiters};

/// So many ask at first; more as long as all who have asked are served.
const FIRST_REACH: usize = 16;
const LONGEST_REACH: usize = 4096;

/// What is known of those who wait.
pub(super) struct Crowd {
    /// How many want each amount.
    amounts: BTreeMap<u32, usize>,
    /// The waiter that others have passed, and since when.
    passed: Option<(Ticket, Instant)>,
    reach: usize,
    /// What was free when those who asked could not use it, and others behind them may: they are searched for when there
    /// is a reason to ask, however often that comes.
    free: Option<i64>,
    /// What was known to be free when those asked who ask now, if the line was searched for those it fits.
    searched: Option<i64>,
    /// The line stops where one of them falls short.
    pub(super) strict: bool,
}

/// How those have fared who have asked, but those who did so for the last time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fared {
    /// Nobody of them is left.
    satisfied: bool,
    /// Another search for those whom it fits would find nobody new.
    in_vain: bool,
    /// The last one who was served.
    last: Option<Ticket>,
}

impl Crowd {
    pub(super) fn new() -> Self {
        Crowd {
            amounts: BTreeMap::new(),
            passed: None,
            reach: FIRST_REACH,
            free: None,
            searched: None,
            strict: false,
        }
    }

    pub(super) fn joined(&mut self, want: &Want) {
        *self.amounts.entry(want.permits).or_default() += 1;
    }

    pub(super) fn went(&mut self, want: &Want) {
        if let Some(count) = self.amounts.get_mut(&want.permits) {
            *count -= 1;
            if *count == 0 {
                self.amounts.remove(&want.permits);
            }
        }
    }

    /// Who asks: the first ones; and where it is known how much was free when these could not use it, those behind them whom
    /// it fits.
    pub(super) fn asks<'a>(
        &mut self,
        waiters: &'a Waiters<Permits>,
        now: Instant,
    ) -> Vec<(Ticket, &'a Want)> {
        self.strict = self.must_not_pass(waiters, now);
        self.searched = self.free.take().filter(|_| !self.strict);
        let near = match self.searched {
            Some(_) => MOST_RUNS / 2,
            None => MOST_RUNS,
        };
        let most = self.reach.min(waiters.len());
        let (mut asking, mut runs) = (Vec::<(Ticket, &Want)>::with_capacity(most), 0);
        let mut name = |asking: &mut Vec<(Ticket, &'a Want)>, (ticket, want), most| {
            let last = asking.last();
            let begins = last.is_none_or(|(_, last): &(Ticket, &Want)| !last.is_alike(want));
            let has_room = !begins || runs < most;
            if has_room {
                runs += usize::from(begins);
                asking.push((ticket, want));
            }
            has_room
        };
        for waiter in waiters.staying().take(self.reach) {
            if !name(&mut asking, waiter, near) {
                break;
            }
        }
        if let Some(free) = self.searched {
            let behind = waiters.staying().skip(asking.len());
            let fitting = behind.filter(|(_, want)| i64::from(want.permits) <= free);
            for waiter in fitting.take(self.reach) {
                if !name(&mut asking, waiter, MOST_RUNS) {
                    break;
                }
            }
        }
        asking
    }

    /// So many have asked, but those who did so for the last time, and so many of them were served, up to the `last`, which leaves
    /// so many permits; nothing if nobody has.
    pub(super) fn fared(
        &mut self,
        asked: usize,
        served: usize,
        last: Option<Ticket>,
        available: i64,
    ) -> Option<Fared> {
        if asked == 0 {
            return None;
        }
        self.reach = if served == asked {
            (self.reach * 4).min(LONGEST_REACH)
        } else {
            (served * 2).clamp(FIRST_REACH, LONGEST_REACH)
        };
        Some(Fared {
            satisfied: served == asked,
            in_vain: self.searched == Some(available) && served == 0,
            last,
        })
    }

    /// Whether those who are left have a reason to ask, behind those who have `fared` so.
    pub(super) fn looks(
        &mut self,
        fared: Fared,
        waiters: &Waiters<Permits>,
        available: i64,
        now: Instant,
    ) -> bool {
        let Some((head, _)) = waiters.first_to_stay() else {
            return false;
        };
        if fared.last > Some(head) {
            self.note_passed(head, now);
        }
        let fits = !fared.satisfied && self.somebody_fits(waiters, available, now);
        if fits {
            self.free = Some(available);
        }
        fared.satisfied || fits && !fared.in_vain
    }

    /// Whom exactly the permits of `grant` serve, in order; nobody if some would be left over, or if somebody
    /// would be passed for whom they are enough together with those that are `free`. Permits on record serve only those
    /// whose are to be.
    pub(super) fn serve_exactly(
        &mut self,
        waiters: &Waiters<Permits>,
        grant: Grant,
        free: i64,
        now: Instant,
    ) -> Vec<(Ticket, Grant)> {
        let strict = self.must_not_pass(waiters, now);
        let mut rest = grant.permits;
        let mut served: Vec<(Ticket, Grant)> = Vec::new();
        let mut passed = None;
        for (ticket, want) in waiters.staying().take(MOST_RUNS) {
            let permits = want.permits;
            if permits <= rest && want.recorded == grant.life.is_some() {
                rest -= permits;
                served.push((ticket, Grant { permits, ..grant }));
                if rest == 0 {
                    break;
                }
            } else if strict || i64::from(permits) <= free.saturating_add(rest.into()) {
                break;
            } else {
                passed.get_or_insert(ticket);
            }
        }
        if rest > 0 {
            return Vec::new();
        }
        let last = served.last().map(|(ticket, _)| *ticket);
        if let Some(passed) = passed.filter(|passed| last > Some(*passed)) {
            self.note_passed(passed, now);
        }
        served
    }

    /// The first in line has been passed; the limit counts from the first time.
    fn note_passed(&mut self, head: Ticket, now: Instant) {
        if self.passed.is_none_or(|(ticket, _)| ticket != head) {
            self.passed = Some((head, now));
        }
    }

    fn must_not_pass(&self, waiters: &Waiters<Permits>, now: Instant) -> bool {
        self.passed.is_some_and(|(ticket, since)| {
            let first = waiters.first_to_stay().map(|(first, _)| first);
            first == Some(ticket) && now.saturating_duration_since(since) >= PASSING_LIMIT
        })
    }

    /// Whether somebody could be served with `free` permits.
    pub(super) fn somebody_fits(
        &self,
        waiters: &Waiters<Permits>,
        free: i64,
        now: Instant,
    ) -> bool {
        let wanted = if self.must_not_pass(waiters, now) {
            waiters.first_to_stay().map(|(_, want)| want.permits)
        } else {
            self.amounts.keys().next().copied()
        };
        wanted.is_some_and(|wanted| i64::from(wanted) <= free)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    /// Some who want so many each.
    fn crowd(amounts: &[u32]) -> (Crowd, Waiters<Permits>) {
        let (mut crowd, mut waiters) = (Crowd::new(), Waiters::<Permits>::default());
        for permits in amounts {
            let want = Want::new(*permits, false);
            crowd.joined(&want);
            waiters.join(want, oneshot::channel().0, None, true, want.since);
        }
        (crowd, waiters)
    }

    fn wanted(asking: &[(Ticket, &Want)]) -> Vec<u32> {
        asking.iter().map(|(_, want)| want.permits).collect()
    }

    #[test]
    fn those_whom_it_fits_are_searched_for_behind_the_first_ones() {
        let amounts = [[5; 20].as_slice(), &[1, 4, 2]].concat();
        let (mut crowd, waiters) = crowd(&amounts);
        let now = Instant::now();
        let first = [5; FIRST_REACH];
        assert_eq!(wanted(&crowd.asks(&waiters, now)), first);
        let fared = |in_vain| Fared {
            satisfied: false,
            in_vain,
            last: None,
        };
        assert!(
            crowd.looks(fared(false), &waiters, 3, now),
            "somebody may use it"
        );
        let asking = crowd.asks(&waiters, now);
        assert_eq!(wanted(&asking), [first.as_slice(), &[1, 2]].concat());
        assert_eq!(crowd.searched, Some(3));
        assert!(
            !crowd.looks(fared(true), &waiters, 3, now),
            "nobody has found any"
        );
        assert!(
            !crowd.looks(fared(false), &waiters, 0, now),
            "there is nothing"
        );
    }

    #[test]
    fn who_has_been_passed_for_long_is_not_passed_any_more() {
        let (mut crowd, waiters) = crowd(&[5, 1]);
        let now = Instant::now();
        let served = Fared {
            satisfied: false,
            in_vain: false,
            last: Some(1),
        };
        crowd.looks(served, &waiters, 0, now);
        crowd.asks(&waiters, now);
        assert!(!crowd.strict && crowd.somebody_fits(&waiters, 1, now));
        let late = now + PASSING_LIMIT;
        crowd.asks(&waiters, late);
        assert!(crowd.strict && !crowd.somebody_fits(&waiters, 1, late));
    }

    #[test]
    fn permits_on_record_are_not_handed_to_callers_without_a_guard() {
        let (mut crowd, waiters) = crowd(&[1, 1]);
        let now = Instant::now();
        let mut serve = |life| {
            let grant = Grant { permits: 1, life };
            crowd.serve_exactly(&waiters, grant, 0, now).len()
        };
        assert_eq!((serve(Some(7)), serve(None)), (0, 1));
    }
}
