//! Permits that were announced when nobody listened.
//!
//! That is the usual case, and nothing to do. But a JVM whose subscription connection was lost in that moment does not
//! look when it is back: its callers would sleep beside free permits. So the client asks some time after the
//! last such release whether a stranger listens by then, with one `PUBSUB NUMSUB` for hundreds of semaphores, once a second
//! at the most. Who takes part in [turns](super::turns) looks by itself when it is back, and is no stranger: a call for
//! each release that other clients of ours took up would reach all of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::core::Core;
use super::keys::Keys;
use super::request::Request;
use crate::sync::{Mutex, MutexGuard};
use crate::transport::{Failure, Value};

/// When, after the last such release.
pub(crate) const LATE: [Duration; 3] = [
    Duration::from_secs(2),
    Duration::from_secs(8),
    Duration::from_secs(30),
];
const PACE: Duration = Duration::from_secs(1);
/// One question names this many channels at the most.
const MOST_CHANNELS: usize = 512;
/// Of more semaphores than these at the same time some are not asked about.
const MOST: usize = 4096;

/// The semaphores in question.
#[derive(Default)]
pub(crate) struct Unheard {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    by_object: BTreeMap<Arc<str>, Announced>,
    /// A task sees to them.
    watched: bool,
}

/// Permits of the semaphore with these names were announced when nobody listened, and somebody does now.
pub(crate) type Heard = fn(&Arc<Core>, Keys);

struct Announced {
    keys: Keys,
    /// What is done when somebody listens.
    heard: Heard,
    /// When nobody heard it the last time.
    since: Instant,
    /// How many of the looks have been made.
    looks: usize,
}

impl Unheard {
    /// How many semaphores are in question.
    pub(super) fn count(&self) -> usize {
        self.lock().by_object.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    fn is_due(announced: &Announced, now: Instant) -> bool {
        let due: Duration = LATE[..=announced.looks].iter().sum();
        now >= announced.since + due
    }

    /// Those to be asked about now.
    fn due(&self, now: Instant) -> Vec<Keys> {
        let all = self.by_object.values();
        let due = all.filter(|announced| State::is_due(announced, now));
        due.map(|announced| announced.keys.clone()).collect()
    }

    /// No stranger listened at a look that was due at `now`.
    fn nobody_yet(&mut self, object: &Arc<str>, now: Instant) {
        let Some(announced) = self.by_object.get_mut(object) else {
            return;
        };
        if State::is_due(announced, now) {
            announced.looks += 1;
            if announced.looks == LATE.len() {
                self.by_object.remove(object);
            }
        }
    }
}

impl Core {
    /// Permits of the semaphore with these names have been announced, and nobody has heard it.
    pub(crate) fn nobody_has_heard(self: &Arc<Self>, keys: &Keys, heard: Heard) {
        let since = Instant::now();
        let mut state = self.unheard.lock();
        if let Some(announced) = state.by_object.get_mut(keys.object()) {
            (announced.since, announced.looks) = (since, 0);
            return;
        }
        if state.by_object.len() == MOST {
            return;
        }
        let announced = Announced {
            keys: keys.clone(),
            heard,
            since,
            looks: 0,
        };
        state.by_object.insert(Arc::clone(keys.object()), announced);
        if !std::mem::replace(&mut state.watched, true) {
            drop(state);
            self.runtime.spawn(watch(Arc::downgrade(self)));
        }
    }

    /// Whether others listen that do not take part in turns, for each of `due`, which are on one server; `None` if there was no answer.
    async fn strangers(&self, due: &[Keys]) -> Option<Vec<bool>> {
        let own = |channel: &str| i64::from(self.wakeups.is_confirmed(channel));
        let channels: Vec<_> = due
            .iter()
            .map(|keys| (keys.channel(), keys.turns().map(|turns| &turns.line)))
            .collect();
        let named = channels
            .iter()
            .flat_map(|(channel, line)| [Some(*channel), *line])
            .flatten();
        let messages = self.connection.messages();
        let question = messages.count_listeners(named.map(|name| &**name));
        let answer = match self.try_once(&Request::Plain(question)).await {
            Ok(Value::Array(answer)) => answer,
            // It may not be asked for.
            Err(Failure::Refused(refusal)) if refusal.is_final(false) => {
                return Some(vec![false; due.len()]);
            }
            _ => return None,
        };
        let mut counts = answer.chunks(2);
        let mut others = |channel: &str| match counts.next()? {
            [_, Value::Int(count)] => Some(count - own(channel)),
            _ => None,
        };
        channels
            .iter()
            .map(|(channel, line)| {
                let all = others(channel)?;
                let ours = line.map_or(Some(0), |line| others(line))?;
                Some(all > ours)
            })
            .collect()
    }
}

async fn watch(core: Weak<Core>) {
    loop {
        tokio::time::sleep(PACE).await;
        let Some(core) = core.upgrade().filter(|core| !core.is_finished()) else {
            return;
        };
        let now = Instant::now();
        let mut due = core.unheard.lock().due(now);
        let server = |keys: &Keys| core.connection.server_of(keys.channel());
        due.sort_by_cached_key(&server);
        let due = due.chunk_by(|one, two| server(one) == server(two));
        for due in due.flat_map(|due| due.chunks(MOST_CHANNELS)) {
            // Without an answer they are asked about the next time.
            let strangers = core.strangers(due).await.unwrap_or_default();
            for (keys, strangers) in due.iter().zip(strangers) {
                if strangers {
                    let announced = core.unheard.lock().by_object.remove(keys.object());
                    if let Some(announced) = announced {
                        (announced.heard)(&core, announced.keys);
                    }
                } else {
                    core.unheard.lock().nobody_yet(keys.object(), now);
                }
            }
        }
        let mut state = core.unheard.lock();
        if state.by_object.is_empty() {
            state.watched = false;
            return;
        }
    }
}
