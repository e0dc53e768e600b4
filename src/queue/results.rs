//! The results of the steps of a batch.

use super::answer::Answer;
use super::batch::Batch;
use super::outcome::{Taken, Want};
use super::primitive::{self, Call, Primitive};

pub(super) struct Results<W> {
    pub(super) extends: Vec<bool>,
    pub(super) confirms: Vec<Option<Taken>>,
    /// One for each call.
    pub(super) calls: Vec<primitive::Result<W>>,
    /// How many of each run have been served, and how the last of these was.
    pub(super) runs: Vec<(usize, Taken)>,
}

impl<W: Want> Results<W> {
    /// `None` for what the script never answers to `batch`.
    pub(super) fn read<P: Primitive<Want = W>>(
        name: &str,
        batch: &Batch<P>,
        answer: &mut Answer<'_, W>,
    ) -> Option<Self> {
        let extends = batch.extends.iter().map(|_| answer.flag());
        let extends = extends.collect::<Option<_>>()?;
        let confirms = batch.confirms.iter().map(|_| match answer.count()? {
            (0, _) => Some(None),
            (1, taken) => Some(Some(taken)),
            _ => None,
        });
        let confirms = confirms.collect::<Option<_>>()?;
        for _ in &batch.leaves {
            answer.result()?;
        }
        let mut calls = Vec::with_capacity(batch.calls.len());
        for step in batch.steps() {
            let word = answer.result()?;
            for index in 0..step.len() {
                calls.push(step[0].call()?.read(name, word, index)?);
            }
        }
        let count = |run: &super::batch::Run<W>, answer: &mut Answer<'_, W>| {
            answer.count().filter(|(served, _)| *served <= run.count)
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
