//! What may be the name of an object, or of a holder.

use crate::error::{Error, Result};

/// So many bytes a name may have, as it stands in Redis. Requests that name hundreds of objects must stay small, as all calls
/// of a client share a connection.
pub(crate) const MOST_NAME_BYTES: usize = 64 * 1024;
pub(crate) const TOO_LONG: &str = "it is longer than 65536 bytes";

/// What makes a name unusable, whatever stands beside the object.
pub(crate) fn flaw_of_name(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("it is empty");
    }
    (name.len() > MOST_NAME_BYTES).then_some(TOO_LONG)
}

/// Refuses a name with such a flaw.
pub(crate) fn check_name(name: &str) -> Result<()> {
    match flaw_of_name(name) {
        None => Ok(()),
        Some(reason) => Err(Error::InvalidName {
            name: shortened(name),
            reason,
        }),
    }
}

/// Refuses the id of a holder that no server should be sent.
pub(crate) fn check_id(id: &str) -> Result<()> {
    if id.len() <= MOST_NAME_BYTES {
        return Ok(());
    }
    Err(Error::InvalidName {
        name: shortened(id),
        reason: TOO_LONG,
    })
}

/// A name for an error's text.
pub(crate) fn shortened(name: &str) -> String {
    const MOST: usize = 100;
    if name.len() <= MOST_NAME_BYTES {
        return name.to_owned();
    }
    let beginning: String = name.chars().take(MOST).collect();
    format!("{beginning}...")
}
