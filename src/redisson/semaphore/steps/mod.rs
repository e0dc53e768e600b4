//! As what a batch of calls on a semaphore travels: the steps of `lua/semaphore/batch.lua`, which stands behind `record.lua` and
//! `envelope.lua`, `counter.lua`, which reads the counter, `line.lua`, `stops.lua`, `strangers.lua` and `turns.lua`, which know whose turn
//! it is; with calls about permits on record `holders.lua`, too, which keeps that (see [`watchdog`](crate::engine::watchdog)).
//!
//! All calls of a batch were waiting for an answer at the same time, so any order among them is one that
//! an observer could have seen. The order chosen: releases before acquisitions, so that what one caller
//! gives back serves the next one in the same script; waiting callers before those that only try; calls
//! that look at the whole counter (add, drain, set, read) where they came. Equal neighbours become one
//! step with a count: a thousand callers of `acquire(1)` are three arguments.

mod results;

use super::calls::{Call, Want};
use super::permits::Permits;
use crate::engine::few::Few;
use crate::engine::primitive::Ask;
use crate::engine::request::Arg;

pub(super) use results::Results;

/// Calls that can't be merged into steps of equal amounts end the batch after this many. The script's time
/// grows with its steps: with all of these, and as many runs of waiting callers as there may be, one call
/// took 0.33 ms at the mean (redis-server 7.0.15, 200 calls one by one, 2 cores of an AMD EPYC).
const MOST_STEPS: usize = 128;
/// A batch has so many runs of those who wait at the most: it bounds the script's time and the request's size. As many of those
/// who ask for the last time come in addition.
pub(super) const MOST_RUNS: usize = 64;

/// Calls of the same kind and amount.
struct Step {
    call: Call,
    count: usize,
    /// How many steps a batch had before this one came.
    number: usize,
}

/// Those who wait for the same amount: neighbours, or all who ask for the last time.
struct Run {
    want: Want,
    count: usize,
}

/// Where each of several stands. Nothing is written down as long as it is the first place for all, as mostly.
#[derive(Default)]
struct Places {
    len: usize,
    places: Vec<Option<usize>>,
}

impl Places {
    fn note(&mut self, place: Option<usize>) {
        if place != Some(0) && self.places.is_empty() {
            self.places = vec![Some(0); self.len];
        }
        if place != Some(0) || !self.places.is_empty() {
            self.places.push(place);
        }
        self.len += 1;
    }

    fn get(&self, index: usize) -> Option<usize> {
        self.places.get(index).copied().unwrap_or(Some(0))
    }
}

/// The steps of a batch.
#[derive(Default)]
pub(super) struct Steps {
    /// Those up to the last one that looks at the whole counter, and the releases behind it.
    before: Vec<Step>,
    /// From here on releases of equal amounts may be merged.
    segment: usize,
    /// Those of callers that only try.
    after: Vec<Step>,
    /// For each call the number of its step; what the line of all clients needs has none.
    of_calls: Places,
    runs: Few<Run>,
    /// How many of them, the last ones, ask for the last time.
    last: usize,
    /// For each question its run.
    of_asks: Places,
}

impl Steps {
    /// Adds a call, if there is room.
    pub(super) fn note_call(&mut self, call: Call) -> bool {
        if call == Call::Tend {
            self.of_calls.note(None);
            return true;
        }
        if self.before.len() + self.after.len() >= MOST_STEPS {
            return false;
        }
        let number = self.before.len() + self.after.len();
        let Steps { before, after, .. } = self;
        let (order, from) = if call.is_owed() {
            (before, self.segment)
        } else if call.tries() {
            let last = after.len().saturating_sub(1);
            (after, last)
        } else {
            // The tries that came before it stay before it.
            before.append(after);
            self.segment = before.len() + 1;
            let end = before.len();
            (before, end)
        };
        let twin = order[from..].iter_mut().find(|step| step.call == call);
        let number = match twin {
            Some(step) => {
                step.count += 1;
                step.number
            }
            None => {
                let count = 1;
                order.push(Step {
                    call,
                    count,
                    number,
                });
                number
            }
        };
        self.of_calls.note(Some(number));
        true
    }

    /// The same for a question; who asks for the last time comes behind the others.
    pub(super) fn note_ask(&mut self, ask: &Ask<Permits>) -> bool {
        let in_line = self.runs.len() - self.last;
        let from = if ask.last {
            in_line
        } else {
            in_line.saturating_sub(1)
        };
        let runs = self.runs.len();
        let is_alike = |(run, _): &(&mut Run, usize)| run.want.is_alike(&ask.want);
        let twin = self.runs.iter_mut().zip(0..).skip(from).find(is_alike);
        let place = match twin {
            Some((run, place)) => {
                run.count += 1;
                place
            }
            None if ask.last && self.last == MOST_RUNS => return false,
            None => {
                self.last += usize::from(ask.last);
                let want = ask.want;
                self.runs.push(Run { want, count: 1 });
                runs
            }
        };
        self.of_asks.note(Some(place));
        true
    }

    /// The only call, where it is one.
    pub(super) fn lone_call(&self) -> Option<Call> {
        let mut all = self.all();
        let mut runs = self.runs.iter();
        match (all.next(), all.next(), runs.next(), runs.next()) {
            (Some(step), None, None, None) if step.count == 1 => Some(step.call),
            (None, None, Some(Run { want, count: 1 }), None) if !want.recorded => {
                Some(Call::TryAcquire(want.permits))
            }
            _ => None,
        }
    }

    /// Those of calls.
    fn all(&self) -> impl Iterator<Item = &Step> {
        self.before.iter().chain(&self.after)
    }

    /// Whether they are about permits on record.
    pub(super) fn are_recorded(&self) -> bool {
        self.all().any(|step| step.call.is_recorded())
            || self.runs.iter().any(|run| run.want.recorded)
    }

    /// Whether permits may be added by them.
    pub(super) fn add(&self) -> bool {
        self.all().any(|step| step.call.adds())
    }

    /// Writes them; `words`: how those ask who wait on, and the same for permits on record.
    pub(super) fn write(&self, words: [&'static str; 2], args: &mut Vec<Arg>) {
        self.before.iter().for_each(|step| step.write(args));
        let in_line = self.runs.len() - self.last;
        for (place, run) in self.runs.iter().enumerate() {
            let words = if place < in_line {
                words
            } else {
                ["acquire", "*acquire"]
            };
            let word = Arg::Word(words[usize::from(run.want.recorded)]);
            args.extend([word, Arg::Number(run.want.permits.into()), count(run.count)]);
        }
        self.after.iter().for_each(|step| step.write(args));
    }
}

fn count(calls: usize) -> Arg {
    Arg::Number(i64::try_from(calls).unwrap_or(i64::MAX))
}

impl Step {
    fn write(&self, args: &mut Vec<Arg>) {
        let one = || Arg::Number(1);
        let (word, third) = match self.call {
            Call::Release(_) => ("release", count(self.count)),
            Call::ReleaseIfExists(_) => ("release_if_exists", count(self.count)),
            Call::TryAcquire(_) => ("acquire", count(self.count)),
            Call::TryTake(_) => ("*acquire", count(self.count)),
            Call::GiveBack(..) => ("*release", count(self.count)),
            Call::Forget(..) => ("*forget", count(self.count)),
            Call::Add(_) => ("add", one()),
            Call::Drain => ("drain", one()),
            Call::TrySet(_, ttl) => ("try_set", ttl.map_or(Arg::Number(0), Arg::millis)),
            Call::Available | Call::Tend => ("available", one()),
        };
        args.extend([Arg::Word(word), Arg::Number(self.call.amount()), third]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn call() -> impl Strategy<Value = Call> {
        prop_oneof![
            (1..4_u32).prop_map(Call::Release),
            (1..4_u32).prop_map(Call::ReleaseIfExists),
            (1..4_u32).prop_map(Call::TryAcquire),
            (-3..4_i32).prop_map(Call::Add),
            Just(Call::Drain),
            Just(Call::TrySet(3, None)),
            Just(Call::Available),
            Just(Call::Tend),
        ]
    }

    /// As many results as there are steps, and more, or anything.
    fn answer() -> impl Strategy<Value = String> {
        let number = prop_oneof![0..4_i64, crate::any_value::number()];
        let numbers = proptest::collection::vec(number, 0..16);
        let numbers = numbers.prop_map(|numbers| {
            numbers
                .iter()
                .map(i64::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        });
        prop_oneof![numbers, ".*"]
    }

    fn asking(permits: u32, last: bool) -> Ask<Permits> {
        Ask {
            ticket: 0,
            want: Want::new(permits, false),
            last,
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_read(
            calls in proptest::collection::vec(call(), 0..6),
            waiting in proptest::collection::vec((1..3_u32, any::<bool>()), 0..6),
            answers in proptest::collection::vec(answer(), 8),
        ) {
            let mut steps = Steps::default();
            assert!(calls.iter().all(|call| steps.note_call(*call)));
            let (last, in_line): (Vec<_>, Vec<_>) = waiting.iter().partition(|(_, last)| *last);
            for (permits, last) in in_line.into_iter().chain(last) {
                assert!(steps.note_ask(&asking(permits, last)));
            }
            for answer in answers {
                let Some(mut results) = steps.read(&mut answer.split_ascii_whitespace()) else {
                    continue;
                };
                let count: usize = results.runs.iter().sum();
                for (index, call) in calls.iter().enumerate() {
                    let _ = steps.answer("name", &mut results, index, *call);
                }
                let served = (0..waiting.len()).filter(|ask| steps.is_served(&mut results, *ask));
                assert_eq!(served.count(), count);
            }
        }
    }

    fn written(steps: &Steps) -> Vec<(String, i64, i64)> {
        let mut args = Vec::new();
        steps.write(["wait", "*wait"], &mut args);
        let step = |step: &[Arg]| match step {
            [Arg::Word(word), Arg::Number(amount), Arg::Number(count)] => {
                ((*word).to_owned(), *amount, *count)
            }
            _ => panic!("a step has three"),
        };
        args.chunks(3).map(step).collect()
    }

    #[test]
    fn equal_calls_are_one_step_and_what_looks_at_the_counter_is_not_passed() {
        let mut steps = Steps::default();
        let calls = [
            Call::TryAcquire(1),
            Call::Release(2),
            Call::Release(1),
            Call::Release(2),
            Call::Tend,
            Call::Drain,
            Call::TryAcquire(1),
            Call::TryAcquire(1),
            Call::Release(2),
        ];
        assert!(calls.iter().all(|call| steps.note_call(*call)));
        for (permits, last) in [
            (1, false),
            (1, false),
            (2, false),
            (2, true),
            (3, true),
            (2, true),
        ] {
            assert!(steps.note_ask(&asking(permits, last)));
        }
        let written = written(&steps);
        let written: Vec<_> = written
            .iter()
            .map(|(word, amount, count)| (&**word, *amount, *count))
            .collect();
        let expected = [
            ("release", 2, 2),
            ("release", 1, 1),
            ("acquire", 1, 1),
            ("drain", 0, 1),
            ("release", 2, 1),
            ("wait", 1, 2),
            ("wait", 2, 1),
            ("acquire", 2, 2),
            ("acquire", 3, 1),
            ("acquire", 1, 2),
        ];
        assert_eq!(written, expected);
        let results = steps.read(&mut "2 1 0 5 1 2 0 1 0 1".split_ascii_whitespace());
        let mut results = results.expect("as the script writes it");
        let answers = calls.iter().enumerate().map(|(index, call)| {
            let answer = steps.answer("name", &mut results, index, *call);
            answer.expect("it is within the range")
        });
        assert_eq!(answers.collect::<Vec<_>>(), [0, 1, 1, 1, 1, 5, 1, 0, 1]);
        let served: Vec<_> = (0..6)
            .map(|ask| steps.is_served(&mut results, ask))
            .collect();
        assert_eq!(served, [true, true, false, true, false, false]);
    }
}
