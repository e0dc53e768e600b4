//! What has become of the steps of a batch.

use super::answer::Answer;
use super::batch::Batch;
use super::primitive::{self, Call, Primitive};

pub(super) struct Results {
    pub(super) extends: Vec<bool>,
    pub(super) confirms: Vec<bool>,
    /// One for each call.
    pub(super) calls: Vec<primitive::Result>,
    /// How many of each run have been served.
    pub(super) runs: Vec<usize>,
}

impl Results {
    /// `None` for what the script never answers to `batch`.
    pub(super) fn read<P: Primitive>(
        name: &str,
        batch: &Batch<P>,
        answer: &mut Answer<'_>,
    ) -> Option<Self> {
        let flags = |count: usize, answer: &mut Answer<'_>| -> Option<Vec<bool>> {
            (0..count).map(|_| answer.flag()).collect()
        };
        let extends = flags(batch.extends.len(), answer)?;
        let confirms = flags(batch.confirms.len(), answer)?;
        for _ in &batch.leaves {
            answer.result()?;
        }
        let mut calls = Vec::with_capacity(batch.calls.len());
        for step in batch.steps() {
            let word = answer.result()?;
            for index in 0..step.len() {
                calls.push(step[0].call.read(name, word, index)?);
            }
        }
        let count = |run: &super::batch::Run, answer: &mut Answer<'_>| {
            answer.count().filter(|served| *served <= run.count)
        };
        let runs = batch.runs.iter().map(|run| count(run, answer));
        let runs = runs.collect::<Option<_>>()?;
        for _ in batch.flags() {
            answer.result()?;
        }
        answer.is_read().then_some(Results {
            extends,
            confirms,
            calls,
            runs,
        })
    }
}
