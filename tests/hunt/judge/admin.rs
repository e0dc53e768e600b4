//! Calls that change an object once: see [`crate::admin`].

use tokio::time::Instant;

use super::{Host, Judge, Object};
use crate::admin::{Ended, State};
use crate::plan::{AdminCall, Subject};

impl Judge {
    /// A client makes such a call.
    pub fn admin_begins(&mut self, subject: Subject, host: Host, call: AdminCall) -> u64 {
        self.note(format_args!(
            "c{host} asks for {call:?} of {}",
            subject.key()
        ));
        self.admin.entry(subject).or_default().begins(host, call)
    }

    /// A script of a client about one of these has been carried out.
    pub fn admin_is_asked(&mut self, subject: Subject, host: Host, now: i64) {
        self.admin.entry(subject).or_default().is_asked(host, now);
    }

    /// What they are about is this since `now`, by the server's clock.
    pub fn admin_becomes(&mut self, subject: Subject, host: Option<Host>, state: State, now: i64) {
        if subject == Subject::Latch {
            let open = state.here.is_none_or(|left| left.count <= 0);
            self.is_free(Object::Latch, open);
            if open {
                self.open_at = Some(Instant::now());
            }
        }
        if self.rules.forgetful {
            return;
        }
        let ledger = self.admin.entry(subject).or_default();
        let becomes = ledger.becomes(host, state, now);
        self.accuse_of_effects(host, becomes);
    }

    pub fn admin_ends(&mut self, subject: Subject, host: Host, number: u64, ended: Ended) {
        if self.rules.forgetful {
            return;
        }
        let ledger = self.admin.entry(subject).or_default();
        let ends = ledger.ends(host, number, ended);
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

    /// Somebody may see it open at this moment, whatever it is at others: within one script, at a master that has been replaced.
    pub fn latch_may_be_open(&mut self) {
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
