//! Replicas that take over: what a client has waited for is there, and nobody asks without end for one that is away.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::{Host, Judge};

#[derive(Default)]
pub(super) struct Replicas {
    /// The clients that wait for them before anything counts.
    careful: BTreeSet<Host>,
    /// What is looked at is undone, as a replica that takes over does not have it.
    pub(super) undone: bool,
    /// How much each client has asked servers without a replica in the second that began then: scripts, `WAIT`s.
    vain: BTreeMap<Host, (Option<Instant>, [u32; 2])>,
}

/// What a client asks a server within a second whose replica is away, at the most.
const MOST_SCRIPTS: u32 = 800;
const MOST_WAITS: u32 = 40;

impl Judge {
    pub fn waits_for_replicas(&mut self, host: Host) {
        self.replicas.careful.insert(host);
    }

    /// Whether what this client has been told may be lost all the same, or made up.
    pub(super) fn is_inexact(&self, host: Host) -> bool {
        let loses = self.rules.loses && !self.replicas.careful.contains(&host);
        self.rules.meddled || self.rules.evicts || loses
    }

    pub fn is_undone(&mut self, undone: bool) {
        self.replicas.undone = undone;
    }

    /// A replica has taken over: what is in somebody's hand is taken there, what was given back is there.
    pub fn look_at_what_is_left(&mut self) {
        for number in 0..self.ledgers.len() {
            let ledger = &self.ledgers[number];
            let lost = ledger.held.iter().find(|(host, held)| {
                let there = ledger.taken(**host) + ledger.may_give_twice(**host);
                **held > there && !self.is_inexact(**host) && !self.has_ended(**host)
            });
            if let Some((host, held)) = lost {
                let taken = ledger.taken(*host);
                let detail = format!(
                    "callers of c{host} hold {held} of s{number}, of which the replica has {taken}"
                );
                self.accuse("confirmed", detail);
            }
        }
        let hosts: Vec<Host> = self.clients.keys().copied().collect();
        for host in hosts {
            if self.gives_up(host) {
                self.loses_what_is_under_way(host);
            }
            if self.is_settled(host) {
                self.settle(host, false);
            }
        }
    }

    /// A client asks a master that has been replaced: what it takes there is not taken, and may be given back.
    pub(super) fn takes_in_vain(&mut self, host: Host) {
        if !self.rules.replicated {
            return;
        }
        for ledger in &mut self.ledgers {
            *ledger.twice.entry(host).or_default() += ledger.permits;
        }
    }

    /// A client asks a server whose replica is away, for which it waits.
    pub fn asks_in_vain(&mut self, host: Host, waits: bool) {
        if !self.replicas.careful.contains(&host) {
            return;
        }
        let now = Instant::now();
        let (since, counts) = self.replicas.vain.entry(host).or_default();
        if since.is_none_or(|since| now > since + Duration::from_secs(1)) {
            (*since, *counts) = (Some(now), [0, 0]);
        }
        counts[usize::from(waits)] += 1;
        let [scripts, waits] = *counts;
        if scripts > MOST_SCRIPTS || waits > MOST_WAITS {
            let detail = format!(
                "c{host} sends {scripts} scripts and {waits} WAITs within a second, and no replica is there"
            );
            self.accuse("storm", detail);
        }
    }
}
