//! What the scripts have answered: two servers that refuse every call agree, and that proves nothing.

use std::collections::BTreeMap;
use std::fmt;

use super::step::Words;
use crate::sim::scripts;
use crate::sim::server::Reply;

/// What each script must have answered now and then, as [`kind`] has it: what it says when it has done something, and the usual
/// reasons why it did not.
const EXPECTED: &[(&str, &[&str])] = &[
    (
        "SEMAPHORE",
        &["done", "[done]", "stale", "[unreadable]", "refused"],
    ),
    ("RENEW_GRANTS", &["[some]", "[0]"]),
    // The comparison does not call these yet.
    ("FAIR_LOCK", &[]),
    ("READ_WRITE", &[]),
    ("RENEW_READ_WRITE", &[]),
    (
        "LATCH",
        &["done", "[done]", "stale", "[unreadable]", "refused"],
    ),
    ("PERMITS", &["done", "[done]", "stale", "error WRONGTYPE"]),
    ("PERMITS_KEYS", &["some", "[0]"]),
    ("RENEW_PERMITS", &["[some]", "[0]"]),
    ("LOCK", &["done", "[done]", "stale", "refused"]),
    ("RENEW_LOCKS", &["[some]", "[0]"]),
    ("ONCE", &["some", "0"]),
    ("FORGET", &["some", "0"]),
    (
        "TIMES",
        &["done", "[done]", "[unreadable]", "stale", "refused"],
    ),
    ("SET", &["done", "[done]", "stale", "refused"]),
    ("SLOTS", &["done", "[done]", "stale", "refused"]),
    ("REFRESH_TIMES", &["some", "0", "unreadable"]),
    ("REFRESH_SET", &["some", "0"]),
    ("REFRESH_SLOTS", &["some", "0"]),
    ("RENEW_TIMES", &["[some]", "[0]"]),
    ("RENEW_SLOTS", &["[some]", "[0]"]),
];

/// So often at the least.
const A_FEW: usize = 3;

/// How often each script has answered with what.
#[derive(Default)]
pub struct Tally(BTreeMap<&'static str, BTreeMap<String, usize>>);

impl Tally {
    /// Notes the answer to a command, if that was a call of a script of the crate.
    pub fn note(&mut self, words: &Words, replies: &[Reply]) {
        let called = [&b"EVAL"[..], b"EVALSHA"].contains(&words[0].as_slice());
        let name = words.get(1).filter(|_| called);
        let Some(name) = name.and_then(|word| scripts::name_of(word)) else {
            return;
        };
        if let Some(reply) = replies.first() {
            let answers = self.0.entry(name).or_default();
            *answers.entry(kind(reply)).or_default() += 1;
        }
    }

    /// Which of the answers that are expected of the scripts did not come, or hardly; and which scripts none are expected of.
    pub fn missing(&self) -> Vec<String> {
        let unnamed = scripts::ALL.iter().filter(|(script, _)| {
            let named = EXPECTED.iter().find(|(name, _)| name == script);
            named.is_none()
        });
        let mut missing: Vec<_> = unnamed.map(|(script, _)| (*script).to_owned()).collect();
        for (script, kinds) in EXPECTED {
            let answers = self.0.get(script);
            for kind in *kinds {
                let count = answers.and_then(|answers| answers.get(*kind));
                if count.is_none_or(|count| *count < A_FEW) {
                    missing.push(format!("{script}: {kind}"));
                }
            }
        }
        missing
    }
}

/// What kind of answer it is: its first word, with the second one where that says more, "some" for a number above zero, and in brackets for what an array holds.
fn kind(reply: &Reply) -> String {
    match reply {
        Reply::Error(text) => format!("error {}", first_word(text)),
        Reply::Status(text) | Reply::Bulk(text) => of_text(text),
        Reply::Int(number) => if *number > 0 { "some" } else { "0" }.to_owned(),
        Reply::Nil => "0".to_owned(),
        Reply::Array(items) => {
            let all: Vec<_> = items.iter().map(kind).collect();
            let text = all.iter().find(|kind| *kind != "0");
            format!("[{}]", text.map_or("0", String::as_str))
        }
    }
}

fn of_text(text: &[u8]) -> String {
    match text {
        [] => "empty".to_owned(),
        _ if !text.iter().all(u8::is_ascii_digit) => first_word(text),
        _ if text.iter().all(|digit| *digit == b'0') => "0".to_owned(),
        _ => "some".to_owned(),
    }
}

fn first_word(text: &[u8]) -> String {
    let mut words = text.split(|byte| *byte == b' ');
    let first = words.next().unwrap_or_default();
    let text = match words.next() {
        Some(second @ (b"gone" | b"idle")) => [first, second].join(&b' '),
        _ => first.to_vec(),
    };
    String::from_utf8_lossy(&text).into_owned()
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, answers) in &self.0 {
            write!(f, "{name}:")?;
            for (kind, count) in answers {
                write!(f, " {kind} {count},")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
