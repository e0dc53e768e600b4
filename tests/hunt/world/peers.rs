//! Peers of other programs at the recipes' semaphores: each step as it stands in the book, with a pause before the next.

use tokio::time::Instant;

use super::recipes::{permits_of, texts};
use super::{Happening, World};
use crate::judge::Object;
use crate::plan::{self, Death, Layout};
use crate::sim::server::Reply;

pub(super) struct Peer {
    plan: plan::Peer,
    id: String,
    tries: u32,
    rounds: u32,
    counter: String,
    /// How many permits with ids it has had.
    had: u32,
}

impl Peer {
    /// The id of the permit that it asks for, or has: sixteen bytes, as Redisson's.
    fn permit(&self, number: usize) -> String {
        format!("peer{number:06}{:06}", self.had)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Takes the lock, if there is one.
    Lock,
    /// Gives it an expiry.
    Expire,
    /// Gets a number, where numbers count.
    Number,
    /// Stands in line.
    Enter,
    /// Sees whether it is within the limit.
    Look,
    Release,
}

impl World {
    pub(super) fn peer_comes(&mut self, plan: plan::Peer, now: Instant) {
        let number = self.peers.len();
        self.peers.push(Peer {
            id: format!("peer-{number}"),
            tries: plan.tries,
            rounds: plan.rounds,
            counter: "0".to_owned(),
            had: 0,
            plan,
        });
        self.happens(now, Happening::Peer(number, Step::Lock));
    }

    pub(super) fn peer_steps(&mut self, number: usize, step: Step, now: Instant) {
        let plan = self.peers[number].plan.clone();
        let key = Object::Recipe(plan.recipe).key();
        let until = self.nodes.down_until(key.as_bytes());
        if until > now {
            self.happens(until, Happening::Peer(number, step));
            return;
        }
        self.look_at_counters(None);
        // Ours look as often as peers try, as long as these hand their lock round.
        self.judge().something_happens();
        let is_script = self.settings.recipes[plan.recipe].layout == Layout::Expirable;
        let home = self.nodes.home(key.as_bytes());
        if is_script {
            self.nodes.node(home).server.begin();
        }
        let next = self.peer_does(number, step);
        if is_script {
            self.nodes.node(home).server.end();
        }
        let dies = plan.dies.filter(|_| self.peers[number].rounds == 1);
        let (after, next) = match next {
            Some(Step::Expire) if dies == Some(Death::WithTheLock) => return,
            Some(Step::Release) if dies == Some(Death::Holding) => return,
            Some(Step::Release) => (plan.hold, Step::Release),
            Some(next) => (plan.step, next),
            None => {
                let peer = &mut self.peers[number];
                if step == Step::Release {
                    peer.rounds -= 1;
                    peer.tries = plan.tries;
                } else {
                    peer.tries -= 1;
                }
                if peer.rounds == 0 || peer.tries == 0 || self.judge().has_healed() {
                    return;
                }
                (plan.pause, Step::Lock)
            }
        };
        self.happens(now + after, Happening::Peer(number, next));
    }

    /// Its next step; `None`: that was in vain, or the last one.
    fn peer_does(&mut self, number: usize, step: Step) -> Option<Step> {
        let peer = &self.peers[number];
        let (id, counter) = (peer.id.clone(), peer.counter.clone());
        let recipe = self.settings.recipes[peer.plan.recipe].clone();
        let key = Object::Recipe(peer.plan.recipe).key();
        let (owners, next_counter) = (format!("{key}:owner"), format!("{key}:counter"));
        let now = self.server_millis();
        let millis = i64::try_from(recipe.timeout.as_millis()).expect("seconds");
        let fair = matches!(recipe.layout, Layout::Fair | Layout::FairUnderLock);
        let lasts = millis.to_string();
        match (recipe.layout, step) {
            (Layout::FairUnderLock, Step::Lock) => {
                let lock = recipe.peers_lock(&key).expect("it has one");
                let taken = self.ask(&["SET", &lock, &id, "NX"]);
                matches!(taken, Some(Reply::Status(_))).then_some(Step::Expire)
            }
            (_, Step::Expire) => {
                let lock = recipe.peers_lock(&key).expect("it has one");
                self.ask(&["PEXPIRE", &lock, "2000"]);
                Some(Step::Number)
            }
            (_, Step::Lock) => Some(if fair { Step::Number } else { Step::Enter }),
            (_, Step::Number) => {
                let old = (now - millis).to_string();
                let expired = texts(self.ask(&["ZRANGEBYSCORE", &key, "-inf", &old]));
                for id in expired {
                    self.ask(&["ZREM", &key, &id]);
                    self.ask(&["ZREM", &owners, &id]);
                }
                let Some(Reply::Int(counter)) = self.ask(&["INCR", &next_counter]) else {
                    return None;
                };
                self.peers[number].counter = counter.to_string();
                Some(Step::Enter)
            }
            (Layout::Timestamp, Step::Enter) => {
                let old = (now - millis).to_string();
                self.ask(&["ZREMRANGEBYSCORE", &key, "-inf", &old]);
                self.ask(&["ZADD", &key, &now.to_string(), &id]);
                Some(Step::Look)
            }
            (Layout::Fair | Layout::FairUnderLock, Step::Enter) => {
                self.ask(&["ZADD", &key, &now.to_string(), &id]);
                self.ask(&["ZADD", &owners, &counter, &id]);
                Some(Step::Look)
            }
            (Layout::Set, Step::Enter) => {
                let Some(Reply::Int(count)) = self.ask(&["SCARD", &key]) else {
                    return None;
                };
                if count >= i64::from(recipe.limit) {
                    return None;
                }
                self.ask(&["SADD", &key, &id]);
                Some(Step::Release)
            }
            (Layout::Slots, Step::Enter) => {
                let taken = (1..=recipe.limit).any(|slot| {
                    let key = format!("{key}:{slot}");
                    let taken = self.ask(&["SET", &key, &id, "NX", "PX", &lasts]);
                    matches!(taken, Some(Reply::Status(_)))
                });
                taken.then_some(Step::Release)
            }
            (Layout::StringLock, Step::Enter) => {
                let key = format!("lock:{key}");
                let taken = self.ask(&["SET", &key, &id, "NX", "PX", &lasts]);
                matches!(taken, Some(Reply::Status(_))).then_some(Step::Release)
            }
            (Layout::Expirable, Step::Enter) => {
                let taken = self.takes_permit(number, &key, now + millis);
                taken.then_some(Step::Release)
            }
            (_, Step::Look) => {
                let line = if fair { &owners } else { &key };
                let rank = self.ask(&["ZRANK", line, &id]);
                let within =
                    matches!(rank, Some(Reply::Int(rank)) if rank < i64::from(recipe.limit));
                if !within {
                    self.peer_leaves(&key, &id, fair);
                }
                if let Some(lock) = recipe.peers_lock(&key) {
                    self.peer_unlocks(&lock, &id);
                }
                within.then_some(Step::Release)
            }
            (_, Step::Release) => {
                match recipe.layout {
                    Layout::Set => drop(self.ask(&["SREM", &key, &id])),
                    Layout::Slots => {
                        for slot in 1..=recipe.limit {
                            self.peer_unlocks(&format!("{key}:{slot}"), &id);
                        }
                    }
                    Layout::StringLock => self.peer_unlocks(&format!("lock:{key}"), &id),
                    Layout::Expirable => self.gives_permit(number, &key),
                    _ => self.peer_leaves(&key, &id, fair),
                }
                None
            }
        }
    }

    /// One permit that has ended becomes free; then one is taken, if there is one.
    fn takes_permit(&mut self, number: usize, key: &str, until: i64) -> bool {
        let recipe = self.peers[number].plan.recipe;
        let (permits, now) = (permits_of(key), self.server_millis().to_string());
        let ended = self.ask(&["ZRANGEBYSCORE", &permits, "0", &now, "LIMIT", "0", "1"]);
        if let Some(Reply::Array(ended)) = ended
            && let Some(Reply::Bulk(id)) = ended.first()
        {
            self.ask_in_bytes(&[b"ZREM", permits.as_bytes(), id]);
            let total = self.ask(&["INCRBY", key, "1"]);
            if let Some(Reply::Int(total @ 1..)) = total {
                self.says(key, total);
            }
        }
        let free = self.nodes.counter(key.as_bytes()).unwrap_or_default();
        if free < 1 {
            return false;
        }
        self.peers[number].had += 1;
        let id = self.peers[number].permit(number);
        self.ask(&["DECRBY", key, "1"]);
        self.ask(&["ZADD", &permits, &until.to_string(), &id]);
        if let Some(Reply::Int(left @ 1..)) = self.ask(&["PTTL", key]) {
            self.ask(&["PEXPIRE", &permits, &left.to_string()]);
        }
        let (limit, lasts) = {
            let recipe = &self.settings.recipes[recipe];
            (recipe.limit, recipe.timeout)
        };
        self.judge().peer_has(recipe, number, lasts, limit);
        true
    }

    fn gives_permit(&mut self, number: usize, key: &str) {
        let recipe = self.peers[number].plan.recipe;
        self.judge().peer_gives(recipe, number);
        let (permits, id) = (permits_of(key), self.peers[number].permit(number));
        if self.ask(&["ZREM", &permits, &id]) == Some(Reply::Int(1))
            && let Some(Reply::Int(total)) = self.ask(&["INCRBY", key, "1"])
        {
            self.says(key, total);
        }
    }

    fn says(&mut self, key: &str, total: i64) {
        self.announce(&format!("redisson_sc:{key}"), &total.to_string());
    }

    fn peer_leaves(&mut self, key: &str, id: &str, fair: bool) {
        self.ask(&["ZREM", key, id]);
        if fair {
            self.ask(&["ZREM", &format!("{key}:owner"), id]);
        }
    }

    fn peer_unlocks(&mut self, key: &str, id: &str) {
        if let Some(Reply::Bulk(owner)) = self.ask(&["GET", key])
            && owner == id.as_bytes()
        {
            self.ask(&["DEL", key]);
        }
    }
}
