//! Locks for which JVMs wait as fair locks: these have the same key, and another queue.

use redisson_semaphore::Result;

use super::Finding;
use crate::look::{Looker, names};

const ABOUT: &str = "fair locks";

/// Looks whether JVMs wait for one of these locks by `getFairLock`.
pub(super) async fn examine(looker: &Looker, locks: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in locks {
        match is_fair(looker, name).await {
            Ok(false) => {}
            Ok(true) => findings.push(Finding::wrong(
                ABOUT,
                format!("JVMs wait for {name} by getFairLock: neither side wakes the other"),
                "use getLock in Java for a lock that is shared with this crate",
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

async fn is_fair(looker: &Looker, name: &str) -> Result<bool> {
    let queue = names::fair_queue(name);
    let there: u64 = looker.ask(["EXISTS", &queue]).await?;
    Ok(there > 0)
}
