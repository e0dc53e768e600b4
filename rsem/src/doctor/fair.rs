//! Locks that have waiters as fair locks: these have the same key, and another queue.

use super::Finding;
use crate::look::Looker;

const ABOUT: &str = "fair locks";

/// Looks whether callers wait for one of these locks as a fair lock.
pub(super) async fn examine(looker: &Looker, locks: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in locks {
        match looker.is_fair(name).await {
            Ok(false) => {}
            Ok(true) => findings.push(Finding::wrong(
                ABOUT,
                format!(
                    "callers wait for {name} as a fair lock: those of a plain lock are not woken"
                ),
                "use one kind of lock for a name: getLock and lock, or getFairLock and fair_lock",
            )),
            Err(error) => findings.push(Finding::note(
                ABOUT,
                format!("{name}: not known: {error}"),
                "run this as a user with +exists",
            )),
        }
    }
    findings
}
