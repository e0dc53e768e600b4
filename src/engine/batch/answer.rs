//! What the server says to a batch, and what each of its callers is told for that.

use super::{Batch, Call, Operation, Step};
use crate::engine::claim::Run;
use crate::engine::turns::Verdict;
use crate::error::Error;
use crate::transport::Value;

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

impl Batch {
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
}

impl Step {
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
    use tokio::time::Instant;

    use super::*;
    use crate::any_value;
    use crate::engine::waiters::{Waiters, Want};

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
                    let want = Want { permits: *permits, since, recorded: false };
                    waiters.join(want, reply, None, true);
                }
                let call = |operation: &Operation| Call { operation: *operation, reply: None, since };
                let mut calls = operations.iter().map(call).collect();
                let mut claim = waiters.claim(since, None);
                waiters.name_ending(&mut claim);
                let mut batch = Batch::form(&mut calls, claim, None, since);
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
                let granted = waiters.serve(&claim, &served, since, since).granted;
                assert_eq!(granted.len(), served.iter().sum::<usize>());
                let results: Vec<_> = before.iter().chain(after).copied().collect();
                for (step, result) in batch.into_steps().zip(results) {
                    step.answers("name", result);
                }
            }
        }
    }
}
