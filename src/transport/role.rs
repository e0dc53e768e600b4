//! The role of a server, from its answer to `ROLE`.

use redis::Value;

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
