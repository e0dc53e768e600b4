//! The environment of the crate: connections, a clock that counts suspensions, chance, and a processor for its tasks.
//!
//! A simulation puts its own in their place, for all that runs on its thread: then nothing that happens there depends on
//! anything but its seed and its calls. It is no part of the crate's API, and may change at any time.

mod process;

use std::cell::RefCell;
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

pub(crate) use process::Locking;
pub use process::{Process, within};

/// A stream to a server.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection that is being made.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// The environment in a simulation. Timers go by tokio's clock, which it pauses.
pub trait Outside {
    /// Connects to the server at `address` (`host:port`, or a path).
    fn connect(&self, address: &str) -> Connecting;

    /// The clock that goes on while the machine is suspended.
    fn since_boot(&self) -> Option<Duration>;
}

thread_local! {
    static OUTSIDE: RefCell<Option<Rc<dyn Outside>>> = const { RefCell::new(None) };
}

/// Until this is dropped, its thread is in the simulation.
#[derive(Debug)]
#[must_use = "the simulation ends when this is dropped"]
pub struct Simulated(PhantomData<Rc<()>>);

/// Puts `outside` in place of the world for this thread, with all chance from `seed`.
pub fn simulate(outside: Rc<dyn Outside>, seed: u64) -> Simulated {
    fastrand::seed(seed);
    OUTSIDE.set(Some(outside));
    process::simulate(true);
    Simulated(PhantomData)
}

impl Drop for Simulated {
    fn drop(&mut self) {
        process::simulate(false);
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

/// Fills `bytes` with random values that cannot be guessed.
pub(crate) fn random(bytes: &mut [u8]) {
    if simulated(|_| fastrand::fill(bytes)).is_none() {
        CHANCE.with_borrow_mut(|chance| chance.fill(bytes));
    }
}

thread_local! {
    static CHANCE: RefCell<Chance> = const { RefCell::new(Chance { bytes: [0; STOCK], left: 0 }) };
}

/// The system is asked for so many bytes at a time: for sixteen it takes nearly as long.
const STOCK: usize = 512;

/// Bytes of the system's, each of which is given out once.
struct Chance {
    bytes: [u8; STOCK],
    left: usize,
}

impl Chance {
    fn fill(&mut self, wanted: &mut [u8]) {
        if wanted.len() > STOCK {
            return system_random(wanted);
        }
        if wanted.len() > self.left {
            system_random(&mut self.bytes);
            self.left = STOCK;
        }
        let given = &mut self.bytes[self.left - wanted.len()..self.left];
        wanted.copy_from_slice(given);
        given.fill(0);
        self.left -= wanted.len();
    }
}

fn system_random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the system gives random bytes");
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

    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        match process::current() {
            None => self.0.spawn(task),
            Some(process) => self.0.spawn(within(process, task)),
        }
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
pub(crate) fn spawn<T: Send + 'static>(
    task: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    Runtime::current().spawn(task)
}
