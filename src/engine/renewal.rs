//! Renewal: one task of a client puts off the end of all that it holds without a lease.
//!
//! Every third of the watchdog time-out it goes through everything that is watched, up to [`MOST_KEYS`] of a
//! kind with one script call. What could not be renewed because the server did not answer is tried again soon,
//! not only in the next period. What the server says is not held any more is told as lost; what could not be
//! renewed in time is lost by its lease's own clock.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::core::Core;
use super::request::{Arg, Request, Script};
use crate::lease::Lease;
use crate::sync::{Mutex, MutexGuard};
use crate::transport::Value;

/// One script call renews this many at the most, as Redisson's does.
const MOST_KEYS: usize = 100;

/// What is watched: the key, and who holds it.
pub(crate) type Watched = (Arc<str>, Arc<str>);

/// All that one client has to renew.
#[derive(Default)]
pub(crate) struct Renewals {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    watched: HashMap<Watched, Entry>,
    /// There is a task that renews.
    running: bool,
}

#[derive(Clone)]
struct Entry {
    script: &'static LazyLock<Script>,
    lease: Lease,
}

impl Renewals {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The lease of what `owner` holds at `key`, if that is renewed.
    pub(crate) fn lease(&self, key: &Arc<str>, owner: &str) -> Option<Lease> {
        let watched = (Arc::clone(key), Arc::from(owner));
        Some(self.lock().watched.get(&watched)?.lease.clone())
    }

    /// Renews no more; what is on its way has no consequence here. Returns the lease, if it was renewed.
    pub(crate) fn forget(&self, key: &Arc<str>, owner: &Arc<str>) -> Option<Lease> {
        let watched = (Arc::clone(key), Arc::clone(owner));
        Some(self.lock().watched.remove(&watched)?.lease)
    }
}

impl Core {
    /// Puts off the end of what `owner` holds at `key` from now on.
    pub(crate) fn watch(
        self: &Arc<Self>,
        script: &'static LazyLock<Script>,
        key: &Arc<str>,
        owner: &Arc<str>,
        lease: &Lease,
    ) {
        let entry = Entry {
            script,
            lease: lease.clone(),
        };
        let mut state = self.renewals.lock();
        state
            .watched
            .insert((Arc::clone(key), Arc::clone(owner)), entry);
        if !std::mem::replace(&mut state.running, true) {
            self.runtime.spawn(renew(Arc::downgrade(self)));
        }
    }

    /// One call for `some` of a kind; `false` if it was not answered.
    async fn renew_some(
        &self,
        script: &'static LazyLock<Script>,
        some: &[(Watched, Lease)],
    ) -> bool {
        let lease = self.config.lock_watchdog_timeout;
        let owners = some
            .iter()
            .map(|((_, owner), _)| Arg::Text(Arc::clone(owner)));
        let request = Request::script(
            script,
            some.iter().map(|((key, _), _)| Arc::clone(key)).collect(),
            std::iter::once(Arg::millis(lease)).chain(owners).collect(),
        );
        let until = Instant::now() + lease;
        let answers = match self.try_once(&request).await {
            Ok(Value::Array(answers)) if answers.len() == some.len() => answers,
            Ok(other) => {
                tracing::error!(?other, "unexpected answer to a renewal");
                return false;
            }
            Err(failure) => {
                tracing::warn!(%failure, "not renewed; it will be tried again");
                return false;
            }
        };
        for ((watched, lease), answer) in some.iter().zip(answers) {
            let mut state = self.renewals.lock();
            // Given back, or taken anew, in the meantime: the answer is about something else.
            let current = state.watched.get(watched);
            if !current.is_some_and(|entry| entry.lease.is_same(lease)) {
                continue;
            }
            if answer == Value::Int(1) {
                drop(state);
                lease.extend(Some(until));
            } else {
                state.watched.remove(watched);
                drop(state);
                tracing::warn!(key = &*watched.0, owner = &*watched.1, "lost");
                lease.lose();
            }
        }
        true
    }

    /// Renews everything; `false` if something was not answered.
    async fn renew_all(&self) -> bool {
        let mut by_script: HashMap<&str, (&'static LazyLock<Script>, Vec<_>)> = HashMap::new();
        self.renewals.lock().watched.retain(|watched, entry| {
            // Its holder has been told; nobody may be left to unlock it.
            if entry.lease.is_lost() {
                return false;
            }
            let (_, some) = by_script
                .entry(entry.script.digest())
                .or_insert_with(|| (entry.script, Vec::new()));
            some.push((watched.clone(), entry.lease.clone()));
            true
        });
        let mut done = true;
        for (script, all) in by_script.into_values() {
            for some in all.chunks(MOST_KEYS) {
                done &= self.renew_some(script, some).await;
            }
        }
        done
    }
}

/// Renews as long as there is anything to renew, and anybody who holds the client.
async fn renew(core: Weak<Core>) {
    let Some(period) = core.upgrade().map(|core| core.config.renewal_period()) else {
        return;
    };
    let mut pause = period;
    loop {
        tokio::time::sleep(pause).await;
        let Some(core) = core.upgrade() else { return };
        {
            let mut state = core.renewals.lock();
            if state.watched.is_empty() || core.is_finished() {
                state.running = false;
                return;
            }
        }
        pause = if core.renew_all().await {
            period
        } else {
            soon(period)
        };
    }
}

/// When to try again after an error.
fn soon(period: Duration) -> Duration {
    (period / 10).max(Duration::from_millis(1))
}
