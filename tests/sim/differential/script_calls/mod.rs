//! Calls of the crate's own scripts, with arguments as it sends them, and now and then with others; and a few scripts
//! about what Redis makes of Lua.

mod language;
mod latch;
mod locks;
mod permits;
mod recipes;
mod records;
mod semaphores;

use fastrand::Rng;

use super::commands::{CHANNELS, KEYS, choose};
use super::step::{Mood, Words};
use crate::sim::scripts::digest;

pub use locks::WAITERS;
pub use permits::MEMBERS as PERMITS;
pub use semaphores::ENTRIES;

/// Records of two clients; the end is the client's id.
pub const RECORDS: &[&str] = &[
    "rec:11111111-2222-3333-4444-555555555555",
    "rec:aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
];
const LIVES: &[&str] = &["60000", "900"];

/// A call being put together.
#[derive(Clone)]
pub struct Call {
    source: &'static str,
    keys: Vec<String>,
    arguments: Vec<String>,
    form: Form,
}

/// How a call is kept from being carried out twice.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// In no way.
    Plain,
    /// By the record, as `lua/engine/record.lua` has it.
    Recorded,
    /// The same, as `lua/queue/record.lua` has it: nobody asks about it but by sending it again.
    Queued,
}

/// Where the flag stands that says whether an earlier copy may arrive.
const FLAG: usize = 3;
/// How many arguments a question has.
const BEFORE_STEPS: usize = 4;

pub fn random(rng: &mut Rng, mood: &mut Mood) -> Words {
    let mut call = match rng.u32(..8) {
        0 => again(rng, mood),
        _ => fresh(rng, mood),
    };
    if rng.u32(..if mood.calm { 60 } else { 12 }) == 0 {
        spoil(rng, &mut call);
    }
    let by_digest = rng.u32(..4) == 0;
    let mut words: Words = vec![
        if by_digest { "EVALSHA" } else { "EVAL" }.into(),
        if by_digest {
            digest(call.source).into()
        } else {
            call.source.into()
        },
        call.keys.len().to_string().into(),
    ];
    words.extend(
        call.keys
            .into_iter()
            .chain(call.arguments)
            .map(String::into_bytes),
    );
    words
}

fn fresh(rng: &mut Rng, mood: &mut Mood) -> Call {
    if rng.u32(..30) == 0 {
        return language::any(rng);
    }
    let subject = mood.subject(rng);
    let call = subject.call(rng, mood);
    if call.form != Form::Plain {
        mood.remember(&call);
    }
    call
}

/// Objects of one kind, whose scripts are called together.
#[derive(Clone, Copy)]
pub enum Subject {
    Semaphores,
    Latch,
    Permits,
    Locks,
    Recipes,
}

impl Subject {
    /// As often as there is much to them.
    const ALL: [Subject; 14] = [
        Subject::Semaphores,
        Subject::Semaphores,
        Subject::Semaphores,
        Subject::Semaphores,
        Subject::Latch,
        Subject::Latch,
        Subject::Permits,
        Subject::Permits,
        Subject::Locks,
        Subject::Locks,
        Subject::Recipes,
        Subject::Recipes,
        Subject::Recipes,
        Subject::Recipes,
    ];

    pub fn random(rng: &mut Rng) -> Subject {
        Subject::ALL[rng.usize(..Subject::ALL.len())]
    }

    fn call(self, rng: &mut Rng, mood: &mut Mood) -> Call {
        match (self, rng.u32(..12)) {
            (Subject::Semaphores, 0..=10) => semaphores::batch(rng, mood),
            (Subject::Semaphores, _) => semaphores::renew(rng),
            (Subject::Latch, 0..=7) => latch::batch(rng, mood),
            (Subject::Latch, 8..=9) => records::once(rng, mood),
            (Subject::Latch, _) => records::forget(rng, mood),
            (Subject::Permits, 0..=8) => permits::batch(rng, mood),
            (Subject::Permits, 9) => permits::both_keys(rng, mood),
            (Subject::Permits, _) => permits::renew(rng),
            (Subject::Locks, 0..=10) => locks::batch(rng, mood),
            (Subject::Locks, _) => locks::renew(rng),
            (Subject::Recipes, 0..=9) => recipes::batch(rng, mood),
            (Subject::Recipes, _) => recipes::renew(rng),
        }
    }
}

/// What may follow a call that was sent before: a late copy, a repetition, a question about it, what takes it back.
fn again(rng: &mut Rng, mood: &mut Mood) -> Call {
    let Some(mut call) = mood.earlier(rng) else {
        return fresh(rng, mood);
    };
    match (call.form, rng.u32(..5)) {
        (Form::Plain, _) | (_, 0) => {}
        (_, 1) => "1".clone_into(&mut call.arguments[FLAG]),
        (Form::Queued, _) => "2".clone_into(&mut call.arguments[FLAG]),
        (_, 2) => "3".clone_into(&mut call.arguments[FLAG]),
        (Form::Recorded, _) => {
            call.arguments.truncate(BEFORE_STEPS);
            "1".clone_into(&mut call.arguments[FLAG]);
            call.keys.truncate(1);
        }
    }
    call
}

/// Another key, or another argument.
fn spoil(rng: &mut Rng, call: &mut Call) {
    const WORSE: &[&str] = &["", "abc", "-1", "0", "1.5", "1e3", "300"];
    if rng.bool() && !call.keys.is_empty() {
        let place = rng.usize(..call.keys.len());
        call.keys[place] = choose(rng, KEYS).to_owned();
    } else if !call.arguments.is_empty() {
        let place = rng.usize(..call.arguments.len());
        call.arguments[place] = choose(rng, WORSE).to_owned();
    }
}

/// What stands before the steps of a call that is put on record.
fn envelope(rng: &mut Rng, mood: &mut Mood) -> Vec<String> {
    vec![
        publish(rng),
        sequence(rng, mood),
        choose(rng, LIVES).to_owned(),
        choose(rng, &["0", "0", "0", "0", "1", "1", "2"]).to_owned(),
    ]
}

fn publish(rng: &mut Rng) -> String {
    choose(rng, &["PUBLISH", "PUBLISH", "PUBLISH", "SPUBLISH"]).to_owned()
}

fn sequence(rng: &mut Rng, mood: &mut Mood) -> String {
    digits(mood.sequence(rng))
}

fn digits(sequence: u32) -> String {
    format!("{sequence:016}")
}

fn number(rng: &mut Rng, most: u32) -> String {
    rng.u32(..most).to_string()
}

fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn channel_of(counter: &str) -> &'static str {
    if counter == "s" {
        CHANNELS[0]
    } else {
        CHANNELS[3]
    }
}
