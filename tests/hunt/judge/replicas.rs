//! A replica that takes over: it has everything that callers were promised.

use super::{Host, Judge};

impl Judge {
    pub fn is_undone(&mut self, undone: bool) {
        self.undone = undone;
    }

    /// Judges whether the replica has each held permit as taken, and each released one as free.
    pub fn look_at_what_is_left(&mut self) {
        for number in 0..self.ledgers.len() {
            let ledger = &self.ledgers[number];
            let lost = ledger.held.iter().find(|(host, held)| {
                **held > ledger.taken(**host) && !self.rules.inexact() && !self.has_ended(**host)
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
}
