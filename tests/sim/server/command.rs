//! The commands: their names, how many words they take, what they do to a server in trouble, who carries them out.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::connection::{self, ConnectionId};
use super::context::Context;
use super::core::Core;
use super::reply::{Outcome, Refusal};
use super::{
    cluster, expiry, hashes, keys, lists, pubsub, server_info, sets, strings, zset_ranges, zsets,
};

/// A command, or a subcommand (`object|idletime`).
#[derive(Debug)]
pub struct Command {
    pub name: &'static str,
    /// How many words with the name; at least so many where it is negative.
    arity: isize,
    traits: u16,
    pub run: Run,
}

/// Who carries a command out.
#[derive(Debug, Clone, Copy)]
pub enum Run {
    Data(fn(&mut Context<'_>, &[&[u8]]) -> Outcome),
    /// It is answered by messages.
    Subscription(fn(&mut Core, ConnectionId, &[&[u8]])),
    /// `EVAL`, `EVALSHA` and `SCRIPT`.
    Script,
    /// `WAIT`, which may take its time.
    Wait,
}

const READ: u16 = 0;
const WRITE: u16 = 1;
const MEMORY: u16 = 2;
const NO_SCRIPT: u16 = 4;
const LOADING: u16 = 8;
const GROW: u16 = WRITE | MEMORY;
const OUTSIDE: u16 = NO_SCRIPT | LOADING;

impl Command {
    fn has(&self, what: u16) -> bool {
        self.traits & what != 0
    }

    pub fn writes(&self) -> bool {
        self.has(WRITE)
    }

    pub fn takes_memory(&self) -> bool {
        self.has(MEMORY)
    }

    pub fn while_loading(&self) -> bool {
        self.has(LOADING)
    }

    pub fn while_subscribed(&self) -> bool {
        matches!(self.run, Run::Subscription(_)) || self.name == "ping"
    }

    /// What it says is at home in a slot.
    pub fn is_about_channels(&self) -> bool {
        matches!(self.name, "spublish" | "ssubscribe" | "sunsubscribe")
    }

    /// Which of its words are keys, or channels that are at home in slots: the first, the last (from the end where it is
    /// negative), and how far they are apart.
    pub fn key_places(&self) -> Option<(usize, isize, usize)> {
        Some(match self.name {
            "asking" | "info" | "keys" | "ping" | "psubscribe" | "publish" | "role"
            | "subscribe" | "time" | "unsubscribe" | "wait" | "eval" | "evalsha" => {
                return None;
            }
            "memory|usage" => (2, 2, 1),
            name if name.contains('|') => return None,
            "copy" | "rename" | "renamenx" => (1, 2, 1),
            "del" | "exists" | "mget" | "ssubscribe" | "sunsubscribe" | "touch" | "unlink" => {
                (1, -1, 1)
            }
            _ => (1, 1, 1),
        })
    }

    /// The keys of such a command.
    pub fn keys<'a>(&self, words: &[&'a [u8]]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let counted = matches!(self.name, "eval" | "evalsha").then_some(2);
        let named = self.key_places().map(|(first, last, step)| {
            let last = match usize::try_from(last) {
                Ok(last) => last,
                Err(_) => words.len().saturating_sub(last.unsigned_abs()),
            };
            (first..=last).step_by(step)
        });
        let number = counted.and_then(|place| {
            let count = std::str::from_utf8(words.get(place)?).ok()?;
            Some((place, count.parse::<usize>().ok()?))
        });
        let counted = number.map(|(place, count)| place + 1..=place.saturating_add(count));
        let places = named
            .into_iter()
            .flatten()
            .chain(counted.into_iter().flatten());
        let keys: Vec<&[u8]> = places
            .map_while(|place| words.get(place).copied())
            .collect();
        keys.into_iter()
    }

    fn takes(&self, words: usize) -> bool {
        if self.arity < 0 {
            words >= self.arity.unsigned_abs()
        } else {
            words == self.arity.unsigned_abs()
        }
    }
}

/// Each command as `COMMAND INFO` describes it: its name, how many words it takes, and the flags that matter here.
pub fn descriptions() -> impl Iterator<Item = (&'static str, i64, Vec<&'static str>)> {
    const FLAGS: [(u16, &str); 4] = [
        (WRITE, "write"),
        (MEMORY, "denyoom"),
        (NO_SCRIPT, "noscript"),
        (LOADING, "loading"),
    ];
    COMMANDS.iter().map(|command| {
        let flags = FLAGS
            .iter()
            .filter(|(flag, _)| command.has(*flag))
            .map(|(_, name)| *name);
        let arity = i64::try_from(command.arity).expect("few words");
        (command.name, arity, flags.collect())
    })
}

/// Each command, and which of its words `COMMAND INFO` calls keys: the first, the last, and how far they are apart.
pub fn key_places() -> impl Iterator<Item = (&'static str, [i64; 3])> {
    let number = |number: usize| i64::try_from(number).expect("few words");
    COMMANDS.iter().map(move |command| {
        let places = command.key_places();
        let places = places.map(|(first, last, step)| [number(first), last as i64, number(step)]);
        (command.name, places.unwrap_or_default())
    })
}

/// Commands that are only the first half of a name.
const CONTAINERS: [&str; 5] = ["client", "cluster", "memory", "pubsub", "script"];

enum Found {
    Command(&'static Command),
    /// A container alone.
    Container(String),
    Nothing,
    NoSubcommand(String),
}

fn look_up(words: &[&[u8]]) -> Found {
    let Some(first) = words.first() else {
        return Found::Nothing;
    };
    let mut name = first.to_ascii_lowercase();
    if CONTAINERS
        .iter()
        .any(|container| container.as_bytes() == name)
    {
        let container = String::from_utf8_lossy(&name).into_owned();
        let Some(second) = words.get(1) else {
            return Found::Container(container);
        };
        name.push(b'|');
        name.extend_from_slice(&second.to_ascii_lowercase());
        return match BY_NAME.get(name.as_slice()) {
            Some(command) => Found::Command(command),
            None => Found::NoSubcommand(container),
        };
    }
    match BY_NAME.get(name.as_slice()) {
        Some(command) => Found::Command(command),
        None => Found::Nothing,
    }
}

/// The command that a connection asks for.
pub fn find(words: &[&[u8]]) -> Result<&'static Command, Refusal> {
    let arity = |name: &str| format!("ERR wrong number of arguments for '{name}' command");
    match look_up(words) {
        Found::Command(command) if command.takes(words.len()) => Ok(command),
        Found::Command(command) => Err(arity(command.name).into()),
        Found::Container(name) => Err(arity(&name).into()),
        Found::NoSubcommand(container) => {
            let mut text = b"ERR unknown subcommand '".to_vec();
            text.extend_from_slice(shortened(words[1], 128));
            text.extend_from_slice(format!("'. Try {} HELP.", container.to_uppercase()).as_bytes());
            Err(Refusal(text))
        }
        Found::Nothing => Err(unknown(words)),
    }
}

fn unknown(words: &[&[u8]]) -> Refusal {
    let mut arguments = Vec::new();
    for word in words.iter().skip(1) {
        if arguments.len() >= 128 {
            break;
        }
        let room = 128 - arguments.len();
        arguments.push(b'\'');
        arguments.extend_from_slice(shortened(word, room));
        arguments.extend_from_slice(b"' ");
    }
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(shortened(words.first().copied().unwrap_or_default(), 128));
    text.extend_from_slice(b"', with args beginning with: ");
    text.extend_from_slice(&arguments);
    Refusal(text)
}

/// What C prints of a text.
pub fn printed(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// The same, so many bytes at the most.
fn shortened(text: &[u8], most: usize) -> &[u8] {
    let text = printed(text);
    &text[..text.len().min(most)]
}

/// The first key that a command is about.
pub fn key_of<'a>(words: &[&'a [u8]]) -> Option<&'a [u8]> {
    find(words).ok()?.keys(words).next()
}

/// The command that a script asks for.
pub fn find_in_script(words: &[&[u8]]) -> Result<&'static Command, Refusal> {
    const ARITY: &str = "ERR Wrong number of args calling Redis command from script";
    match look_up(words) {
        Found::Command(command) if !command.takes(words.len()) => Err(ARITY.into()),
        Found::Container(_) => Err(ARITY.into()),
        Found::Command(command) if command.has(NO_SCRIPT) => {
            Err("ERR This Redis command is not allowed from script".into())
        }
        Found::Command(command) => Ok(command),
        Found::Nothing | Found::NoSubcommand(_) => {
            Err("ERR Unknown Redis command called from script".into())
        }
    }
}

static BY_NAME: LazyLock<BTreeMap<&'static [u8], &'static Command>> = LazyLock::new(|| {
    COMMANDS
        .iter()
        .map(|command| (command.name.as_bytes(), command))
        .collect()
});

const fn data(
    name: &'static str,
    arity: isize,
    traits: u16,
    run: fn(&mut Context<'_>, &[&[u8]]) -> Outcome,
) -> Command {
    Command {
        name,
        arity,
        traits,
        run: Run::Data(run),
    }
}

const fn subscription(
    name: &'static str,
    arity: isize,
    run: fn(&mut Core, ConnectionId, &[&[u8]]),
) -> Command {
    Command {
        name,
        arity,
        traits: OUTSIDE,
        run: Run::Subscription(run),
    }
}

const fn script(name: &'static str, arity: isize) -> Command {
    Command {
        name,
        arity,
        traits: NO_SCRIPT,
        run: Run::Script,
    }
}

static COMMANDS: &[Command] = &[
    data("asking", 1, READ, cluster::asking),
    data("client|setname", 3, OUTSIDE, connection::set_name),
    data("cluster|info", 2, READ, cluster::info),
    data("cluster|slots", 2, READ, cluster::slots),
    data("copy", -3, GROW, keys::copy),
    data("decr", 2, GROW, strings::decr),
    data("decrby", 3, GROW, strings::decr_by),
    data("del", -2, WRITE, keys::del),
    script("eval", -3),
    script("evalsha", -3),
    data("exists", -2, READ, keys::exists),
    data("get", 2, READ, strings::get),
    data("hdel", -3, WRITE, hashes::hdel),
    data("hexists", 3, READ, hashes::hexists),
    data("hget", 3, READ, hashes::hget),
    data("hgetall", 2, READ, hashes::hgetall),
    data("hincrby", 4, GROW, hashes::hincrby),
    data("hkeys", 2, READ, hashes::hkeys),
    data("hlen", 2, READ, hashes::hlen),
    data("hmget", -3, READ, hashes::hmget),
    data("hset", -4, GROW, hashes::hset),
    data("hstrlen", 3, READ, hashes::hstrlen),
    data("incr", 2, GROW, strings::incr),
    data("incrby", 3, GROW, strings::incr_by),
    data("info", -1, LOADING, server_info::info),
    data("keys", 2, READ, keys::keys),
    data("lindex", 3, READ, lists::lindex),
    data("linsert", 5, GROW, lists::linsert),
    data("llen", 2, READ, lists::llen),
    data("lpop", -2, WRITE, lists::lpop),
    data("lpos", -3, READ, lists::lpos),
    data("lpush", -3, GROW, lists::lpush),
    data("lrange", 4, READ, lists::lrange),
    data("lrem", 4, WRITE, lists::lrem),
    data("memory|usage", -3, READ, keys::memory_usage),
    data("mget", -2, READ, strings::mget),
    data("persist", 2, WRITE, expiry::persist),
    data("pexpire", -3, WRITE, expiry::pexpire),
    data("pexpireat", -3, WRITE, expiry::pexpire_at),
    data("pexpiretime", 2, READ, expiry::pexpire_time),
    data("ping", -1, READ, connection::ping),
    subscription("psubscribe", -2, pubsub::psubscribe),
    data("pttl", 2, READ, expiry::pttl),
    data("publish", 3, LOADING, pubsub::publish),
    data("pubsub|numsub", -2, LOADING, pubsub::numsub),
    data("pubsub|shardnumsub", -2, LOADING, pubsub::shard_numsub),
    data("rename", 3, WRITE, keys::rename),
    data("renamenx", 3, WRITE, keys::rename_nx),
    data("role", 1, OUTSIDE, server_info::role),
    data("rpop", -2, WRITE, lists::rpop),
    data("rpush", -3, GROW, lists::rpush),
    data("sadd", -3, GROW, sets::sadd),
    data("scard", 2, READ, sets::scard),
    script("script|flush", -2),
    data("set", -3, GROW, strings::set),
    data("sismember", 3, READ, sets::sismember),
    data("smembers", 2, READ, sets::smembers),
    data("spublish", 3, LOADING, pubsub::spublish),
    data("srem", -3, WRITE, sets::srem),
    data("sscan", -3, READ, sets::sscan),
    subscription("ssubscribe", -2, pubsub::ssubscribe),
    subscription("subscribe", -2, pubsub::subscribe),
    subscription("sunsubscribe", -1, pubsub::sunsubscribe),
    data("time", 1, LOADING, server_info::time),
    data("touch", -2, READ, keys::touch),
    data("type", 2, READ, keys::type_of),
    data("unlink", -2, WRITE, keys::del),
    subscription("unsubscribe", -1, pubsub::unsubscribe),
    Command {
        name: "wait",
        arity: 3,
        traits: NO_SCRIPT,
        run: Run::Wait,
    },
    data("zadd", -4, GROW, zsets::zadd),
    data("zcard", 2, READ, zsets::zcard),
    data("zcount", 4, READ, zset_ranges::zcount),
    data("zmscore", -3, READ, zsets::zmscore),
    data("zrange", -4, READ, zset_ranges::zrange),
    data("zrangebyscore", -4, READ, zset_ranges::zrangebyscore),
    data("zrank", 3, READ, zsets::zrank),
    data("zrem", -3, WRITE, zsets::zrem),
    data("zremrangebyscore", 4, WRITE, zset_ranges::zremrangebyscore),
    data("zrevrangebyscore", -4, READ, zset_ranges::zrevrangebyscore),
    data("zscan", -3, READ, zsets::zscan),
    data("zscore", 3, READ, zsets::zscore),
];
