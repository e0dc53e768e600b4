//! The rules for names of objects and of holders.

use crate::error::{Error, Result};

/// So many bytes a name may have, as it stands in Redis. Requests that name hundreds of objects must stay small, as all calls
/// of a client share a connection.
const MOST_NAME_BYTES: usize = 64 * 1024;

/// The flaw that makes a name unusable for every kind of object.
pub(crate) fn flaw_of_name(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("it is empty");
    }
    too_long(name)
}

/// Refuses a name with a `flaw`.
pub(crate) fn refuse(name: &str, flaw: Option<&'static str>) -> Result<()> {
    match flaw {
        None => Ok(()),
        Some(reason) => Err(Error::InvalidName {
            name: shortened(name),
            reason,
        }),
    }
}

/// Refuses a name that no object can have, whatever stands beside it.
pub(crate) fn check_name(name: &str) -> Result<()> {
    refuse(name, flaw_of_name(name))
}

/// Refuses the id of a holder, or what stands in its place, that no server should be sent.
pub(crate) fn check_id(id: &str) -> Result<()> {
    refuse(id, too_long(id))
}

fn too_long(name: &str) -> Option<&'static str> {
    (name.len() > MOST_NAME_BYTES).then_some("it is longer than 65536 bytes")
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
