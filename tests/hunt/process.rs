//! The process of a client: it may be stopped as a whole, as by SIGSTOP, and go on; and have threads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::judge::Judge;

#[derive(Default)]
pub struct Process {
    state: Mutex<State>,
    threads: Option<Threads>,
}

#[derive(Default)]
struct State {
    /// How many stops it is in.
    stops: usize,
    wakers: Vec<Waker>,
    /// Callers that do nothing for a while.
    sleepers: BTreeMap<u64, Arc<Notify>>,
    /// Those among them that have asked for something, and give up then.
    patient: BTreeMap<u64, Arc<Notify>>,
    last_number: u64,
}

/// How often one task is held up while another one runs.
struct Threads {
    one_in: u32,
    rng: Mutex<Rng>,
    judge: Arc<Mutex<Judge>>,
}

impl Process {
    /// One that has threads: a task is held up at one unlocking of `one_in`.
    pub fn with_threads(one_in: u32, judge: Arc<Mutex<Judge>>) -> Process {
        let rng = Mutex::new(Rng::with_seed(fastrand::u64(..)));
        Process {
            state: Mutex::default(),
            threads: Some(Threads { one_in, rng, judge }),
        }
    }

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

    /// Sleeps for so long; or, where there are threads, until another task is held up: much happens in that moment.
    pub async fn sleep(&self, time: Duration) {
        let (_sleeper, notify) = Sleeper::begin(self);
        let _ = timeout(time, notify.notified()).await;
    }

    /// The same, where the caller gives up what it waits for afterwards. It may do so at such a moment once it has waited for
    /// half of the time, which comes in between most often.
    pub async fn has_patience(&self, time: Duration) {
        sleep(time / 2).await;
        let (sleeper, notify) = Sleeper::begin(self);
        let patient = Arc::clone(&notify);
        self.state
            .lock()
            .unwrap()
            .patient
            .insert(sleeper.1, patient);
        let _ = timeout(time / 2, notify.notified()).await;
    }
}

struct Sleeper<'a>(&'a Process, u64);

impl<'a> Sleeper<'a> {
    fn begin(process: &'a Process) -> (Self, Arc<Notify>) {
        let notify = Arc::new(Notify::new());
        let mut state = process.state.lock().unwrap();
        state.last_number += 1;
        let number = state.last_number;
        state.sleepers.insert(number, Arc::clone(&notify));
        (Sleeper(process, number), notify)
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap();
        state.sleepers.remove(&self.1);
        state.patient.remove(&self.1);
    }
}

impl Process {
    /// Ready while it runs. A task that polls it while it is stopped is woken as soon as it goes on.
    pub fn poll_runs(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock().unwrap();
        if state.stops == 0 {
            return Poll::Ready(());
        }
        state.wakers.push(cx.waker().clone());
        Poll::Pending
    }

    /// Whether another task of it runs in between, as on a thread of its own.
    pub fn interrupts(&self) -> bool {
        let Some(threads) = &self.threads else {
            return false;
        };
        let rng = &mut *threads.rng.lock().unwrap();
        // Whoever the judge looks at is held up by nobody.
        if rng.u32(..threads.one_in) > 0 || threads.judge.try_lock().is_err() {
            return false;
        }
        if rng.bool() {
            let state = self.state.lock().unwrap();
            let patient = rng.choice(state.patient.values());
            let any = rng.choice(state.sleepers.values());
            let sleeper = patient.filter(|_| rng.bool()).or(any);
            sleeper.inspect(|sleeper| sleeper.notify_one());
        }
        true
    }
}
