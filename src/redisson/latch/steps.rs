//! The latch as a primitive: all who wait ask together, take nothing, and go through at once.

use std::str::SplitAsciiWhitespace;
use std::time::Duration;

use crate::engine::primitive::{Batch, Look, Primitive, Verdict};
use crate::engine::request::Arg;

/// A call on a latch, answered by whether it did something.
pub(super) enum Call {
    TrySet(u32),
    CountDown(i64),
    Delete,
}

/// Nothing has to be known about a latch.
pub(super) struct Latch;

impl Primitive for Latch {
    const KIND: &'static str = "count_down_latch";
    const WAIT: &'static str = "wait";
    type Call = Call;
    type Reply = bool;
    type Want = ();
    type Grant = ();

    fn name(call: &Call) -> &'static str {
        match call {
            Call::TrySet(_) => "try_set_count",
            Call::CountDown(_) => "count_down",
            Call::Delete => "delete",
        }
    }

    fn details(call: &Call) -> String {
        match call {
            Call::CountDown(times) => format!("count_down({times})"),
            _ => Self::name(call).to_owned(),
        }
    }

    fn is_owed(call: &Call) -> bool {
        matches!(call, Call::CountDown(_))
    }

    fn add_up(earlier: &mut Call, call: &Call) -> bool {
        let (Call::CountDown(sum), Call::CountDown(more)) = (earlier, call) else {
            return false;
        };
        *sum += more;
        true
    }

    fn frees(&self, call: &Call) -> bool {
        !matches!(call, Call::TrySet(_))
    }

    fn takes((): &()) -> bool {
        false
    }

    fn encode(&mut self, batch: &Batch<Self>, args: &mut Vec<Arg>) {
        for queued in &batch.calls {
            let (word, number) = match queued.call {
                Call::TrySet(count) => ("set", count.into()),
                Call::CountDown(count) => ("down", count),
                Call::Delete => ("delete", 0),
            };
            args.extend([Arg::Word(word), Arg::Number(number)]);
        }
        if !batch.asks.is_empty() {
            args.extend([Arg::Word("await"), Arg::Number(0)]);
        }
    }

    fn decode(
        &mut self,
        batch: &Batch<Self>,
        words: &mut SplitAsciiWhitespace<'_>,
    ) -> Option<Verdict<Self>> {
        let word = words.next()?;
        let look = match word {
            "open" | "-1" => Look::No,
            // Nobody tells that it has vanished.
            millis => Look::After(Duration::from_millis(
                millis.parse::<u64>().ok()?.saturating_add(1),
            )),
        };
        let mut flag = || Some(words.next()?.parse::<u8>().ok()? == 1);
        let replies = batch.calls.iter().map(|_| flag());
        let replies = replies.collect::<Option<_>>()?;
        let grant = (word == "open").then_some(());
        let grants = vec![grant; batch.asks.len()];
        Some(Verdict::new(replies, grants, look))
    }
}
