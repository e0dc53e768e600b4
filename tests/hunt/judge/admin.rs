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
        if let Err(detail) = self.ledger(latch).becomes(host, value) {
            self.accuse("effects", detail);
        }
    }

    pub fn admin_ends(&mut self, latch: bool, host: Host, number: u64, ended: Ended) {
        if self.rules.forgetful {
            return;
        }
        if let Err(detail) = self.ledger(latch).ends(host, number, ended) {
            self.accuse("effects", detail);
        }
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
