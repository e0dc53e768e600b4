//! Whether a server is a master still.
//!
//! A script that changes nothing is carried out by a replica, too, with its own data: a client that only checks for permits would check
//! the old master for ever. So its users ask the server now and then.

use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use crate::sync::Mutex;

/// How long it is at the least from one question to the next: less than the time between two slow checks of a waiter.
const PERIOD: Duration = Duration::from_secs(4);

/// When it is to be asked again; never where it may not be.
pub(super) struct RoleCheck(Mutex<Option<Instant>>);

impl RoleCheck {
    /// `false`: another task checks that.
    pub(super) fn new(checked: bool) -> Self {
        RoleCheck(Mutex::new(checked.then(|| Instant::now() + PERIOD)))
    }

    /// Whether it is to be asked now, by this one.
    pub(super) fn is_due(&self) -> bool {
        let mut next = self.0.lock();
        let now = Instant::now();
        let due = next.is_some_and(|next| next <= now);
        if due {
            *next = Some(now + PERIOD);
        }
        due
    }

    /// The user may not ask.
    pub(super) fn forbid(&self) {
        *self.0.lock() = None;
    }
}

/// The answer to `ROLE` at a master.
pub(super) fn is_master(role: &Value) -> bool {
    is(role, "master")
}

/// At a replica. A proxy may answer anything else.
pub(super) fn is_replica(role: &Value) -> bool {
    is(role, "slave")
}

fn is(role: &Value, word: &str) -> bool {
    let Value::Array(items) = role else {
        return false;
    };
    match items.first() {
        Some(Value::BulkString(first)) => first == word.as_bytes(),
        Some(Value::SimpleString(first)) => first == word,
        _ => false,
    }
}
