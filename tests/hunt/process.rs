//! The process of a client. It may be stopped as a whole, as by SIGSTOP, and go on later. It may have threads.

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
    /// How many stops are in effect.
    stops: usize,
    wakers: Vec<Waker>,
    /// Callers that sleep.
    sleepers: BTreeMap<u64, Arc<Notify>>,
    /// Sleeping callers that have asked for something, and give up when they wake.
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
    /// Returns a process with threads: one of `one_in` unlocks holds the task up.
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

    /// Sleeps for this time. With threads, the sleep may end as soon as another task is held up, as much happens at that moment.
    pub async fn sleep(&self, time: Duration) {
        let (_sleeper, notify) = Sleeper::begin(self);
        let _ = timeout(time, notify.notified()).await;
    }

    /// The same for a caller that gives up its call afterwards. It may give up at such a moment once half of the time is over, and is chosen for that
    /// most often.
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
    /// Ready while the process runs. A task that polls this while the process is stopped is woken when the process goes on.
    pub fn poll_runs(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock().unwrap();
        if state.stops == 0 {
            return Poll::Ready(());
        }
        state.wakers.push(cx.waker().clone());
        Poll::Pending
    }

    /// Whether another task of the process runs in between, as on a thread of its own.
    pub fn interrupts(&self) -> bool {
        let Some(threads) = &self.threads else {
            return false;
        };
        let rng = &mut *threads.rng.lock().unwrap();
        // While the judges are in use, no task is held up.
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
