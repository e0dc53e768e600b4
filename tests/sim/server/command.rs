//! The commands: their names, how many words they take, whether they write, and the code that carries them out.

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
    /// How many words a call has, with the name. A negative number means that many words or more.
    arity: isize,
    traits: u16,
    pub run: Run,
}

/// The code that carries a command out.
#[derive(Debug, Clone, Copy)]
pub enum Run {
    Data(fn(&mut Context<'_>, &[&[u8]]) -> Outcome),
    /// The command is answered by messages.
    Subscription(fn(&mut Core, ConnectionId, &[&[u8]])),
    /// `EVAL`, `EVALSHA` and `SCRIPT`.
    Script,
    /// `WAIT`, which may take its time.
    Wait,
}

const READ: u16 = 0;
const WRITE: u16 = 1;
const NO_SCRIPT: u16 = 2;

impl Command {
    fn has(&self, what: u16) -> bool {
        self.traits & what != 0
    }

    pub fn writes(&self) -> bool {
        self.has(WRITE)
    }

    pub fn while_subscribed(&self) -> bool {
        matches!(self.run, Run::Subscription(_)) || self.name == "ping"
    }

    /// Whether the command is about channels that belong to slots.
    pub fn is_about_channels(&self) -> bool {
        matches!(self.name, "spublish" | "ssubscribe" | "sunsubscribe")
    }

    /// The places of the words that are keys, or channels that belong to slots: the first, the last (counted from the end if
    /// negative), and how far they are apart.
    pub fn key_places(&self) -> Option<(usize, isize, usize)> {
        Some(match self.name {
            "asking" | "info" | "keys" | "ping" | "psubscribe" | "publish" | "role"
            | "subscribe" | "time" | "unsubscribe" | "wait" | "eval" | "evalsha" => {
                return None;
            }
            name if name.contains('|') => return None,
            "rename" | "renamenx" => (1, 2, 1),
            "del" | "exists" | "mget" | "ssubscribe" | "sunsubscribe" => (1, -1, 1),
            _ => (1, 1, 1),
        })
    }

    /// The keys among the words of a command.
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

/// Each command as `COMMAND INFO` describes it: its name, how many words it takes, the flags that matter here, and which words are
/// keys: the first, the last, and how far they are apart.
pub fn descriptions() -> impl Iterator<Item = (&'static str, i64, Vec<&'static str>, [i64; 3])> {
    const FLAGS: [(u16, &str); 2] = [(NO_SCRIPT, "noscript"), (WRITE, "write")];
    COMMANDS.iter().map(|command| {
        let flags = FLAGS.iter().filter(|(flag, _)| command.has(*flag));
        let flags = flags.map(|(_, name)| *name).collect();
        let places = command.key_places();
        let places = places.map(|(first, last, step)| [first as i64, last as i64, step as i64]);
        let places = places.unwrap_or_default();
        (command.name, command.arity as i64, flags, places)
    })
}

/// Names that are only the first half of a command's name.
const CONTAINERS: [&str; 4] = ["client", "cluster", "pubsub", "script"];

enum Found {
    Command(&'static Command),
    /// A container without a subcommand.
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

/// The part of a text that C prints.
pub fn printed(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// The printed part of a text, `most` bytes at the most.
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
        traits: NO_SCRIPT,
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
    data("client|setname", 3, NO_SCRIPT, connection::set_name),
    data("cluster|info", 2, READ, cluster::info),
    data("cluster|slots", 2, READ, cluster::slots),
    data("decr", 2, WRITE, strings::decr),
    data("decrby", 3, WRITE, strings::decr_by),
    data("del", -2, WRITE, keys::del),
    script("eval", -3),
    script("evalsha", -3),
    data("exists", -2, READ, keys::exists),
    data("get", 2, READ, strings::get),
    data("hdel", -3, WRITE, hashes::hdel),
    data("hexists", 3, READ, hashes::hexists),
    data("hget", 3, READ, hashes::hget),
    data("hgetall", 2, READ, hashes::hgetall),
    data("hkeys", 2, READ, hashes::hkeys),
    data("hlen", 2, READ, hashes::hlen),
    data("hmget", -3, READ, hashes::hmget),
    data("hset", -4, WRITE, hashes::hset),
    data("incr", 2, WRITE, strings::incr),
    data("incrby", 3, WRITE, strings::incr_by),
    data("info", -1, READ, server_info::info),
    data("keys", 2, READ, keys::keys),
    data("lindex", 3, READ, lists::lindex),
    data("linsert", 5, WRITE, lists::linsert),
    data("llen", 2, READ, lists::llen),
    data("lpop", -2, WRITE, lists::lpop),
    data("lpos", -3, READ, lists::lpos),
    data("lpush", -3, WRITE, lists::lpush),
    data("lrange", 4, READ, lists::lrange),
    data("lrem", 4, WRITE, lists::lrem),
    data("mget", -2, READ, strings::mget),
    data("persist", 2, WRITE, expiry::persist),
    data("pexpire", -3, WRITE, expiry::pexpire),
    data("pexpiretime", 2, READ, expiry::pexpire_time),
    data("ping", -1, READ, connection::ping),
    subscription("psubscribe", -2, pubsub::psubscribe),
    data("pttl", 2, READ, expiry::pttl),
    data("publish", 3, READ, pubsub::publish),
    data("pubsub|numsub", -2, READ, pubsub::numsub),
    data("pubsub|shardnumsub", -2, READ, pubsub::shard_numsub),
    data("rename", 3, WRITE, keys::rename),
    data("renamenx", 3, WRITE, keys::rename_nx),
    data("role", 1, NO_SCRIPT, server_info::role),
    data("rpop", -2, WRITE, lists::rpop),
    data("rpush", -3, WRITE, lists::rpush),
    data("sadd", -3, WRITE, sets::sadd),
    data("scard", 2, READ, sets::scard),
    script("script|flush", -2),
    data("set", -3, WRITE, strings::set),
    data("sismember", 3, READ, sets::sismember),
    data("smembers", 2, READ, sets::smembers),
    data("spublish", 3, READ, pubsub::spublish),
    data("srem", -3, WRITE, sets::srem),
    data("sscan", -3, READ, sets::sscan),
    subscription("ssubscribe", -2, pubsub::ssubscribe),
    subscription("subscribe", -2, pubsub::subscribe),
    subscription("sunsubscribe", -1, pubsub::sunsubscribe),
    data("time", 1, READ, server_info::time),
    data("type", 2, READ, keys::type_of),
    subscription("unsubscribe", -1, pubsub::unsubscribe),
    Command {
        name: "wait",
        arity: 3,
        traits: NO_SCRIPT,
        run: Run::Wait,
    },
    data("zadd", -4, WRITE, zsets::zadd),
    data("zcard", 2, READ, zsets::zcard),
    data("zcount", 4, READ, zset_ranges::zcount),
    data("zmscore", -3, READ, zsets::zmscore),
    data("zrange", -4, READ, zset_ranges::zrange),
    data("zrangebyscore", -4, READ, zset_ranges::zrangebyscore),
    data("zrank", 3, READ, zsets::zrank),
    data("zrem", -3, WRITE, zsets::zrem),
    data("zrevrangebyscore", -4, READ, zset_ranges::zrevrangebyscore),
    data("zscan", -3, READ, zsets::zscan),
    data("zscore", 3, READ, zsets::zscore),
];
