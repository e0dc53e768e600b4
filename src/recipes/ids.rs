//! The ids of one batch, made by the script out of a random number that travels with it, so that a thousand callers are
//! no longer a request than one.

use std::sync::Arc;

use crate::outside;

/// A random UUID but for its last three digits, which count.
#[derive(Debug)]
pub(super) struct Ids {
    prefix: Arc<str>,
}

/// More than three times as many as a batch has questions.
const COUNTING_DIGITS: usize = 3;

impl Ids {
    pub(super) fn new() -> Self {
        let mut buffer = uuid::Uuid::encode_buffer();
        let id = outside::uuid().hyphenated().encode_lower(&mut buffer);
        Ids {
            prefix: id[..id.len() - COUNTING_DIGITS].into(),
        }
    }

    /// What they have in common.
    pub(super) fn prefix(&self) -> Arc<str> {
        Arc::clone(&self.prefix)
    }

    /// As the script makes it.
    pub(super) fn get(&self, index: usize) -> Arc<str> {
        format!("{}{index:03x}", self.prefix).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipes::recipe::MOST_ASKS;

    #[test]
    fn ids_are_uuids_that_count() {
        let ids = Ids::new();
        for index in [0, 1, MOST_ASKS - 1] {
            let id = ids.get(index);
            let uuid = uuid::Uuid::parse_str(&id).expect("a UUID");
            assert_eq!(uuid.get_version_num(), 4);
        }
        assert_ne!(ids.get(0), ids.get(1));
    }
}
