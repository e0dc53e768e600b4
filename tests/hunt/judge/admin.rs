//! Calls that change a semaphore or a latch once: see [`crate::admin`].

use tokio::time::Instant;

use super::{Host, Judge, Object};
use crate::admin::{Ended, Ledger};

impl Judge {
    pub fn ledger(&mut self, latch: bool) -> &mut Ledger {
        if latch {
            &mut self.latch
        } else {
            &mut self.admin
        }
    }

    /// The semaphore of the calls that hold nothing, or the latch, has this value now.
    pub fn admin_becomes(&mut self, latch: bool, host: Option<Host>, value: Option<i64>) {
        if latch {
            let open = value.is_none_or(|value| value <= 0);
            self.is_free(Object::Latch, open);
            if open {
                self.open_at = Some(Instant::now());
            }
        }
        if self.rules.forgetful {
            return;
        }
        let becomes = self.ledger(latch).becomes(host, value);
        self.accuse_of_effects(host, becomes);
    }

    pub fn admin_ends(&mut self, latch: bool, host: Host, number: u64, ended: Ended) {
        if self.rules.forgetful {
            return;
        }
        let ends = self.ledger(latch).ends(host, number, ended);
        self.accuse_of_effects(Some(host), ends);
    }

    /// Where an earlier number stands in a client's record, a late copy of a call takes effect once more, as if the record had been
    /// deleted.
    fn accuse_of_effects(&mut self, host: Option<Host>, judged: Result<(), String>) {
        let overwritten = host.is_some_and(|host| self.overwritten.contains(&host));
        if let Err(detail) = judged
            && !overwritten
        {
            self.accuse("effects", detail);
        }
    }

    /// Somebody has written something else into a record.
    pub fn overwrites(&mut self, record: &str) {
        let of = self
            .ids
            .iter()
            .filter(|(id, _)| record.contains(id.as_str()));
        let hosts: Vec<Host> = of.map(|(_, host)| *host).collect();
        self.overwritten.extend(hosts);
    }

    /// Within one script it may have been open, whatever it is after that.
    pub fn latch_is_set_again(&mut self) {
        self.open_at = Some(Instant::now());
    }

    /// Somebody who has waited for the latch since then goes on.
    pub fn passes_latch(&mut self, host: Host, since: Instant) {
        let open = self.open_at.is_some_and(|open| open >= since);
        if !open && !self.rules.inexact() {
            self.accuse("effects", format!("c{host} has not waited for the latch"));
        }
    }
}
