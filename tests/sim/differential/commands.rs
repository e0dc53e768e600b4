//! Commands of all kinds, plausible and not, as forms: each word of one stands for itself or, in angle brackets, for one of a class.

use fastrand::Rng;

use super::step::Words;

/// The words of each class; `''` is empty, and `~` a space.
const CLASSES: &[(&str, &str)] = &[
    ("key", KEYS),
    ("channel", CHANNELS),
    ("value", VALUES),
    ("score", SCORES),
    ("number", NUMBERS),
    ("field", "f g owner-a * client-a ''"),
    ("member", "m n id-000 0000000a-001 ''"),
    ("pattern", "* s* ? slot? *e*s"),
    // Contents of the keys of the crate's objects, and arguments of its scripts.
    ("record", RECORDS),
    ("noted", NOTED),
    ("arrival", TIMES),
    ("entry", ENTRIES),
    ("ticket", "a1:1:100 g2:2:500:me g3:1:500:me"),
    ("waiter", WAITERS),
    ("place", "g1:4:1000:30000 f2:5:1000:700"),
    ("owner", "4 4 5 18446744073709551615"),
    ("id", IDS),
    ("held", HELD),
    ("end", ENDS),
    ("few", "0 1 2"),
    ("some", "1 1 2 3"),
    ("many", "0 1 5 11"),
    ("life", "60000 900"),
    ("life-100", "100:700 100:30000"),
    ("life-1000", "1000:700 1000:30000"),
    ("lease", "5 700 1000 30000 600000"),
    ("waited", "0 0 300000"),
    ("behind", "0 0 1800000000123001"),
    ("by", "-3 2 2147483647 -2147483648 0"),
    ("publish", "PUBLISH PUBLISH PUBLISH SPUBLISH"),
    ("flag", "0 0 0 0 1 1 2"),
];

pub const KEYS: &str = "s s2 lock waiters token notes times owners counter tokens slot1 slot2 slot3 set list zset hash k '' \
     peers queue grants latch jobs permits jobs2 permits2";

const CHANNELS: &str = "ch:s ch:lock news queue:11111111-2222-3333-4444-555555555555 \
     queue:aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee waiters:11111111-2222-3333-4444-555555555555 \
     waiters:aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee";

/// Of two clients; the end is the client's id.
const RECORDS: &str =
    "rec:11111111-2222-3333-4444-555555555555 rec:aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee";

/// The length of a client's id.
const ID: usize = 36;

/// Contents of a record.
const NOTED: &str = "0000000000000003~done 0000000000000040~done~-1~2~1 0000000000000020~none \
     0000000000000050~refused~ERR~x 0000000000000060 12~done ''";

/// When a waiter may have come, or a grant may end, in microseconds.
const TIMES: &str = "1799999999000000 1800000000123000 1800000030000000 1800060000000000";

/// When a permit may end.
const ENDS: &str = "1800000000123 1800000030000 922337203685477 1799999999000 1e3";

/// Entries of two clients in the queue or the grants of a semaphore; this crate does not write the last one.
const ENTRIES: &str = "11111111-2222-3333-4444-555555555555:a1:1:100 11111111-2222-3333-4444-555555555555:g2:2:500:me \
     11111111-2222-3333-4444-555555555555:g3:1:500:me aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee:a1:1:100 \
     aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee:g2:2:500:me x";

/// The same of a lock.
const WAITERS: &str = "11111111-2222-3333-4444-555555555555:g1:4:1000:30000 \
     11111111-2222-3333-4444-555555555555:f2:5:1000:700 \
     aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee:g1:4:1000:30000 aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee:g8:5:x";

/// Holders of a recipe, most of them taken under a ticket.
const HELD: &str = "11111111-2222-3333-0000-000000000000 11111111-2222-3333-0000-000000000001 \
     aaaaaaaa-bbbb-cccc-0000-000000000000 m";

/// Permits with ids: 16 bytes each, whatever these are; the last but one as Redisson 3.16.8 wrote the first id.
const IDS: &str = "permit-000000001 permit-000000002 permit-000000003 permit-\0\r\n\u{ff}1234 \
     7065726d69742d303030303030303031 short";

const VALUES: &str = "'' 0 1 2 3 -1 10 100 2147483647 2147483648 -2147483648 -2147483649 9223372036854775807 \
     9223372036854775808 -9223372036854775808 99999999999999 100000000000000 -0 +1 01 1.5 1e3 0x10 inf \
     -inf nan abc \r\n \0 \u{ff}x";

const SCORES: &str = "0 1 2 2.5 -1 1e3 1800000000123 1800000000.123456 1799999990000 1800000000000000 inf -inf nan abc (1 \
     '' 0.1 1e17 123456789012345678 3.0000000000000004";

const NUMBERS: &str = "0 1 -1 2 5 -3 10 100 1000 5000 60000 2147483647 9223372036854775807 -9223372036854775808 \
     9223372036854775808 1.5 abc '' -0 01 9223372036854775 1800000005000 9223372036854775800";

/// The forms; a star repeats a word.
const FORMS: &str = "GET <key> | MGET <key>* | INCR <key> | DECR <key> | INCRBY <key> <number> | DECRBY <key> <number> | \
     SET <key> <value> | SET <key> <value> | SET <key> <value> | SET <key> <value> PX <number> | \
     SET <key> <value> NX | SET <key> <value> NX PX <number> GET | SET <key> <value> KEEPTTL | \
     SET <key> <value> PX | SET <key> <value> <value> | HSET <key> <field> <value> | \
     HSET <key> <field> <number> | HSET <key> <field> <value> <field> <value> | \
     HSET <key> <field> <value> <field> | HGET <key> <field> | HMGET <key> <field>* | HGETALL <key> | \
     HKEYS <key> | HLEN <key> | HEXISTS <key> <field> | HDEL <key> <field>* | LPUSH <key> <value>* | \
     RPUSH <key> <value>* | LPOP <key> | LLEN <key> | LRANGE <key> <number> <number> | \
     LINDEX <key> <number> | LINSERT <key> BEFORE <value> <value> | LINSERT <key> AFTER <value> <value> | \
     LPOS <key> <value> | LREM <key> <number> <value> | SADD <key> <member>* | SREM <key> <member>* | \
     SCARD <key> | SISMEMBER <key> <member> | SMEMBERS <key> | ZADD <key> <score> <member> | \
     ZADD <key> <score> <member> <score> <member> | ZADD <key> NX <score> <member> | \
     ZADD <key> XX <score> <member> <score> <member> | ZADD <key> XX GT <score> <member> | \
     ZADD <key> GT NX <score> <member> | ZREM <key> <member>* | ZCARD <key> | ZSCORE <key> <member> | \
     ZMSCORE <key> <member>* | ZRANK <key> <member> | ZRANGE <key> <number> <number> | \
     ZRANGE <key> <number> <number> WITHSCORES | ZRANGEBYSCORE <key> <score> <score> | \
     ZRANGEBYSCORE <key> <score> <score> WITHSCORES LIMIT <number> <number> | \
     ZREVRANGEBYSCORE <key> <score> <score> WITHSCORES | ZCOUNT <key> <score> <score> | DEL <key>* | \
     EXISTS <key>* | TYPE <key> | RENAME <key> <key> | RENAMENX <key> <key> | KEYS <pattern> | \
     PUBLISH <channel> <value> | PEXPIRE <key> <number> | PEXPIRE <key> <number> | \
     PEXPIRE <key> <number> NX | PEXPIRE <key> <number> XX | PEXPIRE <key> <number> GT | \
     PEXPIRE <key> <number> LT | PEXPIRE <key> <number> GT LT | PEXPIRE <key> <number> NX GT | \
     PEXPIRE <key> <number> <value> | PTTL <key> | PEXPIRETIME <key> | PERSIST <key> | TIME | PING | \
     PING <value> | PING <value> <value> | PUBSUB NUMSUB <channel>* | PUBSUB SHARDNUMSUB <channel> | \
     SPUBLISH <channel> <value> | CLIENT SETNAME <value>";

const ODD: &str = "NOSUCH a b | GET | CLIENT SETINFO lib-name x | SCRIPT NOPE | PUBSUB NOPE x | EVALSHA abc 0 | \
     EVAL <value> <number> | GET <key> <key> | SCRIPT FLUSH";

const LISTENING: &str = "SUBSCRIBE <channel> | SUBSCRIBE <channel> | SUBSCRIBE <channel> <channel> | UNSUBSCRIBE <channel> | \
     PSUBSCRIBE ch:* | SSUBSCRIBE <channel> | SUNSUBSCRIBE <channel> | PING <value>";

/// One of a list.
pub fn choose<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.usize(..from.len())]
}

/// One of the words of a text.
pub fn one_of<'a>(rng: &mut Rng, words: &'a str) -> &'a str {
    choose(rng, &words.split(' ').collect::<Vec<_>>())
}

/// One of some forms.
pub fn form_of<'a>(rng: &mut Rng, forms: &'a str) -> &'a str {
    choose(rng, &forms.split(" | ").collect::<Vec<_>>())
}

/// The bytes of a word in a form.
fn bytes_of(word: &str) -> Vec<u8> {
    match word {
        "''" => Vec::new(),
        _ => word.replace('~', " ").into(),
    }
}

pub fn random(rng: &mut Rng) -> Words {
    let form = match rng.u32(..40) {
        0 => form_of(rng, ODD),
        _ => form_of(rng, FORMS),
    };
    let mut words = fill(rng, form);
    // Now and then a word too few or too many.
    match rng.u32(..60) {
        0 if words.len() > 1 => drop(words.pop()),
        // The model pops one at a time.
        1 if !words[0].ends_with(b"POP") => words.push(bytes_of(one_of(rng, VALUES))),
        _ => {}
    }
    words
}

pub fn all_channels() -> Words {
    let names = std::iter::once("SUBSCRIBE").chain(CHANNELS.split(' '));
    names.map(Into::into).collect()
}

pub fn listening(rng: &mut Rng) -> Words {
    let form = form_of(rng, LISTENING);
    fill(rng, form)
}

/// The words of a command of this form. All words `<record>` of it are the same, and `<client>` is the id at its end.
pub fn fill(rng: &mut Rng, form: &str) -> Words {
    let record = one_of(rng, RECORDS);
    let mut words = Words::new();
    for part in form.split(' ') {
        let (kind, repeated) = match part.strip_suffix(">*") {
            Some(kind) => (kind.strip_prefix('<'), rng.usize(1..=3)),
            None => (
                part.strip_prefix('<')
                    .and_then(|kind| kind.strip_suffix('>')),
                1,
            ),
        };
        for _ in 0..repeated {
            let word = match kind {
                Some("record") => record,
                Some("client") => &record[record.len() - ID..],
                Some(kind) => {
                    let mut classes = CLASSES.iter();
                    let class = classes.find(|(name, _)| *name == kind);
                    one_of(rng, class.unwrap_or_else(|| panic!("no class {kind}")).1)
                }
                None => part,
            };
            words.push(bytes_of(word));
        }
    }
    words
}
