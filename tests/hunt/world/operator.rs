//! Who works at the server itself, by the rules or past them.

use std::time::Duration;

use super::{Happening, World};
use crate::judge::Object;
use crate::plan::{Meddling, Subject, Turns};
use crate::sim::server::Reply;

/// So long something stands that was written into a record.
const RECORD: Duration = Duration::from_secs(60);

impl World {
    /// Somebody announces permits beside which callers of JVMs sleep by Redisson's own fault.
    pub fn wake_jvms(&mut self) {
        let asleep = self.judge().asleep();
        for number in asleep {
            let channel = format!("redisson_sc:{{s{number}}}");
            self.announce(&channel, "9");
        }
    }

    pub(super) fn meddle(&mut self, meddling: Meddling) {
        self.look_at_counters(None);
        self.judge().note(format_args!("operator: {meddling:?}"));
        match meddling {
            Meddling::Scribble(which, text) => return self.scribble(which, text),
            Meddling::Forge(place, text) => return self.forge(place, text),
            Meddling::Disorder(with) => return self.disorder(with),
            _ => {}
        }
        let nodes = &mut self.nodes;
        let mut say = |words: &[&str]| {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            nodes.execute(&words)
        };
        let (mut robbed, mut back) = (None, None);
        match meddling {
            Meddling::Delete(object) => {
                say(&["DEL", &object.key()]);
                robbed = Some(object);
            }
            Meddling::Rename(object) => {
                let key = object.key();
                // In the same slot.
                let aside = match key.starts_with('{') {
                    true => format!("x{key}"),
                    false => format!("x{{{key}}}"),
                };
                if say(&["EXISTS", &aside]) == Some(Reply::Int(1)) {
                    say(&["RENAME", &aside, &key]);
                    back = Some(object);
                } else {
                    say(&["RENAME", &key, &aside]);
                }
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
            Meddling::Scribble(..) | Meddling::Forge(..) | Meddling::Disorder(_) => {
                unreachable!("done above")
            }
            Meddling::Eavesdrop => {
                for node in 0..self.nodes.len() {
                    self.nodes.node(node).eavesdrop();
                }
            }
        }
        match robbed {
            Some(Object::Lock(number)) => self.judge().robs(number),
            Some(Object::Recipe(number)) => {
                let lasts = self.settings.recipes[number].lasts();
                self.judge().robs_permits(number, lasts);
            }
            _ => {}
        }
        self.look_at_counters(None);
        // Permits that come without a word are found by the slow check only.
        if let Some(object @ Object::Semaphore(_)) = back {
            self.announce_permits(&object.key());
        }
    }

    fn keys_like(&mut self, pattern: &str) -> Vec<String> {
        let keys = self.nodes.keys(pattern);
        let text = |key: Vec<u8>| String::from_utf8_lossy(&key).into_owned();
        keys.into_iter().map(text).collect()
    }

    /// Writes into one of the records.
    fn scribble(&mut self, which: u64, text: &str) {
        let keys = self.keys_like("redisson*");
        if !keys.is_empty() {
            let key = &keys[usize::try_from(which).unwrap_or_default() % keys.len()];
            self.write_record(key, text);
            self.judge().overwrites(key);
        }
    }

    /// Does away with who comes first.
    fn disorder(&mut self, with: Option<(Turns, &str)>) {
        let lines = ["redisson*_turns:*", "redisson*_line:*", "redisson*_queue:*"];
        let notes = ["redisson*_notes:*"];
        let (gone, written): (&[&str], _) = match with {
            None => (&[lines[0], lines[1], lines[2], notes[0]], None),
            Some((Turns::Line, text)) => (&lines, Some(text)),
            Some((Turns::Notes, text)) => (&notes, Some(text)),
        };
        for pattern in gone {
            for key in self.keys_like(pattern) {
                match written {
                    Some(text) => self.ask(&["SET", &key, text, "PX", "60000"]),
                    None => self.ask(&["DEL", &key]),
                };
            }
        }
        self.judge().orders_anew();
    }

    /// Answers a client's next call, in all its records.
    fn forge(&mut self, place: usize, text: &str) {
        let host = self.stage.host(place);
        let text = format!("{:016} {text}", self.hosts[host].sequence + 1);
        for key in self.keys_like("redisson*_once*") {
            if self.judge().is_id_in(host, &key) {
                self.write_record(&key, &text);
                self.judge().overwrites(&key);
                self.forges_permits(&key);
            }
        }
    }

    /// What is no answer to a call on a semaphore may be one on another object: then nobody has granted what it grants.
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
        // Whose record it was need not know before it is put off the next time.
        self.judge().robs_records();
    }

    /// The operator opens the latch, as a deletion of Redisson's does.
    pub fn open_latch(&mut self) {
        let latch = Subject::Latch.key();
        if self.settings.latch && self.nodes.counter(latch.as_bytes()).is_some() {
            self.look_at_counters(None);
            self.ask(&["DEL", latch]);
            self.look_at_counters(None);
            let channel = format!("redisson_countdownlatch__channel__{{{latch}}}");
            self.announce(&channel, "0");
        }
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
            // Once they may only be on their way from one caller to the next.
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
            self.announce_permits(&key);
        }
    }

    /// Tells of the permits that a semaphore has now.
    fn announce_permits(&mut self, key: &str) {
        let total = self.nodes.counter(key.as_bytes()).unwrap_or_default();
        self.announce(&format!("redisson_sc:{{{key}}}"), &total.to_string());
    }
}
