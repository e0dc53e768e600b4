//! About which objects something has been sent, and when: what was not sent about an object has not happened to it.
//!
//! Objects that share a place are taken for one: then something may count as sent that was not, never the reverse.

use std::sync::atomic::{AtomicU64, Ordering};

use super::request::Request;
use crate::transport::{hash_tag, slot};

const PLACES: usize = 1024;

/// What a client has sent.
pub(crate) struct Sent {
    /// How many requests.
    count: AtomicU64,
    /// The number of the last one about each object. All keys of one fall into the same slot of a cluster.
    last: Box<[AtomicU64]>,
}

impl Default for Sent {
    fn default() -> Self {
        Sent {
            count: AtomicU64::new(0),
            last: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl Sent {
    /// How many requests have been sent so far.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// `request` is about to be sent.
    pub(crate) fn note(&self, request: &Request) {
        let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        let mut former = None;
        for key in request.keys() {
            let tag = hash_tag(key);
            if former.replace(tag) != Some(tag) {
                self.last(tag).fetch_max(number, Ordering::SeqCst);
            }
        }
    }

    /// Whether anything has been sent about the object with this key since so many requests had been sent.
    pub(crate) fn since(&self, count: u64, key: &str) -> bool {
        self.last(hash_tag(key)).load(Ordering::SeqCst) > count
    }

    fn last(&self, tag: &str) -> &AtomicU64 {
        &self.last[usize::from(slot(tag)) % PLACES]
    }
}
