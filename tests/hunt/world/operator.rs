//! The operator, who works at the server itself, by the rules or past them.

use std::time::Duration;

use super::jvms::channel_of;
use super::{Happening, World};
use crate::admin::LATCH;
use crate::judge::Object;
use crate::plan::Meddling;

/// How long a text stays that was written into a record.
const RECORD: Duration = Duration::from_secs(60);

impl World {
    /// Announces permits beside which callers of JVMs sleep by Redisson's own fault.
    pub fn wake_jvms(&mut self) {
        let asleep = self.judge().asleep();
        for number in asleep {
            self.announce(&channel_of(number), "9");
        }
    }

    pub(super) fn meddle(&mut self, meddling: Meddling) {
        self.look_at_counters(None);
        self.judge().note(format_args!("operator: {meddling:?}"));
        match meddling {
            Meddling::Delete(object) => {
                let key = object.key();
                self.nodes.execute(&[b"DEL", key.as_bytes()]);
                self.is_robbed(object);
                self.look_at_counters(None);
            }
            Meddling::Scribble(which, text) => {
                let keys = self.keys_like("redisson*");
                if !keys.is_empty() {
                    let place = usize::try_from(which).unwrap_or_default() % keys.len();
                    self.write_record(&keys[place], text);
                }
            }
            Meddling::Forge(place, text) => self.forge(place, text),
            Meddling::Eavesdrop => {
                for node in 0..self.nodes.len() {
                    self.nodes.node(node).eavesdrop();
                }
            }
        }
    }

    fn keys_like(&mut self, pattern: &str) -> Vec<String> {
        let keys = self.nodes.keys(pattern);
        let text = |key: Vec<u8>| String::from_utf8_lossy(&key).into_owned();
        keys.into_iter().map(text).collect()
    }

    /// Forges a reply to a client's next call, in all its records.
    fn forge(&mut self, place: usize, text: &str) {
        let host = self.stage.host(place);
        let text = format!("{:016} {text}", self.hosts[host].sequence + 1);
        for key in self.keys_like("redisson*_once*") {
            if self.judge().is_id_in(host, &key) {
                self.write_record(&key, &text);
                self.forges_permits(&key);
            }
        }
    }

    /// A text that is no reply to a call on a semaphore may be one on another object. The permits of that reply were never granted.
    fn forges_permits(&mut self, record: &str) {
        for number in 0..self.settings.recipes.len() {
            if record.contains(&Object::Recipe(number).key()) {
                let lasts = self.settings.recipes[number].lasts();
                let until_read = lasts.map(|lasts| lasts + RECORD);
                self.judge().robs_permits(number, until_read);
            }
        }
    }

    fn write_record(&mut self, key: &str, text: &str) {
        self.judge()
            .note(format_args!("operator writes {text:?} into {key}"));
        self.ask(&["SET", key, text, "PX", &RECORD.as_millis().to_string()]);
        // The record's client need not notice before its next renewal.
        self.judge().robs_records();
    }

    /// The operator opens the latch, as a deletion by Redisson does.
    pub fn open_latch(&mut self) {
        if self.nodes.counter(LATCH.as_bytes()).is_some() {
            self.look_at_counters(None);
            self.ask(&["DEL", LATCH]);
            self.look_at_counters(None);
            let channel = format!("redisson_countdownlatch__channel__{{{LATCH}}}");
            self.announce(&channel, "0");
        }
    }

    /// The operator replaces the permits that are gone with dead clients, as a release by Redisson does.
    pub fn replace_permits(&mut self) {
        // The requests of clients that have ended arrive before that, also where their process is stopped for now.
        let judge = self.judge();
        let late = |what: &Happening| match what {
            Happening::Arrives(number) => judge.has_ended(self.wires[*number].host),
            Happening::GoesOn(_) => true,
            _ => false,
        };
        let is_late = self.queue.values().any(late);
        drop(judge);
        if is_late {
            return;
        }
        for number in 0..self.settings.permits.len() {
            let missing = self.judge().missing(number);
            // The first time, the permits may only be on their way from one caller to the next.
            let before = std::mem::replace(&mut self.missed[number], missing);
            if missing == 0 || missing != before {
                continue;
            }
            self.missed[number] = 0;
            let key = format!("s{number}");
            self.judge()
                .note(format_args!("operator replaces {missing} permits of {key}"));
            let delta = missing.to_string();
            self.ask(&["INCRBY", &key, &delta]);
            self.look_at_counters(None);
            let total = self.nodes.counter(key.as_bytes()).unwrap_or_default();
            self.announce(&channel_of(number), &total.to_string());
        }
    }
}
