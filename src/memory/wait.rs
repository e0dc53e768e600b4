//! One waiting caller.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::Instant;

use super::faults::Faults;
use super::line::{Ticket, Wakers};
use super::state::State;
use crate::sync::{Mutex, MutexGuard};

/// What all handles of one semaphore share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) name: String,
    pub(super) faults: Faults,
    state: Mutex<State>,
}

impl Shared {
    pub(super) fn new(name: String, state: State) -> Self {
        Shared {
            name,
            faults: Faults::default(),
            state: Mutex::new(state),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// Wakes tasks. The mutex must be free.
pub(super) fn wake(wakers: Wakers) {
    wakers.into_iter().for_each(std::task::Waker::wake);
}

/// Takes permits in turn: at the first poll if it can, else by waiting in line.
///
/// Dropped, it leaves the line, or hands on what it was granted in the meantime.
#[derive(Debug)]
pub(super) struct Wait<'a> {
    shared: &'a Shared,
    permits: u32,
    /// Behind that it is granted nothing, whether it has been polled since or not.
    deadline: Option<Instant>,
    /// Present from joining the line until the future is ready or gives up.
    ticket: Option<Ticket>,
}

impl<'a> Wait<'a> {
    pub(super) fn new(shared: &'a Shared, permits: u32, deadline: Option<Instant>) -> Self {
        Wait {
            shared,
            permits,
            deadline,
            ticket: None,
        }
    }

    /// Looks for the last time: whether the permits were granted. Leaves the line if not.
    pub(super) fn give_up(&mut self) -> bool {
        let Some(ticket) = self.ticket.take() else {
            return false;
        };
        let left = self.shared.lock().leave(ticket);
        match left {
            Some((_, wakers)) => {
                wake(wakers);
                false
            }
            None => true,
        }
    }
}

impl Future for Wait<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        // Made, and dropped, while the mutex is free.
        let waker = context.waker().clone();
        let mut state = this.shared.lock();
        let Some(ticket) = this.ticket else {
            if state.take_in_turn(this.permits) {
                drop(state);
                return Poll::Ready(());
            }
            this.ticket = Some(state.join(this.permits, this.deadline, waker));
            return Poll::Pending;
        };
        let (waits, unused) = state.waits(ticket, waker);
        drop(state);
        drop(unused);
        if waits {
            return Poll::Pending;
        }
        this.ticket = None;
        Poll::Ready(())
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if self.give_up() {
            let wakers = self.shared.lock().return_grant(self.permits);
            wake(wakers);
        }
    }
}
