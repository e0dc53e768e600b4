//! The process that is measured: callers of a semaphore that do what standard input says.
//!
//! The commands are those of `compat/README.md` that the benchmark needs. The process ends with its
//! standard input, so it cannot outlive the benchmark.

mod crowd;
mod fair;
mod lock;
mod ours;
mod parked;
mod plain;
mod serve;

use crate::Result;
use crate::contestant::Make;

/// Before the contestant's word and the URL on the command line.
pub(crate) const ARGUMENT: &str = "side";

/// What a contestant brings: semaphores by name.
trait Side: Send + Sync + 'static {
    type Semaphore: Semaphore;

    /// A handle, made without I/O.
    fn semaphore(&self, name: &str) -> Self::Semaphore;
}

/// What callers do with a semaphore.
trait Semaphore: Clone + Send + Sync + 'static {
    /// Takes permits, waiting for them.
    fn acquire(&self, permits: u32) -> impl Future<Output = Result<()>> + Send;

    fn release(&self, permits: u32) -> impl Future<Output = Result<()>> + Send;
}

/// Connects the contestant called `word` and obeys until standard input ends.
pub(crate) async fn serve(word: &str, url: &str) -> Result<()> {
    if word == Make::Ours.word() {
        serve::serve(ours::Ours::connect(url).await?).await
    } else if word == Make::OursViaRedis.word() {
        serve::serve(ours::Ours::connect_via_redis(url).await?).await
    } else if word == Make::Plain.word() {
        serve::serve(plain::Plain::connect(url).await?).await
    } else if word == Make::Fair.word() {
        serve::serve(fair::Fair::connect(url).await?).await
    } else if word == Make::FairOriginal.word() {
        serve::serve(fair::Original::connect(url, false).await?).await
    } else if word == Make::FairInTransactions.word() {
        serve::serve(fair::Original::connect(url, true).await?).await
    } else if word == Make::Lock.word() {
        serve::serve(lock::Ours::connect(url).await?).await
    } else if word == Make::LockPlain.word() {
        serve::serve(lock::Plain::connect(url).await?).await
    } else {
        Err(format!("no such side: {word}").into())
    }
}
