//! How a batch travels: the fixed form of keys, arguments and answers that `lua/engine/record.lua` and `envelope.lua` have, in front of every
//! primitive's own part.

use std::borrow::Cow;
use std::str::SplitAsciiWhitespace;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::{Batch, Primitive};
use crate::engine::keys::Keys;
use crate::engine::once::NOTHING;
use crate::engine::request::{Arg, Question, RecordKey, Request, Script, ScriptCall};
use crate::transport::Value;

/// Where in the arguments the sequence number stands, and the flag of the record; and how many come before the steps.
const SEQUENCE: usize = 1;
const RECORD_FLAG: usize = 3;
const BEFORE_STEPS: usize = 4;

/// What a line has for a batch to travel in.
pub(crate) struct Wire<'a> {
    pub(crate) script: &'static LazyLock<Script>,
    pub(crate) keys: &'a Keys,
    pub(crate) record_life: Duration,
}

impl Wire<'_> {
    /// What a batch is sent in. It is put on record if it changes something; behind one that may still arrive, in any case.
    pub(crate) fn request<P: Primitive>(&self, primitive: &mut P, batch: &Batch<P>) -> Request {
        let mut steps = Vec::new();
        primitive.encode(batch, &mut steps);
        let others = primitive.keys(self.keys);
        let keys = self.keys.own().into_iter().cloned().chain(others).collect();
        let changes = !batch.calls.is_empty() || batch.asks.iter().any(|ask| P::takes(&ask.want));
        Request::Script(ScriptCall {
            question: Some(Question {
                keys: 1,
                args: BEFORE_STEPS,
            }),
            record: recorded(changes || batch.doubtful),
            ..call(self.script, keys, self.record_life, steps)
        })
    }
}

/// What one operation is sent in that travels alone, in its turn, and is repeated as it is: a script of its own behind the
/// envelope, whose first keys are the record, the object, a channel, and what the script needs.
pub(crate) fn alone(
    script: &'static LazyLock<Script>,
    keys: Vec<Arc<str>>,
    record_life: Duration,
    steps: Vec<Arg>,
) -> Request {
    Request::Script(ScriptCall {
        record: recorded(true),
        ..call(script, keys, record_life, steps)
    })
}

/// The fixed form, with its steps.
fn call(
    script: &'static LazyLock<Script>,
    keys: Vec<Arc<str>>,
    record_life: Duration,
    steps: Vec<Arg>,
) -> ScriptCall {
    let mut args = vec![
        Arg::Publish,
        Arg::Sequence(0),
        Arg::millis(record_life),
        Arg::Number(0),
    ];
    debug_assert_eq!(args.len(), BEFORE_STEPS);
    args.extend(steps);
    ScriptCall {
        script,
        keys,
        args,
        sequence: Some(SEQUENCE),
        record_flag: Some(RECORD_FLAG),
        question: None,
        record: None,
        withdrawn: None,
        only_renews: false,
    }
}

fn recorded(always: bool) -> Option<RecordKey> {
    Some(RecordKey { index: 0, always })
}

/// Stands in front of an answer that should have been put on record, and could not.
const UNRECORDED: &str = "unrecorded ";

/// What the script says of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer<'a> {
    /// Carried out, with the primitive's words.
    Done(&'a str),
    /// It was asked about: it was not carried out, and will not be.
    NotDone,
    /// A later one of this client is on record, or this one before it was sent.
    Stale,
    /// Something stands there that does not belong there.
    Unreadable(&'a str),
    /// Nothing was done, by this sending or any other, because of this error.
    Refused(&'a str),
}

impl<'a> Answer<'a> {
    /// `None` for what no script of ours answers.
    pub(super) fn read(text: &'a str) -> Option<Self> {
        let text = text.strip_prefix(UNRECORDED).unwrap_or(text);
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        Some(match word {
            "done" => Answer::Done(rest),
            NOTHING => Answer::NotDone,
            "stale" => Answer::Stale,
            "unreadable" => Answer::Unreadable(rest),
            "refused" => Answer::Refused(rest),
            _ => return None,
        })
    }

    /// Whether it, being `text`, stands in the record, behind which nothing that was sent earlier does anything.
    pub(super) fn is_on_record(&self, text: &str, asked_for: bool) -> bool {
        match self {
            Answer::Done(_) | Answer::Refused(_) => asked_for && !text.starts_with(UNRECORDED),
            Answer::NotDone => true,
            Answer::Stale | Answer::Unreadable(_) => false,
        }
    }
}

/// The text of an answer; empty for anything else.
pub(super) fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes),
        _ => Cow::Borrowed(""),
    }
}

/// Whether the answer says that something was done.
pub(super) fn is_done(value: &Value) -> bool {
    matches!(Answer::read(&text(value)), Some(Answer::Done(_)))
}

/// The words of an answer must all have been read.
pub(super) fn is_read(words: &mut SplitAsciiWhitespace<'_>) -> bool {
    words.next().is_none()
}
