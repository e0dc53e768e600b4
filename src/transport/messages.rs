//! Messages, and the commands for them.
//!
//! A standalone server has one kind of them. Those of a cluster that stay with the key's server (`SPUBLISH`, `SSUBSCRIBE`,
//! `SHARDNUMSUB`) are to be chosen here: the scripts know both.

use super::Command;

/// Sends a message.
pub(crate) const PUBLISH: &str = "PUBLISH";

/// Asks how many listen to each of `channels`.
pub(crate) fn count_listeners<'a>(channels: impl Iterator<Item = &'a str>) -> Command {
    let question = Command::new("PUBSUB").arg("NUMSUB");
    channels.fold(question, Command::arg)
}

/// A message that has been heard.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) channel: String,
    pub(crate) payload: Vec<u8>,
}
