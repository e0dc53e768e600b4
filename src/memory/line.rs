//! Who waits, and who is next.
//!
//! Tickets are numbered in the order of arrival. The first in line whose permits are there is served;
//! those before it, who need more than there is, have been passed. From the first time that this
//! happens to somebody, it may go on for [`PASSING_LIMIT`]; then nobody behind is served until the one
//! passed has been. Whoever stands before one that has been passed was passed at the same time or
//! earlier, so it is enough to look at the first in line.
//!
//! Whose time is over stands aside, until its owner is polled again or goes.
//!
//! A ticket that does not wait any more has been served: nothing else takes one out but its owner.

use std::collections::VecDeque;
use std::task::Waker;

use tokio::time::Instant;

use crate::api::PASSING_LIMIT;

/// As many empty places are not worth closing the ranks for.
const FEW: usize = 32;

/// The tasks to wake once the mutex is free.
pub(super) type Wakers = Vec<Waker>;

/// A place in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

#[derive(Debug)]
struct Place {
    ticket: Ticket,
    permits: u32,
    passed_since: Option<Instant>,
    /// When its time is over.
    deadline: Option<Instant>,
    /// `None` when the place is empty: its owner was served or has gone.
    waker: Option<Waker>,
}

#[derive(Debug, Default)]
pub(super) struct Line {
    /// In the order of the tickets; the first place is never empty.
    places: VecDeque<Place>,
    empty: usize,
    /// Those whose time is over.
    late: Vec<Place>,
    /// Nobody's time is over before this.
    first_deadline: Option<Instant>,
    /// Nobody in line wants fewer permits than this.
    smallest: u32,
    issued: u64,
}

impl Line {
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(super) fn join(&mut self, permits: u32, deadline: Option<Instant>, waker: Waker) -> Ticket {
        let ticket = Ticket(self.issued);
        self.issued += 1;
        self.smallest = if self.is_empty() {
            permits
        } else {
            permits.min(self.smallest)
        };
        self.places.push_back(Place {
            ticket,
            permits,
            passed_since: None,
            deadline,
            waker: Some(waker),
        });
        self.note_deadline(deadline);
        ticket
    }

    fn note_deadline(&mut self, deadline: Option<Instant>) {
        let both = self.first_deadline.into_iter().chain(deadline);
        self.first_deadline = both.min();
    }

    /// Takes those out of the order whose time is over.
    pub(super) fn set_late_aside(&mut self) {
        let Some(first) = self.first_deadline else {
            return;
        };
        let now = Instant::now();
        if now <= first {
            return;
        }
        self.first_deadline = None;
        for index in 0..self.places.len() {
            let place = &mut self.places[index];
            let Some(deadline) = place.deadline.filter(|_| place.waker.is_some()) else {
                continue;
            };
            if deadline >= now {
                self.note_deadline(Some(deadline));
                continue;
            }
            let waker = place.waker.take();
            let late = Place { waker, ..*place };
            self.late.push(late);
            self.empty += 1;
        }
        self.close_ranks();
    }

    fn late(&self, ticket: Ticket) -> Option<usize> {
        self.late.iter().position(|place| place.ticket == ticket)
    }

    /// The waker of one who waits; `None` if he has been served.
    pub(super) fn waker(&mut self, ticket: Ticket) -> Option<&mut Waker> {
        if let Some(late) = self.late(ticket) {
            return self.late[late].waker.as_mut();
        }
        let index = self.index(ticket)?;
        self.places[index].waker.as_mut()
    }

    /// Takes one who waits out of the line; `None` if he has been served.
    pub(super) fn leave(&mut self, ticket: Ticket) -> Option<Waker> {
        if let Some(late) = self.late(ticket) {
            return self.late.swap_remove(late).waker;
        }
        let index = self.index(ticket)?;
        let waker = self.places[index].waker.take()?;
        self.empty += 1;
        self.close_ranks();
        Some(waker)
    }

    /// Takes those out of the line whose turn it is with `available` permits, which become fewer.
    pub(super) fn serve(&mut self, available: &mut i64) -> Wakers {
        self.set_late_aside();
        let mut wakers = Wakers::new();
        while let Some(first) = self.places.front_mut() {
            if i64::from(first.permits) > *available {
                break;
            }
            *available -= i64::from(first.permits);
            wakers.extend(first.waker.take());
            self.empty += 1;
            self.close_ranks();
        }
        if i64::from(self.smallest) <= *available && !self.is_stopped() {
            self.serve_smaller(available, &mut wakers);
        }
        wakers
    }

    /// Whether somebody has been passed for so long that nobody may go before him any more.
    pub(super) fn is_stopped(&self) -> bool {
        let since = self.places.front().and_then(|first| first.passed_since);
        since.is_some_and(|since| since.elapsed() >= PASSING_LIMIT)
    }

    /// Notes that all in line are passed now.
    pub(super) fn pass_all(&mut self) {
        self.pass(self.places.len());
    }

    fn serve_smaller(&mut self, available: &mut i64, wakers: &mut Wakers) {
        let mut smallest = u32::MAX;
        let mut last = 0;
        for (index, place) in self.places.iter_mut().enumerate() {
            if place.waker.is_none() {
                continue;
            }
            if i64::from(place.permits) > *available {
                smallest = smallest.min(place.permits);
                continue;
            }
            *available -= i64::from(place.permits);
            wakers.extend(place.waker.take());
            self.empty += 1;
            last = index;
            if *available < i64::from(self.smallest) {
                // Nobody further back can fit; how small they are stays unknown.
                smallest = self.smallest;
                break;
            }
        }
        self.smallest = smallest;
        self.pass(last);
        self.close_ranks();
    }

    /// Notes that those in the first `places` places are passed now.
    fn pass(&mut self, places: usize) {
        let mut now = None;
        let waiting = |place: &&mut Place| place.waker.is_some();
        // Those before one with a note have a note too.
        for place in self.places.range_mut(..places).rev().filter(waiting) {
            if place.passed_since.is_some() {
                break;
            }
            place.passed_since = Some(*now.get_or_insert_with(Instant::now));
        }
    }

    fn index(&self, ticket: Ticket) -> Option<usize> {
        self.places
            .binary_search_by_key(&ticket, |place| place.ticket)
            .ok()
    }

    /// Removes the empty places in front, and all of them when they are the greater part.
    fn close_ranks(&mut self) {
        while self
            .places
            .front()
            .is_some_and(|place| place.waker.is_none())
        {
            self.places.pop_front();
            self.empty -= 1;
        }
        if self.empty > FEW.max(self.places.len() / 2) {
            self.places.retain(|place| place.waker.is_some());
            self.empty = 0;
        }
    }
}
