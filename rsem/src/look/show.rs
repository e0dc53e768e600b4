//! `rsem show`: objects as they stand in Redis.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::{Kind, Looker, Object, Record, names};
use crate::connect::Connect;
use crate::exit::{self, Failure};
use crate::say::say;
use crate::span;

/// Show what stands under the names: kind, counter or holders, who listens, time to live, keys beside it
///
/// Changes nothing and wakes nobody. The status is 1 if one of them is missing.
///
/// "Queued" counts the callers of this crate's clients that wait at a semaphore, 64 of each client at the most. "Listening" counts
/// connections: each JVM that waits has one, and one client of this crate for all of them. Permits that guards hold are shown with
/// their clients; permits taken without a guard, or by a JVM, have no holder in Redis. Locks and semaphores with ids have their
/// holders' names.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Names as the services have them (see --prefix)
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,

    /// One JSON array
    #[arg(long)]
    json: bool,

    /// Also look for what each client keeps beside it. Goes through the names of all keys of the database
    #[arg(long)]
    records: bool,
}

impl Show {
    pub(crate) async fn carry_out(self, connect: &Connect) -> Result<u8, Failure> {
        let looker = Looker::new(connect.client().await?);
        let keys: Vec<String> = self.names.iter().map(|name| connect.mapped(name)).collect();
        let of_clients = if self.records {
            looker.scan(names::ALL_RECORDS, u64::MAX, |_| true).await?.0
        } else {
            Vec::new()
        };
        let mut seen = Vec::new();
        for (name, key) in self.names.iter().zip(&keys) {
            let object = looker.object(key).await?;
            let mut records = looker.records(key).await;
            let beginnings = names::client_record_beginnings(key);
            let own = |found: &&String| beginnings.iter().any(|begin| found.starts_with(begin));
            let own = of_clients.iter().filter(own).cloned().collect();
            records.extend(looker.sizes(own).await);
            seen.push((name, object, records));
        }
        if self.json {
            let all: Vec<Value> = seen
                .iter()
                .map(|(name, object, records)| as_json(name, object, records))
                .collect();
            say(format_args!("{:#}", Value::Array(all)));
        } else {
            for (name, object, records) in &seen {
                print(name, object, records);
            }
        }
        let missing = seen
            .iter()
            .any(|(_, object, _)| object.kind == Kind::Missing);
        Ok(if missing { exit::NO } else { 0 })
    }
}

fn as_json(name: &str, object: &Object, records: &[Record]) -> Value {
    let mut shown = json!({
        "name": name,
        "key": object.key,
        "kind": object.kind.name(),
        "ttl_ms": object.ttl.map(|ttl| ttl.as_millis()),
        "listening": object.listeners,
        "records": records.iter().map(|record| json!({"key": record.key, "bytes": record.bytes})).collect::<Vec<_>>(),
    });
    let more = match &object.kind {
        Kind::Missing | Kind::Other(_) => json!({}),
        Kind::Semaphore {
            available,
            leases,
            held,
            queued,
        } => {
            let one = |(client, name, permits): &(String, String, u64)| json!({"client": client, "name": name, "permits": permits});
            let held: Vec<Value> = held.iter().map(one).collect();
            json!({"available": available, "leases": leases, "held_by": held, "queued": queued})
        }
        Kind::Lock {
            holders,
            token,
            queued,
        } => json!({"holders": owners(holders), "token": token, "queued": queued}),
        Kind::ReadWriteLock {
            mode,
            count,
            holders,
        } => json!({"mode": mode, "held": count, "holders": owners(holders)}),
        Kind::Holders { count, holders } => json!({
            "held": count,
            "holders": holders.iter().map(|(id, time)| json!({"id": id, "time": time})).collect::<Vec<_>>(),
        }),
        Kind::Text(text) => json!({"text": text}),
    };
    if let (Value::Object(shown), Value::Object(more)) = (&mut shown, more) {
        shown.extend(more);
    }
    shown
}

fn owners(holders: &[(String, String)]) -> Value {
    let one = |(owner, count): &(String, String)| json!({"owner": owner, "count": count.parse::<u64>().ok()});
    holders.iter().map(one).collect()
}

fn print(name: &str, object: &Object, records: &[Record]) {
    say(format_args!("{name}: {}", object.kind.name()));
    let line = |what: &str, value: String| {
        say(format_args!("  {what:<14}{value}"));
    };
    match &object.kind {
        Kind::Missing | Kind::Other(_) => {}
        Kind::Semaphore {
            available,
            leases,
            held,
            queued,
        } => {
            line("available", available.to_string());
            if let Some(leases) = leases {
                line("held", leases.to_string());
            }
            for (client, name, permits) in held {
                let name = match plain(name) {
                    name if name.is_empty() => name,
                    name => format!(" {name}"),
                };
                line("held by", format!("{}{name}: {permits}", plain(client)));
            }
            if *queued > 0 {
                line("queued", queued.to_string());
            }
        }
        Kind::Lock {
            holders,
            token,
            queued,
        } => {
            for (owner, count) in holders {
                line("held by", held(owner, count));
            }
            if let Some(token) = token {
                line("last token", token.to_string());
            }
            if let Some(queued) = queued {
                line("queued", queued.to_string());
            }
        }
        Kind::ReadWriteLock {
            mode,
            count,
            holders,
        } => {
            line("mode", mode.clone());
            line("held", count.to_string());
            for (owner, count) in holders {
                line("held by", held(owner, count));
            }
        }
        Kind::Holders { count, holders } => {
            line("held", count.to_string());
            for (id, time) in holders {
                let time = time.map_or_else(String::new, |time| format!(", time {time}"));
                line("held by", format!("{}{time}", plain(id)));
            }
        }
        Kind::Text(text) => line("holds", plain(text)),
    }
    if object.kind != Kind::Missing {
        let ttl = object.ttl.map_or_else(|| "none".to_owned(), span::show);
        line("time to live", ttl);
    }
    match object.listeners {
        Some(count) => line("listening", count.to_string()),
        None => line("listening", "not known: PUBSUB is forbidden".to_owned()),
    }
    for record in records {
        let bytes = record.bytes.map_or_else(
            || "size not known".to_owned(),
            |bytes| format!("{bytes} bytes"),
        );
        line("beside it", format!("{} ({bytes})", plain(&record.key)));
    }
}

pub(crate) fn held(owner: &str, count: &str) -> String {
    match count {
        "1" => plain(owner),
        count => format!("{} ({} times)", plain(owner), plain(count)),
    }
}

/// The terminal must not act on text that others have written.
pub(crate) fn plain(text: &str) -> String {
    let escape = |c: char| {
        if c.is_control() {
            c.escape_default().to_string()
        } else {
            c.to_string()
        }
    };
    text.chars().map(escape).collect()
}

/// For a question, in a few words.
pub(crate) fn in_words(object: &Object) -> String {
    let ttl = |ttl: Duration| format!(", for another {}", span::show(ttl));
    let ttl = object.ttl.map_or_else(String::new, ttl);
    match &object.kind {
        Kind::Semaphore {
            available,
            leases: Some(leases),
            ..
        } => format!("has {available} available and {leases} held by ids{ttl}"),
        Kind::Semaphore { available, .. } => format!("has {available} available{ttl}"),
        Kind::Lock { holders, .. } => {
            let owners: Vec<String> = holders
                .iter()
                .map(|(owner, count)| held(owner, count))
                .collect();
            format!("is held by {}{ttl}", owners.join(", "))
        }
        other => format!("is: {}", other.name()),
    }
}
