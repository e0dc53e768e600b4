//! The process that is measured: callers of a semaphore that do what standard input says.
//!
//! The commands are those of `compat/README.md` that the benchmark needs. The process ends with its
//! standard input, so it cannot outlive the benchmark.

mod crowd;
mod fair;
mod guards;
pub(crate) mod leased;
mod lock;
mod ours;
mod parked;
mod plain;
mod serve;

use std::time::Duration;

use redisson_semaphore::Client;

use crate::Result;
use crate::contestant::Make;

/// Before the contestant's word and the URL on the command line.
pub(crate) const ARGUMENT: &str = "side";

/// A contestant: semaphores by name.
trait Side: Send + Sync + 'static {
    type Semaphore: Semaphore;

    /// A handle, made without I/O.
    fn semaphore(&self, name: &str) -> Self::Semaphore;
}

/// The calls of a caller on a semaphore.
trait Semaphore: Clone + Send + Sync + 'static {
    /// Takes permits, waiting for them.
    fn acquire(&self, permits: u32) -> impl Future<Output = Result<()>> + Send;

    fn release(&self, permits: u32) -> impl Future<Output = Result<()>> + Send;

    /// The same, giving up after a while; only where a workload needs it.
    fn try_acquire(
        &self,
        _permits: u32,
        _wait: Duration,
    ) -> impl Future<Output = Result<bool>> + Send {
        async { Err("no such call here".into()) }
    }
}

/// Connects so many clients of the contestant called `word` and obeys until standard input ends.
pub(crate) async fn serve(word: &str, url: &str, clients: usize) -> Result<()> {
    if word == Make::Ours.word() {
        with(clients, || ours::Ours::connect(url)).await
    } else if word == Make::OursViaRedis.word() {
        with(clients, || ours::Ours::connect_via_redis(url)).await
    } else if word == Make::Plain.word() {
        with(clients, || plain::Plain::connect(url)).await
    } else if word == Make::Fair.word() {
        with(clients, || fair::Fair::connect(url)).await
    } else if word == Make::FairOriginal.word() {
        with(clients, || fair::Original::connect(url, false)).await
    } else if word == Make::FairInTransactions.word() {
        with(clients, || fair::Original::connect(url, true)).await
    } else if word == Make::Lock.word() {
        with(clients, || lock::Ours::connect(url, Client::lock)).await
    } else if word == Make::FairLock.word() {
        let lock = |client: &Client, name: &str| client.fair_lock(name).as_lock().clone();
        with(clients, || lock::Ours::connect(url, lock)).await
    } else if word == Make::ReadLock.word() {
        let lock = |client: &Client, name: &str| client.read_write_lock(name).read();
        with(clients, || lock::Ours::connect(url, lock)).await
    } else if word == Make::WriteLock.word() {
        let lock = |client: &Client, name: &str| client.read_write_lock(name).write();
        with(clients, || lock::Ours::connect(url, lock)).await
    } else if word == Make::LockPlain.word() {
        with(clients, || lock::Plain::connect(url)).await
    } else if word == Make::Leased.word() {
        with(clients, || leased::Ours::connect(url)).await
    } else if word == Make::LeasedPlain.word() {
        with(clients, || leased::Plain::connect(url)).await
    } else if word == Make::LeasedGuards.word() {
        with(clients, || leased::Guards::connect(url)).await
    } else if word == Make::Guards.word() {
        with(clients, || guards::Guards::connect(url)).await
    } else {
        Err(format!("no such side: {word}").into())
    }
}

async fn with<S: Side>(clients: usize, connect: impl AsyncFn() -> Result<S>) -> Result<()> {
    let mut sides = Vec::with_capacity(clients);
    for _ in 0..clients {
        sides.push(connect().await?);
    }
    serve::serve(sides).await
}
