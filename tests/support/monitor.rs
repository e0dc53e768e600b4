//! Records every command a server carries out, those of scripts included, by `MONITOR`.

use std::sync::LazyLock;
use std::time::Duration;

use futures::StreamExt;
use redis::aio::MultiplexedConnection;
use tokio::time::timeout;

use super::server::RedisServer;

const DEADLINE: Duration = Duration::from_secs(20);

/// One command as the server saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The client's address, or `lua`.
    pub client: String,
    /// In capitals.
    pub name: String,
    /// Bytes that are no UTF-8 are replaced.
    pub args: Vec<String>,
}

/// Whether a script, or its digest, is the one that deletes unused records.
pub fn forgets(script: &str) -> bool {
    static FORGET: LazyLock<redis::Script> =
        LazyLock::new(|| redis::Script::new(include_str!("../../lua/engine/forget.lua")));
    script == FORGET.get_hash() || script.starts_with("-- Purpose: deletes records")
}

impl Command {
    /// Whether a script ran it.
    pub fn is_lua(&self) -> bool {
        self.client == "lua"
    }

    /// Whether it is a script that carries out calls of a client, and not one that deletes unused records.
    pub fn is_script(&self) -> bool {
        let is_script = self.name == "EVAL" || self.name == "EVALSHA";
        is_script && !self.is_lua() && !forgets(&self.args[0])
    }

    /// Reads one line of `MONITOR`: `1700000000.123456 [0 127.0.0.1:5000] "get" "key"`.
    pub fn parse(line: &str) -> Option<Command> {
        let (_, rest) = line.split_once(" [")?;
        let (source, words) = rest.split_once("] ")?;
        let (_database, client) = source.split_once(' ')?;
        let mut words = words_of(words)?.into_iter();
        Some(Command {
            client: client.to_owned(),
            name: words.next()?.to_uppercase(),
            args: words.collect(),
        })
    }
}

/// Splits `"a" "b\x00"` and undoes the escapes. Valkey 8.1 leaves quotes and backslashes as they are, which makes no sense by the
/// rules of the others.
fn words_of(text: &str) -> Option<Vec<String>> {
    split(text, true).or_else(|| split(text, false))
}

fn split(text: &str, quotes_are_escaped: bool) -> Option<Vec<String>> {
    let mut bytes = text.bytes();
    let mut words = Vec::new();
    while let Some(byte) = bytes.next() {
        match byte {
            b' ' => continue,
            b'"' => words.push(quoted(&mut bytes, quotes_are_escaped)?),
            _ => return None,
        }
    }
    Some(words)
}

/// Reads up to the closing quote. Where others are not escaped it is at the end, or another word follows.
fn quoted(
    bytes: &mut (impl Iterator<Item = u8> + Clone),
    quotes_are_escaped: bool,
) -> Option<String> {
    let mut word = Vec::new();
    loop {
        let byte = bytes.next()?;
        let mut ahead = bytes.clone();
        let next = (ahead.next(), ahead.next());
        let closes =
            quotes_are_escaped || matches!(next, (None, _) | (Some(b' '), None | Some(b'"')));
        if byte == b'"' && closes {
            return Some(String::from_utf8_lossy(&word).into_owned());
        }
        let escaped = match (byte, next.0) {
            (b'\\', Some(b'n')) => Some(b'\n'),
            (b'\\', Some(b'r')) => Some(b'\r'),
            (b'\\', Some(b't')) => Some(b'\t'),
            (b'\\', Some(b'a')) => Some(7),
            (b'\\', Some(b'b')) => Some(8),
            (b'\\', Some(b'x')) => {
                let digits: Vec<u8> = bytes.clone().skip(1).take(2).collect();
                let digits = String::from_utf8(digits).ok();
                let byte = digits.and_then(|digits| u8::from_str_radix(&digits, 16).ok());
                if byte.is_some() {
                    bytes.nth(1);
                }
                byte
            }
            (b'\\', other) if quotes_are_escaped => other,
            _ => None,
        };
        if escaped.is_some() {
            bytes.next();
        } else if byte == b'\\' && quotes_are_escaped {
            return None;
        }
        word.push(escaped.unwrap_or(byte));
    }
}

/// A running record. It holds what the test's own connections send, too.
pub struct Monitor {
    lines: redis::aio::Monitor,
    control: MultiplexedConnection,
    markers: u64,
}

impl Monitor {
    /// Records from now on.
    pub async fn start(server: &RedisServer) -> Monitor {
        let control = server.connection().await;
        let lines = server
            .client()
            .get_async_monitor()
            .await
            .expect("MONITOR answers");
        Monitor {
            lines,
            control,
            markers: 0,
        }
    }

    /// How many scripts have carried out calls on the object called `name` since the last look. Permits of other objects may be announced
    /// to JVMs meanwhile.
    pub async fn scripts_about(&mut self, name: &str) -> usize {
        let commands = self.until_marker().await;
        let about =
            |one: &&Command| one.is_script() && one.args.iter().any(|arg| arg.contains(name));
        commands.iter().filter(about).count()
    }

    /// How many scripts have carried out calls since the last look.
    pub async fn scripts(&mut self) -> usize {
        self.scripts_about("").await
    }

    /// All commands since the last call, up to this moment: those the server has begun before it sees a
    /// marker that this call sends on another connection.
    pub async fn until_marker(&mut self) -> Vec<Command> {
        self.markers += 1;
        let marker = format!("monitor-marker-{}", self.markers);
        let _: String = redis::cmd("ECHO")
            .arg(&marker)
            .query_async(&mut self.control)
            .await
            .expect("ECHO answers");
        let mut commands = Vec::new();
        let mut lines = self.lines.on_message::<String>();
        loop {
            let line = timeout(DEADLINE, lines.next())
                .await
                .expect("the marker arrives in time")
                .expect("the record goes on while the server runs");
            let command =
                Command::parse(&line).unwrap_or_else(|| panic!("no line of MONITOR: {line}"));
            if command.name == "ECHO" && command.args == [marker.as_str()] {
                return commands;
            }
            commands.push(command);
        }
    }
}
