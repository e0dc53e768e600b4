//! Changes of a cluster.

use std::time::Duration;

use tokio::time::Instant;

use super::{Happening, World};
use crate::plan::Shift;
use crate::sim::server::slot;

/// A step of a moving slot, or of the replacement of a master.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// The next key of a slot moves.
    Key(Move),
    /// The target node learns that it has the slot now.
    Arrives(Move),
    /// A node learns of the change.
    Learns(usize),
    /// All nodes have noticed that a master is gone.
    Noticed,
    Elected {
        gone: usize,
        lag: usize,
        gossip: Duration,
        goes_on: Option<Duration>,
    },
    /// A master that was replaced learns of it.
    Returns(usize),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Move {
    slot: u16,
    to: usize,
    pause: Duration,
    lingers: Duration,
    gossip: Duration,
}

impl World {
    pub(super) fn shift_begins(&mut self, shift: Shift, now: Instant) {
        match shift {
            Shift::Slot {
                object,
                by,
                pause,
                lingers,
                gossip,
            } => {
                let slot = slot(object.key().as_bytes());
                let from = self.nodes.home_of_slot(slot);
                let masters: Vec<usize> = self.nodes.masters().collect();
                let place = masters.iter().position(|master| *master == from);
                let place = place.expect("a slot is at a master") + by;
                let to = masters[place % masters.len()];
                let busy = self.nodes.is_on_its_way(slot);
                if to == from || busy || self.is_falling(from) || self.is_falling(to) {
                    return;
                }
                // The mover of a slot asks both nodes first.
                for node in [from, to] {
                    self.nodes.learns(node);
                }
                self.push();
                self.nodes.opens(slot, to);
                let step = Move {
                    slot,
                    to,
                    pause,
                    lingers,
                    gossip,
                };
                self.happens(now + pause, Happening::Shifts(Step::Key(step)));
            }
            Shift::FailOver {
                master,
                noticed,
                elected,
                lag,
                gossip,
                goes_on,
            } => {
                let gone = self.master(master);
                // A node whose slots are moving is not replaced: it would be unclear which node has them.
                if self.nodes.is_moving(gone) || self.is_falling(gone) {
                    return;
                }
                // Only one master at a time may not know that it is replaced. A client that knows only such masters could learn it from no node.
                if goes_on.is_some() && self.nodes.is_anybody_cut_off() {
                    return;
                }
                match goes_on {
                    Some(_) => self.nodes.node(gone).cut_off = true,
                    None => self.goes_down(gone, noticed + elected + gossip),
                }
                self.nodes.node(gone).falling = true;
                self.all_unwell(noticed + elected);
                self.happens(now + noticed, Happening::Shifts(Step::Noticed));
                let step = Step::Elected {
                    gone,
                    lag,
                    gossip,
                    goes_on,
                };
                self.happens(now + noticed + elected, Happening::Shifts(step));
            }
        }
    }

    /// Returns the master in this place.
    pub(super) fn master(&mut self, place: usize) -> usize {
        let masters: Vec<usize> = self.nodes.masters().collect();
        masters[place % masters.len()]
    }

    /// Whether another node is about to take this node's place.
    pub(super) fn is_falling(&mut self, node: usize) -> bool {
        self.nodes.node(node).falling
    }

    pub(super) fn shifts(&mut self, step: Step, now: Instant) {
        self.look_at_counters(None);
        self.all_unwell(Duration::ZERO);
        match step {
            Step::Key(moves) => {
                let next = match self.nodes.hands_over(moves.slot, moves.to) {
                    true => (moves.pause, Step::Key(moves)),
                    false => (moves.lingers, Step::Arrives(moves)),
                };
                self.happens(now + next.0, Happening::Shifts(next.1));
            }
            Step::Arrives(moves) => {
                // A key may have been stored meanwhile that the mover could not know of.
                while self.nodes.hands_over(moves.slot, moves.to) {}
                self.nodes.arrives(moves.slot, moves.to);
                self.judge()
                    .note(format_args!("slot {} has moved", moves.slot));
                self.tell_later(moves.gossip, now);
            }
            Step::Learns(node) => {
                self.nodes.learns(node);
                self.push();
            }
            Step::Noticed => self.nodes.is_down(true),
            Step::Elected {
                gone,
                lag,
                gossip,
                goes_on,
            } => {
                let taker = self.nodes.takes_over(gone, lag);
                self.judge()
                    .note(format_args!("node {taker} takes over from node {gone}"));
                self.nodes.is_down(false);
                // The new master lacks the renewals at an old one that has gone on meanwhile.
                if lag > 0 || goes_on.is_some() {
                    self.has_lost(lag.max(1));
                }
                self.set_permits();
                self.look_at_counters(None);
                self.tell_later(gossip, now);
                let returns = goes_on.unwrap_or(gossip);
                self.happens(now + returns, Happening::Shifts(Step::Returns(gone)));
            }
            Step::Returns(node) => {
                self.nodes.node(node).cut_off = false;
                self.nodes.learns(node);
                for number in self.open_at(node) {
                    self.reset(number, None);
                }
                self.push();
            }
        }
        self.look_at_counters(None);
    }

    /// All nodes learn of the change, one after the other.
    fn tell_later(&mut self, gossip: Duration, now: Instant) {
        for node in 0..self.nodes.len() {
            let later = gossip.mul_f64(self.rng.f64());
            self.happens(now + later, Happening::Shifts(Step::Learns(node)));
        }
    }
}
