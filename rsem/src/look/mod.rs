//! The keys in Redis under a name. This module only reads: it changes nothing and wakes no waiter.
//!
//! | File | What it holds |
//! |---|---|
//! | `mod.rs` | an object as it is found, and how it is looked at |
//! | `grants.rs` | the entries of what has been granted at a semaphore |
//! | `names.rs` | the keys beside it, and its channels |
//! | `read.rs` | what is made of a server's answers |
//! | `show.rs` | `rsem show` |
//! | `watch.rs`, `screen.rs` | `rsem watch`, and its picture |

pub(crate) mod grants;
pub(crate) mod names;
pub(crate) mod read;
mod screen;
pub(crate) mod show;
pub(crate) mod watch;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use grants::Entry;
use read::{List, Pairs, Read};
use redisson_semaphore::{Client, Error, Result};

/// How many holders are read; the others are counted.
const HOLDERS: usize = 100;
/// How many entries of guards are added up.
const ENTRIES: usize = 10_000;
/// How much of a string is read: numbers and owners are shorter.
const TEXT: usize = 64;

/// An object as it was found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Object {
    /// As it stands in Redis.
    pub(crate) key: String,
    pub(crate) kind: Kind,
    /// `None` for ever.
    pub(crate) ttl: Option<Duration>,
    /// Connections that listen for permits or the lock: a client has one, however many callers of it wait. Not known
    /// where the server does not let this user ask.
    pub(crate) listeners: Option<u64>,
}

/// The kind of an object. A counter may be the semaphore's, a latch's, or anybody's: nothing in Redis tells these apart.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Missing,
    /// `RSemaphore`, or with `leases` an `RPermitExpirableSemaphore`.
    Semaphore {
        available: i64,
        leases: Option<u64>,
        /// Clients, each with its name and how many permits its guards hold.
        held: Vec<(String, String, u64)>,
        /// Callers in the queue, 64 of each client at the most.
        queued: u64,
    },
    /// `RLock`, with `token` an `RFencedLock`, with `queued` an `RFairLock`.
    Lock {
        /// Owners, each with how often it holds the lock.
        holders: Vec<(String, String)>,
        token: Option<u64>,
        queued: Option<u64>,
    },
    /// `RReadWriteLock`.
    ReadWriteLock {
        mode: String,
        count: u64,
        /// Some of the owners.
        holders: Vec<(String, String)>,
    },
    /// The classic recipes' zset (with the time of each holder) or set (without).
    Holders {
        count: u64,
        holders: Vec<(String, Option<f64>)>,
    },
    /// A string that is not a number: a string lock's owner, perhaps.
    Text(String),
    Other(String),
}

impl Kind {
    pub(crate) fn name(&self) -> &str {
        match self {
            Kind::Missing => "missing",
            Kind::Semaphore { leases: None, .. } => "semaphore",
            Kind::Semaphore { .. } => "permit-expirable semaphore",
            Kind::Lock {
                queued: Some(_), ..
            } => "fair lock",
            Kind::Lock { token: Some(_), .. } => "fenced lock",
            Kind::Lock { .. } => "lock",
            Kind::ReadWriteLock { .. } => "read-write lock",
            Kind::Holders { .. } => "semaphore with ids",
            Kind::Text(_) => "string",
            Kind::Other(kind) => kind,
        }
    }

    /// The kind of a hash.
    fn of_hash(
        mut holders: Vec<(String, String)>,
        size: u64,
        mode: Option<String>,
        token: Option<u64>,
        queued: Option<u64>,
    ) -> Self {
        holders.retain(|(field, _)| field != "mode");
        holders.truncate(HOLDERS);
        if let Some(mode) = mode {
            return Kind::ReadWriteLock {
                mode,
                count: size.saturating_sub(1),
                holders,
            };
        }
        // `<uuid>:<number>`, and how often.
        let owner =
            |(field, count): &(String, String)| field.contains(':') && count.parse::<u64>().is_ok();
        if !holders.iter().all(owner) {
            return Kind::Other("hash".to_owned());
        }
        Kind::Lock {
            holders,
            token,
            queued,
        }
    }
}

impl Object {
    /// The number that changes, and its name.
    pub(crate) fn level(&self) -> Option<(&'static str, i64)> {
        let held = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        match &self.kind {
            Kind::Semaphore { available, .. } => Some(("available", *available)),
            Kind::Lock { holders, .. } => Some(("held", held(holders.len() as u64))),
            Kind::ReadWriteLock { count, .. } | Kind::Holders { count, .. } => {
                Some(("held", held(*count)))
            }
            Kind::Missing | Kind::Text(_) | Kind::Other(_) => None,
        }
    }
}

/// A key beside an object.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) key: String,
    /// Not known where the server does not let this user ask.
    pub(crate) bytes: Option<u64>,
}

/// Looks at Redis.
#[derive(Clone)]
pub(crate) struct Looker {
    client: Client,
    /// The only master of a cluster that is asked. Without it, the master that has the key.
    master: Option<String>,
}

impl Looker {
    pub(crate) fn new(client: Client) -> Self {
        Looker {
            client,
            master: None,
        }
    }

    /// One looker for each master of a cluster, for commands that are not about one key. A single server has one looker.
    pub(crate) fn each(&self) -> Vec<Looker> {
        let masters = self.client.masters().into_iter();
        let lookers: Vec<Looker> = masters
            .map(|master| Looker {
                client: self.client.clone(),
                master: Some(master),
            })
            .collect();
        match lookers.is_empty() {
            true => vec![self.clone()],
            false => lookers,
        }
    }

    /// The master of a cluster that this looker is limited to.
    pub(crate) fn master(&self) -> Option<&str> {
        self.master.as_deref()
    }

    /// Whether waiters listen to sharded messages.
    pub(crate) fn has_sharded_messages(&self) -> bool {
        self.client.has_sharded_messages()
    }

    /// Sends one command. Commands that are awaited together travel together. In a cluster a command goes where its key is.
    pub(crate) async fn ask<'w, T: Read>(&self, words: impl AsRef<[&'w str]>) -> Result<T> {
        let words = words.as_ref();
        let answer = self.client.ask(self.master.as_deref(), words).await?;
        T::read(answer).ok_or_else(|| Error::server(words[0], "it is not answered as Redis does"))
    }

    /// The object that stands under `key`.
    pub(crate) async fn object(&self, key: &str) -> Result<Object> {
        let (found, ttl, listeners) = tokio::join!(
            self.ask::<String>(["TYPE", key]),
            self.ask::<i64>(["PTTL", key]),
            self.listeners(key),
        );
        let kind = match found?.as_str() {
            "none" => Kind::Missing,
            "string" => self.string(key).await?,
            "hash" => self.hash(key).await?,
            "zset" => self.zset(key).await?,
            "set" => self.set(key).await?,
            other => Kind::Other(other.to_owned()),
        };
        Ok(Object {
            key: key.to_owned(),
            kind,
            ttl: u64::try_from(ttl?).ok().map(Duration::from_millis),
            listeners: listeners.ok(),
        })
    }

    /// The lock under `key`. A user without further permissions reads it with a lock's commands alone.
    pub(crate) async fn lock(&self, key: &str) -> Result<Object> {
        match self.object(key).await {
            Err(Error::PermissionDenied { .. }) => {}
            found => return found,
        }
        let (fields, ttl) = tokio::join!(
            self.ask::<Pairs<String, String>>(["HGETALL", key]),
            self.ask::<i64>(["PTTL", key]),
        );
        let kind = match fields?.0 {
            fields if fields.is_empty() => Kind::Missing,
            fields => {
                let mode = fields.iter().find(|(field, _)| field == "mode");
                let (size, mode) = (fields.len() as u64, mode.map(|(_, mode)| mode.clone()));
                Kind::of_hash(fields, size, mode, None, None)
            }
        };
        Ok(Object {
            key: key.to_owned(),
            kind,
            ttl: u64::try_from(ttl?).ok().map(Duration::from_millis),
            listeners: None,
        })
    }

    /// Whether callers wait for this lock as a fair lock.
    pub(crate) async fn is_fair(&self, key: &str) -> Result<bool> {
        let there: u64 = self.ask(["EXISTS", &names::fair_queue(key)]).await?;
        Ok(there > 0)
    }

    /// Several objects, read at about the same time.
    pub(crate) async fn objects(&self, keys: &[String]) -> Result<Vec<Object>> {
        try_join_all(keys.iter().map(|key| self.object(key))).await
    }

    async fn listeners(&self, key: &str) -> Result<u64> {
        let (semaphore, lock) = (names::semaphore_channel(key), names::lock_channel(key));
        let sides = names::read_write_channel(key);
        let counting = match self.has_sharded_messages() {
            true => "SHARDNUMSUB",
            false => "NUMSUB",
        };
        // Each master counts the subscribers that are connected to it.
        let asked = self.each().into_iter().map(async |looker| {
            let counts: HashMap<String, u64> =
                (looker.ask(["PUBSUB", counting, &semaphore, &lock, &sides])).await?;
            Ok(counts.values().sum::<u64>())
        });
        Ok(try_join_all(asked).await?.into_iter().sum())
    }

    async fn string(&self, key: &str) -> Result<Kind> {
        let end = (TEXT - 1).to_string();
        let leases = names::permit_leases(key);
        let queue = names::queue(key);
        let (text, leases, held, queued) = tokio::join!(
            self.ask::<Vec<u8>>(["GETRANGE", key, "0", &end]),
            self.ask::<u64>(["ZCARD", &leases]),
            self.permits_held(key),
            self.ask::<u64>(["ZCARD", &queue]),
        );
        let text = String::from_utf8_lossy(&text?).into_owned();
        Ok(match text.parse() {
            Ok(available) => Kind::Semaphore {
                available,
                leases: leases.ok().filter(|leases| *leases > 0),
                held: held.unwrap_or_default(),
                queued: queued.unwrap_or(0),
            },
            Err(_) => Kind::Text(text),
        })
    }

    /// The permits that the guards of each client hold.
    async fn permits_held(&self, key: &str) -> Result<Vec<(String, String, u64)>> {
        let (grants, end) = (names::grants(key), (ENTRIES - 1).to_string());
        let entries: List<String> = self.ask(["ZRANGE", &grants, "0", &end]).await?;
        let mut clients: BTreeMap<String, (String, u64)> = BTreeMap::new();
        for entry in entries.0.iter().filter_map(|entry| Entry::read(entry)) {
            if entry.of_guard {
                let client = clients.entry(entry.client).or_default();
                *client = (entry.name, client.1 + entry.permits);
            }
        }
        let held = clients.into_iter().take(HOLDERS);
        Ok(held
            .map(|(client, (name, permits))| (client, name, permits))
            .collect())
    }

    async fn hash(&self, key: &str) -> Result<Kind> {
        let (token, queue) = (names::fencing_token(key), names::fair_queue(key));
        let count = HOLDERS.to_string();
        let (fields, size, mode, token, queued) = tokio::join!(
            self.ask::<(String, Pairs<String, String>)>(["HSCAN", key, "0", "COUNT", &count]),
            self.ask::<u64>(["HLEN", key]),
            self.ask::<Option<String>>(["HGET", key, "mode"]),
            self.ask::<Option<u64>>(["GET", &token]),
            self.ask::<u64>(["LLEN", &queue]),
        );
        let queued = queued.ok().filter(|queued| *queued > 0);
        let token = token.ok().flatten();
        Ok(Kind::of_hash(fields?.1.0, size?, mode?, token, queued))
    }

    async fn zset(&self, key: &str) -> Result<Kind> {
        let end = (HOLDERS - 1).to_string();
        let (count, holders) = tokio::join!(
            self.ask::<u64>(["ZCARD", key]),
            self.ask::<Pairs<String, f64>>(["ZRANGE", key, "0", &end, "WITHSCORES"]),
        );
        let holders = holders?.0.into_iter();
        Ok(Kind::Holders {
            count: count?,
            holders: holders.map(|(id, score)| (id, Some(score))).collect(),
        })
    }

    async fn set(&self, key: &str) -> Result<Kind> {
        let most = HOLDERS.to_string();
        let (count, holders) = tokio::join!(
            self.ask::<u64>(["SCARD", key]),
            self.ask::<List<String>>(["SRANDMEMBER", key, &most]),
        );
        let mut holders = holders?.0;
        holders.sort();
        Ok(Kind::Holders {
            count: count?,
            holders: holders.into_iter().map(|id| (id, None)).collect(),
        })
    }

    /// The keys beside it that have one name each.
    pub(crate) async fn records(&self, key: &str) -> Vec<Record> {
        self.sizes(names::single_records(key)).await
    }

    /// The keys among these that exist, with their sizes.
    pub(crate) async fn sizes(&self, keys: Vec<String>) -> Vec<Record> {
        let sizes = keys.into_iter().map(async |key| {
            match self.ask::<Option<u64>>(["MEMORY", "USAGE", &key]).await {
                Ok(bytes) => bytes.map(|bytes| (key, Some(bytes))),
                Err(_) => {
                    let there = self.ask(["EXISTS", &key]).await.unwrap_or(false);
                    there.then_some((key, None))
                }
            }
        });
        let found = join_all(sizes).await.into_iter().flatten();
        found.map(|(key, bytes)| Record { key, bytes }).collect()
    }

    /// Goes through the names of all keys, up to `most` of them (of each master of a cluster), and keeps those that `take` accepts.
    /// Also returns whether these were all keys.
    pub(crate) async fn scan(
        &self,
        pattern: &str,
        most: u64,
        mut take: impl FnMut(&str) -> bool,
    ) -> Result<(Vec<String>, bool)> {
        const STEP: u64 = 1_000;
        let step = STEP.to_string();
        let (mut found, mut all) = (Vec::new(), true);
        for looker in self.each() {
            let (mut cursor, mut looked) = ("0".to_owned(), 0);
            loop {
                let words = ["SCAN", &cursor, "MATCH", pattern, "COUNT", &step];
                let (next, keys): (String, List<Vec<u8>>) = looker.ask(words).await?;
                let keys = keys
                    .0
                    .into_iter()
                    .filter_map(|key| String::from_utf8(key).ok());
                found.extend(keys.filter(|key| take(key)));
                cursor = next;
                looked += STEP;
                if cursor == "0" || looked >= most {
                    break;
                }
            }
            all &= cursor == "0";
        }
        found.sort();
        found.dedup();
        Ok((found, all))
    }
}
