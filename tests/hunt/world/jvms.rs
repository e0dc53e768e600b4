//! JVMs at a single server: when their callers reach it, and when they hear from it.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::nodes::ALONE;
use super::{Happening, World};
use crate::judge::{Object, Wanted};
use crate::jvm;
use crate::sim::server::{ConnectionId, Reply};

const LATENCY: Duration = Duration::from_millis(1);
/// Redisson reports an error to its caller. This caller tries again after this time.
const AGAIN: Duration = Duration::from_millis(300);

#[derive(Default)]
pub(super) struct Jvm {
    pub(super) listening: Option<ConnectionId>,
    pub(super) entries: BTreeMap<usize, jvm::Entry>,
}

/// Returns the channel of a semaphore.
pub(super) fn channel_of(number: usize) -> String {
    format!("redisson_sc:{{s{number}}}")
}

/// Returns the semaphore that a message is about, and the message's payload.
fn message(reply: &Reply) -> Option<(usize, i64)> {
    let Reply::Array(parts) = reply else {
        return None;
    };
    let [kind, channel, payload] = &parts[..] else {
        return None;
    };
    let text = |reply: &Reply| match reply {
        Reply::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    };
    let channel = text(channel).filter(|_| text(kind).as_deref() == Some("message"))?;
    let number = channel.strip_prefix("redisson_sc:{s")?.strip_suffix('}')?;
    Some((number.parse().ok()?, text(payload)?.parse().ok()?))
}

impl World {
    /// A caller of a JVM wants permits.
    pub(super) fn jvm_calls(&mut self, jvm: usize, object: usize, caller: jvm::Caller) {
        let wanted = Wanted {
            host: jvm::FIRST + jvm,
            object: Object::Semaphore(object),
            permits: caller.permits,
            due: None,
            due_if_well: None,
            stalls: false,
            tries: false,
        };
        let number = self.judge().begin(wanted);
        self.jvm(jvm, object).callers.insert(number, caller);
        self.jvm_does(jvm, object, number, jvm::Step::First, Duration::ZERO);
    }

    pub(super) fn push_to_jvms(&mut self) {
        for jvm in 0..self.jvms.len() {
            let Some(connection) = self.jvms[jvm].listening else {
                continue;
            };
            for pushed in self.nodes.node(ALONE).server.pushed(connection) {
                if let Some((number, payload)) = message(&pushed) {
                    self.judge()
                        .note(format_args!("jvm {jvm} is told {payload} of s{number}"));
                    let at = Instant::now() + LATENCY;
                    self.happens(at, Happening::JvmHears(jvm, number, payload));
                }
            }
        }
    }

    pub(super) fn jvm_does(
        &mut self,
        jvm: usize,
        object: usize,
        number: u64,
        step: jvm::Step,
        after: Duration,
    ) {
        let at = Instant::now() + after + LATENCY;
        self.happens(at, Happening::Jvm(jvm, object, number, step));
    }

    /// A caller of a JVM reaches the server with its next step.
    pub(super) fn jvm_steps(&mut self, jvm: usize, object: usize, number: u64, step: jvm::Step) {
        let key = Object::Semaphore(object).key();
        let until = self.nodes.node(ALONE).down_until;
        if until > Instant::now() {
            self.happens(until, Happening::Jvm(jvm, object, number, step));
            return;
        }
        self.look_at_counters(None);
        let host = jvm::FIRST + jvm;
        let caller = self.jvm(jvm, object).callers[&number].clone();
        let releases = step == jvm::Step::Release;
        let counter = self.nodes.counter(key.as_bytes()).unwrap_or_default();
        if !releases && counter < caller.permits {
            if step == jvm::Step::First {
                if self.jvm(jvm, object).listens() {
                    self.jvm_listens(jvm);
                }
                self.jvm_does(jvm, object, number, jvm::Step::Again, LATENCY);
            } else if let Some(next) = self.jvm(jvm, object).in_vain(number) {
                self.jvm_does(jvm, object, next, jvm::Step::Again, LATENCY);
            }
            return;
        }
        let command: &[u8] = if releases { b"INCRBY" } else { b"DECRBY" };
        let permits = caller.permits.to_string();
        let words = [command, key.as_bytes(), permits.as_bytes()];
        let Some(Reply::Int(total)) = self.nodes.execute(&words) else {
            self.jvm_does(jvm, object, number, step, AGAIN);
            return;
        };
        self.judge().note(format_args!(
            "jvm {jvm} #{number} {step:?}: {total} of {key} are left"
        ));
        self.look_at_counters(Some(host));
        if releases {
            self.judge().lets_go(object, host, caller.permits);
            self.jvm(jvm, object).callers.remove(&number);
            let channel = channel_of(object);
            let total = total.to_string();
            let words = ["PUBLISH", &channel, &total].map(str::as_bytes);
            self.nodes.execute(&words);
            self.push();
            return;
        }
        self.judge()
            .end(number, format_args!("is served, in JVM {jvm}"));
        self.judge().holds(number, object, host, caller.permits);
        if step == jvm::Step::Again && self.jvm(jvm, object).served() {
            self.jvm_stops_listening(jvm, object);
        }
        self.jvm_does(jvm, object, number, jvm::Step::Release, caller.hold);
    }

    pub(super) fn jvm(&mut self, jvm: usize, object: usize) -> &mut jvm::Entry {
        self.jvms[jvm].entries.entry(object).or_default()
    }

    /// Subscribes to the channels of all semaphores with waiters. The waiters are not woken.
    pub(super) fn jvm_listens(&mut self, jvm: usize) {
        let now = Instant::now();
        let node = self.nodes.node(ALONE);
        if node.down_until > now {
            let until = node.down_until;
            self.happens(until, Happening::JvmListens(jvm));
            return;
        }
        let entries = self.jvms[jvm].entries.iter();
        let wanted = entries.filter(|(_, entry)| entry.has_waiters());
        let channels: Vec<String> = wanted.map(|(number, _)| channel_of(*number)).collect();
        for channel in channels {
            let server = &mut self.nodes.node(ALONE).server;
            let listening = &mut self.jvms[jvm].listening;
            let connection = *listening.get_or_insert_with(|| server.connect());
            let refused = server.execute(connection, &[b"SUBSCRIBE", channel.as_bytes()]);
            if refused.is_some() {
                self.happens(now + AGAIN, Happening::JvmListens(jvm));
                break;
            }
        }
        self.push_to_jvms();
    }

    fn jvm_stops_listening(&mut self, jvm: usize, object: usize) {
        if let Some(connection) = self.jvms[jvm].listening {
            let channel = channel_of(object);
            let words = ["UNSUBSCRIBE", &channel].map(str::as_bytes);
            self.nodes.node(ALONE).server.execute(connection, &words);
        }
        self.push_to_jvms();
    }

    /// The JVM's connection for messages is lost, and made anew after a while.
    pub(super) fn jvm_deaf(&mut self, jvm: usize, time: Duration) {
        if let Some(connection) = self.jvms[jvm].listening.take() {
            self.nodes.disconnect(ALONE, connection);
            let until = Instant::now() + time;
            self.judge().unwell(jvm::FIRST + jvm, until);
            self.happens(until, Happening::JvmListens(jvm));
        }
    }

    /// Whether no caller of a JVM has anything left to do.
    pub fn jvms_are_idle(&self) -> bool {
        let idle = |entry: &jvm::Entry| entry.callers.is_empty();
        self.jvms.iter().all(|jvm| jvm.entries.values().all(idle))
    }
}
