//! The last message of a kind.

use tokio::time::Instant;

use crate::sync::Mutex;

/// The last message, and its time: errors take from it why a call had no answer.
#[derive(Debug)]
pub(crate) struct Latest<T>(Mutex<Option<(Instant, T)>>);

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Latest(Mutex::default())
    }
}

impl<T: Clone> Latest<T> {
    pub(crate) fn note(&self, said: T) {
        *self.0.lock() = Some((Instant::now(), said));
    }

    /// It, if it was said then or later.
    pub(crate) fn since(&self, then: Instant) -> Option<T> {
        let latest = self.0.lock();
        let (_, said) = latest.as_ref().filter(|(at, _)| *at >= then)?;
        Some(said.clone())
    }
}
