//! Commands for a server.

use std::fmt;
use std::sync::Arc;

use redis::{Arg, Cmd, RedisWrite};

/// A command, ready to be sent.
#[derive(Clone)]
pub(crate) struct Command {
    packed: Cmd,
    /// The object whose server it is for.
    key: Option<Arc<str>>,
    /// Its answer counts when replicas have what it has changed.
    confirmed: bool,
}

impl Command {
    pub(crate) fn new(name: &str) -> Self {
        Command {
            packed: redis::cmd(name),
            key: None,
            confirmed: false,
        }
    }

    /// With room for so many words, of so many bytes.
    pub(crate) fn with_capacity(words: usize, bytes: usize) -> Self {
        Command {
            packed: Cmd::with_capacity(words, bytes),
            key: None,
            confirmed: false,
        }
    }

    /// The next argument is a key; the command is for the server that has the first one.
    pub(crate) fn key(mut self, key: &Arc<str>) -> Self {
        self.word(key);
        self.key.get_or_insert_with(|| Arc::clone(key));
        self
    }

    /// For the server that has `key`, unless it is for another one already.
    pub(crate) fn beside(mut self, key: &str) -> Self {
        self.key.get_or_insert_with(|| key.into());
        self
    }

    /// Its answer counts when as many replicas as wanted have what it has changed, if any are wanted.
    pub(crate) fn confirm(&mut self) {
        self.confirmed = true;
    }

    /// The next argument.
    pub(crate) fn arg(mut self, arg: &str) -> Self {
        self.word(arg);
        self
    }

    pub(crate) fn word(&mut self, word: &str) {
        self.packed.arg(word);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.packed.arg(bytes);
    }

    pub(crate) fn number(&mut self, number: i64) {
        self.packed.arg(number);
    }

    pub(crate) fn formatted(&mut self, text: fmt::Arguments<'_>) {
        self.packed.write_arg_fmt(text);
    }

    /// The key that it belongs to, if it is one key's.
    pub(crate) fn belongs_to(&self) -> Option<&Arc<str>> {
        self.key.as_ref()
    }

    /// The keys that it names, and the channels that its script sends to, which stand among them.
    pub(super) fn names(&self) -> Vec<String> {
        let mut words = self.packed.args_iter().map(|word| match word {
            Arg::Simple(word) => String::from_utf8_lossy(word).into_owned(),
            _ => String::new(),
        });
        match words.next().as_deref() {
            Some("EVAL" | "EVALSHA") => {
                let count = words.nth(1).and_then(|count| count.parse().ok());
                words.take(count.unwrap_or_default()).collect()
            }
            _ => self.key.iter().map(|key| key.to_string()).collect(),
        }
    }

    pub(super) fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    pub(super) fn packed(&self) -> &Cmd {
        &self.packed
    }
}

/// The hash by which a server knows a script.
pub(crate) fn digest(script: &str) -> String {
    redis::Script::new(script).get_hash().to_owned()
}
