//! Clients that are gone, and whose permits of watched semaphores nobody has given back.

use redisson_semaphore::Result;

use super::Finding;
use crate::look::read::List;
use crate::look::{Looker, names};

const ABOUT: &str = "watched";
/// So many semaphores are looked at, at the most, and so many of each one's clients.
const SEMAPHORES: usize = 1_000;
const CLIENTS: &str = "100";
/// Whoever is still there gives back sooner, in milliseconds.
const LATE: u64 = 5_000;

/// Those of `keys` that say until when somebody is believed alive. Nothing where there are none.
pub(super) async fn examine(looker: &Looker, keys: &[String]) -> Vec<Finding> {
    let names = keys.iter().filter_map(|key| names::watched_by_alive(key));
    let names: Vec<&str> = names.take(SEMAPHORES).collect();
    if names.is_empty() {
        return Vec::new();
    }
    match of_all(looker, &names).await {
        Ok(findings) => findings,
        Err(error) => {
            let advice = "run this as a user with +time +zrangebyscore +hmget";
            vec![Finding::note(ABOUT, format!("not known: {error}"), advice)]
        }
    }
}

async fn of_all(looker: &Looker, names: &[&str]) -> Result<Vec<Finding>> {
    let (seconds, _): (u64, u64) = looker.ask(["TIME"]).await?;
    let late = (seconds * 1_000).saturating_sub(LATE).to_string();
    let mut findings = Vec::new();
    for name in names {
        let alive = names::believed_alive(name);
        let gone: List<String> = looker
            .ask([
                "ZRANGEBYSCORE",
                &alive,
                "-inf",
                &late,
                "LIMIT",
                "0",
                CLIENTS,
            ])
            .await?;
        if gone.0.is_empty() {
            continue;
        }
        let held = names::permits_held(name);
        let mut words = vec!["HMGET", &*held];
        words.extend(gone.0.iter().map(String::as_str));
        let texts: List<Option<String>> = looker.ask(words).await?;
        let permits = |text: &String| text.split(' ').next()?.parse::<u64>().ok();
        let permits: u64 = texts.0.iter().flatten().filter_map(permits).sum();
        let found = format!(
            "{name}: {permits} permits of clients that are gone ({}) are not given back",
            gone.0.len()
        );
        let advice = format!("rsem reclaim {name}; a service that watches it does so by itself");
        findings.push(Finding::note(ABOUT, found, advice));
    }
    if findings.is_empty() {
        let found = format!(
            "{} semaphores; whoever is gone was given back for",
            names.len()
        );
        findings.push(Finding::fine(ABOUT, found));
    }
    Ok(findings)
}
