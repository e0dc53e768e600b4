//! Peers of other programs at the recipes' semaphores: each step as it stands in the book, with a pause before the next. They come to
//! the fair semaphore under a lock, whose steps are single commands, and to permits with ids, where each step is one script.

use std::time::Duration;

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
    /// Takes the lock; or a permit, where that is a script.
    Begin,
    /// Gives the lock an expiry.
    Expire,
    /// Gets a number.
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
        self.happens(now, Happening::Peer(number, Step::Begin));
    }

    pub(super) fn peer_steps(&mut self, number: usize, step: Step, now: Instant) {
        let plan = self.peers[number].plan.clone();
        let key = Object::Recipe(plan.recipe).key();
        let home = self.nodes.home(key.as_bytes());
        let until = self.nodes.node(home).down_until;
        if until > now {
            self.happens(until, Happening::Peer(number, step));
            return;
        }
        self.look_at_counters(None);
        // Ours look as often as peers try, as long as these hand their lock round.
        self.judge().something_happens();
        let next = match self.settings.recipes[plan.recipe].layout {
            Layout::Expirable => {
                self.nodes.node(home).server.begin();
                let next = self.peer_of_ids(number, step, &key);
                self.nodes.node(home).server.end();
                next
            }
            _ => self.peer_in_line(number, step, &key),
        };
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
                (plan.pause, Step::Begin)
            }
        };
        self.happens(now + after, Happening::Peer(number, next));
    }

    /// The next step of a peer of the fair semaphore; `None`: that was in vain, or the last one.
    fn peer_in_line(&mut self, number: usize, step: Step, key: &str) -> Option<Step> {
        let peer = &self.peers[number];
        let (id, counter) = (peer.id.clone(), peer.counter.clone());
        let recipe = self.settings.recipes[peer.plan.recipe].clone();
        let (owners, lock) = (format!("{key}:owner"), recipe.peers_lock(key)?);
        let now = self.server_millis();
        match step {
            Step::Begin => {
                let taken = self.ask(&["SET", &lock, &id, "NX"]);
                matches!(taken, Some(Reply::Status(_))).then_some(Step::Expire)
            }
            Step::Expire => {
                self.ask(&["PEXPIRE", &lock, "2000"]);
                Some(Step::Number)
            }
            Step::Number => {
                let old = (now - millis(recipe.timeout)).to_string();
                for id in texts(self.ask(&["ZRANGEBYSCORE", key, "-inf", &old])) {
                    self.ask(&["ZREM", key, &id]);
                    self.ask(&["ZREM", &owners, &id]);
                }
                let counter = self.ask(&["INCR", &format!("{key}:counter")]);
                let Some(Reply::Int(counter)) = counter else {
                    return None;
                };
                self.peers[number].counter = counter.to_string();
                Some(Step::Enter)
            }
            Step::Enter => {
                self.ask(&["ZADD", key, &now.to_string(), &id]);
                self.ask(&["ZADD", &owners, &counter, &id]);
                Some(Step::Look)
            }
            Step::Look => {
                let rank = self.ask(&["ZRANK", &owners, &id]);
                let limit = i64::from(recipe.limit);
                let within = matches!(rank, Some(Reply::Int(rank)) if rank < limit);
                if !within {
                    self.ask(&["ZREM", key, &id]);
                    self.ask(&["ZREM", &owners, &id]);
                }
                if self.ask(&["GET", &lock]) == Some(Reply::bulk(id)) {
                    self.ask(&["DEL", &lock]);
                }
                within.then_some(Step::Release)
            }
            Step::Release => {
                self.ask(&["ZREM", key, &id]);
                self.ask(&["ZREM", &owners, &id]);
                None
            }
        }
    }

    /// The same of a peer that takes permits with ids.
    fn peer_of_ids(&mut self, number: usize, step: Step, key: &str) -> Option<Step> {
        match step {
            Step::Release => {
                self.gives_permit(number, key);
                None
            }
            _ => self.takes_permit(number, key).then_some(Step::Release),
        }
    }

    /// One permit that has ended becomes free; then one is taken, if there is one.
    fn takes_permit(&mut self, number: usize, key: &str) -> bool {
        let recipe = self.peers[number].plan.recipe;
        let (permits, now) = (permits_of(key), self.server_millis());
        let ended = ["ZRANGEBYSCORE", &permits, "0", &now.to_string()];
        if let Some(Reply::Array(ended)) = self.ask(&[&ended[..], &["LIMIT", "0", "1"]].concat())
            && let Some(Reply::Bulk(id)) = ended.first()
        {
            self.nodes.ask(&[b"ZREM", permits.as_bytes(), id]);
            let total = self.ask(&["INCRBY", key, "1"]);
            if let Some(Reply::Int(total @ 1..)) = total {
                self.announce(&format!("redisson_sc:{key}"), &total.to_string());
            }
        }
        if self.nodes.counter(key.as_bytes()).unwrap_or_default() < 1 {
            return false;
        }
        let (limit, lasts) = {
            let recipe = &self.settings.recipes[recipe];
            (recipe.limit, recipe.timeout)
        };
        self.peers[number].had += 1;
        let id = self.peers[number].permit(number);
        self.ask(&["DECRBY", key, "1"]);
        self.ask(&["ZADD", &permits, &(now + millis(lasts)).to_string(), &id]);
        self.judge().peer_has(recipe, number, lasts, limit);
        true
    }

    fn gives_permit(&mut self, number: usize, key: &str) {
        let recipe = self.peers[number].plan.recipe;
        self.judge().peer_gives(recipe, number);
        let id = self.peers[number].permit(number);
        if self.ask(&["ZREM", &permits_of(key), &id]) == Some(Reply::Int(1))
            && let Some(Reply::Int(total)) = self.ask(&["INCRBY", key, "1"])
        {
            self.announce(&format!("redisson_sc:{key}"), &total.to_string());
        }
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).expect("seconds")
}
