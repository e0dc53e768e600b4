//! The process of a client: it may be stopped as a whole, as by SIGSTOP, and go on.

use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use redisson_semaphore::outside;

#[derive(Default)]
pub struct Process {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How many stops it is in.
    stops: usize,
    wakers: Vec<Waker>,
}

impl Process {
    pub fn stop(&self) {
        self.state.lock().unwrap().stops += 1;
    }

    pub fn go_on(&self) {
        let mut state = self.state.lock().unwrap();
        state.stops = state.stops.saturating_sub(1);
        if state.stops == 0 {
            let wakers = std::mem::take(&mut state.wakers);
            drop(state);
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

impl outside::Process for Process {
    fn poll_runs(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock().unwrap();
        if state.stops == 0 {
            return Poll::Ready(());
        }
        state.wakers.push(cx.waker().clone());
        Poll::Pending
    }
}
