//! The server's description of itself.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redisson_semaphore::{Error, Result};

use super::Finding;
use crate::look::Looker;
use crate::span;

/// The oldest version that this crate is tested with.
const TESTED: (u32, u32) = (6, 2);
const PINGS: usize = 11;
/// A longer round trip than most clients have: clients that are nearer are often served first.
const FAR: Duration = Duration::from_millis(5);
/// The classic recipes of other languages put their own clock's times into Redis.
const OFF: Duration = Duration::from_secs(1);

/// `INFO`, and the settings that this user may see.
struct Facts {
    info: HashMap<String, String>,
    settings: HashMap<String, String>,
}

impl Facts {
    fn text(&self, name: &str) -> &str {
        self.info.get(name).map_or("", String::as_str)
    }

    fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// `None` if the server does not tell.
    fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }
}

pub(super) async fn examine(looker: &Looker) -> Vec<Finding> {
    let info: Result<String> = looker.ask(["INFO"]).await;
    let mut findings = Vec::new();
    match info {
        Ok(info) => {
            let info = info.lines().filter_map(|line| line.split_once(':'));
            let owned = |(name, value): (&str, &str)| (name.to_owned(), value.trim().to_owned());
            let mut facts = Facts {
                info: info.map(owned).collect(),
                settings: HashMap::new(),
            };
            for name in ["appendfsync", "min-replicas-to-write", "save"] {
                let setting: Result<HashMap<String, String>> =
                    looker.ask(["CONFIG", "GET", name]).await;
                // Few users may ask; the checks do without.
                facts.settings.extend(setting.unwrap_or_default());
            }
            findings.extend([
                version(&facts),
                role(looker, &facts),
                eviction(&facts),
                persistence(&facts),
                replicas(&facts),
                clients(&facts),
            ]);
        }
        Err(error) => findings.push(unknown("server", &error)),
    }
    for (about, found) in [
        ("distance", distance(looker).await),
        ("clock", clock(looker).await),
    ] {
        findings.push(found.unwrap_or_else(|error| unknown(about, &error)));
    }
    findings
}

fn unknown(about: &'static str, error: &Error) -> Finding {
    let advice = "run this as a user with +ping +time +info +config|get";
    Finding::note(about, format!("not known: {error}"), advice)
}

fn version(facts: &Facts) -> Finding {
    let version = facts.text("redis_version");
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let name = match facts.text("server_name") {
        "" => "redis",
        name => name,
    };
    let found = format!("{name} {version}");
    if (major, minor) < TESTED {
        let advice = format!(
            "{}.{} is the oldest that is tested: update",
            TESTED.0, TESTED.1
        );
        return Finding::note("version", found, advice);
    }
    Finding::fine("version", found)
}

fn role(looker: &Looker, facts: &Facts) -> Finding {
    let (of_cluster, reached_so) = (
        facts.text("redis_mode") == "cluster",
        looker.master().is_some(),
    );
    if of_cluster && !reached_so {
        return Finding::wrong(
            "role",
            "a node of a cluster, which is taken for a server of its own",
            "its URL is redis+cluster://: what other nodes have is not found otherwise",
        );
    }
    match facts.text("role") {
        "master" if of_cluster => Finding::fine("role", "a primary of a cluster"),
        "master" => Finding::fine("role", "primary"),
        role => Finding::wrong(
            "role",
            format!(
                "a replica ({role}) of {}:{}",
                facts.text("master_host"),
                facts.text("master_port")
            ),
            "connect to the primary: a replica refuses writes",
        ),
    }
}

fn eviction(facts: &Facts) -> Finding {
    const ABOUT: &str = "eviction";
    let policy = facts.text("maxmemory_policy");
    let (used, most) = (facts.number("used_memory"), facts.number("maxmemory"));
    if policy != "noeviction" {
        let found = format!(
            "maxmemory-policy is {policy}: where memory ends, permits, locks and records vanish, and the permits that guards hold do not come back"
        );
        let advice =
            "CONFIG SET maxmemory-policy noeviction, and in redis.conf; or a server of its own";
        return if most == 0 {
            Finding::note(ABOUT, format!("{found}; there is no limit now"), advice)
        } else {
            Finding::wrong(ABOUT, found, advice)
        };
    }
    if most > 0 && used > most / 10 * 9 {
        let found = format!("{} of {} bytes are used", used, most);
        return Finding::wrong(
            ABOUT,
            found,
            "raise maxmemory: soon nothing can be acquired or released",
        );
    }
    Finding::fine(ABOUT, "noeviction")
}

fn persistence(facts: &Facts) -> Finding {
    const ABOUT: &str = "persistence";
    if facts.text("aof_last_write_status") == "err" || facts.text("rdb_last_bgsave_status") == "err"
    {
        let advice = "see the server's log, and whether its disk is full: it refuses writes while that lasts";
        return Finding::wrong(ABOUT, "the last writing to disk failed", advice);
    }
    if facts.number("aof_enabled") == 1 {
        return match facts.setting("appendfsync") {
            Some("always") => Finding::fine(ABOUT, "each write is on disk before it is answered"),
            Some(how) => Finding::note(
                ABOUT,
                format!(
                    "append-only file, appendfsync {how}: a crash of the machine takes back the last second or more"
                ),
                "appendfsync always where permits must not be lost or doubled by that",
            ),
            None => Finding::fine(ABOUT, "append-only file"),
        };
    }
    let found = match facts.setting("save") {
        Some("") => "none: a restart forgets all permits and locks".to_owned(),
        _ => format!(
            "snapshots only: a crash takes back what was done since the last one ({} changes now)",
            facts.number("rdb_changes_since_last_save")
        ),
    };
    Finding::note(
        ABOUT,
        found,
        "appendonly yes, if semaphores must outlive the server's process",
    )
}

fn replicas(facts: &Facts) -> Finding {
    const ABOUT: &str = "replicas";
    let connected = facts.number("connected_slaves");
    match (connected, facts.setting("min-replicas-to-write")) {
        (0, _) => Finding::fine(ABOUT, "none: while the server is away, everybody waits"),
        (count, Some("0")) => Finding::note(
            ABOUT,
            format!("{count}; min-replicas-to-write is 0"),
            "a failover may take back the last writes; min-replicas-to-write 1 keeps that short",
        ),
        (count, _) => Finding::fine(ABOUT, count.to_string()),
    }
}

fn clients(facts: &Facts) -> Finding {
    let (now, most) = (
        facts.number("connected_clients"),
        facts.number("maxclients"),
    );
    let found = format!("{now} connections of {most} at the most");
    if most > 0 && now > most / 10 * 8 {
        return Finding::wrong(
            "clients",
            found,
            "raise maxclients: a client of this crate needs two",
        );
    }
    Finding::fine("clients", found)
}

async fn distance(looker: &Looker) -> Result<Finding> {
    let mut times = Vec::new();
    for _ in 0..PINGS {
        let before = Instant::now();
        let _: String = looker.ask(["PING"]).await?;
        times.push(before.elapsed());
    }
    times.sort();
    let median = times[PINGS / 2];
    let found = format!(
        "a round trip takes {:.2} ms",
        median.as_secs_f64() * 1_000.0
    );
    Ok(if median > FAR {
        Finding::note(
            "distance",
            found,
            "who is nearer is often served first; run this where the services run",
        )
    } else {
        Finding::fine("distance", found)
    })
}

async fn clock(looker: &Looker) -> Result<Finding> {
    let before = SystemTime::now();
    let (seconds, micros): (u64, u64) = looker.ask(["TIME"]).await?;
    let after = SystemTime::now();
    let server = UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_micros(micros);
    let apart =
        |early: SystemTime, late: SystemTime| late.duration_since(early).unwrap_or_default();
    // It was read between the two.
    let off = apart(server, before).max(apart(after, server));
    Ok(if off > OFF {
        Finding::note(
            "clock",
            format!(
                "the server's and this machine's are {} apart",
                span::show(off)
            ),
            "NTP on both: who writes semaphores with times by hand goes by his own clock. (Semaphores and locks shared with Redisson don't need it.)",
        )
    } else {
        Finding::fine("clock", "the server's is this machine's")
    })
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn versions_that_are_tested_are_fine() {
        for (text, level) in [
            ("6.0.20", Level::Note),
            ("6.2.0", Level::Fine),
            ("7.0.15", Level::Fine),
            ("8.0.1", Level::Fine),
        ] {
            let facts = Facts {
                info: HashMap::from([("redis_version".to_owned(), text.to_owned())]),
                settings: HashMap::new(),
            };
            assert_eq!(version(&facts).level, level, "{text}");
        }
        let readme = include_str!("../../../README.md");
        let oldest = format!("Redis {}.{} to", TESTED.0, TESTED.1);
        assert!(readme.contains(&oldest), "{oldest}");
    }
}
