//! Calls that travel to the server together, as one call of a script: `lua/semaphore/batch.lua` behind `counter.lua`,
//! which reads the counter, `places.lua`, `line.lua` and `turns.lua`, which know whose turn it is; with calls about permits on record
//! `holders.lua`, too, which keeps that (see [`watchdog`](super::watchdog)).
//!
//! All calls of a batch were waiting for an answer at the same time, so any order among them is one that
//! an observer could have seen. The order chosen: releases before acquisitions, so that what one caller
//! gives back serves the next one in the same script; waiting callers before those that only try; calls
//! that look at the whole counter (add, drain, set, read) where they came. Equal neighbours become one
//! step with a count: a thousand callers of `acquire(1)` are three arguments.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::time::Instant;

use super::claim::{Claim, Run};
use super::keys::Keys;
use super::log::list_of;
use super::request::{Arg, Question, RecordKey, Request, Script, ScriptCall};
use super::turns::{Report, Verdict};
use super::waiters::Reply;
use super::watchdog::Entry;
use crate::error::Error;
use crate::lua;
use crate::transport::Value;

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

/// What a caller asks for; amounts are not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Release(u32),
    ReleaseIfExists(u32),
    TryAcquire(u32),
    Add(i32),
    Drain,
    TrySet(u32, Option<Duration>),
    Available,
    /// As `TryAcquire`, for a guard: what it takes is on record.
    TryTake(u32),
    /// Gives back what is on record under the life with this number; where that is over, nothing.
    GiveBack(u32, u64),
    /// Takes it off the record, and leaves the counter as it is.
    Forget(u32, u64),
}

impl Operation {
    /// The name for error texts.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Release(_) | Operation::GiveBack(..) => "release",
            Operation::ReleaseIfExists(_) => "release_if_exists",
            Operation::TryAcquire(_) | Operation::TryTake(_) => "try_acquire",
            Operation::Forget(..) => "forget",
            Operation::Add(_) => "add_permits",
            Operation::Drain => "drain_permits",
            Operation::TrySet(..) => "try_set_permits",
            Operation::Available => "available_permits",
        }
    }

    /// Whether it can leave more permits than there were.
    pub(crate) fn adds(self) -> bool {
        match self {
            Operation::Release(_)
            | Operation::ReleaseIfExists(_)
            | Operation::GiveBack(..)
            | Operation::TrySet(..) => true,
            Operation::Add(delta) => delta > 0,
            // From a negative counter to zero: nobody can acquire that.
            Operation::Drain
            | Operation::TryAcquire(_)
            | Operation::TryTake(_)
            | Operation::Forget(..)
            | Operation::Available => false,
        }
    }

    /// Whether it must happen, however late, when its caller has gone: others wait for the permits.
    pub(crate) fn is_owed(self) -> bool {
        matches!(
            self,
            Operation::Release(_)
                | Operation::ReleaseIfExists(_)
                | Operation::GiveBack(..)
                | Operation::Forget(..)
        )
    }

    /// What gives `permits` back that were granted by the answer `granted` (see [`Reply`]).
    pub(crate) fn undoing(permits: u32, granted: i64, recorded: bool) -> Self {
        if recorded {
            Operation::GiveBack(permits, granted.cast_unsigned())
        } else {
            Operation::Release(permits)
        }
    }

    /// The permits that leave the record by it, and of which life.
    pub(crate) fn off_record(self) -> Option<(u32, u64)> {
        match self {
            Operation::GiveBack(permits, life) | Operation::Forget(permits, life) => {
                Some((permits, life))
            }
            _ => None,
        }
    }

    /// Whether it is about permits on record.
    pub(crate) fn is_recorded(self) -> bool {
        matches!(self, Operation::TryTake(_)) || self.off_record().is_some()
    }

    /// The step's word, amount and, where it is no count of calls, third argument.
    fn step(self) -> (&'static str, i64, Option<Arg>) {
        match self {
            Operation::Release(permits) => ("release", permits.into(), None),
            Operation::ReleaseIfExists(permits) => ("release_if_exists", permits.into(), None),
            Operation::TryAcquire(permits) => ("acquire", permits.into(), None),
            Operation::Add(delta) => ("add", delta.into(), Some(Arg::Number(1))),
            Operation::Drain => ("drain", 0, Some(Arg::Number(1))),
            Operation::TrySet(permits, ttl) => {
                let ttl = ttl.map_or(Arg::Number(0), Arg::millis);
                ("try_set", permits.into(), Some(ttl))
            }
            Operation::Available => ("available", 0, Some(Arg::Number(1))),
            Operation::TryTake(permits) => ("*acquire", permits.into(), None),
            Operation::GiveBack(permits, _) => ("*release", permits.into(), None),
            Operation::Forget(permits, _) => ("*forget", permits.into(), None),
        }
    }

    fn can_be_merged(self) -> bool {
        self.is_owed() || matches!(self, Operation::TryAcquire(_) | Operation::TryTake(_))
    }
}

/// As a call: what the log says where nobody else can be told.
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        match self {
            Operation::Drain | Operation::Available => write!(f, "{name}()"),
            _ => write!(f, "{name}({})", self.step().1),
        }
    }
}

/// One call and its caller.
pub(crate) struct Call {
    pub(crate) operation: Operation,
    /// `None` once the caller has been answered, or where there is none.
    pub(crate) reply: Option<Reply>,
    /// When it was made.
    pub(crate) since: Instant,
}

impl Call {
    /// Whether nobody waits for it any more, and it is not owed: then it must not be sent.
    pub(crate) fn is_pointless(&mut self) -> bool {
        if self.reply.as_ref().is_some_and(Reply::is_closed) {
            self.reply = None;
        }
        self.reply.is_none() && !self.operation.is_owed()
    }
}

/// Neighbouring calls of the same kind and amount.
pub(crate) struct Step {
    pub(crate) operation: Operation,
    pub(crate) calls: Vec<Call>,
}

/// What travels together.
#[derive(Default)]
pub(crate) struct Batch {
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
    ) -> Self {
        let mut batch = Batch {
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
        let entry = self.entry;
        let single = |before: Vec<Step>, claim: Claim| Batch {
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

    /// Whether `results` are such that the server may have answered this batch so.
    fn expects(&self, results: &[StepResult]) -> bool {
        let of_steps = |steps: &[Step], results: &[StepResult]| {
            steps
                .iter()
                .zip(results)
                .all(|(step, result)| step.expects(*result))
        };
        let of_run = |(run, result): (&Run, &StepResult)| matches!(result, StepResult::Number(served) if is_count(*served, run.tickets.len()));
        if results.len() != self.len() {
            return false;
        }
        let (before, rest) = results.split_at(self.before.len());
        let (claimed, after) = rest.split_at(self.claim.len());
        of_steps(&self.before, before)
            && self.claim.all_runs().zip(claimed).all(of_run)
            && of_steps(&self.after, after)
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

/// The result of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepResult {
    /// How many of the calls were carried out, or the number asked for.
    Number(i64),
    /// So many were carried out; the others would have left the range from this counter.
    OutOfRange(i64, i64),
    /// The semaphore does not exist.
    Missing,
}

/// The server's answer to a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done {
        /// How many listeners the channel has, where it was seen.
        listeners: Option<u64>,
        /// The counter behind the batch.
        available: i64,
        results: Vec<StepResult>,
        /// The answer to the report, where others listen.
        verdict: Option<Verdict>,
        /// How many permits this client has on record, where calls were about such.
        held: Option<u64>,
    },
    /// The batch's entry is not on record any more: nothing was done.
    Gone,
    /// It was only asked about: it was not carried out, and will not be.
    NotDone,
    /// A later batch of this client is on record already.
    Stale,
    /// The counter is no integer; its text.
    Unreadable(String),
    /// The error that an earlier copy of this batch was answered with.
    Refused(String),
}

impl Answer {
    /// Reads the answer to `batch`; `None` for one that no script of ours gives to it.
    pub(crate) fn read(value: &Value, batch: &Batch) -> Option<Self> {
        let Value::BulkString(bytes) = value else {
            return None;
        };
        let text = String::from_utf8_lossy(bytes);
        if let Some(found) = text.strip_prefix("unreadable ") {
            return Some(Answer::Unreadable(found.to_owned()));
        }
        if let Some(error) = text.strip_prefix("refused ") {
            return Some(Answer::Refused(error.to_owned()));
        }
        if text == "stale" {
            return Some(Answer::Stale);
        }
        if text == "gone" {
            return Some(Answer::Gone);
        }
        let (text, verdict) = match text.rsplit_once(' ') {
            Some((rest, last)) if last.starts_with("turn:") && batch.report.is_some() => {
                (rest, Verdict::read(last))
            }
            _ => (&*text, None),
        };
        let (text, held) = match text.rsplit_once(" held:") {
            Some((rest, held)) if batch.entry.is_some() => (rest, Some(held.parse().ok()?)),
            _ => (text, None),
        };
        let mut words = text.split(' ').filter(|word| !word.is_empty());
        let listeners = words.next()?.parse::<i64>().ok()?;
        let available = words.next()?.parse().ok()?;
        let results: Vec<_> = words.map(read_result).collect::<Option<_>>()?;
        if results.is_empty() && batch.len() > 0 {
            return Some(Answer::NotDone);
        }
        if !batch.expects(&results) {
            return None;
        }
        Some(Answer::Done {
            listeners: u64::try_from(listeners).ok(),
            available,
            results,
            verdict,
            held,
        })
    }
}

fn read_result(word: &str) -> Option<StepResult> {
    if word == "missing" {
        return Some(StepResult::Missing);
    }
    match word.split_once(':') {
        Some((done, counter)) => Some(StepResult::OutOfRange(
            done.parse().ok()?,
            counter.parse().ok()?,
        )),
        None => Some(StepResult::Number(word.parse().ok()?)),
    }
}

impl Step {
    fn push_to(&self, args: &mut Vec<Arg>) {
        let (word, amount, third) = self.operation.step();
        let third = third.unwrap_or_else(|| count(self.calls.len()));
        args.extend([Arg::Word(word), Arg::Number(amount), third]);
    }

    /// Whether `result` is one that this step can have.
    fn expects(&self, result: StepResult) -> bool {
        use Operation::{
            Add, Available, Drain, Forget, GiveBack, Release, ReleaseIfExists, TryAcquire, TrySet,
            TryTake,
        };
        let is_count = |number| is_count(number, self.calls.len());
        match (self.operation, result) {
            (Drain | Available | Forget(..), StepResult::Number(_)) => true,
            (
                Release(_) | ReleaseIfExists(_) | GiveBack(..) | TryAcquire(_) | TryTake(_),
                StepResult::Number(done),
            ) => is_count(done),
            (TrySet(..) | Add(_), StepResult::Number(done)) => done == 0 || done == 1,
            (
                Release(_) | ReleaseIfExists(_) | GiveBack(..) | Add(_),
                StepResult::OutOfRange(done, _),
            ) => is_count(done),
            (ReleaseIfExists(_), StepResult::Missing) => true,
            _ => false,
        }
    }

    /// Each caller's answer, in the order of the calls.
    pub(crate) fn answers(self, name: &str, result: StepResult) -> Vec<(Call, Result<i64, Error>)> {
        let operation = self.operation;
        let answer = |index: usize| match (operation, result) {
            (Operation::Add(delta), StepResult::OutOfRange(_, counter)) => {
                Err(out_of_range(name, counter, delta.into()))
            }
            (Operation::Drain | Operation::Available, StepResult::Number(number)) => Ok(number),
            (Operation::Forget(..), _) => Ok(1),
            (_, StepResult::Missing) => Ok(0),
            (_, StepResult::Number(done)) => Ok(i64::from((index as i64) < done)),
            (_, StepResult::OutOfRange(done, counter)) if (index as i64) >= done => {
                let (_, amount, _) = operation.step();
                Err(out_of_range(name, counter, amount))
            }
            (_, StepResult::OutOfRange(..)) => Ok(1),
        };
        let answered = |(index, call)| (call, answer(index));
        self.calls.into_iter().enumerate().map(answered).collect()
    }
}

/// Whether `number` can be how many of `most` were carried out.
fn is_count(number: i64, most: usize) -> bool {
    usize::try_from(number).is_ok_and(|number| number <= most)
}

fn out_of_range(name: &str, available: i64, delta: i64) -> Error {
    Error::OutOfRange {
        name: name.to_owned(),
        available,
        delta,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::sync::oneshot;

    use super::*;
    use crate::any_value;
    use crate::engine::waiters::{Waiter, Waiters};

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            (1..4_u32).prop_map(Operation::Release),
            (1..4_u32).prop_map(Operation::ReleaseIfExists),
            (1..4_u32).prop_map(Operation::TryAcquire),
            (-3..4_i32).prop_map(Operation::Add),
            Just(Operation::Drain),
            Just(Operation::TrySet(3, None)),
            Just(Operation::Available),
        ]
    }

    /// An answer of as many results as there are steps, or any.
    fn answer(steps: usize) -> impl Strategy<Value = Value> {
        let numbers = proptest::collection::vec(any_value::number(), steps + 2);
        let numbers = numbers.prop_map(|numbers| {
            let words: Vec<String> = numbers.iter().map(i64::to_string).collect();
            Value::BulkString(words.join(" ").into_bytes())
        });
        prop_oneof![numbers, any_value::value()]
    }

    proptest! {
        #[test]
        fn any_value_is_read(
            operations in proptest::collection::vec(operation(), 0..6),
            waiting in proptest::collection::vec(1..3_u32, 0..6),
            values in (0_usize..9).prop_flat_map(|steps| proptest::collection::vec(answer(steps), 8)),
        ) {
            let since = Instant::now();
            for value in values {
                let mut waiters = Waiters::new();
                let mut answers = Vec::new();
                for permits in &waiting {
                    let (reply, answer) = oneshot::channel();
                    answers.push(answer);
                    waiters.join(Waiter { permits: *permits, reply, since, asked: true, doubtful: false, recorded: false });
                }
                let call = |operation: &Operation| Call { operation: *operation, reply: None, since };
                let mut calls = operations.iter().map(call).collect();
                let mut claim = waiters.claim(since, None);
                waiters.name_ending(&mut claim);
                let mut batch = Batch::form(&mut calls, claim, None);
                let Some(Answer::Done { results, .. }) = Answer::read(&value, &batch) else {
                    continue;
                };
                let claim = std::mem::take(&mut batch.claim);
                let (before, rest) = results.split_at(batch.before.len());
                let (claimed, after) = rest.split_at(claim.len());
                let served: Vec<usize> = claimed
                    .iter()
                    .map(|result| match result {
                        StepResult::Number(count) => usize::try_from(*count).expect("a count"),
                        other => panic!("{other:?} for a claim"),
                    })
                    .collect();
                let granted = waiters.serve(&claim, &served, since).granted;
                assert_eq!(granted.len(), served.iter().sum::<usize>());
                let results: Vec<_> = before.iter().chain(after).copied().collect();
                for (step, result) in batch.into_steps().zip(results) {
                    step.answers("name", result);
                }
            }
        }
    }
}
