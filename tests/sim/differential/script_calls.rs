//! Calls of the crate's own scripts, with arguments as it sends them, and now and then with others; and a few scripts
//! about what Redis makes of Lua.

use fastrand::Rng;

use super::commands::{CHANNELS, KEYS, MEMBERS, choose};
use super::step::{Mood, Words};
use crate::sim::scripts::{
    FAIR, GIVE, LOCK, LONE, NUDGE, ONCE, REFRESH_FAIR, REFRESH_SET, REFRESH_SLOTS,
    REFRESH_TIMESTAMP, RENEW_LOCKS, SEMAPHORE, SET, SETTLE, SLOTS, TAKE, TIMESTAMP, digest,
};

/// Records of two clients; the end is the client's id.
const RECORDS: &[&str] = &[
    "rec:11111111-2222-3333-4444-555555555555",
    "rec:aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
];
const COUNTERS: &[&str] = &["s", "s2"];
const OWNERS: &[&str] = &["owner-a", "owner-b", "owner-c"];
const LEASES: &[&str] = &["1000", "30000", "5"];
const LIVES: &[&str] = &["60000", "900"];

const LANGUAGE: &[&str] = &[
    "return {1, 2.9, -2.9, 'a', false, true, {1, {2}}, nil, 3}",
    "return {1e300, -1e300, 0/0, 1/0}",
    "return redis.call('SET', KEYS[1], ARGV[1])",
    "redis.call('SET', KEYS[1], 1.5) return redis.call('GET', KEYS[1])",
    "redis.call('RPUSH', KEYS[1], 1e17, 1e300, 0/0, 0.1, 3, -1/0, 2^53, 12345678901234567890)",
    "return {redis.pcall('INCR', KEYS[1])}",
    "local done, problem = pcall(redis.call, 'INCR', KEYS[1]) return {done, type(problem), problem}",
    "local done, problem = pcall(function() error('x') end) return problem",
    "local done, problem = pcall(function() error({err = 'MY x'}) end) return problem",
    "error({err = 'MY own'})",
    "error('plain')",
    "local function f()\nreturn redis.call('LPUSH', KEYS[1], 'x')\nend\nreturn f()",
    "return redis.error_reply(ARGV[1])",
    "return redis.status_reply(ARGV[1])",
    "return {redis.error_reply('-CODE text'), redis.error_reply('word'), redis.error_reply('two words')}",
    "return nothing",
    "something = 1",
    "return redis.call('NOPE')",
    "return redis.call('GET')",
    "return redis.call('GET', {})",
    "return redis.call()",
    "return redis.call('SUBSCRIBE', 'x')",
    "return redis.sha1hex(ARGV[1])",
    "return {struct.unpack('>I8I8', struct.pack('>I8I8', tonumber(ARGV[1]) or -1, 2^60))}",
    "redis.call('SELECT', 1) return redis.call('SET', KEYS[1], 'in 1')",
    "return {redis.call('TIME'), redis.call('PTTL', KEYS[1]), redis.call('TYPE', KEYS[1]), tostring(ARGV[1] / 3)}",
];

/// A call being put together.
struct Call {
    source: &'static str,
    keys: Vec<String>,
    arguments: Vec<String>,
}

pub fn random(rng: &mut Rng, mood: &mut Mood) -> Words {
    let mut call = match rng.u32(..24) {
        0..=3 => semaphore(rng, mood, false),
        4..=6 => semaphore(rng, mood, true),
        7..=8 => lone(rng, mood),
        9 => settle(rng, mood),
        10 => nudge(rng),
        11..=13 => lock(rng, mood),
        14 => take(rng),
        15 => give(rng),
        16 => renew(rng),
        17 => once(rng, mood),
        18..=22 => recipe(rng, mood),
        _ => language(rng),
    };
    if rng.u32(..if mood.calm { 60 } else { 12 }) == 0 {
        spoil(rng, &mut call);
    }
    let by_digest = rng.u32(..4) == 0;
    let mut words: Words = vec![
        if by_digest { "EVALSHA" } else { "EVAL" }.into(),
        if by_digest {
            digest(call.source).into()
        } else {
            call.source.into()
        },
        call.keys.len().to_string().into(),
    ];
    words.extend(
        call.keys
            .into_iter()
            .chain(call.arguments)
            .map(String::into_bytes),
    );
    words
}

/// Another key, or another argument.
fn spoil(rng: &mut Rng, call: &mut Call) {
    const WORSE: &[&str] = &["", "abc", "-1", "0", "1.5", "1e3", "300"];
    if rng.bool() && !call.keys.is_empty() {
        let place = rng.usize(..call.keys.len());
        call.keys[place] = choose(rng, KEYS).to_owned();
    } else if !call.arguments.is_empty() {
        let place = rng.usize(..call.arguments.len());
        call.arguments[place] = choose(rng, WORSE).to_owned();
    }
}

fn sequence(rng: &mut Rng, mood: &mut Mood) -> String {
    format!("{:016}", mood.sequence(rng))
}

fn number(rng: &mut Rng, most: u32) -> String {
    rng.u32(..most).to_string()
}

fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn channel_of(counter: &str) -> &'static str {
    if counter == "s" {
        CHANNELS[0]
    } else {
        CHANNELS[3]
    }
}

fn semaphore(rng: &mut Rng, mood: &mut Mood, in_turn: bool) -> Call {
    let counter = choose(rng, COUNTERS);
    let mut keys = texts(&[choose(rng, RECORDS), counter, channel_of(counter)]);
    let mut arguments = texts(&[choose(rng, &["PUBLISH", "PUBLISH", "PUBLISH", "SPUBLISH"])]);
    arguments.extend([
        sequence(rng, mood),
        choose(rng, LIVES).to_owned(),
        number(rng, 2),
    ]);
    for _ in 0..rng.u32(1..4) {
        let kind = match rng.u32(..11) {
            0..=2 => "release",
            3 => "release_if_exists",
            4..=5 if in_turn => "acquire_in_turn",
            4 => "acquire",
            5 => "acquire_in_line",
            6 => "add",
            7 => "drain",
            8 => "try_set",
            9 => "available",
            _ => "acquire",
        };
        let amount = match kind {
            "add" => choose(rng, &["-3", "2", "2147483647", "-2147483648", "0"]).to_owned(),
            "try_set" => number(rng, 9),
            _ => rng.u32(1..4).to_string(),
        };
        let count = if kind == "try_set" {
            choose(rng, &["0", "700"]).to_owned()
        } else {
            rng.u32(1..5).to_string()
        };
        arguments.extend([kind.to_owned(), amount, count]);
    }
    if in_turn {
        keys.extend(texts(&["turns", "notes"]));
        arguments.extend(texts(&[
            choose(rng, &["9000", "25000"]),
            choose(rng, &["0", "4000"]),
        ]));
        arguments.extend([
            number(rng, 4),
            number(rng, 6),
            number(rng, 3),
            number(rng, 2),
            number(rng, 2),
            number(rng, 3),
            number(rng, 3),
        ]);
    }
    Call {
        source: SEMAPHORE,
        keys,
        arguments,
    }
}

fn lone(rng: &mut Rng, mood: &mut Mood) -> Call {
    let mut keys = texts(&[choose(rng, RECORDS)]);
    let mut arguments = texts(&["PUBLISH"]);
    arguments.extend([sequence(rng, mood), choose(rng, LIVES).to_owned()]);
    for _ in 0..rng.u32(1..4) {
        let counter = choose(rng, COUNTERS);
        keys.extend(texts(&[counter, channel_of(counter)]));
        arguments.push(choose(rng, &["1", "-1", "2", "-3", "2147483647"]).to_owned());
    }
    Call {
        source: LONE,
        keys,
        arguments,
    }
}

fn settle(rng: &mut Rng, mood: &mut Mood) -> Call {
    Call {
        source: SETTLE,
        keys: texts(&[choose(rng, RECORDS)]),
        arguments: vec![sequence(rng, mood), "60000".to_owned()],
    }
}

fn nudge(rng: &mut Rng) -> Call {
    let counter = choose(rng, COUNTERS);
    Call {
        source: NUDGE,
        keys: texts(&[counter, channel_of(counter)]),
        arguments: vec!["PUBLISH".to_owned(), number(rng, 10), number(rng, 4)],
    }
}

fn lock(rng: &mut Rng, mood: &mut Mood) -> Call {
    let mut keys = texts(&["lock", CHANNELS[1], "fence"]);
    if rng.bool() {
        keys.push("token".to_owned());
    }
    let doubt = if rng.bool() {
        "0".to_owned()
    } else {
        sequence(rng, mood)
    };
    let mut arguments = vec![
        "PUBLISH".to_owned(),
        sequence(rng, mood),
        "60000".to_owned(),
        doubt,
    ];
    for _ in 0..rng.u32(1..5) {
        let kind = match rng.u32(..6) {
            0..=1 => "acquire",
            2 if keys.len() == 4 => "acquire_fenced",
            5 => "force",
            _ => "release",
        };
        arguments.extend(texts(&[kind, choose(rng, OWNERS)]));
        arguments.extend([number(rng, 3), choose(rng, LEASES).to_owned()]);
    }
    Call {
        source: LOCK,
        keys,
        arguments,
    }
}

fn take(rng: &mut Rng) -> Call {
    Call {
        source: TAKE,
        keys: texts(&["lock", "fence", "next", CHANNELS[1]]),
        arguments: texts(&[choose(rng, OWNERS), choose(rng, LEASES), "PUBLISH"]),
    }
}

fn give(rng: &mut Rng) -> Call {
    Call {
        source: GIVE,
        keys: texts(&["lock", CHANNELS[1], "fence"]),
        arguments: texts(&["PUBLISH", choose(rng, OWNERS)]),
    }
}

fn renew(rng: &mut Rng) -> Call {
    Call {
        source: RENEW_LOCKS,
        keys: texts(&["lock", "hash"]),
        arguments: texts(&[
            choose(rng, LEASES),
            choose(rng, OWNERS),
            choose(rng, OWNERS),
        ]),
    }
}

fn once(rng: &mut Rng, mood: &mut Mood) -> Call {
    const COMMANDS: [(&str, &str, &[&str]); 9] = [
        ("DEL", "0", &[]),
        ("UNLINK", "0", &[]),
        ("RENAME", "1", &[]),
        ("RENAMENX", "1", &[]),
        ("COPY", "1", &["REPLACE"]),
        ("PEXPIRE", "0", &["5000"]),
        ("PEXPIRE", "0", &["5000", "GT"]),
        ("PEXPIREAT", "0", &["1800000005000", "NX"]),
        ("PERSIST", "0", &[]),
    ];
    let (command, second, rest) = COMMANDS[rng.usize(..COMMANDS.len())];
    let mut arguments = vec![
        "PUBLISH".to_owned(),
        sequence(rng, mood),
        choose(rng, LIVES).to_owned(),
        number(rng, 2),
    ];
    arguments.extend(texts(&[command, second]));
    arguments.extend(texts(rest));
    Call {
        source: ONCE,
        keys: texts(&[choose(rng, RECORDS), choose(rng, KEYS), choose(rng, KEYS)]),
        arguments,
    }
}

fn recipe(rng: &mut Rng, mood: &mut Mood) -> Call {
    let (source, own, limit, flags): (_, _, u32, &[&str]) = match rng.u32(..6) {
        0 => (TIMESTAMP, texts(&["times"]), rng.u32(1..5), &["-", "s"]),
        1..=2 => (
            FAIR,
            texts(&["times", "owners", "counter"]),
            rng.u32(1..5),
            &["-", "s"],
        ),
        3 => (
            FAIR,
            texts(&["times", "owners", "counter", "tokens"]),
            rng.u32(1..5),
            &["t", "st"],
        ),
        4 => (SET, texts(&["set"]), rng.u32(1..5), &["-"]),
        _ => (SLOTS, texts(&["slot1", "slot2", "slot3"]), 3, &["p", "rp"]),
    };
    let locked = rng.u32(..5) == 0;
    let line = "line";
    let client = choose(rng, &["line:client-a", "line:client-b"]);
    let mut keys = texts(&[choose(rng, RECORDS), line, client]);
    keys.extend(own);
    if locked {
        keys.push("peers".to_owned());
    }
    keys.push("notes".to_owned());
    if rng.u32(..5) == 0 {
        let flags = choose(rng, flags);
        return refresh(rng, source, keys, limit, flags);
    }
    let what = choose(
        rng,
        &["batch", "batch", "batch", "batch", "tend", "list", "clear"],
    );
    // The model does not know `SSCAN`.
    let what = if source == SET && what == "list" {
        "clear"
    } else {
        what
    };
    let alone = what == "list" || what == "clear";
    let mut some = |most: u32| if alone { 0 } else { rng.u32(..most) };
    let (releases, tries, runs) = (some(3), some(3), some(3));
    let flags = choose(rng, flags);
    let mut arguments = texts(&["PUBLISH"]);
    arguments.extend([sequence(rng, mood), choose(rng, LIVES).to_owned()]);
    // Mostly a call without an earlier copy.
    arguments.extend(texts(&[choose(rng, &["0", "0", "1"]), what]));
    arguments.extend([limit.to_string(), choose(rng, &["10000", "700"]).to_owned()]);
    arguments.extend(texts(&[flags, if locked { "3000" } else { "0" }, "15000"]));
    let mut counts = Vec::new();
    for _ in 0..runs {
        counts.push((choose(rng, &["0", "1800000000123000"]), rng.u32(1..3)));
    }
    let waiting: u32 = counts.iter().map(|(_, count)| count).sum();
    arguments.push((waiting + if rng.u32(..4) == 0 { 1 } else { 0 }).to_string());
    arguments.push(choose(rng, &["0000000a-", "0000000b-", "id-"]).to_owned());
    arguments.extend([releases, tries].map(|count| count.to_string()));
    arguments.push(if what == "list" { "" } else { "1" }.to_owned());
    arguments.push("20000".to_owned());
    for _ in 0..releases {
        arguments.push(choose(rng, MEMBERS).to_owned());
    }
    if flags.contains('p') {
        for _ in 0..tries {
            arguments.push(choose(rng, &["700", "10000"]).to_owned());
        }
    }
    for (arrival, count) in counts {
        arguments.extend([arrival.to_owned(), count.to_string(), "700".to_owned()]);
    }
    Call {
        source,
        keys,
        arguments,
    }
}

/// A refresh of what the batch with this `source` grants.
fn refresh(
    rng: &mut Rng,
    source: &'static str,
    keys: Vec<String>,
    limit: u32,
    flags: &str,
) -> Call {
    let source = match source {
        TIMESTAMP => REFRESH_TIMESTAMP,
        FAIR => REFRESH_FAIR,
        SET => REFRESH_SET,
        _ => REFRESH_SLOTS,
    };
    let time = choose(rng, &["10000", "700"]);
    let mut arguments = texts(&[&limit.to_string(), time, flags, time]);
    for _ in 0..rng.u32(1..4) {
        arguments.push(choose(rng, MEMBERS).to_owned());
    }
    Call {
        source,
        keys,
        arguments,
    }
}

fn language(rng: &mut Rng) -> Call {
    Call {
        source: choose_static(rng),
        keys: texts(&[choose(rng, KEYS)]),
        arguments: texts(&[choose(
            rng,
            &[
                "5",
                "-7",
                "0",
                "1.5",
                "two words",
                "-CODE x",
                "word",
                "1e20",
                "\r\nx\r\n",
            ],
        )]),
    }
}

fn choose_static(rng: &mut Rng) -> &'static str {
    LANGUAGE[rng.usize(..LANGUAGE.len())]
}
