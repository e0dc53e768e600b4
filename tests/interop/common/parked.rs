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

/// More than any caller needs that will be served at all.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Longer than the pauses between the attempts of callers who were woken together.
const QUIET: Duration = Duration::from_millis(100);

/// Counts the times that callers have looked at a semaphore: each attempt of either side is one script,
/// which reads the counter once.
pub struct Attempts {
    monitor: Monitor,
    seen: HashMap<String, usize>,
}

impl Attempts {
    pub async fn count(server: &RedisServer) -> Attempts {
        Attempts {
            monitor: Monitor::start(server).await,
            seen: HashMap::new(),
        }
    }

    /// The attempts on the semaphore with this key so far.
    pub async fn of(&mut self, key: &str) -> usize {
        for mut command in self.monitor.until_marker().await {
            if command.is_lua() && command.name == "GET" {
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

    /// Waits until those who were woken in vain are parked again: nobody looks for a while.
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

/// Lets a caller take its place in the line, and goes on with it in a task. It must not be served at once.
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
    match timeout(patience, call).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => panic!("{what}: {error}"),
        Err(_) => panic!("{what}: the Java caller is not served within {patience:?}"),
    }
}

/// The result of a Rust caller that is to come back soon.
pub async fn returned<T>(what: &str, caller: JoinHandle<T>) -> T {
    match timeout(PATIENCE, caller).await {
        Ok(result) => result.unwrap_or_else(|error| panic!("{what}: {error}")),
        Err(_) => panic!("{what}: the Rust caller is not served within {PATIENCE:?}"),
    }
}

/// How many of the calls have ended.
pub fn finished(calls: &mut [PendingCall]) -> usize {
    calls
        .iter_mut()
        .map(|call| usize::from(call.is_finished()))
        .sum()
}
