//! Peers of other programs at the fair semaphore under a lock. They do each step of the published recipe, with a pause before the next.

use tokio::time::Instant;

use super::recipes::texts;
use super::{Happening, World};
use crate::judge::Object;
use crate::plan::{self, Death};
use crate::sim::server::Reply;

pub(super) struct Peer {
    plan: plan::Peer,
    id: String,
    tries: u32,
    rounds: u32,
    counter: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Takes the lock.
    Begin,
    /// Gives the lock an expiry.
    Expire,
    /// Gets the next number.
    Number,
    /// Enters the queue.
    Enter,
    /// Checks whether it is within the limit.
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
        // Our clients check as often as peers try, as long as peers pass their lock round.
        self.judge().something_happens();
        let next = self.peer_does(number, step, &key);
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

    /// Does the peer's next step. Returns `None` if the try has failed, or if that was the last step.
    fn peer_does(&mut self, number: usize, step: Step, key: &str) -> Option<Step> {
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
                let millis = i64::try_from(recipe.timeout.as_millis()).expect("seconds");
                let old = (now - millis).to_string();
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
}
