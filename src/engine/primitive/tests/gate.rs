//! A latch: who waits takes nothing, and all go through at once.

use std::str::SplitAsciiWhitespace;

use super::{Server, Subject};
use crate::engine::primitive::{Batch, Look, Primitive, Verdict};
use crate::engine::request::Arg;

/// To count down, so often.
pub(super) struct Down(pub(super) i64);

pub(super) struct Gate;

impl Primitive for Gate {
    const KIND: &'static str = "gate";
    const WAIT: &'static str = "wait";
    type Call = Down;
    type Reply = i64;
    type Want = ();
    type Grant = ();

    fn name(_: &Down) -> &'static str {
        "down"
    }

    fn is_owed(_: &Down) -> bool {
        true
    }

    fn add_up(earlier: &mut Down, call: &Down) -> bool {
        earlier.0 += call.0;
        true
    }

    fn frees(&self, _: &Down) -> bool {
        true
    }

    fn takes((): &()) -> bool {
        false
    }

    fn encode(&mut self, batch: &Batch<Self>, args: &mut Vec<Arg>) {
        args.extend(batch.calls.iter().map(|_| Arg::Word("down")));
        args.push(Arg::Word("open?"));
    }

    fn decode(
        &mut self,
        batch: &Batch<Self>,
        words: &mut SplitAsciiWhitespace<'_>,
    ) -> Option<Verdict<Self>> {
        let mut number = || words.next()?.parse().ok();
        let replies = batch.calls.iter().map(|_| number());
        let replies = replies.collect::<Option<_>>()?;
        let open = number()? == 1;
        let grants = batch.asks.iter().map(|_| open.then_some(()));
        let look = Look::No;
        Some(Verdict::new(replies, grants, look))
    }
}

impl Subject for Gate {
    type Server = Count;

    fn new() -> Self {
        Gate
    }

    fn want(_: usize) {}

    fn release(_: usize) -> Option<Down> {
        None
    }
}

/// How often it must be counted down.
pub(super) struct Count(i64);

impl Default for Count {
    fn default() -> Self {
        Count(1)
    }
}

impl Server for Count {
    fn execute(&mut self, steps: &[String]) -> (String, Vec<String>) {
        let before = self.0;
        let mut words = Vec::new();
        for step in steps {
            if step == "down" {
                self.0 = (self.0 - 1).max(0);
                words.push(self.0.to_string());
            } else {
                words.push(i64::from(self.0 == 0).to_string());
            }
        }
        let opened = before > 0 && self.0 == 0;
        (
            words.join(" "),
            opened.then(|| "own".to_owned()).into_iter().collect(),
        )
    }

    fn outsider_goes(&mut self) -> Vec<String> {
        self.execute(&["down".to_owned()]).1
    }

    fn is_clean(&self) -> bool {
        self.0 == 0
    }
}
