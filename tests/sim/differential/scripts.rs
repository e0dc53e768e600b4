//! Calls of the crate's own scripts, with arguments as it sends them, and now and then with others; and a few scripts
//! about what Redis makes of Lua.

use fastrand::Rng;

use super::commands::{KEYS, choose, fill, form_of, one_of};
use super::step::{Mood, Words};
use crate::sim::scripts::*;

/// How a script is called. The forms are those of [`fill`].
pub struct Script {
    source: &'static str,
    keys: &'static str,
    /// The words before the steps; `<envelope>` in a call that is put on record.
    head: &'static str,
    /// Some of these follow.
    steps: &'static str,
}

/// An object, or several of one kind: its scripts, and commands by which there is something for them to do.
pub struct Subject {
    scripts: &'static [Script],
    tending: &'static str,
}

pub const SUBJECTS: &[Subject] = &[SEMAPHORES, COUNT_DOWN, WITH_IDS, LOCKS, RECIPES];

const SEMAPHORES: Subject = Subject {
    scripts: &[
        Script {
            source: SEMAPHORE,
            keys: "<record> s ch:s queue grants notes",
            head: "<envelope> <client> <lease> :me 60000 <few> <few>",
            steps: "confirm <ticket> <arrival> | extend <ticket> <arrival> | release <some> <some> | \
             release <some> <some> | release_if_exists <some> <some> | \
             wait <some> <some> a <many> <waited> <behind> 100 <few> | \
             wait <some> <some> g <many> <waited> <behind> 500 <few> | leave <ticket> <few> | \
             forget <ticket> <few> | take <some> <some> <many> | try <some> <some> | add <by> 1 | \
             reclaim 1 1 | drain 1 1 | try_set <many> 0 | try_set <many> 700 | announce 0 0 | check 0 0 | \
             unwatch 0 0",
        },
        Script {
            source: RENEW,
            keys: "grants zset",
            head: "<lease> grants 2 <entry> <entry> 1 <entry>",
            steps: "",
        },
    ],
    tending: "SET s 5 | SET s 3 PX <lease> | SET s 0 | INCRBY s 2 | DEL s | ZADD queue <arrival> <entry> | \
             ZADD queue <arrival> <entry> <arrival> <entry> | ZADD grants <arrival> <entry> | \
             ZADD grants 1800060000000000 <entry> | ZADD grants 1799999999000000 <entry> | \
             HSET notes watch 11111111-2222-3333-4444-555555555555 | \
             HSET notes left <few> credit 3 stay 20000 | DEL queue grants notes | DEL <record> | \
             SET <record> <noted> | SET queue x",
};

const COUNT_DOWN: Subject = Subject {
    scripts: &[
        Script {
            source: LATCH,
            keys: "<record> latch news <record> <record> <record>",
            head: "<envelope> client 30000 '' 60000 0 0",
            steps: "set 1 <some> | set 3 <some> | set 4294967295 1 | down 1 <some> | down 2 <some> | \
             down 9223372036854775807 1 | delete 0 1 | look 0 1 | wait 0 1 a 7 0 0 100 0",
        },
        Script {
            source: ONCE,
            keys: "<record> s",
            head: "<envelope> DEL 1",
            steps: "",
        },
        Script {
            source: ONCE,
            keys: "<record> s s2 ch:s",
            head: "<envelope> RENAME 1",
            steps: "",
        },
        Script {
            source: ONCE,
            keys: "<record> latch",
            head: "<envelope> PERSIST 1",
            steps: "",
        },
        Script {
            source: FORGET,
            keys: "rec:11111111-2222-3333-4444-555555555555 rec:aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
            head: "<recent> <recent>",
            steps: "",
        },
    ],
    tending: "SET latch 2 | SET latch 2 PX 5000 | SET s 3 | DEL latch s s2 | DEL <record> | \
             SET <record> <noted> | HSET latch f 1",
};

const WITH_IDS: Subject = Subject {
    scripts: &[
        Script {
            source: PERMITS,
            keys: "<record> jobs news queue permits notes",
            head: "<envelope> <client> 30000 0123456789abcdef 60000 <few> 0",
            steps: "confirm a1:1:100:30000:0123456789abcdef <arrival> | \
             leave a1:1:100:30000:0123456789abcdef <arrival> | \
             wait <some> <some> a <few> <waited> <behind> <life-100> <few> | \
             wait <some> <some> g <few> <waited> <behind> <life-100> <few> | take <some> <lease> <few> | \
             take <some> 0 <few> | release <id> 0 | release permit-000000001 0 | together 2 <id> <id> | \
             back <few> <some> | prolong <id> <lease> | remaining <id> 0 | available 0 0 | acquired 0 0 | \
             total 0 0 | try_set <many> 0 | set <many> 0 | add <by> 0 | clear 1000000 0 | check 0 0 | \
             announce 0 0",
        },
        Script {
            source: ONCE,
            keys: "<record> permits jobs permits2 jobs2 news",
            head: "<envelope> RENAME 2",
            steps: "",
        },
        Script {
            source: ONCE,
            keys: "<record> permits jobs",
            head: "<envelope> PEXPIRE 2 700",
            steps: "",
        },
        Script {
            source: ONCE,
            keys: "<record> permits jobs",
            head: "<envelope> PERSIST 2",
            steps: "",
        },
        Script {
            source: RENEW,
            keys: "permits zset",
            head: "<lease> permits 2 <id> <id> 1 <id>",
            steps: "",
        },
    ],
    tending: "SET jobs 5 | INCRBY jobs 3 | SET jobs 0 PX 60000 | ZADD permits <end> <id> | \
             ZADD permits <end> <id> <end> <id> | ZADD permits 1800060000000 <id> 1800060000000 <id> | \
             ZREM permits <id> | PEXPIRE permits 60000 | DEL jobs permits | DEL jobs2 permits2 notes | \
             DEL <record> | SET permits x",
};

const LOCKS: Subject = Subject {
    scripts: &[
        Script {
            source: LOCK,
            keys: "<record> lock ch:lock waiters token notes",
            head: "<envelope> <client> 30000 4:1:0 60000 <few> 0",
            steps: LOCK_STEPS,
        },
        Script {
            source: LOCK,
            keys: "<record> lock ch:lock waiters token notes",
            head: "<envelope> <client> 30000 '' 60000 <few> 0",
            steps: LOCK_STEPS,
        },
        Script {
            source: RENEW,
            keys: "lock hash",
            head: "<lease> locks 1 11111111-2222-3333-4444-555555555555:4 1 11111111-2222-3333-4444-555555555555:5",
            steps: "",
        },
    ],
    tending: "DEL lock | HSET lock 11111111-2222-3333-4444-555555555555:4 1 | \
             HSET lock 11111111-2222-3333-4444-555555555555:5 1 | \
             HSET lock aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee:4 2 | PEXPIRE lock 60000 | INCR token | \
             ZADD waiters <arrival> <waiter> | ZADD waiters <arrival> <waiter> <arrival> <waiter> | \
             HSET notes watch 11111111-2222-3333-4444-555555555555 | \
             HSET notes lent aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee~1 | HSET notes left 0 credit 3 stay 20000 | \
             DEL waiters notes lock | DEL <record> | SET waiters x | SET token 9007199254740991",
};

const LOCK_STEPS: &str = "confirm <place> <arrival> | extend <place> <arrival> | leave <place> <arrival> | \
     take <owner> <lease> g | take <owner> <lease> f | \
     wait <owner> 1 g <many> <waited> <behind> <life-1000> <few> | \
     wait <owner> 2 f <many> <waited> <behind> <life-1000> <few> | force 0 0 | \
     release <owner> <lease> | release <owner> <lease> | check 0 0 | unwatch 0 0";

const RECIPES: Subject = Subject {
    scripts: &[
        Script {
            source: TIMES,
            keys: "<record> times ch:s queue grants notes",
            head: "<envelope> <client> 30000 2~700~-~3000 60000 0 0",
            steps: RECIPE_STEPS,
        },
        Script {
            source: TIMES,
            keys: "<record> times ch:s queue grants notes owners counter tokens peers",
            head: "<envelope> <client> 30000 2~10000~-ftl~3000 60000 0 0",
            steps: RECIPE_STEPS,
        },
        Script {
            source: SET,
            keys: "<record> set ch:s queue grants notes",
            head: "<envelope> <client> 30000 2~700~-~3000 60000 0 0",
            steps: RECIPE_STEPS,
        },
        Script {
            source: SLOTS,
            keys: "<record> slot1 ch:s queue grants notes slot2 slot3",
            head: "<envelope> <client> 30000 3~10000~-~3000 60000 0 0",
            steps: RECIPE_STEPS,
        },
        Script {
            source: RENEW,
            keys: "times zset",
            head: "<lease> times 2 <held> <held> 1 <held>",
            steps: "",
        },
        Script {
            source: RENEW,
            keys: "slot1 slot2 times",
            head: "<lease> slots 1 <held> 1 <held> 1 <held>",
            steps: "",
        },
    ],
    tending: "INCR counter | ZADD times 1800000000123 <held> | ZADD times <score> <held> | \
             ZADD owners <few> <held> | ZREM times <held> | DEL times owners | RPUSH tokens 1 | \
             SET slot1 <held> PX 60000 | SET slot2 <held> | DEL slot1 slot2 slot3 | SET peers x PX 1000 | \
             SET peers x | DEL peers | SADD set <held> | DEL set | DEL <record> | SET times x",
};

const RECIPE_STEPS: &str = "take <few> p 2 <lease> | take <few> e 2 <lease> | take <few> n 2 <lease> | \
     wait 2 <some> p <few> <waited> <behind> <life-100> <few> | \
     wait 2 <some> n <few> <waited> <behind> <life-100> <few> | release <held> 0 | back <few> 0 | \
     refresh <held> <lease> | clear 0 0 | confirm p1:2:100:10000 <arrival> | leave p1:2:100:10000 <arrival> | check 0 0";

/// A few scripts about what Redis makes of Lua.
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
    "return struct.pack('>I6I6I2I2', tonumber(ARGV[1]) or 7, 2^47 + 1, 65535, 258)",
    "return {redis.call('TIME'), redis.call('PTTL', KEYS[1]), redis.call('TYPE', KEYS[1]), tostring(ARGV[1] / 3)}",
];

const LANGUAGE_ARGUMENTS: &[&str] = &[
    "5",
    "-7",
    "0",
    "1.5",
    "two words",
    "-CODE x",
    "word",
    "1e20",
    "\r\nx\r\n",
];

/// Where the flag stands that says whether an earlier copy may arrive, among the arguments.
const FLAG: usize = 3;

pub fn tending(rng: &mut Rng, subject: &Subject) -> Words {
    let form = form_of(rng, subject.tending);
    fill(rng, form)
}

pub fn random(rng: &mut Rng, mood: &mut Mood) -> Words {
    if rng.u32(..30) == 0 {
        let (source, key) = (choose(rng, LANGUAGE), one_of(rng, KEYS));
        let words = ["EVAL", source, "1", key, choose(rng, LANGUAGE_ARGUMENTS)];
        return words.map(Into::into).into();
    }
    let mut words = match mood.earlier(rng).filter(|_| rng.u32(..8) == 0) {
        // A late copy, or what asks about it.
        Some((mut words, keys)) => {
            words[3 + keys + FLAG] = one_of(rng, "0 1 2").into();
            words
        }
        None => fresh(rng, mood),
    };
    // Another key, or another argument.
    if rng.u32(..if mood.calm { 60 } else { 12 }) == 0 {
        let place = rng.usize(3..words.len());
        words[place] = choose(rng, &["", "abc", "-1", "0", "1.5", "1e3", "300", "s", "k"]).into();
    }
    if rng.u32(..4) == 0 {
        let source = String::from_utf8_lossy(&words[1]).into_owned();
        (words[0], words[1]) = (b"EVALSHA".into(), digest(&source).into());
    }
    words
}

fn fresh(rng: &mut Rng, mood: &mut Mood) -> Words {
    let scripts = mood.subject(rng).scripts;
    // The first one is called most.
    let number = if rng.bool() {
        0
    } else {
        rng.usize(..scripts.len())
    };
    let script = &scripts[number];
    let mut form = format!("{} {}", script.keys, script.head);
    if !script.steps.is_empty() {
        // Mostly what a call alone is.
        let count = if rng.bool() { 1 } else { rng.u32(0..4) };
        for _ in 0..count {
            form = format!("{form} {}", form_of(rng, script.steps));
        }
    }
    let recorded = form.contains("<envelope>");
    if recorded {
        let envelope = format!("<publish> {:016} <life> <flag>", mood.sequence(rng));
        form = form.replace("<envelope>", &envelope);
    }
    form = form.replace("<recent>", &format!("{:016}", mood.recent(rng)));
    let keys = script.keys.split(' ').count();
    let count = keys.to_string();
    let mut words: Words = vec![b"EVAL".into(), script.source.into(), count.into()];
    words.extend(fill(rng, &form));
    if recorded {
        mood.remember(&words, keys);
    }
    words
}
