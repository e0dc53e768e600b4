//! What was said last.

use tokio::time::Instant;

use crate::sync::Mutex;

/// What was said last, and when: errors say by it why a call had no answer.
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
