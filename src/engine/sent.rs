//! About which objects something was sent for callers that may have been carried out, and when: what was not sent about an object has not
//! happened to it, nor what the server has refused.
//!
//! Objects that share a place are taken for one: then something may count as sent that was not, never the reverse.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::request::Request;
use crate::transport::{hash_tag, slot};

const PLACES: usize = 1024;

/// Counts of the requests that a client has sent.
pub(crate) struct Sent {
    /// How many requests.
    count: AtomicU64,
    about_any: Place,
    /// All keys of an object fall into the same slot of a cluster.
    about: Box<[Place]>,
}

/// The numbers of some objects.
#[derive(Default)]
struct Place {
    /// The number of the last request that the server has not refused.
    last: AtomicU64,
    /// How many are under way.
    under_way: AtomicU32,
}

impl Place {
    fn begin(&self) {
        self.under_way.fetch_add(1, Ordering::SeqCst);
    }

    fn end(&self, number: u64, refused: bool) {
        if !refused {
            self.last.fetch_max(number, Ordering::SeqCst);
        }
        self.under_way.fetch_sub(1, Ordering::SeqCst);
    }

    fn since(&self, count: u64) -> bool {
        // In this order: what ends meanwhile is seen in one of them.
        self.under_way.load(Ordering::SeqCst) > 0 || self.last.load(Ordering::SeqCst) > count
    }
}

impl Default for Sent {
    fn default() -> Self {
        Sent {
            count: AtomicU64::new(0),
            about_any: Place::default(),
            about: (0..PLACES).map(|_| Place::default()).collect(),
        }
    }
}

impl Sent {
    /// How many requests have been sent so far.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// `request` is about to be sent, for callers.
    pub(crate) fn begin(&self, request: &Request) -> UnderWay<'_> {
        // In this order: a task that counts it in has seen it under way.
        let mut under_way = self.departs(request.keys());
        under_way.number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        under_way.refused = false;
        under_way
    }

    /// Calls on the objects with these keys are about to be sent. Until that has begun, or is given up, their callers' errors must
    /// not be that nothing was: so this comes before the last look whether they are still there.
    pub(crate) fn departs(&self, keys: &[Arc<str>]) -> UnderWay<'_> {
        let mut former = None;
        let tags = keys.iter().map(|key| hash_tag(key));
        let tags = tags.filter(|tag| former.replace(*tag) != Some(*tag));
        let under_way = UnderWay {
            about_any: &self.about_any,
            about: tags.map(|tag| self.place(tag)).collect(),
            number: 0,
            refused: true,
        };
        under_way.places().for_each(Place::begin);
        under_way
    }

    /// Whether something may have been carried out since so many requests had been sent: about the object with this key, or
    /// about any.
    pub(crate) fn since(&self, count: u64, key: Option<&str>) -> bool {
        let place = key.map_or(&self.about_any, |key| self.place(hash_tag(key)));
        place.since(count)
    }

    fn place(&self, tag: &str) -> &Place {
        &self.about[usize::from(slot(tag)) % PLACES]
    }
}

/// A request under way. It may have been carried out when this is dropped, unless the server has refused it.
pub(crate) struct UnderWay<'a> {
    about_any: &'a Place,
    about: Vec<&'a Place>,
    number: u64,
    refused: bool,
}

impl UnderWay<'_> {
    fn places(&self) -> impl Iterator<Item = &Place> {
        std::iter::once(self.about_any).chain(self.about.iter().copied())
    }

    /// The server has refused it, or never got it.
    pub(crate) fn has_done_nothing(mut self) {
        self.refused = true;
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        for place in self.places() {
            place.end(self.number, self.refused);
        }
    }
}
