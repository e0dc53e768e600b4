//! Channels: their listeners, and the messages to them.

use std::collections::BTreeSet;

use super::connection::{Connection, ConnectionId};
use super::context::Context;
use super::core::Core;
use super::glob;
use super::reply::{Outcome, Reply};
use super::value::Bytes;

/// One of the three kinds of subscription.
struct Kind {
    subscribed: &'static str,
    unsubscribed: &'static str,
    of: fn(&mut Connection) -> &mut BTreeSet<Bytes>,
    /// How many subscriptions there are of this kind, and of the kinds that are counted with it.
    count: fn(&Connection) -> usize,
}

const CHANNELS: Kind = Kind {
    subscribed: "subscribe",
    unsubscribed: "unsubscribe",
    of: |connection| &mut connection.channels,
    count: |connection| connection.channels.len() + connection.patterns.len(),
};

const PATTERNS: Kind = Kind {
    subscribed: "psubscribe",
    unsubscribed: "punsubscribe",
    of: |connection| &mut connection.patterns,
    count: CHANNELS.count,
};

const SHARD_CHANNELS: Kind = Kind {
    subscribed: "ssubscribe",
    unsubscribed: "sunsubscribe",
    of: |connection| &mut connection.shard_channels,
    count: |connection| connection.shard_channels.len(),
};

impl Kind {
    fn add(&self, core: &mut Core, id: ConnectionId, names: &[&[u8]]) {
        let connection = core.connection(id);
        for name in names {
            (self.of)(connection).insert(name.to_vec());
            self.confirm(connection, self.subscribed, Reply::bulk(*name));
        }
    }

    fn remove(&self, core: &mut Core, id: ConnectionId, names: &[&[u8]]) {
        let connection = core.connection(id);
        let all: Vec<Bytes> = match names {
            [] => (self.of)(connection).iter().cloned().collect(),
            names => names.iter().map(|name| name.to_vec()).collect(),
        };
        if all.is_empty() {
            self.confirm(connection, self.unsubscribed, Reply::Nil);
        }
        for name in all {
            (self.of)(connection).remove(&name);
            self.confirm(connection, self.unsubscribed, Reply::Bulk(name));
        }
    }

    fn confirm(&self, connection: &mut Connection, word: &str, name: Reply) {
        let count = Reply::count((self.count)(connection));
        connection
            .pushed
            .push_back(Reply::Array(vec![Reply::bulk(word), name, count]));
    }
}

pub fn subscribe(core: &mut Core, id: ConnectionId, words: &[&[u8]]) {
    CHANNELS.add(core, id, &words[1..]);
}

pub fn unsubscribe(core: &mut Core, id: ConnectionId, words: &[&[u8]]) {
    CHANNELS.remove(core, id, &words[1..]);
}

pub fn psubscribe(core: &mut Core, id: ConnectionId, words: &[&[u8]]) {
    PATTERNS.add(core, id, &words[1..]);
}

pub fn ssubscribe(core: &mut Core, id: ConnectionId, words: &[&[u8]]) {
    SHARD_CHANNELS.add(core, id, &words[1..]);
}

pub fn sunsubscribe(core: &mut Core, id: ConnectionId, words: &[&[u8]]) {
    SHARD_CHANNELS.remove(core, id, &words[1..]);
}

/// Sends a message to all listeners here. Returns their number.
pub fn deliver(core: &mut Core, channel: &[u8], payload: &[u8]) -> i64 {
    let mut receivers = 0;
    for connection in core.connections.values_mut() {
        if connection.channels.contains(channel) {
            receivers += 1;
            connection
                .pushed
                .push_back(Reply::array([&b"message"[..], channel, payload]));
        }
        for pattern in &connection.patterns {
            if glob::matches(pattern, channel) {
                receivers += 1;
                let message = Reply::array([&b"pmessage"[..], pattern, channel, payload]);
                connection.pushed.push_back(message);
            }
        }
    }
    receivers
}

pub fn publish(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let (channel, payload) = (words[1], words[2]);
    if context.core.cluster.is_some() {
        let passed_on = (channel.to_vec(), payload.to_vec());
        context.core.bus.push(passed_on);
    }
    Ok(Reply::Int(deliver(context.core, channel, payload)))
}

pub fn spublish(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let mut receivers = 0;
    for connection in context.core.connections.values_mut() {
        if connection.shard_channels.contains(words[1]) {
            receivers += 1;
            connection
                .pushed
                .push_back(Reply::array([&b"smessage"[..], words[1], words[2]]));
        }
    }
    Ok(Reply::Int(receivers))
}

fn listeners(
    context: &Context<'_>,
    words: &[&[u8]],
    of: fn(&Connection) -> &BTreeSet<Bytes>,
) -> Reply {
    let mut answer = Vec::new();
    for channel in &words[2..] {
        let hear = |connection: &&Connection| of(connection).contains(*channel);
        answer.push(Reply::bulk(*channel));
        answer.push(Reply::count(
            context.core.connections.values().filter(hear).count(),
        ));
    }
    Reply::Array(answer)
}

pub fn numsub(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    Ok(listeners(context, words, |connection| &connection.channels))
}

pub fn shard_numsub(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    Ok(listeners(context, words, |connection| {
        &connection.shard_channels
    }))
}
