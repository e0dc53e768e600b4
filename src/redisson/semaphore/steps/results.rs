//! What has become of the steps of a batch: the words of `lua/semaphore/batch.lua`, and what they mean for each call.

use std::str::SplitAsciiWhitespace;

use super::super::calls::Call;
use super::{Step, Steps};
use crate::engine::few::Few;
use crate::error::Error;

/// What has become of the steps of a batch.
#[derive(Debug)]
pub(in super::super) struct Results {
    /// Of each step, and how many of its calls have been answered.
    steps: Few<(StepResult, i64)>,
    /// How many of each run were served, and have not been told.
    pub(super) runs: Few<usize>,
}

/// The result of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepResult {
    /// How many of the calls were carried out, or the number asked for.
    Number(i64),
    /// So many were carried out; the others would have left the range from this counter.
    OutOfRange(i64, i64),
    /// The semaphore does not exist.
    Missing,
}

impl StepResult {
    fn read(word: &str) -> Option<Self> {
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

    /// The answer to the call at `index` among those of this step.
    fn answer(self, name: &str, call: Call, index: i64) -> Result<i64, Error> {
        let out_of_range = |available| Error::OutOfRange {
            name: name.to_owned(),
            available,
            delta: call.amount(),
        };
        match (call, self) {
            (Call::Add(_), StepResult::OutOfRange(_, counter)) => Err(out_of_range(counter)),
            (Call::Drain | Call::Available, StepResult::Number(number)) => Ok(number),
            (Call::Forget(..), _) => Ok(1),
            (_, StepResult::Missing) => Ok(0),
            (_, StepResult::Number(done)) => Ok(i64::from(index < done)),
            (_, StepResult::OutOfRange(done, counter)) if index >= done => {
                Err(out_of_range(counter))
            }
            (_, StepResult::OutOfRange(..)) => Ok(1),
        }
    }
}

impl Steps {
    /// Reads what has become of them; `None` for what the script never answers.
    pub(in super::super) fn read(&self, words: &mut SplitAsciiWhitespace<'_>) -> Option<Results> {
        let steps = self.before.len() + self.after.len();
        let mut results = Results {
            steps: Few::up_to(steps),
            runs: Few::up_to(self.runs.len()),
        };
        let unknown = (StepResult::Missing, 0);
        results.steps.extend(std::iter::repeat_n(unknown, steps));
        let mut read = |step: &Step, words: &mut SplitAsciiWhitespace<'_>| {
            let result = StepResult::read(words.next()?)?;
            results.steps.get_mut(step.number)?.0 = result;
            step.expects(result).then_some(())
        };
        self.before.iter().try_for_each(|step| read(step, words))?;
        for run in self.runs.iter() {
            let served = words.next()?.parse().ok()?;
            results.runs.push(served);
            (served <= run.count).then_some(())?;
        }
        self.after.iter().try_for_each(|step| read(step, words))?;
        Some(results)
    }

    /// What has become of a lone call.
    pub(in super::super) fn read_lone(&self, done: bool) -> Results {
        let mut results = Results {
            steps: Few::default(),
            runs: Few::default(),
        };
        let result = (StepResult::Number(done.into()), 0);
        results.steps.extend(self.all().map(|_| result));
        results
            .runs
            .extend(self.runs.iter().map(|_| usize::from(done)));
        results
    }

    /// The answer to `call`, which is the one at `index`; asked once for each, in their order.
    pub(in super::super) fn answer(
        &self,
        name: &str,
        results: &mut Results,
        index: usize,
        call: Call,
    ) -> Result<i64, Error> {
        let step = self.of_calls.get(index);
        let Some((result, place)) = step.and_then(|step| results.steps.get_mut(step)) else {
            return Ok(1);
        };
        *place += 1;
        result.answer(name, call, *place - 1)
    }

    /// Whether the question at `index` was answered by permits; asked once for each, in their order.
    pub(in super::super) fn is_served(&self, results: &mut Results, index: usize) -> bool {
        let run = self.of_asks.get(index);
        let Some(left) = run.and_then(|run| results.runs.get_mut(run)) else {
            return false;
        };
        let served = *left > 0;
        *left = left.saturating_sub(1);
        served
    }

    /// How many permits guards have taken by them, and given under the life with this number; and whether some of these were
    /// refused.
    pub(in super::super) fn balance(&self, results: &Results, life: u64) -> (u64, u64, bool) {
        let (mut taken, mut given, mut refused) = (0, 0, false);
        for (run, served) in self.runs.iter().zip(results.runs.iter()) {
            if run.want.recorded {
                taken += u64::from(run.want.permits) * *served as u64;
            }
        }
        for step in self.all() {
            let result = results.steps.iter().nth(step.number);
            let Some((result, _)) = result.copied() else {
                continue;
            };
            if let (Call::TryTake(permits), StepResult::Number(served)) = (step.call, result) {
                taken += u64::from(permits) * u64::try_from(served).unwrap_or(0);
            }
            if let Some((permits, of)) = step.call.off_record()
                && of == life
            {
                given += u64::from(permits) * step.count as u64;
                refused |= matches!(result, StepResult::OutOfRange(..));
            }
        }
        (taken, given, refused)
    }
}

impl Step {
    /// Whether `result` is one that this step can have.
    fn expects(&self, result: StepResult) -> bool {
        let is_count =
            |number| usize::try_from(number).is_ok_and(|number: usize| number <= self.count);
        match (self.call, result) {
            (Call::Drain | Call::Available | Call::Forget(..), StepResult::Number(_)) => true,
            (Call::TrySet(..) | Call::Add(_), StepResult::Number(done)) => done == 0 || done == 1,
            (call, StepResult::Number(done)) => (call.is_owed() || call.tries()) && is_count(done),
            (Call::Forget(..), StepResult::OutOfRange(..)) => false,
            (Call::Add(_), StepResult::OutOfRange(done, _)) => is_count(done),
            (call, StepResult::OutOfRange(done, _)) => call.is_owed() && is_count(done),
            (call, StepResult::Missing) => matches!(call, Call::ReleaseIfExists(_)),
        }
    }
}
