//! The counter with its time to live, and the line before it: all that one mutex guards.
//!
//! Between two calls nobody waits who could be served: whatever adds permits, or takes somebody out of
//! the line, serves those whose turn it is before it returns. It returns their wakers, since a waker
//! must be neither called nor dropped while the mutex is held: either may run the code of a task.

use std::task::Waker;

use tokio::time::Instant;

use super::line::{Line, Ticket, Wakers};
use crate::api::MAX_PERMITS;

/// What a counter may hold: Java's `int`.
const RANGE: std::ops::RangeInclusive<i64> = i32::MIN as i64..=i32::MAX as i64;

#[derive(Debug, Default)]
pub(super) struct State {
    /// `None` while the semaphore does not exist.
    counter: Option<i64>,
    expires: Option<Instant>,
    line: Line,
}

impl State {
    pub(super) fn with_permits(permits: u32) -> Self {
        State {
            counter: Some(permits.into()),
            ..State::default()
        }
    }

    /// The counter as of now: `None` when the semaphore does not exist, or does not any more.
    pub(super) fn counter(&mut self) -> Option<i64> {
        self.expire();
        self.counter
    }

    /// Forgets the counter if its time to live is over.
    fn expire(&mut self) {
        if self
            .expires
            .is_some_and(|expires| expires <= Instant::now())
        {
            self.lose();
        }
    }

    /// Creates the semaphore; `None` if it exists.
    pub(super) fn create(&mut self, permits: u32, expires: Option<Instant>) -> Option<Wakers> {
        if self.counter().is_some() {
            return None;
        }
        self.counter = Some(permits.into());
        self.expires = expires;
        Some(self.serve())
    }

    /// Adds `delta`, creating the semaphore if need be; the counter as it stays if the result does not
    /// fit.
    pub(super) fn add(&mut self, delta: i64) -> Result<Wakers, i64> {
        let available = self.counter().unwrap_or(0);
        let changed = available + delta;
        if !RANGE.contains(&changed) {
            return Err(available);
        }
        self.counter = Some(changed);
        Ok(self.serve())
    }

    /// Sets the counter to 0 and returns what it was.
    pub(super) fn drain(&mut self) -> i64 {
        let drained = self.counter().unwrap_or(0);
        if let Some(counter) = &mut self.counter {
            *counter = 0;
        }
        drained
    }

    /// Forgets the counter and its time to live.
    pub(super) fn lose(&mut self) {
        (self.counter, self.expires) = (None, None);
    }

    /// Takes `permits` if they are there, whoever waits.
    pub(super) fn take(&mut self, permits: u32) -> bool {
        match self.counter() {
            Some(counter) if counter >= i64::from(permits) => {
                self.counter = Some(counter - i64::from(permits));
                true
            }
            _ => false,
        }
    }

    /// Takes `permits` if they are there and nobody in line has been passed for too long.
    pub(super) fn take_in_turn(&mut self, permits: u32) -> bool {
        self.line.set_late_aside();
        if self.line.is_empty() {
            return self.take(permits);
        }
        // Those who wait need more than there is, or stand behind one who has been passed too long.
        if self.line.is_stopped() || !self.take(permits) {
            return false;
        }
        self.line.pass_all();
        true
    }

    /// Puts a caller at the end of the line.
    pub(super) fn join(&mut self, permits: u32, deadline: Option<Instant>, waker: Waker) -> Ticket {
        self.line.join(permits, deadline, waker)
    }

    /// Whether the caller still waits; if so, `waker` is woken from now on. Returns the one that is not needed.
    pub(super) fn waits(&mut self, ticket: Ticket, waker: Waker) -> (bool, Waker) {
        match self.line.waker(ticket) {
            None => (false, waker),
            Some(known) => (true, std::mem::replace(known, waker)),
        }
    }

    /// Takes a caller out of the line who does not wait any longer. Returns his waker, and those whose
    /// turn it is now that he is gone; `None` if he has been served.
    pub(super) fn leave(&mut self, ticket: Ticket) -> Option<(Waker, Wakers)> {
        let waker = self.line.leave(ticket)?;
        Some((waker, self.serve()))
    }

    /// Hands permits that were granted to a caller who has gone to the next in line, or gives them back.
    /// They are gone if the semaphore no longer exists.
    pub(super) fn return_grant(&mut self, permits: u32) -> Wakers {
        let Some(counter) = self.counter() else {
            return Wakers::new();
        };
        self.counter = Some(counter + i64::from(permits));
        let wakers = self.serve();
        // Others may have added permits meanwhile: there is no caller to tell that these do not fit.
        self.counter = self.counter.map(|counter| counter.min(MAX_PERMITS.into()));
        wakers
    }

    /// Serves those in line whose turn it is; nobody if the semaphore does not exist any more.
    fn serve(&mut self) -> Wakers {
        self.expire();
        match &mut self.counter {
            Some(counter) => self.line.serve(counter),
            None => Wakers::new(),
        }
    }
}
