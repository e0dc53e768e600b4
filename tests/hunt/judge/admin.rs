//! Calls that change an object once: see [`crate::admin`].

use tokio::time::Instant;

use super::{Host, Judge, Object};
use crate::admin::Ended;
use crate::plan::AdminCall;

impl Judge {
    /// A client begins such a call.
    pub fn admin_begins(&mut self, host: Host, call: AdminCall) -> u64 {
        self.last_number += 1;
        let number = self.last_number;
        self.note(format_args!("c{host} asks for {call:?}, #{number}"));
        self.admin.begins(host, number, call);
        number
    }

    pub fn admin_ends(&mut self, host: Host, number: u64, call: AdminCall, ended: Ended) {
        let judged = self.admin.ends(host, number, call, ended);
        self.accuse_of_effects(judged);
    }

    /// The semaphore and the latch have these values now. `host` has changed them, or no client has (`None`).
    pub fn admin_is(&mut self, host: Option<Host>, semaphore: i64, latch: Option<i64>) {
        let open = latch.is_none_or(|count| count <= 0);
        self.is_free(Object::Latch, open);
        if open {
            self.open_at = Some(Instant::now());
        }
        let judged = self.admin.semaphore_is(host, semaphore);
        self.accuse_of_effects(judged);
        let judged = self.admin.latch_is(host, latch.unwrap_or_default());
        self.accuse_of_effects(judged);
    }

    /// Accuses of a wrong effect, unless a record may be gone: then a late copy of a call takes effect once more.
    fn accuse_of_effects(&mut self, judged: Result<(), String>) {
        if let Err(detail) = judged
            && !self.rules.forgetful
            && !self.rules.meddled
        {
            self.accuse("effects", detail);
        }
    }

    /// The latch may look open just now: within one script, or at a master that has been replaced.
    pub fn latch_may_be_open(&mut self) {
        self.open_at = Some(Instant::now());
    }

    /// A caller that has waited for the latch since then continues.
    pub fn passes_latch(&mut self, host: Host, since: Instant) {
        let open = self.open_at.is_some_and(|open| open >= since);
        if !open && !self.rules.inexact() {
            self.accuse("effects", format!("c{host} has not waited for the latch"));
        }
    }
}
