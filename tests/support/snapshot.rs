//! The content of a key at one moment, so that two runs can be compared.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::aio::ConnectionLike;

/// The content of one key, read in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The type as `TYPE` names it; `none` when the key is missing.
    pub kind: String,
    /// A string's value; a list's items; a set's members, sorted; a hash's fields and a sorted set's members,
    /// each as `name=value`, sorted by name and by score.
    pub value: Vec<String>,
    /// `None` when the key does not expire.
    pub ttl: Option<Duration>,
}

const READ: &str = r"
local kind = redis.call('TYPE', KEYS[1]).ok
local value = {}
if kind == 'string' then value = {redis.call('GET', KEYS[1])}
elseif kind == 'list' then value = redis.call('LRANGE', KEYS[1], 0, -1)
elseif kind == 'set' then value = redis.call('SMEMBERS', KEYS[1])
elseif kind == 'hash' then value = redis.call('HGETALL', KEYS[1])
elseif kind == 'zset' then value = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
elseif kind ~= 'none' then return redis.error_reply('ERR no snapshot of a ' .. kind) end
return {kind, value, redis.call('PTTL', KEYS[1])}";

impl Snapshot {
    /// Whether the two hold the same and expire within `tolerance` of each other.
    pub fn matches(&self, other: &Snapshot, tolerance: Duration) -> bool {
        let ttl = match (self.ttl, other.ttl) {
            (Some(one), Some(two)) => one.abs_diff(two) <= tolerance,
            (one, two) => one == two,
        };
        ttl && self.kind == other.kind && self.value == other.value
    }

    /// The members of a sorted set, without the scores. Of another type, the whole value.
    pub fn members(&self) -> Vec<&str> {
        let zset = self.kind == "zset";
        let member = |entry| match zset {
            true => str::rsplit_once(entry, '=').map_or(entry, |(member, _)| member),
            false => entry,
        };
        self.value.iter().map(|entry| member(entry)).collect()
    }
}

/// Reads one key.
pub async fn snapshot(connection: &mut impl ConnectionLike, key: &str) -> Snapshot {
    let (kind, value, pttl): (String, Vec<Vec<u8>>, i64) = redis::cmd("EVAL")
        .arg(READ)
        .arg(1)
        .arg(key)
        .query_async(connection)
        .await
        .expect("the key can be read");
    let mut value: Vec<String> = value
        .iter()
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .collect();
    if kind == "hash" || kind == "zset" {
        value = value.chunks(2).map(|pair| pair.join("=")).collect();
    }
    if kind == "hash" || kind == "set" {
        value.sort();
    }
    Snapshot {
        kind,
        value,
        ttl: u64::try_from(pttl).ok().map(Duration::from_millis),
    }
}

/// Reads every key of the database.
pub async fn snapshot_all(connection: &mut impl ConnectionLike) -> BTreeMap<String, Snapshot> {
    let keys: Vec<String> = redis::cmd("KEYS")
        .arg("*")
        .query_async(connection)
        .await
        .expect("KEYS answers");
    let mut all = BTreeMap::new();
    for key in keys {
        let snapshot = snapshot(connection, &key).await;
        all.insert(key, snapshot);
    }
    all
}
