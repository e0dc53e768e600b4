//! Connections, and the commands about them.

use std::collections::{BTreeSet, VecDeque};

use super::context::Context;
use super::keyspace::DATABASES;
use super::number;
use super::replication::Wait;
use super::reply::{Outcome, Reply, SYNTAX};
use super::value::Bytes;

/// One of a server's connections; none has the number of an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

#[derive(Debug, Default)]
pub struct Connection {
    pub database: usize,
    pub authenticated: bool,
    pub name: Bytes,
    /// What it asks for is carried out wherever it asks, as what a primary sends is by its replica.
    pub obeyed: bool,
    /// Its user may use what others may not.
    pub exempt: bool,
    /// It has been sent here for its next command.
    pub asking: bool,
    pub channels: BTreeSet<Bytes>,
    pub patterns: BTreeSet<Bytes>,
    pub shard_channels: BTreeSet<Bytes>,
    /// The number of the last write that it has made.
    pub written: u64,
    /// It waits for replicas.
    pub waits: Option<Wait>,
    /// What it was sent and has not taken yet.
    pub pushed: VecDeque<Reply>,
}

impl Connection {
    pub fn is_subscribed(&self) -> bool {
        !(self.channels.is_empty() && self.patterns.is_empty() && self.shard_channels.is_empty())
    }
}

pub fn auth(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let (user, given): (&[u8], _) = match words[1..] {
        [password] => (b"default", password),
        [user, password] => (user, password),
        _ => return Err(SYNTAX.into()),
    };
    let connection = context.connection;
    match &context.core.faults.password {
        None if words.len() == 2 => Err(
            "ERR AUTH <password> called without any password configured for the \
             default user. Are you sure your configuration is correct?"
                .into(),
        ),
        wanted
            if user == b"default"
                && wanted
                    .as_ref()
                    .is_none_or(|wanted| wanted.as_bytes() == given) =>
        {
            context.core.connection(connection).authenticated = true;
            Ok(Reply::ok())
        }
        _ => Err("WRONGPASS invalid username-password pair or user is disabled.".into()),
    }
}

pub fn select(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let index = number::check_small_integer(words[1])?;
    if context.core.cluster.is_some() && index != 0 {
        return Err("ERR SELECT is not allowed in cluster mode".into());
    }
    match usize::try_from(index) {
        Ok(index) if index < DATABASES => {
            context.database = index;
            Ok(Reply::ok())
        }
        _ => Err("ERR DB index is out of range".into()),
    }
}

pub fn ping(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    if words.len() > 2 {
        return Err("ERR wrong number of arguments for 'ping' command".into());
    }
    let word = words.get(1).copied();
    let in_script = context.core.script.is_some();
    if !in_script && context.core.connections[&context.connection].is_subscribed() {
        return Ok(Reply::array([&b"pong"[..], word.unwrap_or_default()]));
    }
    Ok(word.map_or(Reply::status("PONG"), Reply::bulk))
}

pub fn echo(_: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    Ok(Reply::bulk(words[1]))
}

/// Who sends it is disconnected then; that is left to the caller.
pub fn quit(_: &mut Context<'_>, _: &[&[u8]]) -> Outcome {
    Ok(Reply::ok())
}

pub fn set_name(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    if !words[2].iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Err(
            "ERR Client names cannot contain spaces, newlines or special characters.".into(),
        );
    }
    let connection = context.connection;
    context.core.connection(connection).name = words[2].to_vec();
    Ok(Reply::ok())
}

pub fn get_name(context: &mut Context<'_>, _: &[&[u8]]) -> Outcome {
    let name = context.core.connections[&context.connection].name.clone();
    Ok(Reply::maybe((!name.is_empty()).then_some(name)))
}

pub fn client_id(context: &mut Context<'_>, _: &[&[u8]]) -> Outcome {
    Ok(Reply::Int(
        i64::try_from(context.connection.0).expect("few connections"),
    ))
}
