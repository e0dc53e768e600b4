//! Commands of all kinds, plausible and not.

use fastrand::Rng;

use super::contents::{ENDS, NOTED, TIMES};
use super::script_calls::{ENTRIES, PERMITS, RECORDS, WAITERS};
use super::step::Words;

pub const KEYS: &[&str] = &[
    "s", "s2", "lock", "waiters", "token", "turns", "notes", "times", "owners", "counter",
    "tokens", "line", "slot1", "slot2", "slot3", "set", "list", "zset", "hash", "k", "", "peers",
    "r1", "r2", "once", "queue", "grants", "latch", "jobs", "permits", "jobs2", "permits2",
];

pub const CHANNELS: &[&str] = &[
    "ch:s",
    "ch:lock",
    "ch:line",
    "news",
    // Where those listen who stand in a line.
    "turns",
    "turns:11111111-2222-3333-4444-555555555555",
    "line:client-a",
    "queue:11111111-2222-3333-4444-555555555555",
    "queue:aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
    "waiters:11111111-2222-3333-4444-555555555555",
    "waiters:aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
];

const VALUES: &[&str] = &[
    "",
    "0",
    "1",
    "2",
    "3",
    "-1",
    "10",
    "100",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "99999999999999",
    "100000000000000",
    "-0",
    "+1",
    "01",
    " 1",
    "1 ",
    "1.5",
    "1e3",
    "0x10",
    "inf",
    "-inf",
    "nan",
    "abc",
    "a b",
    "\r\n",
    "\0",
    "\u{ff}x",
    "0000000000000003 done",
    "0000000000000003 refused ERR x",
    "3",
    "0000000000000009 forced",
    "1800000000123 1800000010000000 2",
    "1800000000000000 1800000100000000 3",
    "client-b",
    "99999999999999999999 1 a client",
    "-1 1 a client",
];

const SCORES: &[&str] = &[
    "0",
    "1",
    "2",
    "2.5",
    "-1",
    "1e3",
    "1800000000123",
    "1800000000.123456",
    "1799999990000",
    "1800000000000000",
    "inf",
    "-inf",
    "nan",
    "abc",
    "(1",
    "",
    "0.1",
    "1e17",
    "123456789012345678",
    "3.0000000000000004",
];

const FIELDS: &[&str] = &[
    "f", "g", "owner-a", "owner-b", "*", "client-a", "client-b", "",
];

pub const MEMBERS: &[&str] = &[
    "m",
    "n",
    "id-000",
    "id-001",
    "0000000a-000",
    "0000000a-001",
    "0000000b-000",
    "",
];

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "5",
    "-3",
    "10",
    "100",
    "1000",
    "5000",
    "60000",
    "2147483647",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "1.5",
    "abc",
    "",
    "-0",
    "01",
    "9223372036854775",
    "1800000005000",
    "9223372036854775800",
];

/// The commands, each word standing for itself or for something to choose: K key, V value, F field, M member,
/// S score, I integer, C channel, P pattern, R record, N what is noted there, H holder, E entry of a holder, D permit,
/// T end of a permit, X which client is next; a star repeats what is before it, a question mark makes it optional.
const FORMS: &[&str] = &[
    "GET K",
    "MGET K*",
    "INCR K",
    "DECR K",
    "INCRBY K I",
    "DECRBY K I",
    "SET K V",
    "SET K V",
    "SET K V",
    "SET K V PX I",
    "SET K V NX",
    "SET K V NX PX I GET",
    "SET K V KEEPTTL",
    "SET K V PX",
    "SET K V V",
    "HSET K F V",
    "HSET K F I",
    "HSET K F V F V",
    "HSET K F V F",
    "HGET K F",
    "HMGET K F*",
    "HGETALL K",
    "HKEYS K",
    "HLEN K",
    "HEXISTS K F",
    "HDEL K F*",
    "HINCRBY K F I",
    "HSTRLEN K F",
    "LPUSH K V*",
    "RPUSH K V*",
    "LPOP K",
    "LLEN K",
    "LRANGE K I I",
    "LINDEX K I",
    "LINSERT K BEFORE V V",
    "LINSERT K AFTER V V",
    "LPOS K V",
    "LREM K I V",
    "SADD K M*",
    "SREM K M*",
    "SCARD K",
    "SISMEMBER K M",
    "SMEMBERS K",
    "ZADD K S M",
    "ZADD K S M S M",
    "ZADD K NX S M",
    "ZADD K XX S M S M",
    "ZADD K XX GT S M",
    "ZADD K GT NX S M",
    "ZREM K M*",
    "ZCARD K",
    "ZSCORE K M",
    "ZMSCORE K M*",
    "ZRANK K M",
    "ZRANGE K I I",
    "ZRANGE K I I WITHSCORES",
    "ZRANGEBYSCORE K S S",
    "ZRANGEBYSCORE K S S WITHSCORES LIMIT I I",
    "ZREVRANGEBYSCORE K S S WITHSCORES",
    "ZCOUNT K S S",
    "ZREMRANGEBYSCORE K S S",
    "DEL K*",
    "UNLINK K",
    "EXISTS K*",
    "TYPE K",
    "TOUCH K*",
    "RENAME K K",
    "RENAMENX K K",
    "COPY K K",
    "COPY K K REPLACE",
    "KEYS P",
    "PUBLISH C V",
];

const MORE_FORMS: &[&str] = &[
    "PEXPIRE K I",
    "PEXPIRE K I",
    "PEXPIRE K I NX",
    "PEXPIRE K I XX",
    "PEXPIRE K I GT",
    "PEXPIRE K I LT",
    "PEXPIRE K I GT LT",
    "PEXPIRE K I NX GT",
    "PEXPIRE K I V",
    "PEXPIREAT K I",
    "PTTL K",
    "PEXPIRETIME K",
    "PERSIST K",
    "TIME",
    "PING",
    "PING V",
    "PING V V",
    "PUBSUB NUMSUB C*",
    "PUBSUB SHARDNUMSUB C",
    "SPUBLISH C V",
    "CLIENT SETNAME V",
];

const ODD: &[&str] = &[
    "NOSUCH a b",
    "GET",
    "CLIENT SETINFO lib-name x",
    "SCRIPT NOPE",
    "PUBSUB NOPE x",
    "EVALSHA abc 0",
    "EVAL V I",
    "GET K K",
    "SCRIPT FLUSH",
];

const LISTENING: &[&str] = &[
    "SUBSCRIBE C",
    "SUBSCRIBE C",
    "SUBSCRIBE C C",
    "UNSUBSCRIBE C",
    "PSUBSCRIBE ch:*",
    "SSUBSCRIBE C",
    "SUNSUBSCRIBE C",
    "PING V",
];

const PATTERNS: &[&str] = &["*", "s*", "?", "slot?", "*e*s"];

/// One of a list.
pub fn choose<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.usize(..from.len())]
}

pub fn random(rng: &mut Rng) -> Words {
    let form = match rng.u32(..40) {
        0 => choose(rng, ODD),
        1..=12 => choose(rng, MORE_FORMS),
        _ => choose(rng, FORMS),
    };
    let mut words = fill(rng, form);
    // Now and then a word too few or too many.
    match rng.u32(..60) {
        0 if words.len() > 1 => drop(words.pop()),
        // The model pops one at a time.
        1 if !words[0].ends_with(b"POP") => words.push(choose(rng, VALUES).into()),
        _ => {}
    }
    words
}

pub fn all_channels() -> Words {
    std::iter::once("SUBSCRIBE")
        .chain(CHANNELS.iter().copied())
        .map(Into::into)
        .collect()
}

pub fn listening(rng: &mut Rng) -> Words {
    let form = choose(rng, LISTENING);
    fill(rng, form)
}

/// The words of a command of this form.
pub fn fill(rng: &mut Rng, form: &str) -> Words {
    let mut words = Words::new();
    for part in form.split(' ') {
        let (kind, repeated) = part
            .strip_suffix('*')
            .filter(|kind| kind.len() == 1)
            .map_or((part, false), |kind| (kind, true));
        let count = if repeated { rng.usize(1..=3) } else { 1 };
        for _ in 0..count {
            let word = match kind {
                "K" => choose(rng, KEYS),
                "V" => choose(rng, VALUES),
                "F" => choose(rng, FIELDS),
                "M" => choose(rng, MEMBERS),
                "S" => choose(rng, SCORES),
                "I" => choose(rng, NUMBERS),
                "C" => choose(rng, CHANNELS),
                "P" => choose(rng, PATTERNS),
                "R" => choose(rng, RECORDS),
                "N" => choose(rng, NOTED),
                "E" => choose(rng, ENTRIES),
                "W" => choose(rng, WAITERS),
                "A" => choose(rng, TIMES),
                "D" => choose(rng, PERMITS),
                "T" => choose(rng, ENDS),
                word => word,
            };
            words.push(word.into());
        }
    }
    words
}
