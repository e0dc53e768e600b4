//! Connections, and the commands about them.

use std::collections::{BTreeSet, VecDeque};

use super::context::Context;
use super::replication::Wait;
use super::reply::{Outcome, Reply};
use super::value::Bytes;

/// The number of a connection. No two connections of a server have the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

#[derive(Debug, Default)]
pub struct Connection {
    /// Whether its commands are carried out for all slots, as a replica carries out the commands of its primary.
    pub obeyed: bool,
    /// Whether its next command has been redirected here.
    pub asking: bool,
    pub channels: BTreeSet<Bytes>,
    pub patterns: BTreeSet<Bytes>,
    pub shard_channels: BTreeSet<Bytes>,
    /// The number of the last write of this connection.
    pub written: u64,
    /// The wait for replicas, if the connection waits.
    pub waits: Option<Wait>,
    /// The messages that the connection was sent and has not taken yet.
    pub pushed: VecDeque<Reply>,
}

impl Connection {
    pub fn is_subscribed(&self) -> bool {
        !(self.channels.is_empty() && self.patterns.is_empty() && self.shard_channels.is_empty())
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

pub fn set_name(_: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    if !words[2].iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Err(
            "ERR Client names cannot contain spaces, newlines or special characters.".into(),
        );
    }
    Ok(Reply::ok())
}
