//! Calls that travel to the server together, as one call of a script: `lua/semaphore/batch.lua` behind `counter.lua`,
//! which reads the counter, `places.lua`, `line.lua` and `turns.lua`, which know whose turn it is; with calls about permits on record
//! `holders.lua`, too, which keeps that (see [`watchdog`](crate::engine::watchdog)).
//!
//! All calls of a batch were waiting for an answer at the same time, so any order among them is one that
//! an observer could have seen. The order chosen: releases before acquisitions, so that what one caller
//! gives back serves the next one in the same script; waiting callers before those that only try; calls
//! that look at the whole counter (add, drain, set, read) where they came. Equal neighbours become one
//! step with a count: a thousand callers of `acquire(1)` are three arguments.
//!
//! | File | What it holds |
//! |---|---|
//! | `mod.rs` | the batch: how it is put in order, and how it is sent |
//! | `operation.rs` | what a caller asks for |
//! | `answer.rs` | what the server says to a batch |

mod answer;
mod operation;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::claim::{Claim, Run};
use crate::engine::keys::Keys;
use crate::engine::log::list_of;
use crate::engine::request::{Arg, Question, RecordKey, Request, Script, ScriptCall};
use crate::engine::turns::Report;
use crate::engine::watchdog::Entry;
use crate::lua;

pub(crate) use answer::{Answer, StepResult};
pub(crate) use operation::{Call, Operation};

static BATCH: LazyLock<Script> = LazyLock::new(|| Script::new(lua::SEMAPHORE));

/// The same where calls are about permits on record.
static WATCHED: LazyLock<Script> = LazyLock::new(|| Script::new(lua::WATCHED));

/// A batch takes this many calls at the most.
pub(crate) const MOST_CALLS: usize = 4096;
/// Calls that can't be merged into steps of equal amounts end the batch after this many. The script's time
/// grows with its steps: with all of these, and as many runs of waiting callers as a claim may have, one call
/// took 0.33 ms at the mean (redis-server 7.0.15, 200 calls one by one, 2 cores of an AMD EPYC).
const MOST_STEPS: usize = 128;

/// Where in the script's arguments the sequence number stands, and whether the batch must be put on
/// record in any case.
const SEQUENCE: usize = 1;
const RECORD_FLAG: usize = 3;
/// Where the steps begin; without them, and without the keys for turns, a batch asks what has become of its number.
const FIRST_STEP: usize = 4;
const KEYS_OF_QUESTION: usize = 3;
/// Which of the script's keys is the record.
const RECORD_KEY: usize = 2;

/// Neighbouring calls of the same kind and amount.
pub(crate) struct Step {
    pub(crate) operation: Operation,
    pub(crate) calls: Vec<Call>,
}

/// What travels together.
pub(crate) struct Batch {
    /// Who came later has not been asked for.
    pub(crate) departed: Instant,

    /// The steps before and including the last one that looks at the whole counter, and the releases
    /// behind it.
    pub(crate) before: Vec<Step>,
    /// The waiting callers' share.
    pub(crate) claim: Claim,
    /// The callers that only try.
    pub(crate) after: Vec<Step>,
    /// What the server is told about the waiting callers where others listen.
    pub(crate) report: Option<Report>,
    /// Under what permits are on record, where calls are about such.
    pub(crate) entry: Option<Entry>,
}

impl Batch {
    /// Puts `calls` in order; calls that find no room are left in `calls`.
    pub(crate) fn form(
        calls: &mut std::collections::VecDeque<Call>,
        claim: Claim,
        report: Option<Report>,
        departed: Instant,
    ) -> Self {
        let mut batch = Batch {
            departed,
            before: Vec::new(),
            claim,
            after: Vec::new(),
            report,
            entry: None,
        };
        // From here on releases of equal amounts may be merged.
        let mut segment = 0;
        while batch.before.len() + batch.after.len() < MOST_STEPS
            && let Some(call) = calls.pop_front()
        {
            match call.operation {
                operation if operation.is_owed() => {
                    merge(&mut batch.before, segment, call);
                }
                Operation::TryAcquire(_) | Operation::TryTake(_) => {
                    let last = batch.after.len().saturating_sub(1);
                    merge(&mut batch.after, last, call);
                }
                _ => {
                    // The tries that came before it stay before it.
                    batch.before.append(&mut batch.after);
                    batch.before.push(Step {
                        operation: call.operation,
                        calls: vec![call],
                    });
                    segment = batch.before.len();
                }
            }
        }
        batch
    }

    /// Into how many batches it can be split.
    pub(crate) fn parts(&self) -> usize {
        self.before.len() + usize::from(!self.claim.is_empty()) + self.after.len()
    }

    /// One batch for each step, and one for the claim.
    pub(crate) fn split(self) -> Vec<Batch> {
        let (departed, entry) = (self.departed, self.entry);
        let single = |before: Vec<Step>, claim: Claim| Batch {
            departed,
            before,
            claim,
            after: Vec::new(),
            report: None,
            entry: entry.clone(),
        };
        let mut batches: Vec<Batch> = Vec::new();
        for step in self.before {
            batches.push(single(vec![step], Claim::default()));
        }
        if !self.claim.is_empty() {
            batches.push(single(Vec::new(), self.claim));
        }
        for step in self.after {
            batches.push(single(vec![step], Claim::default()));
        }
        batches
    }

    pub(crate) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.before.iter().chain(&self.after)
    }

    /// What each call asks for, but those who wait.
    pub(crate) fn operations(&self) -> impl Iterator<Item = Operation> {
        let operations = |step: &Step| std::iter::repeat_n(step.operation, step.calls.len());
        self.steps().flat_map(operations)
    }

    /// Drops the calls that `keep` does not want. The batch must not be sent as it was after that.
    pub(crate) fn retain_calls(&mut self, mut keep: impl FnMut(&mut Call) -> bool) {
        for step in self.before.iter_mut().chain(&mut self.after) {
            step.calls.retain_mut(&mut keep);
        }
    }

    pub(crate) fn into_steps(self) -> impl Iterator<Item = Step> {
        self.before.into_iter().chain(self.after)
    }

    /// The calls that change something, for the log; empty where there are none.
    pub(crate) fn changes(&self) -> String {
        let operation = |step: &Step| (step.operation.to_string(), step.calls.len());
        let called = self
            .steps()
            .filter(|step| step.operation != Operation::Available && !step.calls.is_empty());
        let named = |run: &Run| (format!("acquire({})", run.permits), run.tickets.len());
        list_of(
            called
                .map(operation)
                .chain(self.claim.all_runs().map(named)),
        )
    }

    /// How many results the server will answer with.
    pub(crate) fn len(&self) -> usize {
        self.before.len() + self.claim.len() + self.after.len()
    }

    /// The permits that it gives, less than zero if it takes some, where it is no more than one call that does so,
    /// and there is nothing to report.
    pub(crate) fn lone_call(&self) -> Option<i64> {
        if self.report.is_some() || self.entry.is_some() || self.parts() != 1 {
            return None;
        }
        let mut runs = self.claim.all_runs();
        let operation = match (self.steps().next(), runs.next(), runs.next()) {
            (Some(step), None, None) if step.calls.len() == 1 => step.operation,
            (None, Some(run), None) if run.tickets.len() == 1 => Operation::TryAcquire(run.permits),
            _ => return None,
        };
        match operation {
            Operation::Release(permits) => Some(permits.into()),
            Operation::TryAcquire(permits) => Some(-i64::from(permits)),
            _ => None,
        }
    }

    /// Whether calls are about permits on record.
    pub(crate) fn is_recorded(&self) -> bool {
        self.steps().any(|step| step.operation.is_recorded())
            || self.claim.all_runs().any(|run| run.recorded)
    }

    /// Whether permits may be added by it.
    pub(crate) fn adds(&self) -> bool {
        self.steps().any(|step| step.operation.adds())
    }

    /// The script call. `doubtful` says that an earlier batch may still be on its way to the server.
    pub(crate) fn request(&self, keys: &Keys, record_life: Duration, doubtful: bool) -> Request {
        let mut args = Vec::with_capacity(17 + 3 * self.len());
        args.push(Arg::Publish);
        args.push(Arg::Number(0));
        args.push(Arg::millis(record_life));
        args.push(Arg::Number(doubtful.into()));
        for step in &self.before {
            step.push_to(&mut args);
        }
        let words = if self.report.is_some() {
            ["acquire_in_turn", "*acquire_in_turn"]
        } else if self.claim.strict {
            ["acquire_in_line", "*acquire_in_line"]
        } else {
            ["acquire", "*acquire"]
        };
        let waiting = self.claim.runs.iter().map(|run| (words, run));
        let ending = self.claim.last.iter();
        let ending = ending.map(|run| (["acquire", "*acquire"], run));
        for (words, run) in waiting.chain(ending) {
            let word = Arg::Word(words[usize::from(run.recorded)]);
            let permits = Arg::Number(run.permits.into());
            args.extend([word, permits, count(run.tickets.len())]);
        }
        for step in &self.after {
            step.push_to(&mut args);
        }
        let mut keys_used = Vec::with_capacity(7);
        keys_used.extend([keys.object(), keys.channel(), keys.record()].map(Arc::clone));
        if let Some((report, turns)) = self.report.zip(keys.turns()) {
            keys_used.extend([&turns.line, &turns.notes].map(Arc::clone));
            report.write(&mut args);
        }
        let mut script = &BATCH;
        let mut question = Question {
            keys: KEYS_OF_QUESTION,
            args: FIRST_STEP,
            more: None,
        };
        if let Some((entry, record)) = self.entry.as_ref().zip(keys.holders()) {
            script = &WATCHED;
            keys_used.push(Arc::clone(&record.held));
            if entry.opens {
                keys_used.push(Arc::clone(&record.alive));
                args.push(Arg::millis(entry.time_out));
                args.push(Arg::Text(Arc::clone(&entry.client_name)));
            } else if self.report.is_none() {
                // A lone call is on record there.
                question.keys = keys_used.len();
                question.more = Some(Arg::Text(Arc::clone(&entry.holder)));
            }
            args.push(Arg::Text(Arc::clone(&entry.holder)));
            args.push(Arg::Number(entry.opens.into()));
        }
        Request::Script(ScriptCall {
            script,
            keys: keys_used,
            args,
            sequence: Some(SEQUENCE),
            record_flag: Some(RECORD_FLAG),
            renumbered: false,
            question: Some(question),
            record: Some(RecordKey {
                index: RECORD_KEY,
                always: true,
            }),
        })
    }
}

fn count(calls: usize) -> Arg {
    Arg::Number(i64::try_from(calls).unwrap_or(i64::MAX))
}

/// Adds `call` to a step of its kind in `steps[from..]`, or makes one.
fn merge(steps: &mut Vec<Step>, from: usize, call: Call) {
    let twin = steps
        .iter_mut()
        .skip(from)
        .find(|step| step.operation == call.operation && call.operation.can_be_merged());
    match twin {
        Some(step) => step.calls.push(call),
        None => steps.push(Step {
            operation: call.operation,
            calls: vec![call],
        }),
    }
}

impl Step {
    fn push_to(&self, args: &mut Vec<Arg>) {
        let (word, amount, third) = self.operation.step();
        let third = third.unwrap_or_else(|| count(self.calls.len()));
        args.extend([Arg::Word(word), Arg::Number(amount), third]);
    }
}
