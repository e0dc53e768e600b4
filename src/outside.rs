//! The environment of the crate: connections, a clock that counts suspensions, chance, and a processor for its tasks.
//!
//! A simulation puts its own in their place, for all that runs on its thread: then nothing that happens there depends on
//! anything but its seed and its calls. It is no part of the crate's API, and may change at any time.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::ops::Deref;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// A stream to a server.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection that is being made.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// A task of the crate.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The environment in a simulation. Timers go by tokio's clock, which it pauses.
pub trait Outside {
    /// Connects to the server at `address` (`host:port`, or a path).
    fn connect(&self, address: &str) -> Connecting;

    /// The clock that goes on while the machine is suspended.
    fn since_boot(&self) -> Option<Duration>;

    /// The task to run in place of `task`.
    fn task(&self, task: Task) -> Task;

    /// The crate has just unlocked something, and this thread holds no mutex of the crate: another task may run in between, as on a
    /// thread of its own.
    fn unlocked(&self);
}

thread_local! {
    static OUTSIDE: RefCell<Option<Rc<dyn Outside>>> = const { RefCell::new(None) };
    /// Whether there is one. It can be read while the thread ends.
    static SIMULATED: Cell<bool> = const { Cell::new(false) };
}

/// Until this is dropped, its thread is in the simulation.
#[derive(Debug)]
#[must_use = "the simulation ends when this is dropped"]
pub struct Simulated(PhantomData<Rc<()>>);

/// Puts `outside` in place of the world for this thread, with all chance from `seed`.
pub fn simulate(outside: Rc<dyn Outside>, seed: u64) -> Simulated {
    fastrand::seed(seed);
    OUTSIDE.set(Some(outside));
    SIMULATED.set(true);
    Simulated(PhantomData)
}

impl Drop for Simulated {
    fn drop(&mut self) {
        SIMULATED.set(false);
        OUTSIDE.set(None);
    }
}

/// The answer of `ask` where there is a simulation.
fn simulated<T>(ask: impl FnOnce(&dyn Outside) -> T) -> Option<T> {
    OUTSIDE.with_borrow(|outside| outside.as_deref().map(ask))
}

pub(crate) fn connect(address: impl FnOnce() -> String) -> Option<Connecting> {
    simulated(|outside| outside.connect(&address()))
}

/// The outer `None`: there is no simulation to ask.
pub(crate) fn since_boot() -> Option<Option<Duration>> {
    simulated(|outside| outside.since_boot())
}

/// This thread holds no mutex of the crate any more.
#[inline]
pub(crate) fn unlocked() {
    if SIMULATED.get() {
        simulated(|outside| outside.unlocked());
    }
}

/// Fills `bytes` with random values that cannot be guessed.
pub(crate) fn random(bytes: &mut [u8]) {
    if simulated(|_| fastrand::fill(bytes)).is_none() {
        getrandom::fill(bytes).expect("the system gives random bytes");
    }
}

/// A random UUID.
pub(crate) fn uuid() -> Uuid {
    simulated(|_| uuid::Builder::from_random_bytes(fastrand::u128(..).to_be_bytes()).into_uuid())
        .unwrap_or_else(Uuid::new_v4)
}

/// The runtime of a client.
#[derive(Debug, Clone)]
pub(crate) struct Runtime(Handle);

impl Runtime {
    /// # Panics
    ///
    /// Outside of a runtime.
    pub(crate) fn current() -> Self {
        Self::of(None)
    }

    /// The one that is given, or else the current one.
    ///
    /// # Panics
    ///
    /// Without either.
    pub(crate) fn of(given: Option<Handle>) -> Self {
        Runtime(given.unwrap_or_else(Handle::current))
    }

    /// `future` with its timers, connections and tasks being those of this runtime, whichever one polls it.
    pub(crate) async fn within<F: Future>(&self, future: F) -> F::Output {
        entering(|| self.enter(), future).await
    }

    /// Whether it has been shut down: a task that is spawned there ends at once.
    pub(crate) fn has_ended(&self) -> bool {
        let probe = self.0.spawn(std::future::pending::<()>());
        let ended = probe.is_finished();
        probe.abort();
        ended
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        if SIMULATED.get() {
            let task = simulated(|outside| outside.task(Box::pin(task)));
            return self.0.spawn(task.expect("there is a simulation"));
        }
        self.0.spawn(task)
    }
}

/// `future`, polled within what `enter` gives.
pub(crate) async fn entering<F: Future, G>(enter: impl Fn() -> G, future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| {
        let _entered = enter();
        future.as_mut().poll(cx)
    })
    .await
}

impl Deref for Runtime {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.0
    }
}

/// As [`tokio::spawn`].
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    Runtime::current().spawn(task)
}
