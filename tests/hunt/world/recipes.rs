//! The state of the recipes' semaphores in the server.

use std::collections::{BTreeMap, BTreeSet};

use super::World;
use crate::judge::{Object, Standing};
use crate::plan::{Layout, Recipe};
use crate::sim::server::Reply;

/// Returns the texts of a reply.
pub(super) fn texts(reply: Option<Reply>) -> Vec<String> {
    let Some(Reply::Array(items)) = reply else {
        return Vec::new();
    };
    let text = |item| match item {
        Reply::Bulk(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        _ => None,
    };
    items.into_iter().filter_map(text).collect()
}

/// Returns the key of the permits of a semaphore whose permits have leases.
pub(super) fn permits_of(key: &str) -> String {
    format!("{key}:timeout")
}

/// The smallest end of permits that do not end, in milliseconds. Our clocks never come near it.
const ENDLESS: f64 = 9e14;

/// Returns the bytes of an id that is written in hex digits.
fn bytes_of(id: &str) -> Vec<u8> {
    let digits = id.as_bytes().chunks(2);
    let text = digits.map(|pair| std::str::from_utf8(pair).expect("hex digits"));
    text.map(|pair| u8::from_str_radix(pair, 16).expect("hex digits"))
        .collect()
}

impl World {
    /// Sends a command to the server. The server's faults do not apply.
    pub(super) fn ask(&mut self, words: &[&str]) -> Option<Reply> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.nodes.ask(&words)
    }

    /// Sends a message to all listeners.
    pub(super) fn announce(&mut self, channel: &str, payload: &str) {
        self.ask(&[self.settings.publish(), channel, payload]);
        self.push();
    }

    pub(super) fn server_millis(&self) -> i64 {
        i64::try_from(self.nodes.now() / 1000).expect("a time of these days")
    }

    /// Reports the holders of the recipes' permits to the judges.
    pub(super) fn look_at_recipes(&mut self) {
        self.look_at_counters(None);
        for number in 0..self.settings.recipes.len() {
            let recipe = self.settings.recipes[number].clone();
            let standing = self.standing(number, &recipe);
            self.judge().recipe_is(number, &standing, recipe.limit);
        }
    }

    fn standing(&mut self, number: usize, recipe: &Recipe) -> Standing {
        let key = Object::Recipe(number).key();
        let now = self.server_millis();
        let (mut live, mut sum) = (0, None);
        let mut ids = BTreeSet::new();
        match recipe.layout {
            Layout::FairUnderLock => {
                let all = texts(self.ask(&["ZRANGE", &key, "0", "-1", "WITHSCORES"]));
                let millis = i64::try_from(recipe.timeout.as_millis()).expect("seconds");
                for pair in all.chunks(2) {
                    let [id, time] = pair else { continue };
                    ids.insert(id.clone());
                    let time: f64 = time.parse().unwrap_or_default();
                    live += i64::from(time > (now - millis) as f64);
                }
            }
            Layout::Expirable => {
                for (id, end) in self.ends_of(&key) {
                    ids.insert(id);
                    live -= i64::from(end <= now as f64);
                }
                let left = self.nodes.counter(key.as_bytes()).unwrap_or_default();
                live += i64::from(recipe.limit) - left;
                sum = Some(left + i64::try_from(ids.len()).expect("a few"));
            }
            Layout::Set => {
                ids = texts(self.ask(&["SMEMBERS", &key])).into_iter().collect();
                live = i64::try_from(ids.len()).expect("a few");
            }
            Layout::Slots => {
                for slot in 1..=recipe.limit {
                    if let Some(Reply::Bulk(id)) = self.ask(&["GET", &format!("{key}:{slot}")]) {
                        ids.insert(String::from_utf8_lossy(&id).into_owned());
                        live += 1;
                    }
                }
            }
        }
        let locked = recipe
            .peers_lock(&key)
            .is_some_and(|lock| self.ask(&["EXISTS", &lock]) == Some(Reply::Int(1)));
        let free = i64::from(recipe.limit) - live;
        Standing {
            ids,
            sum,
            free: if locked { 0 } else { free },
        }
    }

    /// Returns when each permit of a semaphore ends whose permits have ids.
    fn ends_of(&mut self, key: &str) -> BTreeMap<String, f64> {
        let all = self.ask(&["ZRANGE", &permits_of(key), "0", "-1", "WITHSCORES"]);
        let Some(Reply::Array(all)) = all else {
            return BTreeMap::new();
        };
        let end = |pair: &[Reply]| match pair {
            [Reply::Bulk(id), Reply::Bulk(end)] => {
                let id = id.iter().map(|byte| format!("{byte:02x}")).collect();
                let end = String::from_utf8_lossy(end).parse().unwrap_or(0.0);
                Some((id, end))
            }
            _ => None,
        };
        all.chunks(2).filter_map(end).collect()
    }

    /// Reports to the judges when those permits end now.
    pub(super) fn look_at_ends(&mut self) {
        let now = self.server_millis() as f64;
        for number in 0..self.settings.recipes.len() {
            if self.settings.recipes[number].layout == Layout::Expirable {
                let ends = self.ends_of(&Object::Recipe(number).key());
                self.judge().ends_are(number, ends, now);
            }
        }
    }

    /// The operator releases permits that a server has forgotten, of semaphores whose permits have ids.
    pub fn give_back_what_is_forgotten(&mut self) {
        for number in 0..self.settings.recipes.len() {
            let recipe = self.settings.recipes[number].clone();
            let sum = self.standing(number, &recipe).sum;
            let missing = sum.map_or(0, |sum| i64::from(recipe.limit) - sum);
            if missing > 0 && self.judge().may_lack_permits() {
                let key = Object::Recipe(number).key();
                self.ask(&["INCRBY", &key, &missing.to_string()]);
                self.announce(&format!("redisson_sc:{key}"), &missing.to_string());
            }
        }
    }

    /// The operator sets the permits of semaphores whose counters are not there.
    pub(super) fn set_permits(&mut self) {
        for number in 0..self.settings.recipes.len() {
            let recipe = self.settings.recipes[number].clone();
            let key = Object::Recipe(number).key();
            let set = self.nodes.counter(key.as_bytes()).is_some();
            if recipe.layout == Layout::Expirable && !set {
                let held = match self.ask(&["ZCARD", &permits_of(&key)]) {
                    Some(Reply::Int(held)) => held,
                    _ => 0,
                };
                let left = (i64::from(recipe.limit) - held).to_string();
                self.ask(&["SET", &key, &left]);
                self.announce(&format!("redisson_sc:{key}"), &left);
            }
        }
    }

    /// The operator takes permits back from clients that are gone, if those permits would never end.
    pub fn take_from_the_dead(&mut self) {
        for number in 0..self.settings.recipes.len() {
            let recipe = self.settings.recipes[number].clone();
            if recipe.lasts().is_some() {
                continue;
            }
            let key = Object::Recipe(number).key();
            let in_hand = self.judge().ids_in_hand(number);
            let nobodys = |id: &String| !in_hand.contains(id);
            let mut gone: Vec<String> = match recipe.layout {
                Layout::Set => texts(self.ask(&["SMEMBERS", &key])),
                _ => (self.ends_of(&key).into_iter())
                    .filter(|(_, end)| *end >= ENDLESS)
                    .map(|(id, _)| id)
                    .collect(),
            };
            gone.retain(nobodys);
            for id in gone {
                if self.judge().is_owed_back(number, &id) {
                    continue;
                }
                if recipe.layout == Layout::Set {
                    self.ask(&["SREM", &key, &id]);
                } else {
                    self.nodes
                        .ask(&[b"ZREM", permits_of(&key).as_bytes(), &bytes_of(&id)]);
                    self.ask(&["INCR", &key]);
                    self.announce(&format!("redisson_sc:{key}"), "1");
                }
                self.judge().robs_permits(number, None);
            }
        }
    }
}
