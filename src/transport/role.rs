//! Whether a server is a master still.
//!
//! A script that changes nothing is carried out by a replica, too, with its own data: a client that only checks for permits would check
//! the old master for ever. So each connection that is used asks its server now and then.

use std::sync::Weak;
use std::time::Duration;

use redis::Value;

use super::live::Live;

/// How long it is from one question to the next: less than the time between two slow checks of a waiter.
const PERIOD: Duration = Duration::from_secs(4);

/// Ends `live` when its server has become a replica.
pub(super) async fn watch(live: &Weak<Live>) {
    loop {
        tokio::time::sleep(PERIOD).await;
        let Some(live) = live.upgrade() else { break };
        if !live.check_role().await {
            break;
        }
    }
    std::future::pending().await
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
