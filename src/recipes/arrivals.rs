//! When callers came, by the server's clock.
//!
//! An answer tells the time at which it was given: all who had joined when its batch departed came by then. That is what a
//! caller counts from in the line of all clients: it stays the same however often he asks.

use std::collections::VecDeque;

use crate::engine::primitive::Ticket;

/// Who came when: those before a ticket, and not before the one in front, in microseconds.
#[derive(Debug, Default)]
pub(super) struct Arrivals(VecDeque<(Ticket, u64)>);

impl Arrivals {
    /// All with a ticket before `end` had come at `now`. Where the clock has been set back, those who had come later came now: in
    /// line each would be behind all others, and nobody be served until the clock shows that time again.
    pub(super) fn note(&mut self, end: Ticket, now: u64) {
        let later = self.0.iter_mut().rev();
        for (_, came) in later.take_while(|(_, came)| *came > now) {
            *came = now;
        }
        if self.0.back().is_none_or(|(before, _)| *before < end) {
            self.0.push_back((end, now));
        }
    }

    /// When the caller with this ticket came; nothing for one the server does not know of yet.
    pub(super) fn of(&self, ticket: Ticket) -> Option<u64> {
        let place = self.0.partition_point(|(end, _)| *end <= ticket);
        self.0.get(place).map(|(_, came)| *came)
    }

    /// Nobody with a ticket before `first` waits any more.
    pub(super) fn forget_before(&mut self, first: Ticket) {
        // The last one says whose arrival is not known yet.
        while self.0.len() > 1 && self.0[0].0 <= first {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_came_when_the_server_first_heard_of_them() {
        let mut arrivals = Arrivals::default();
        assert_eq!(arrivals.of(0), None);
        arrivals.note(2, 100);
        arrivals.note(2, 200);
        arrivals.note(5, 300);
        let of = [0, 1, 2, 4, 5].map(|ticket| arrivals.of(ticket));
        assert_eq!(of, [Some(100), Some(100), Some(300), Some(300), None]);
        arrivals.forget_before(2);
        assert_eq!((arrivals.of(4), arrivals.of(5)), (Some(300), None));
        arrivals.forget_before(9);
        arrivals.note(4, 400);
        assert_eq!(arrivals.of(3), Some(300), "it is not known anew");
    }

    #[test]
    fn nobody_came_later_than_the_server_s_clock_shows() {
        let mut arrivals = Arrivals::default();
        arrivals.note(1, 100);
        arrivals.note(2, 300);
        arrivals.note(2, 200);
        assert_eq!(
            [0, 1].map(|ticket| arrivals.of(ticket)),
            [Some(100), Some(200)]
        );
        arrivals.note(3, 50);
        assert_eq!([0, 1, 2].map(|ticket| arrivals.of(ticket)), [Some(50); 3]);
    }
}
