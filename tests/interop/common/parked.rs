//! How a test knows that a caller is parked, and that it has come back.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::time::Duration;

use futures::FutureExt;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::support::monitor::Monitor;
use crate::support::peer::{Answer, PendingCall};
use crate::support::server::RedisServer;
use crate::support::waiters::until;

/// More than any caller needs that will be served at all, and less than a lock without a lease lasts.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// Longer than the pauses between the attempts of callers who were woken together.
const QUIET: Duration = Duration::from_millis(100);

/// Counts the attempts of callers on an object. Each attempt of either side is one script. On a semaphore it reads the counter once;
/// on a lock, a failed attempt reads the time to live once.
pub struct Attempts {
    monitor: Monitor,
    reads: &'static str,
    seen: HashMap<String, usize>,
}

impl Attempts {
    /// Counts attempts on semaphores.
    pub async fn count(server: &RedisServer) -> Attempts {
        Attempts::counting("GET", server).await
    }

    /// Counts attempts on locks.
    pub async fn on_locks(server: &RedisServer) -> Attempts {
        Attempts::counting("PTTL", server).await
    }

    async fn counting(reads: &'static str, server: &RedisServer) -> Attempts {
        Attempts {
            monitor: Monitor::start(server).await,
            reads,
            seen: HashMap::new(),
        }
    }

    /// The attempts on the object with this key so far.
    pub async fn of(&mut self, key: &str) -> usize {
        for mut command in self.monitor.until_marker().await {
            if command.is_lua() && command.name == self.reads {
                *self.seen.entry(command.args.remove(0)).or_default() += 1;
            }
        }
        self.seen.get(key).copied().unwrap_or(0)
    }

    /// Waits until there were `more` attempts after the first `before`.
    ///
    /// A Java caller tries twice, before it subscribes and after, and is parked then. (The instant
    /// between its second failure and its sleep doesn't matter: Redisson keeps a token for it.)
    pub async fn until(&mut self, key: &str, before: usize, more: usize) {
        let what = format!("{more} attempts on {key:?} after {before}");
        until(&what, PATIENCE, async || {
            self.of(key).await >= before + more
        })
        .await;
    }

    /// Waits until callers that were woken without success are parked again: no caller looks for a while.
    pub async fn until_quiet(&mut self, key: &str) {
        let mut last = self.of(key).await;
        let what = format!("nobody looks at {key:?}");
        until(&what, PATIENCE, async || {
            sleep(QUIET).await;
            let before = std::mem::replace(&mut last, self.of(key).await);
            before == last
        })
        .await;
    }
}

/// Lets a caller queue, and goes on with it in a task. The caller must not be served at once.
pub fn park<T: Send + fmt::Debug + 'static>(
    caller: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let mut caller = Box::pin(caller);
    if let Some(result) = caller.as_mut().now_or_never() {
        panic!("nothing to wait for: {result:?}");
    }
    tokio::spawn(caller)
}

/// The result of a Java caller that is to come back soon.
pub async fn served(what: &str, call: PendingCall) -> Answer {
    served_within(what, PATIENCE, call).await
}

pub async fn served_within(what: &str, patience: Duration, call: PendingCall) -> Answer {
    let answer = timeout(patience, call).await;
    let answer = answer.unwrap_or_else(|_| panic!("{what}: Java is not served in {patience:?}"));
    answer.unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// The result of a Rust caller that is to come back soon.
pub async fn returned<T>(what: &str, caller: JoinHandle<T>) -> T {
    let result = timeout(PATIENCE, caller).await;
    let result = result.unwrap_or_else(|_| panic!("{what}: Rust is not served in {PATIENCE:?}"));
    result.unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// How many of the calls have ended.
pub fn finished(calls: &mut [PendingCall]) -> usize {
    calls
        .iter_mut()
        .map(|call| usize::from(call.is_finished()))
        .sum()
}
