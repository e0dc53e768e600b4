//! Messages, and the commands for them.

/// The kind of messages that wake waiters: all clients of an object, JVMs included, must use the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Messages {
    /// They reach all nodes of a cluster. A server that is no cluster has no others.
    Plain,
    /// They stay with the server that has the channel's slot.
    Sharded,
}

impl Messages {
    fn choose(self, plain: &'static str, sharded: &'static str) -> &'static str {
        match self {
            Messages::Plain => plain,
            Messages::Sharded => sharded,
        }
    }

    /// The command that sends one.
    pub(crate) fn publish(self) -> &'static str {
        self.choose("PUBLISH", "SPUBLISH")
    }

    pub(crate) fn are_sharded(self) -> bool {
        self == Messages::Sharded
    }

    pub(super) fn subscribe(self) -> &'static str {
        self.choose("SUBSCRIBE", "SSUBSCRIBE")
    }

    pub(super) fn unsubscribe(self) -> &'static str {
        self.choose("UNSUBSCRIBE", "SUNSUBSCRIBE")
    }
}

/// A message, or an event of a subscription.
#[derive(Debug)]
pub(crate) enum Heard {
    Message {
        channel: String,
        payload: Vec<u8>,
    },
    /// The server has ended the subscription by itself, or has been asked to.
    Ended(String),
}
