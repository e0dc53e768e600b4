//! [`Lease`]: what is known of something that is held for a time.

use std::fmt;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::clock::Moment;
use crate::sync::{Mutex, MutexGuard, unlocked};
use tokio::sync::Notify;

/// Whether something is still held: a lock, or a permit with a lease.
///
/// Clones show the same. The time is counted by this process's monotonic clock, from before the request was
/// sent that was granted; so a lease is never taken to last longer than it does in Redis. For what is held in Redis, on
/// Linux and Android, it goes on while the machine is suspended: [`is_lost`](Lease::is_lost) knows at once afterwards,
/// [`lost`](Lease::lost) within a second. Both say so at once, too, where the runtime was blocked meanwhile.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> redisson_semaphore::Result<()> {
/// use redisson_semaphore::{Lock, memory};
///
/// let guard = memory::Lock::new("door").guard().await?;
/// let lease = guard.lease().clone(); // outlives the guard
/// assert!(!lease.is_lost());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Lease {
    shared: Arc<Shared>,
}

struct Shared {
    /// The last change.
    state: Mutex<Change>,
    changed: Notify,
}

/// A change of a lease.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change {
    /// It was granted, until then; `None` where it never ends by itself.
    Until(Option<Moment>),
    /// It was granted, and is put off all the time, so that so much is left of it.
    Kept(Duration),
    /// It has been given back.
    Ended,
    /// Its time is over, or someone else has taken it.
    Lost,
}

/// The lease of what an owner has held last, as far as its handles have seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastLease(Arc<Mutex<Option<Lease>>>);

impl LastLease {
    /// It holds something by `lease` from now on.
    pub(crate) fn note(&self, lease: &Lease) {
        let former = self.0.lock().replace(lease.clone());
        drop(former);
    }

    /// The lease to show: that of its hold, or the lost one of its last hold; otherwise one that is over.
    pub(crate) fn show(&self, held: Option<Lease>) -> Lease {
        if let Some(held) = held {
            self.note(&held);
            return held;
        }
        let last = self.0.lock().clone();
        last.filter(Lease::is_lost).unwrap_or_else(Lease::ended)
    }
}

impl Lease {
    /// A lease that has been granted and ends at `until`.
    pub(crate) fn until(until: Option<impl Into<Moment>>) -> Self {
        Lease::new(Change::Until(until.map(Into::into)))
    }

    /// A lease that a server has granted and that ends at `until`.
    pub(crate) fn granted(until: Moment) -> Self {
        Lease::new(Change::Until(Some(until)))
    }

    /// A lease that has been granted and is put off all the time, so that `lasts` is left of it.
    pub(crate) fn kept(lasts: Duration) -> Self {
        Lease::new(Change::Kept(lasts))
    }

    /// The lease of something that is not held.
    pub(crate) fn ended() -> Self {
        Lease::new(Change::Ended)
    }

    fn new(state: Change) -> Self {
        Lease {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                changed: Notify::new(),
            }),
        }
    }

    /// Whether it has been lost: it ran out, or someone else took it away. Once `true`, it stays so; a lease
    /// that was given back is not lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(*self.look(), Change::Lost)
    }

    /// How much of it is left: `None` where it never ends by itself, zero where it is lost or given back.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        match *self.look() {
            Change::Until(until) => until.map(Moment::remaining),
            Change::Kept(lasts) => Some(lasts),
            Change::Ended | Change::Lost => Some(Duration::ZERO),
        }
    }

    /// Ends when the lease is lost, at the latest when the time that was granted has run out. Never ends for
    /// one that is given back.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and asked again at any time.
    pub async fn lost(&self) {
        let mut by_timer = std::pin::pin!(self.lost_by_timer());
        // The timers of a runtime that was blocked are late. The clock is not.
        std::future::poll_fn(|cx| match self.is_lost() {
            true => Poll::Ready(()),
            false => by_timer.as_mut().poll(cx),
        })
        .await;
    }

    /// Runs `future` until it is done, or the lease is lost: `None` then.
    pub(crate) async fn run<F: Future>(&self, future: F) -> Option<F::Output> {
        run_unless(self.lost(), future).await
    }

    async fn lost_by_timer(&self) {
        loop {
            let changed = self.shared.changed.notified();
            let mut changed = std::pin::pin!(changed);
            // A change from here on is not missed.
            changed.as_mut().enable();
            let state = *self.look();
            match state {
                Change::Lost => return,
                Change::Until(Some(until)) => {
                    let _ = tokio::time::timeout(until.nap(), changed).await;
                }
                Change::Until(None) | Change::Kept(_) | Change::Ended => changed.await,
            }
        }
    }

    /// Whether there are clones of it.
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.shared) > 1
    }

    /// Whether both are the lease of one hold.
    pub(crate) fn is_same(&self, other: &Lease) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// It was granted anew, until `until`; nothing happens to one that has ended or is lost.
    #[cfg(test)]
    pub(crate) fn extend(&self, until: Option<impl Into<Moment>>) {
        self.set(Change::Until(until.map(Into::into)));
    }

    /// Someone else has taken it.
    pub(crate) fn lose(&self) {
        self.set(Change::Lost);
    }

    /// The same lease, which ends with what is returned: it is being given back.
    pub(crate) fn ended_on_drop(self) -> Ending {
        Ending(self)
    }

    /// It has been given back.
    pub(crate) fn end(&self) {
        self.set(Change::Ended);
    }

    /// Changes it, and wakes the waiters for a change as soon as no mutex is held.
    pub(crate) fn set(&self, change: Change) {
        let mut state = self.lock();
        if matches!(*state, Change::Until(_) | Change::Kept(_)) {
            *state = change;
        }
        drop(state);
        let shared = Arc::clone(&self.shared);
        unlocked(move || shared.changed.notify_waiters());
    }

    /// The state as of now: time passes by itself.
    fn look(&self) -> MutexGuard<'_, Change> {
        let mut state = self.lock();
        if matches!(*state, Change::Until(Some(until)) if until.has_come()) {
            *state = Change::Lost;
        }
        state
    }

    fn lock(&self) -> MutexGuard<'_, Change> {
        self.shared.state.lock()
    }
}

/// Runs `future` until it is done, or `lost` has come: `None` then.
pub(crate) async fn run_unless<F: Future>(
    lost: impl Future<Output = ()>,
    future: F,
) -> Option<F::Output> {
    tokio::select! {
        biased;
        () = lost => None,
        done = future => Some(done),
    }
}

/// A lease that is being given back.
pub(crate) struct Ending(Lease);

impl std::ops::Deref for Ending {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.0
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("lost", &self.is_lost())
            .field("remaining", &self.remaining())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::time::Instant;

    use super::*;

    fn soon() -> Option<Instant> {
        Some(Instant::now() + Duration::from_secs(10))
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_lost_when_its_time_has_run_out_and_stays_so() {
        let lease = Lease::until(soon());
        assert!(!lease.is_lost());
        assert_eq!(lease.remaining(), Some(Duration::from_secs(10)));
        let before = Instant::now();
        lease.lost().await;
        assert_eq!(before.elapsed(), Duration::from_secs(10));
        lease.extend(soon());
        assert!(lease.is_lost());
        assert_eq!(lease.remaining(), Some(Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_a_server_granted_ends_in_time() {
        let lease = Lease::granted(Moment::now() + Duration::from_secs(10));
        let before = Instant::now();
        lease.lost().await;
        assert!(lease.is_lost() && before.elapsed() <= Duration::from_secs(11));
        let lease = Lease::granted(Moment::now() + Duration::from_secs(10));
        lease.set(Change::Until(Some(Moment::now() + Duration::from_secs(20))));
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert!(!lease.is_lost());
    }

    /// The clock of timers stands still meanwhile.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn one_that_runs_out_while_the_machine_is_suspended() {
        let until = Moment::now() + Duration::from_secs(3600);
        let lease = Lease::granted(until.after_suspension(Duration::from_millis(3_599_700)));
        assert!(lease.remaining().unwrap() < Duration::from_secs(1));
        tokio::time::timeout(Duration::from_secs(60), lease.lost())
            .await
            .expect("it is told");
        let lease = Lease::granted(until);
        assert!(!lease.is_lost());
        let later = until.after_suspension(Duration::from_secs(3601));
        lease.set(Change::Until(Some(later)));
        assert!(lease.is_lost());
        assert!(Lease::until(Some(later)).is_lost());
    }

    #[tokio::test(start_paused = true)]
    async fn an_extension_puts_the_end_off_for_those_who_wait_for_it() {
        let lease = Lease::until(soon());
        let lost = tokio::spawn({
            let lease = lease.clone();
            async move {
                lease.lost().await;
                Instant::now()
            }
        });
        let before = Instant::now();
        tokio::time::sleep(Duration::from_secs(6)).await;
        lease.extend(soon());
        assert_eq!(lost.await.unwrap() - before, Duration::from_secs(16));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_was_given_back_is_never_lost() {
        let lease = Lease::until(soon());
        lease.end();
        lease.lose();
        assert!(!lease.is_lost());
        assert!(lease.lost().now_or_never().is_none());
        assert!(!Lease::ended().is_lost());
    }

    #[tokio::test]
    async fn one_without_an_end_is_lost_when_someone_takes_it() {
        let lease = Lease::until(None::<Instant>);
        assert_eq!(lease.remaining(), None);
        let lost = tokio::spawn({
            let lease = lease.clone();
            async move { lease.lost().await }
        });
        lease.lose();
        lost.await.unwrap();
        lease.end();
        assert!(lease.is_lost());
    }
}
