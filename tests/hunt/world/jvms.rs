//! JVMs: when their callers reach the server, and hear of it.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::{Happening, World};
use crate::judge::Object;
use crate::jvm;
use crate::sim::server::{ConnectionId, Reply, slot};

/// A JVM.
pub(super) struct Jvm {
    /// At which nodes.
    pub(super) listening: BTreeMap<usize, ConnectionId>,
    pub(super) latency: Duration,
    pub(super) entries: BTreeMap<usize, jvm::Entry>,
}

impl World {
    pub(super) fn push_to_jvms(&mut self) {
        let now = Instant::now();
        for jvm in 0..self.jvms.len() {
            let listening = self.jvms[jvm].listening.clone();
            let mut messages = Vec::new();
            for (node, connection) in listening {
                messages.extend(self.nodes.node(node).server.pushed(connection));
            }
            for message in messages {
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
                if let (b"message" | b"smessage", Some(Ok(number)), Some(payload)) =
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
        let key = Object::Semaphore(object).key();
        let until = self.nodes.down_until(key.as_bytes());
        if until > now {
            self.happens(until, Happening::Jvm(jvm, object, number, step));
            return;
        }
        self.look_at_counters(None);
        let host = jvm::FIRST + jvm;
        let caller = self.jvms[jvm].entries.entry(object).or_default().callers[&number].clone();
        let permits = caller.permits.to_string();
        let enough = self
            .nodes
            .counter(key.as_bytes())
            .is_some_and(|value| value >= caller.permits);
        let releases = step == jvm::Step::Release;
        let command: &[u8] = if releases { b"INCRBY" } else { b"DECRBY" };
        if releases || enough {
            let home = self.nodes.home(key.as_bytes());
            self.has_written(home, None, &[]);
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
            self.has_written(home, Some(host), &[]);
            self.look_at_counters(Some(host));
            if releases {
                self.judge().lets_go(object, host, caller.permits);
                let channel = format!("redisson_sc:{{{key}}}");
                let total = total.to_string();
                let publish = self.settings.publish().as_bytes();
                self.nodes
                    .execute(&[publish, channel.as_bytes(), total.as_bytes()]);
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

    /// Subscribes to whatever somebody waits for, where it is at home; nobody is told.
    pub(super) fn jvm_listens(&mut self, jvm: usize, now: Instant) {
        let wanted = self.jvms[jvm]
            .entries
            .iter()
            .filter(|(_, entry)| entry.has_waiters());
        let channels: Vec<String> = wanted
            .map(|(number, _)| format!("redisson_sc:{{s{number}}}"))
            .collect();
        let subscribe = self.settings.subscribe().as_bytes();
        for channel in channels {
            let home = self.nodes.home_of_slot(slot(channel.as_bytes()));
            self.jvm_leaves(jvm, &channel, Some(home));
            let node = self.nodes.node(home);
            if node.down_until > now {
                let until = node.down_until;
                self.happens(until, Happening::JvmListens(jvm));
                continue;
            }
            let listening = &mut self.jvms[jvm].listening;
            let connection = *listening
                .entry(home)
                .or_insert_with(|| node.server.connect_exempt());
            let refused = node
                .server
                .execute(connection, &[subscribe, channel.as_bytes()]);
            if refused.is_some() {
                let later = now + Duration::from_millis(300);
                self.happens(later, Happening::JvmListens(jvm));
                break;
            }
        }
        self.push_to_jvms();
    }

    /// Ends subscriptions, but for that at the node `but`.
    fn jvm_leaves(&mut self, jvm: usize, channel: &str, but: Option<usize>) {
        let unsubscribe = self.settings.unsubscribe().as_bytes();
        for (node, connection) in self.jvms[jvm].listening.clone() {
            if Some(node) != but {
                let server = &mut self.nodes.node(node).server;
                server.execute(connection, &[unsubscribe, channel.as_bytes()]);
            }
        }
    }

    pub(super) fn jvm_stops_listening(&mut self, jvm: usize, object: usize) {
        self.jvm_leaves(jvm, &format!("redisson_sc:{{s{object}}}"), None);
        self.push_to_jvms();
    }

    pub(super) fn jvm_deaf(&mut self, jvm: usize, time: Duration) {
        let listening = std::mem::take(&mut self.jvms[jvm].listening);
        if !listening.is_empty() {
            for (node, connection) in listening {
                self.nodes.disconnect(node, connection);
            }
            let until = Instant::now() + time;
            self.judge().unwell(jvm::FIRST + jvm, until);
            self.happens(until, Happening::JvmListens(jvm));
        }
    }

    /// Something has moved: JVMs subscribe where it is now, some time.
    pub(super) fn jvms_follow(&mut self, time: Duration, now: Instant) {
        for jvm in 0..self.jvms.len() {
            let until = now + time.mul_f64(self.rng.f64());
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
