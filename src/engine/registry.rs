//! A client has one instance for each object in Redis, found by kind and key while it is in use.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use crate::sync::{Mutex, MutexGuard};

/// Something that a client has one of for each object.
pub(crate) trait Shared: Any + Send + Sync {
    /// Ends all waiting and refuses new calls; deferred calls are carried out.
    fn close(self: Arc<Self>);

    /// How many callers wait.
    fn waiting(&self) -> usize {
        0
    }
}

/// The kind of an object, and its key.
type Place = (&'static str, Arc<str>);

#[derive(Default)]
pub(crate) struct Registry {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    by_place: BTreeMap<Place, Weak<dyn Shared>>,
    closed: bool,
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The one of `kind` at `key`. A new one learns whether the client has been shut down already.
    pub(crate) fn find_or_make<T: Shared>(
        &self,
        kind: &'static str,
        key: &Arc<str>,
        make: impl FnOnce(bool) -> Arc<T>,
    ) -> Arc<T> {
        let place = (kind, Arc::clone(key));
        let mut state = self.lock();
        if let Some(known) = state.by_place.get(&place).and_then(Weak::upgrade) {
            let known: Arc<dyn Any + Send + Sync> = known;
            return known.downcast().expect("a kind is of one type");
        }
        let made = make(state.closed);
        let shared: Arc<dyn Shared> = Arc::<T>::clone(&made);
        state.by_place.insert(place, Arc::downgrade(&shared));
        made
    }

    /// Forgets one that is no longer used.
    pub(crate) fn forget(&self, kind: &'static str, key: &Arc<str>) {
        let place = (kind, Arc::clone(key));
        let mut state = self.lock();
        // A successor may be in its place already.
        let gone = |known: &Weak<dyn Shared>| known.strong_count() == 0;
        if state.by_place.get(&place).is_some_and(gone) {
            state.by_place.remove(&place);
        }
    }

    /// How many objects there are.
    pub(super) fn count(&self) -> usize {
        self.lock().by_place.len()
    }

    /// How many callers wait, at all objects.
    pub(crate) fn waiting(&self) -> u64 {
        let all: Vec<_> = {
            let state = self.lock();
            state.by_place.values().filter_map(Weak::upgrade).collect()
        };
        all.iter().map(|shared| shared.waiting() as u64).sum()
    }

    /// Closes all there are, and those that are made from now on.
    pub(crate) fn close(&self) {
        let all: Vec<_> = {
            let mut state = self.lock();
            state.closed = true;
            state.by_place.values().filter_map(Weak::upgrade).collect()
        };
        for shared in all {
            shared.close();
        }
    }
}
