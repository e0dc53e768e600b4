//! Permits of clients that are gone, which no script has given back yet.

use std::collections::BTreeSet;

use redisson_semaphore::Result;

use super::Finding;
use crate::look::grants::Entry;
use crate::look::read::List;
use crate::look::{Looker, names};

const ABOUT: &str = "watched";
/// The most semaphores that are looked at, and the most entries of each.
const SEMAPHORES: usize = 1_000;
const ENTRIES: &str = "1000";
/// A semaphore in use gives back sooner, in microseconds.
const LATE: u64 = 5_000_000;

/// Looks at the grants among `keys`. Nothing where there are none.
pub(super) async fn examine(looker: &Looker, keys: &[String]) -> Vec<Finding> {
    let names = keys
        .iter()
        .filter_map(|key| names::semaphore_of_grants(key));
    let names: Vec<&str> = names.take(SEMAPHORES).collect();
    if names.is_empty() {
        return Vec::new();
    }
    match of_all(looker, &names).await {
        Ok(findings) => findings,
        Err(error) => {
            let advice = "run this as a user with +time +zrangebyscore";
            vec![Finding::note(ABOUT, format!("not known: {error}"), advice)]
        }
    }
}

async fn of_all(looker: &Looker, names: &[&str]) -> Result<Vec<Finding>> {
    let (seconds, _): (u64, u64) = looker.ask(["TIME"]).await?;
    let late = (seconds * 1_000_000).saturating_sub(LATE).to_string();
    let mut findings = Vec::new();
    for name in names {
        let grants = names::grants(name);
        let words = [
            "ZRANGEBYSCORE",
            &grants,
            "-inf",
            &late,
            "LIMIT",
            "0",
            ENTRIES,
        ];
        let over: List<String> = looker.ask(words).await?;
        let entries = over.0.iter().filter_map(|entry| Entry::read(entry));
        let entries: Vec<Entry> = entries.collect();
        if entries.is_empty() {
            continue;
        }
        let clients: BTreeSet<&str> = entries.iter().map(|entry| &*entry.client).collect();
        let permits: u64 = entries.iter().map(|entry| entry.permits).sum();
        let found = format!(
            "{name}: {permits} permits of clients that are gone ({}) are not given back",
            clients.len()
        );
        let advice = format!("rsem reclaim {name}; the next call on the semaphore does so, too");
        findings.push(Finding::note(ABOUT, found, advice));
    }
    if findings.is_empty() {
        let found = format!(
            "{} semaphores; the permits of clients that are gone are given back",
            names.len()
        );
        findings.push(Finding::fine(ABOUT, found));
    }
    Ok(findings)
}
