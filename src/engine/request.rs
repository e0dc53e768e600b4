//! A request to the server that may be sent more than once.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::api::whole_millis;
use crate::transport::{Command, Messages, digest};

/// A Lua script, embedded at build time, and its digest.
pub(crate) struct Script {
    source: &'static str,
    digest: String,
}

impl Script {
    pub(crate) fn new(source: &'static str) -> Self {
        Script {
            source,
            digest: digest(source),
        }
    }
}

/// A script call or a plain command, ready to be sent.
#[derive(Clone)]
pub(crate) struct Request {
    body: Body,
    keys: Vec<Arc<str>>,
    /// It takes effect once: the first key is its record. `lua/queue/record.lua` has the words that stand before the arguments then.
    once: Option<Once>,
}

#[derive(Clone)]
enum Body {
    Script(&'static LazyLock<Script>, Vec<Arg>),
    /// A command that may be repeated as it is: it changes nothing.
    Plain(Command),
}

/// An argument of a script.
#[derive(Clone)]
pub(crate) enum Arg {
    Word(&'static str),
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
    Number(i64),
}

impl Arg {
    /// A duration in milliseconds, rounded up.
    pub(crate) fn millis(duration: Duration) -> Self {
        Arg::Number(whole_millis(duration))
    }

    /// A duration in microseconds.
    pub(crate) fn micros(duration: Duration) -> Self {
        Arg::number(duration.as_micros())
    }

    /// A number that is not negative; the largest one stands for those beyond.
    pub(crate) fn number(number: impl TryInto<i64>) -> Self {
        Arg::Number(number.try_into().unwrap_or(i64::MAX))
    }
}

#[derive(Clone)]
struct Once {
    number: u64,
    /// How long the record is kept.
    life: Duration,
    sending: Sending,
}

/// The arguments about earlier sendings of a call, for the script.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sending {
    First = 0,
    /// An earlier sending may have been carried out, or may be still.
    Again = 1,
    /// The first one under this number. The record that the one before it has found is not by this client.
    Disowning = 2,
    /// It has no caller any more: it reads what has been done, and does nothing.
    Withdrawn = 3,
    /// It takes back what the call of its number has done.
    TakingBack = 4,
}

impl Request {
    /// A command that changes nothing.
    pub(crate) fn plain(command: Command) -> Self {
        Request {
            keys: command.belongs_to().cloned().into_iter().collect(),
            body: Body::Plain(command),
            once: None,
        }
    }

    /// A call of a script without a number of its own, for which no replica is waited.
    pub(crate) fn script(
        script: &'static LazyLock<Script>,
        keys: Vec<Arc<str>>,
        args: Vec<Arg>,
    ) -> Self {
        Request {
            body: Body::Script(script, args),
            keys,
            once: None,
        }
    }

    /// A call of a script that takes effect once. It is sent under a [number](Self::number); the first key is its record, which is
    /// kept for `life`.
    pub(crate) fn once(
        script: &'static LazyLock<Script>,
        keys: Vec<Arc<str>>,
        life: Duration,
        args: Vec<Arg>,
    ) -> Self {
        let once = Once {
            number: 0,
            life,
            sending: Sending::First,
        };
        Request {
            once: Some(once),
            ..Request::script(script, keys, args)
        }
    }

    /// The shortest form: names the script by its digest. `messages` is the kind that it publishes.
    pub(crate) fn command(&self, messages: Messages) -> Command {
        match &self.body {
            Body::Script(script, args) => self.call("EVALSHA", &script.digest, args, messages),
            Body::Plain(command) => command.clone(),
        }
    }

    /// The form with the script's text, for a server that does not know the script.
    pub(crate) fn full_command(&self, messages: Messages) -> Command {
        match &self.body {
            Body::Script(script, args) => self.call("EVAL", script.source, args, messages),
            Body::Plain(command) => command.clone(),
        }
    }

    /// The key that it belongs to.
    pub(crate) fn key(&self) -> Option<&Arc<str>> {
        self.keys.first()
    }

    /// Whether it changes nothing.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.body, Body::Plain(_))
    }

    /// Gives the call its place in the order of the client's calls.
    pub(crate) fn number(&mut self, number: u64) {
        if let Some(once) = &mut self.once {
            once.number = number;
        }
    }

    /// The same; it takes back what the call of that number has done.
    pub(crate) fn takes_back(&mut self, number: u64) {
        self.number(number);
        self.set_sending(Sending::TakingBack);
    }

    /// Its record and its number.
    pub(crate) fn record(&self) -> Option<(&Arc<str>, u64)> {
        self.keys.first().zip(Some(self.once.as_ref()?.number))
    }

    /// Is to be sent once more, as number `number`: it was refused because of a foreign record,
    /// which does not count. Only for a call each sending of which was answered.
    pub(crate) fn disown_record(&mut self, number: u64) {
        self.number(number);
        self.set_sending(Sending::Disowning);
    }

    /// Nobody wants it any more: what has not been done by now is not to be.
    pub(crate) fn withdraw(&mut self) {
        self.set_sending(Sending::Withdrawn);
    }

    /// A copy of this call may be on its way to the server.
    pub(crate) fn mark_repeated(&mut self) {
        self.set_sending(Sending::Again);
    }

    fn set_sending(&mut self, sending: Sending) {
        let once = self.once.as_mut();
        if let Some(once) = once.filter(|once| once.sending != Sending::TakingBack) {
            once.sending = sending;
        }
    }

    fn call(&self, verb: &str, script: &str, args: &[Arg], messages: Messages) -> Command {
        // Verb, script and number of keys come in addition; most arguments are short.
        let count = 3 + self.keys.len() + 4 + args.len();
        let keys: usize = self.keys.iter().map(|key| key.len()).sum();
        let mut command = Command::with_capacity(count, script.len() + keys + 16 * count);
        command.word(verb);
        command.word(script);
        command.formatted(format_args!("{}", self.keys.len()));
        for key in &self.keys {
            command.word(key);
        }
        if let Some(once) = &self.once {
            command.word(messages.publish());
            // Of a fixed width: scripts compare them as texts.
            command.formatted(format_args!("{:016}", once.number));
            command.number(whole_millis(once.life));
            command.number(once.sending as i64);
            command.confirm();
        }
        for arg in args {
            match arg {
                Arg::Word(word) => command.word(word),
                Arg::Text(text) => command.word(text),
                Arg::Bytes(bytes) => command.bytes(bytes),
                Arg::Number(number) => command.number(*number),
            }
        }
        command
    }
}
