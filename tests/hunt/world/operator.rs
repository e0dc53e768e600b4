//! Who works at the server itself, by the rules or past them.

use super::{Happening, World};
use crate::judge::Object;
use crate::plan::Meddling;
use crate::sim::server::Reply;

impl World {
    /// Somebody announces permits beside which callers of JVMs sleep by Redisson's own fault.
    pub fn wake_jvms(&mut self) {
        let asleep = self.judge().asleep();
        for number in asleep {
            let channel = format!("redisson_sc:{{s{number}}}");
            self.server
                .execute(self.operator, &[b"PUBLISH", channel.as_bytes(), b"9"]);
        }
        self.push();
    }

    pub(super) fn meddle(&mut self, meddling: Meddling) {
        self.look_at_counters(None);
        self.judge().note(format_args!("operator: {meddling:?}"));
        let operator = self.operator;
        let mut say = |words: &[&str]| {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            self.server.execute(operator, &words)
        };
        let mut robbed = None;
        match meddling {
            Meddling::Delete(object) => {
                say(&["DEL", &object.key()]);
                robbed = Some(object);
            }
            Meddling::Expire(object, time) => {
                say(&["PEXPIRE", &object.key(), &time.as_millis().to_string()]);
                robbed = Some(object);
            }
            Meddling::Empty(number) => {
                say(&["SET", &Object::Semaphore(number).key(), "0"]);
            }
            Meddling::Uncount(number) => {
                let key = Object::Lock(number).key();
                if let Some(Reply::Array(fields)) = say(&["HKEYS", &key])
                    && let Some(Reply::Bulk(field)) = fields.first()
                {
                    let field = String::from_utf8_lossy(field);
                    let count = say(&["HINCRBY", &key, &field, "-1"]);
                    if let Some(Reply::Int(..=0)) = count {
                        say(&["HDEL", &key, &field]);
                    }
                }
                robbed = Some(Object::Lock(number));
            }
            Meddling::Scribble(which, text) => {
                if let Some(Reply::Array(keys)) = say(&["KEYS", "redisson*"])
                    && !keys.is_empty()
                {
                    let number = usize::try_from(which).unwrap_or_default() % keys.len();
                    if let Reply::Bulk(key) = &keys[number] {
                        let key = String::from_utf8_lossy(key);
                        let text = match text.strip_prefix('+') {
                            None => text.to_owned(),
                            Some(rest) => {
                                let Some(Reply::Bulk(before)) = say(&["GET", &key]) else {
                                    return;
                                };
                                let before = String::from_utf8_lossy(&before);
                                let last = before.split(' ').next().unwrap_or_default();
                                let last: u64 = last.parse().unwrap_or_default();
                                format!("{:016}{rest}", last.saturating_add(1))
                            }
                        };
                        say(&["SET", &key, &text, "PX", "60000"]);
                    }
                }
            }
            Meddling::Eavesdrop => {
                let listener = self.server.connect();
                self.server.execute(listener, &[b"PSUBSCRIBE", b"*"]);
            }
        }
        if let Some(Object::Lock(number)) = robbed {
            self.judge().robs(number);
        }
        self.look_at_counters(None);
    }

    /// The operator replaces what is gone with clients that have ended, as a release of Redisson's does.
    pub fn replace_permits(&mut self) {
        // What those who are gone have sent arrives before.
        let is_gone = |number: &usize| {
            let host = &self.hosts[self.wires[*number].host];
            host.dead || host.frozen
        };
        let late = |what: &Happening| matches!(what, Happening::Arrives(number) if is_gone(number));
        if self.queue.values().any(late) {
            return;
        }
        for number in 0..self.settings.permits.len() {
            let missing = self.judge().missing(number);
            if missing == 0 {
                continue;
            }
            let key = format!("s{number}");
            self.judge()
                .note(format_args!("operator replaces {missing} permits of {key}"));
            let delta = missing.to_string();
            self.server.execute(
                self.operator,
                &[b"INCRBY", key.as_bytes(), delta.as_bytes()],
            );
            self.look_at_counters(None);
            let total = self
                .server
                .counter(key.as_bytes())
                .unwrap_or_default()
                .to_string();
            let channel = format!("redisson_sc:{{{key}}}");
            self.server.execute(
                self.operator,
                &[b"PUBLISH", channel.as_bytes(), total.as_bytes()],
            );
            self.push();
        }
    }
}
