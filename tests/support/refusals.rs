//! Calls that are refused, and the texts of their errors.

use std::time::Duration;

use super::clients::LIMIT;
use redisson_semaphore::{Effect, Error, RSemaphore};

/// Every operation on the counter, with its error if it fails. Operations that may hold up others come last.
pub async fn all_operations(semaphore: &RSemaphore) -> Vec<(&'static str, Option<Error>)> {
    let short = Duration::from_millis(200);
    vec![
        ("acquire", semaphore.acquire(1).await.err()),
        ("try_acquire", semaphore.try_acquire(1).await.err()),
        (
            "try_acquire_for",
            semaphore.try_acquire_for(1, short).await.err(),
        ),
        ("permit", semaphore.permit(1).await.err()),
        ("add_permits", semaphore.add_permits(1).await.err()),
        (
            "add_permits, negative",
            semaphore.add_permits(-1).await.err(),
        ),
        ("drain_permits", semaphore.drain_permits().await.err()),
        (
            "available_permits",
            semaphore.available_permits().await.err(),
        ),
        ("try_set_permits", semaphore.try_set_permits(1).await.err()),
        (
            "try_set_permits_for",
            semaphore.try_set_permits_for(1, LIMIT).await.err(),
        ),
        ("release", semaphore.release(1).await.err()),
        (
            "release_if_exists",
            semaphore.release_if_exists(1).await.err(),
        ),
    ]
}

/// Asserts that the error names the object and says that nothing took effect.
pub fn assert_clear(error: &Error, name: &str) {
    let text = error.to_string();
    assert!(text.contains(&format!("{name:?}")), "no name: {text}");
    assert!(text.contains("nothing"), "no effect told: {text}");
    assert_eq!(error.effect(), Effect::NotApplied, "{text}");
}
