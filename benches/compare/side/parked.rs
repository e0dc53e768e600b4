//! Callers that acquire one permit each, in the order of their numbers, and keep it.

use std::future::poll_fn;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use serde_json::{Value, json};

use super::Semaphore;
use crate::Result;

/// The outcomes of the callers.
pub(crate) struct Parked {
    served: AtomicU64,
    last: AtomicI64,
    failure: OnceLock<String>,
}

impl Parked {
    /// Starts a task for each caller. Each caller makes its request before the next one does; returns when all have made theirs.
    pub(crate) async fn start<S: Semaphore>(semaphore: &S, callers: u64) -> Arc<Parked> {
        let parked = Arc::new(Parked {
            served: AtomicU64::new(0),
            last: AtomicI64::new(-1),
            failure: OnceLock::new(),
        });
        for number in 0..callers {
            let (semaphore, line) = (semaphore.clone(), Arc::clone(&parked));
            let mut caller = Box::pin(async move {
                match semaphore.acquire(1).await {
                    Ok(()) => line.note(number),
                    Err(error) => drop(line.failure.set(error.to_string())),
                }
            });
            // The first poll queues the caller.
            let first = poll_fn(|cx| Poll::Ready(caller.as_mut().poll(cx)));
            if first.await.is_pending() {
                tokio::spawn(caller);
            }
            tokio::task::consume_budget().await;
        }
        parked
    }

    fn note(&self, number: u64) {
        self.last.fetch_max(number as i64, Ordering::Relaxed);
        self.served.fetch_add(1, Ordering::Release);
    }

    /// As the Java peer's `parked`.
    pub(crate) fn result(&self) -> Result<Value> {
        if let Some(failure) = self.failure.get() {
            return Err(failure.clone().into());
        }
        let served = self.served.load(Ordering::Acquire);
        Ok(json!({ "served": served, "last": self.last.load(Ordering::Relaxed) }))
    }
}
