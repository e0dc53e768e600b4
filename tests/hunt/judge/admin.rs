//! Calls that change a semaphore once: see [`crate::admin`].

use super::{Host, Judge};
use crate::admin::Ended;

impl Judge {
    /// The semaphore of the calls that hold nothing has this value now.
    pub fn admin_becomes(&mut self, host: Option<Host>, value: Option<i64>) {
        if self.rules.forgetful {
            return;
        }
        if let Err(detail) = self.admin.becomes(host, value) {
            self.accuse("effects", detail);
        }
    }

    pub fn admin_ends(&mut self, host: Host, number: u64, ended: super::admin::Ended) {
        if self.rules.forgetful {
            return;
        }
        if let Err(detail) = self.admin.ends(host, number, ended) {
            self.accuse("effects", detail);
        }
    }
}
