//! The commands that the server's ACL grants the user: each is asked about, none is carried out.

use std::collections::BTreeSet;

use super::Finding;
use crate::look::{Looker, names};

const ABOUT: &str = "grants";
const SHA: &str = "0000000000000000000000000000000000000000";
/// Stands for a name if none was given: then only the commands are checked.
const ANY: &str = "rsem-doctor";

/// The objects that the user is to use, by names as they stand in Redis.
pub(super) struct Uses {
    pub(super) semaphores: Vec<String>,
    pub(super) locks: Vec<String>,
    pub(super) read_write_locks: Vec<String>,
}

pub(super) async fn examine(looker: &Looker, user: Option<&str>, uses: &Uses) -> Vec<Finding> {
    let user = match user {
        Some(user) => user.to_owned(),
        None => match looker.ask(["ACL", "WHOAMI"]).await {
            Ok(user) => user,
            Err(error) => return vec![unknown(&error.to_string())],
        },
    };
    let mut findings = Vec::new();
    for (kind, given) in [
        (Kind::Semaphore, &uses.semaphores),
        (Kind::Lock, &uses.locks),
        (Kind::ReadWriteLock, &uses.read_write_locks),
    ] {
        // Its commands are those of locks and one more, which few use.
        if given.is_empty() && matches!(kind, Kind::ReadWriteLock) {
            continue;
        }
        let any = [ANY.to_owned()];
        let names: &[String] = if given.is_empty() { &any } else { given };
        for name in names {
            let mut missing = Missing::default();
            let mut commands = kind.commands(name);
            if looker.master().is_some() {
                commands.extend(in_a_cluster(looker, &kind.channel(name)));
            }
            for command in commands {
                let words = ["ACL", "DRYRUN", &user].into_iter();
                let words: Vec<&str> = words.chain(command.iter().map(String::as_str)).collect();
                match looker.ask::<String>(&words).await {
                    Ok(answer) => missing.take(&command, &answer, !given.is_empty()),
                    Err(error) => return vec![unknown(&error.to_string())],
                }
            }
            let what = match given.is_empty() {
                true => format!("{user:?} and the commands of {}s", kind.word()),
                false => format!("{user:?} and {} {name:?}", kind.word()),
            };
            findings.push(missing.finding(&user, what, &kind, name));
        }
    }
    findings
}

fn unknown(error: &str) -> Finding {
    let advice = "run this as an administrator (+acl), with --acl-user for the services' user";
    Finding::note(ABOUT, format!("not known: {error}"), advice)
}

enum Kind {
    Semaphore,
    Lock,
    ReadWriteLock,
}

impl Kind {
    fn word(&self) -> &'static str {
        match self {
            Kind::Semaphore => "semaphore",
            Kind::Lock => "lock",
            Kind::ReadWriteLock => "read-write lock",
        }
    }

    /// The channel on which its callers are woken.
    fn channel(&self, name: &str) -> String {
        match self {
            Kind::Semaphore => names::semaphore_channel(name),
            Kind::Lock => names::lock_channel(name),
            Kind::ReadWriteLock => names::read_write_channel(name),
        }
    }

    /// Each command that is used, with the keys and channels that it is used on.
    fn commands(&self, name: &str) -> Vec<Vec<String>> {
        match self {
            Kind::Semaphore => {
                let record = names::semaphore_record(name, ANY);
                let mut all = around(name, &self.channel(name));
                for key in [name, &record] {
                    all.extend([
                        words(&["GET", key]),
                        words(&["SET", key, "1"]),
                        words(&["DEL", key]),
                    ]);
                }
                all.push(words(&["INCRBY", name, "1"]));
                all.extend(waiting(name));
                all
            }
            Kind::Lock => {
                let (record, token) = (names::lock_record(name, ANY), names::fencing_token(name));
                let mut all = around(name, &self.channel(name));
                all.extend([
                    words(&["GET", &record]),
                    words(&["SET", &record, "1"]),
                    words(&["GET", &token]),
                    words(&["INCR", &token]),
                    words(&["DEL", name, &record]),
                    words(&["HSET", name, "f", "1"]),
                    words(&["HGET", name, "f"]),
                    words(&["HLEN", name]),
                    words(&["HEXISTS", name, "f"]),
                    words(&["PEXPIRE", name, "1"]),
                    words(&["PTTL", name]),
                ]);
                all.extend(queue(&names::lock_queue(name), &names::lock_notes(name)));
                all
            }
            Kind::ReadWriteLock => {
                let [waiters, notes, record] = names::of_read_write(name, ANY);
                let hold = names::read_hold(name, &format!("{ANY}:1"));
                let mut all = around(name, &self.channel(name));
                for key in [&record, &hold] {
                    all.push(words(&["SET", key, "1"]));
                }
                all.extend([
                    words(&["GET", &record]),
                    words(&["DEL", name, &record, &hold]),
                    words(&["PTTL", &hold]),
                    words(&["HSTRLEN", name, "mode"]),
                    words(&["EXISTS", name]),
                    words(&["HSET", name, "f", "1"]),
                    words(&["HGET", name, "f"]),
                    words(&["HDEL", name, "f"]),
                    words(&["HGETALL", name]),
                    words(&["HLEN", name]),
                    words(&["HEXISTS", name, "f"]),
                    words(&["PEXPIRE", name, "1"]),
                    words(&["PTTL", name]),
                ]);
                all.extend(queue(&waiters, &notes));
                all
            }
        }
    }

    /// The rules that grant all its keys and channels, for one name.
    fn keys_and_channels(&self, name: &str) -> Vec<String> {
        // The object's name as it stands in the names of the keys beside it.
        let inside = names::inside(name);
        match self {
            Kind::Semaphore => vec![
                format!("~{name}"),
                format!("~redisson_sc*:{inside}*"),
                format!("&redisson_sc*:{inside}*"),
            ],
            Kind::Lock => vec![
                format!("~{name}"),
                format!("~redisson_lock_*:{inside}*"),
                format!("&redisson_lock_*:{inside}*"),
            ],
            Kind::ReadWriteLock => vec![
                format!("~{name}"),
                format!("~{inside}:*:rwlock_timeout:*"),
                format!("~redisson_rwlock*:{inside}*"),
                format!("&redisson_rwlock*:{inside}*"),
            ],
        }
    }
}

/// The queue of a semaphore, its grants, and its notes.
fn waiting(name: &str) -> Vec<Vec<String>> {
    let grants = names::grants(name);
    let mut all = queue(&names::queue(name), &names::notes(name));
    all.extend([
        words(&["ZSCORE", &grants, "m"]),
        words(&["ZMSCORE", &grants, "m"]),
        words(&["ZRANGEBYSCORE", &grants, "-inf", "1"]),
    ]);
    all.extend(zset(&grants));
    all
}

/// A queue and its notes.
fn queue(queue: &str, notes: &str) -> Vec<Vec<String>> {
    let own_channel = format!("{queue}:{ANY}");
    let mut all = vec![
        words(&["TIME"]),
        words(&["EXISTS", queue, notes]),
        words(&["PEXPIRE", queue, "1"]),
        words(&["PEXPIRE", notes, "1"]),
        words(&["HGET", notes, "f"]),
        words(&["HMGET", notes, "f"]),
        words(&["HSET", notes, "f", "1"]),
        words(&["HDEL", notes, "f"]),
        words(&["SUBSCRIBE", &own_channel]),
        words(&["PUBLISH", &own_channel, "1"]),
        words(&["PUBSUB", "NUMSUB", &own_channel]),
    ];
    all.extend(zset(queue));
    all
}

fn zset(key: &str) -> [Vec<String>; 5] {
    [
        words(&["ZADD", key, "1", "m"]),
        words(&["ZRANGE", key, "0", "1"]),
        words(&["ZREM", key, "m"]),
        words(&["ZCARD", key]),
        words(&["DEL", key]),
    ]
}

/// The commands that every object needs.
fn around(name: &str, channel: &str) -> Vec<Vec<String>> {
    vec![
        words(&["PING"]),
        words(&["ROLE"]),
        words(&["CLIENT", "SETNAME", ANY]),
        words(&["TYPE", name]),
        words(&["EVAL", "return 1", "0"]),
        words(&["EVALSHA", SHA, "0"]),
        words(&["PUBLISH", channel, "1"]),
        words(&["PUBSUB", "NUMSUB", channel]),
        words(&["SUBSCRIBE", channel]),
        words(&["UNSUBSCRIBE", channel]),
    ]
}

/// The further commands that every object needs in a cluster.
fn in_a_cluster(looker: &Looker, channel: &str) -> Vec<Vec<String>> {
    let mut all = vec![
        words(&["CLUSTER", "SLOTS"]),
        words(&["CLUSTER", "INFO"]),
        words(&["ASKING"]),
    ];
    if looker.has_sharded_messages() {
        all.extend([
            words(&["SPUBLISH", channel, "1"]),
            words(&["PUBSUB", "SHARDNUMSUB", channel]),
            words(&["SSUBSCRIBE", channel]),
            words(&["SUNSUBSCRIBE", channel]),
        ]);
    }
    all
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// The commands, keys and channels that were not granted.
#[derive(Default)]
struct Missing {
    commands: BTreeSet<String>,
    places: bool,
}

impl Missing {
    /// An answer is `OK`, or names what is missing: the command, or else a key or a channel. For a missing command the server does
    /// not say whether its keys are granted.
    fn take(&mut self, command: &[String], answer: &str, names_count: bool) {
        if answer == "OK" {
            return;
        }
        if answer.contains("command") {
            // Only single subcommands are granted: none of `CLUSTER` that changes a cluster, and none of `CLIENT` about other clients.
            let words = match command[0].as_str() {
                "CLUSTER" | "CLIENT" => command[..2].join("|"),
                name => name.to_owned(),
            };
            self.commands
                .insert(format!("+{}", words.to_ascii_lowercase()));
        }
        self.places |= names_count;
    }

    fn finding(self, user: &str, what: String, kind: &Kind, name: &str) -> Finding {
        if self.commands.is_empty() && !self.places {
            return Finding::fine(ABOUT, format!("{what}: all there"));
        }
        let mut grants: Vec<String> = self.commands.into_iter().collect();
        if self.places {
            grants.extend(kind.keys_and_channels(name));
        }
        let grants = grants.join(" ");
        let advice = format!("ACL SETUSER {user} {grants}");
        Finding::wrong(ABOUT, format!("{what}: some are missing"), advice)
    }
}
