//! JVMs: when their callers reach the server, and hear of it.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::{Happening, World};
use crate::judge::Object;
use crate::jvm;
use crate::sim::server::{ConnectionId, Reply};

/// A JVM.
pub(super) struct Jvm {
    pub(super) listening: Option<ConnectionId>,
    pub(super) latency: Duration,
    pub(super) entries: BTreeMap<usize, jvm::Entry>,
}

impl World {
    pub(super) fn push_to_jvms(&mut self) {
        let now = Instant::now();
        for jvm in 0..self.jvms.len() {
            let Some(connection) = self.jvms[jvm].listening else {
                continue;
            };
            for message in self.nodes.node(0).server.pushed(connection) {
                let Reply::Array(parts) = message else {
                    continue;
                };
                let [
                    Reply::Bulk(kind),
                    Reply::Bulk(channel),
                    Reply::Bulk(payload),
                ] = &parts[..]
                else {
                    continue;
                };
                let number = std::str::from_utf8(channel).unwrap_or_default();
                let number = number
                    .strip_prefix("redisson_sc:{s")
                    .and_then(|rest| rest.strip_suffix('}'));
                let payload = std::str::from_utf8(payload)
                    .ok()
                    .and_then(|text| text.parse().ok());
                if let (b"message", Some(Ok(number)), Some(payload)) =
                    (&kind[..], number.map(str::parse::<usize>), payload)
                {
                    self.judge()
                        .note(format_args!("jvm {jvm} is told {payload} of s{number}"));
                    let at = now + self.jvms[jvm].latency;
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
        let at = Instant::now() + after + self.jvms[jvm].latency;
        self.happens(at, Happening::Jvm(jvm, object, number, step));
    }

    /// A caller of a JVM reaches the server.
    pub(super) fn jvm_steps(
        &mut self,
        jvm: usize,
        object: usize,
        number: u64,
        step: jvm::Step,
        now: Instant,
    ) {
        let until = self.nodes.node(0).down_until;
        if until > now {
            self.happens(until, Happening::Jvm(jvm, object, number, step));
            return;
        }
        self.look_at_counters(None);
        let host = jvm::FIRST + jvm;
        let key = Object::Semaphore(object).key();
        let caller = self.jvms[jvm].entries.entry(object).or_default().callers[&number].clone();
        let permits = caller.permits.to_string();
        let enough = self
            .nodes
            .counter(key.as_bytes())
            .is_some_and(|value| value >= caller.permits);
        let releases = step == jvm::Step::Release;
        let command: &[u8] = if releases { b"INCRBY" } else { b"DECRBY" };
        if releases || enough {
            let reply = self
                .nodes
                .execute(&[command, key.as_bytes(), permits.as_bytes()]);
            let Some(Reply::Int(total)) = reply else {
                // Redisson tells its caller an error; this one tries again.
                self.jvm_does(jvm, object, number, step, Duration::from_millis(300));
                return;
            };
            self.judge().note(format_args!(
                "jvm {jvm} #{number} {step:?}: {total} of {key} are left"
            ));
            self.look_at_counters(Some(host));
            if releases {
                self.judge().lets_go(object, host, caller.permits);
                let channel = format!("redisson_sc:{{{key}}}");
                let total = total.to_string();
                self.nodes
                    .execute(&[b"PUBLISH", channel.as_bytes(), total.as_bytes()]);
                self.jvm(jvm, object).callers.remove(&number);
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
            return;
        }
        if step == jvm::Step::First {
            if self.jvm(jvm, object).listens() {
                self.jvm_listens(jvm, now);
            }
            self.jvm_does(
                jvm,
                object,
                number,
                jvm::Step::Again,
                self.jvms[jvm].latency,
            );
        } else if let Some(next) = self.jvm(jvm, object).in_vain(number) {
            self.jvm_does(jvm, object, next, jvm::Step::Again, self.jvms[jvm].latency);
        }
    }

    pub(super) fn jvm(&mut self, jvm: usize, object: usize) -> &mut jvm::Entry {
        self.jvms[jvm].entries.entry(object).or_default()
    }

    /// Subscribes to whatever somebody waits for; nobody is told.
    pub(super) fn jvm_listens(&mut self, jvm: usize, now: Instant) {
        let until = self.nodes.node(0).down_until;
        if until > now {
            self.happens(until, Happening::JvmListens(jvm));
            return;
        }
        let connection = *self.jvms[jvm]
            .listening
            .get_or_insert_with(|| self.nodes.node(0).server.connect());
        let wanted = self.jvms[jvm]
            .entries
            .iter()
            .filter(|(_, entry)| entry.has_waiters());
        let channels: Vec<String> = wanted
            .map(|(number, _)| format!("redisson_sc:{{s{number}}}"))
            .collect();
        for channel in channels {
            let refused = self
                .nodes
                .node(0)
                .server
                .execute(connection, &[b"SUBSCRIBE", channel.as_bytes()]);
            if refused.is_some() {
                let later = now + Duration::from_millis(300);
                self.happens(later, Happening::JvmListens(jvm));
                break;
            }
        }
        self.push_to_jvms();
    }

    pub(super) fn jvm_stops_listening(&mut self, jvm: usize, object: usize) {
        if let Some(connection) = self.jvms[jvm].listening {
            let channel = format!("redisson_sc:{{s{object}}}");
            self.nodes
                .node(0)
                .server
                .execute(connection, &[b"UNSUBSCRIBE", channel.as_bytes()]);
            self.push_to_jvms();
        }
    }

    pub(super) fn jvm_deaf(&mut self, jvm: usize, time: Duration) {
        if let Some(connection) = self.jvms[jvm].listening.take() {
            self.nodes.disconnect(0, connection);
            let until = Instant::now() + time;
            self.judge().unwell(jvm::FIRST + jvm, until);
            self.happens(until, Happening::JvmListens(jvm));
        }
    }

    /// Whether no caller of a JVM has anything to do any more.
    pub fn jvms_are_idle(&self) -> bool {
        let idle = |entry: &jvm::Entry| entry.callers.is_empty();
        self.jvms.iter().all(|jvm| jvm.entries.values().all(idle))
    }
}
