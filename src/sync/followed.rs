//! [`Followed`]: the latest value of something, and the tasks that wait for a newer one.
//!
//! As `tokio::sync::watch`, but waiting tasks are woken in the order of their arrival, where that picks by chance: so whatever follows
//! has the same order each time, which a simulation needs.

use std::sync::Arc;

use tokio::sync::Notify;

use super::Mutex;

/// The latest value.
#[derive(Debug)]
pub(crate) struct Followed<T>(Arc<Shared<T>>);

/// A follower, and the version that it has seen.
#[derive(Debug)]
pub(crate) struct Follower<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

#[derive(Debug)]
struct Shared<T> {
    /// Each value has a number of its own.
    latest: Mutex<(u64, T)>,
    changed: Notify,
}

impl<T> Followed<T> {
    pub(crate) fn new(value: T) -> Self {
        Followed(Arc::new(Shared {
            latest: Mutex::new((0, value)),
            changed: Notify::new(),
        }))
    }

    /// There is another value from now on.
    pub(crate) fn set(&self, value: T) {
        let former = {
            let mut latest = self.0.latest.lock();
            latest.0 += 1;
            std::mem::replace(&mut latest.1, value)
        };
        drop(former);
        self.0.changed.notify_waiters();
    }

    /// The present value counts as seen.
    pub(crate) fn follow(&self) -> Follower<T> {
        let shared = Arc::clone(&self.0);
        let seen = shared.latest.lock().0;
        Follower { shared, seen }
    }
}

impl<T> Clone for Follower<T> {
    fn clone(&self) -> Self {
        Follower {
            shared: Arc::clone(&self.shared),
            seen: self.seen,
        }
    }
}

impl<T: Clone> Follower<T> {
    /// The value, which counts as seen.
    pub(crate) fn look(&mut self) -> T {
        let latest = self.shared.latest.lock();
        self.seen = latest.0;
        latest.1.clone()
    }

    /// The value, which counts as seen only if it was.
    pub(crate) fn peek(&self) -> T {
        self.shared.latest.lock().1.clone()
    }
}

impl<T> Follower<T> {
    /// Waits for a value that has not been seen, which counts as seen then; for ever, if there never is one. Nothing is missed when this is
    /// dropped.
    pub(crate) async fn changed(&mut self) {
        loop {
            let changed = self.shared.changed.notified();
            // A change from here on is not missed.
            let latest = self.shared.latest.lock().0;
            if latest != self.seen {
                self.seen = latest;
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::stream::{FuturesUnordered, StreamExt};

    use super::*;

    #[tokio::test]
    async fn each_change_is_seen_once() {
        let followed = Followed::new(1);
        let mut follower = followed.follow();
        assert!(follower.changed().now_or_never().is_none());
        followed.set(2);
        followed.set(3);
        assert_eq!(follower.peek(), 3);
        assert!(follower.changed().now_or_never().is_some());
        assert!(follower.changed().now_or_never().is_none());
        followed.set(4);
        let mut other = follower.clone();
        assert_eq!(follower.look(), 4);
        assert!(follower.changed().now_or_never().is_none());
        assert!(other.changed().now_or_never().is_some());
        drop(followed);
        assert!(other.changed().now_or_never().is_none());
    }

    #[tokio::test]
    async fn who_waits_is_woken_in_the_order_of_coming() {
        let followed = Followed::new(());
        let mut waiting = FuturesUnordered::new();
        for number in 0..100 {
            let mut follower = followed.follow();
            waiting.push(async move {
                follower.changed().await;
                number
            });
        }
        assert!(waiting.next().now_or_never().is_none());
        followed.set(());
        // The unordered ones come as they were woken.
        let order: Vec<u32> = waiting.collect().await;
        assert!(
            order.is_sorted() || order.iter().rev().is_sorted(),
            "{order:?}"
        );
    }
}
