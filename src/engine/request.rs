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
pub(crate) enum Request {
    /// A call of a script that answers a repeated sequence number from its record.
    Script(ScriptCall),
    /// A command that may be repeated as it is: it changes nothing.
    Plain(Command),
}

/// An argument of a script.
#[derive(Clone)]
pub(crate) enum Arg {
    Word(&'static str),
    /// The command that sends a message.
    Publish,
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
    Number(i64),
    /// A sequence number: of a fixed width, so that scripts can compare them as texts.
    Sequence(u64),
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

/// A script with its keys and arguments.
pub(crate) struct ScriptCall {
    pub(crate) script: &'static LazyLock<Script>,
    pub(crate) keys: Vec<Arc<str>>,
    pub(crate) args: Vec<Arg>,
    /// Which argument is the sequence number; it is filled in when the call departs.
    pub(crate) sequence: Option<usize>,
    /// Which argument says that an earlier sending may have been carried out: `1`; `2`: what stands in the record is not by this client.
    pub(crate) record_flag: Option<usize>,
    /// What is asked instead of a repetition: what has become of this number?
    pub(crate) question: Option<Question>,
    /// Where it is put on record.
    pub(crate) record: Option<RecordKey>,
    /// Where it is repeated although nobody wants it any more: which argument is another word then, so that it tells what has been done, and
    /// does nothing.
    pub(crate) withdrawn: Option<(usize, &'static str)>,
    /// It puts ends off, and does nothing else: replicas are not waited for.
    pub(crate) only_renews: bool,
}

/// A question about a call: the beginning of it.
pub(crate) struct Question {
    /// So many of its keys.
    pub(crate) keys: usize,
    /// And of its arguments.
    pub(crate) args: usize,
}

/// The key of a call's record.
pub(crate) struct RecordKey {
    /// Which of the call's keys it is.
    pub(crate) index: usize,
    /// Whether a call is there, too, that was answered when it was sent for the first time.
    pub(crate) always: bool,
}

impl Request {
    /// A call of a script without a number of its own.
    pub(crate) fn script(
        script: &'static LazyLock<Script>,
        keys: Vec<Arc<str>>,
        args: Vec<Arg>,
    ) -> Self {
        Request::Script(ScriptCall {
            script,
            keys,
            args,
            sequence: None,
            record_flag: None,
            question: None,
            record: None,
            withdrawn: None,
            only_renews: false,
        })
    }

    /// A call of a script that puts ends off, and does nothing else: it counts before replicas have it.
    pub(crate) fn renewal(
        script: &'static LazyLock<Script>,
        keys: Vec<Arc<str>>,
        args: Vec<Arg>,
    ) -> Self {
        let mut request = Request::script(script, keys, args);
        if let Request::Script(call) = &mut request {
            call.only_renews = true;
        }
        request
    }

    /// The shortest form: names the script by its digest. `messages` is the kind that it publishes.
    pub(crate) fn command(&self, messages: Messages) -> Command {
        match self {
            Request::Script(call) => call.command("EVALSHA", &call.script.digest, messages),
            Request::Plain(command) => command.clone(),
        }
    }

    /// The form with the script's text, for a server that does not know the script.
    pub(crate) fn full_command(&self, messages: Messages) -> Command {
        match self {
            Request::Script(call) => call.command("EVAL", call.script.source, messages),
            Request::Plain(command) => command.clone(),
        }
    }

    /// The key that it belongs to.
    pub(crate) fn key(&self) -> Option<&Arc<str>> {
        match self {
            Request::Script(call) => call.keys.first(),
            Request::Plain(command) => command.belongs_to(),
        }
    }

    /// All keys that it names.
    pub(crate) fn keys(&self) -> &[Arc<str>] {
        match self {
            Request::Script(call) => &call.keys,
            Request::Plain(command) => command.belongs_to().map_or(&[], std::slice::from_ref),
        }
    }

    /// Whether it changes nothing.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Request::Plain(_))
    }

    /// Whether replicas are to have it before it counts, where some are waited for.
    pub(crate) fn is_to_be_confirmed(&self) -> bool {
        matches!(self, Request::Script(call) if !call.only_renews)
    }

    /// Gives the call its place in the order of the client's calls.
    pub(crate) fn number(&mut self, number: u64) {
        if let Request::Script(ScriptCall {
            args,
            sequence: Some(sequence),
            ..
        }) = self
        {
            args[*sequence] = Arg::Sequence(number);
        }
    }

    /// Its record.
    pub(crate) fn record(&self) -> Option<&Arc<str>> {
        match self {
            Request::Script(call) => call.keys.get(call.record.as_ref()?.index),
            Request::Plain(_) => None,
        }
    }

    /// Its record and its number, where it stays on record though no copy of it can arrive: it was answered when it was
    /// sent for the first time.
    pub(crate) fn unneeded_record(&self) -> Option<(&Arc<str>, u64)> {
        match self {
            Request::Script(ScriptCall {
                record: Some(RecordKey { always: true, .. }),
                ..
            }) => self.record().zip(self.sequence()),
            _ => None,
        }
    }

    /// Is to be sent once more, as number `number`: it was refused because of a record that nobody of ours has written,
    /// which does not count. Only for a call each sending of which was answered.
    pub(crate) fn disown_record(&mut self, number: u64) {
        self.number(number);
        if let Request::Script(ScriptCall {
            args,
            record_flag: Some(flag),
            ..
        }) = self
        {
            args[*flag] = Arg::Number(2);
        }
    }

    /// The number of the last sending.
    pub(crate) fn sequence(&self) -> Option<u64> {
        let Request::Script(ScriptCall { args, sequence, .. }) = self else {
            return None;
        };
        match args.get((*sequence)?) {
            Some(Arg::Sequence(number)) => Some(*number),
            _ => None,
        }
    }

    /// Nobody wants it any more: what has not been done by now is not to be.
    pub(crate) fn withdraw(&mut self) {
        if let Request::Script(ScriptCall {
            args,
            withdrawn: Some((place, word)),
            ..
        }) = self
        {
            args[*place] = Arg::Word(word);
        }
    }

    /// Says that a copy of this call, or an earlier one, may still be on its way to the server.
    pub(crate) fn mark_doubtful(&mut self) {
        self.doubt();
        let Request::Script(call) = self else {
            return;
        };
        if let Some(question) = &call.question {
            call.keys.truncate(question.keys);
            call.args.truncate(question.args);
        }
    }

    /// The same before the first sending: because of earlier calls.
    pub(crate) fn doubt(&mut self) {
        let Request::Script(call) = self else {
            return;
        };
        let Some(flag) = call.record_flag else {
            return;
        };
        call.args[flag] = Arg::Number(1);
    }
}

impl ScriptCall {
    fn command(&self, verb: &str, script: &str, messages: Messages) -> Command {
        // Verb, script and number of keys come in addition; most arguments are short.
        let count = 3 + self.keys.len() + self.args.len();
        let keys: usize = self.keys.iter().map(|key| key.len()).sum();
        let mut command = Command::with_capacity(count, script.len() + keys + 16 * count);
        command.word(verb);
        command.word(script);
        command.formatted(format_args!("{}", self.keys.len()));
        for key in &self.keys {
            command.word(key);
        }
        for arg in &self.args {
            match arg {
                Arg::Word(word) => command.word(word),
                Arg::Publish => command.word(messages.publish()),
                Arg::Text(text) => command.word(text),
                Arg::Bytes(bytes) => command.bytes(bytes),
                Arg::Number(number) => command.number(*number),
                Arg::Sequence(number) => command.formatted(format_args!("{number:016}")),
            }
        }
        command
    }
}
