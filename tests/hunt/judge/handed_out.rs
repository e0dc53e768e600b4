//! Grants that reach their callers: they must not be lost by then.

use std::time::Duration;

use super::{Host, Judge, Object};

/// How long a grant takes at most from the server's reply to the caller.
const WITHIN: Duration = Duration::from_secs(1);

impl Judge {
    /// A caller that was polled all the time gets a grant that lasts this long from the sending of its request. `lost`: it is lost already.
    pub fn is_handed(&mut self, object: Object, host: Host, lasts: Duration, lost: bool) {
        let taken_away = match object {
            Object::Lock(number) => self.is_robbed(number),
            Object::Recipe(number) => self.is_permit_robbed(number),
            Object::Semaphore(_) | Object::Latch => self.records_are_robbed(),
        };
        let answered_in_time = lasts > self.rules.response_timeout + WITHIN;
        let excused = taken_away || self.rules.stops || self.rules.inexact() || self.closing(host);
        if lost && answered_in_time && self.rules.can_keep(lasts) && !excused {
            let detail = format!("c{host} is handed {}, and it is lost already", object.key());
            self.accuse("worthless", detail);
        }
    }
}
