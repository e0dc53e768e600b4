//! The calls on a lock, and how they travel: as steps of one script call.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::api::{Hold, HoldId};
use crate::engine::holds::Count;
pub(crate) use crate::engine::holds::Term;
use crate::engine::keys::Keys;
use crate::engine::request::{Arg, RecordKey, Request, Script, ScriptCall};
use crate::error::Result;
use crate::transport::{Refusal, Value};

/// The scripts of a kind of lock. Both kinds take the same arguments and answer alike.
pub(crate) struct Kind {
    /// What the client's registry knows it by.
    pub(crate) name: &'static str,
    /// Carries steps out; `lua/lock/batch.lua` describes arguments and answer.
    pub(crate) steps: &'static LazyLock<Script>,
    /// The usual cases, in short; see `lua/lock/take.lua` and `lua/lock/give.lua`.
    pub(crate) usual: Option<Usual>,
    /// Puts off the end of what is held; `lua/lock/renew.lua` describes arguments and answer.
    pub(crate) renewal: &'static LazyLock<Script>,
}

/// The scripts for the usual cases.
pub(crate) struct Usual {
    pub(crate) take: &'static LazyLock<Script>,
    pub(crate) give: &'static LazyLock<Script>,
}

impl Usual {
    /// The request for `step` alone, where it is a usual case.
    pub(crate) fn request(
        &self,
        keys: &Keys,
        next: &Arc<str>,
        step: &Step,
        known: Known,
    ) -> Option<Request> {
        let (script, script_keys, args) = match step {
            Step::Acquire(claim) if known.holds == Count::Held(0) && !claim.fenced => {
                let mut script_keys = vec![
                    Arc::clone(keys.object()),
                    Arc::clone(keys.record()),
                    Arc::clone(next),
                ];
                let mut args = vec![
                    Arg::Text(Arc::clone(&claim.owner)),
                    Arg::millis(known.lease),
                ];
                if claim.waits {
                    script_keys.push(Arc::clone(keys.channel()));
                    args.push(Arg::Publish);
                }
                (self.take, script_keys, args)
            }
            Step::Release(owner, _) if known.holds == Count::Held(1) => (
                self.give,
                vec![
                    Arc::clone(keys.object()),
                    Arc::clone(keys.channel()),
                    Arc::clone(keys.record()),
                ],
                vec![Arg::Publish, Arg::Text(Arc::clone(owner))],
            ),
            _ => return None,
        };
        Some(Request::script(script, script_keys, args))
    }

    /// How many hear the channel, where that was learned, and the answer to `step`; `None` if it was no usual case.
    pub(crate) fn read(value: &Value, step: &Step) -> Option<(Option<u64>, StepAnswer)> {
        match (step, value) {
            (Step::Acquire(_), Value::Int(1)) => Some((None, StepAnswer::Taken(1, 0))),
            (Step::Acquire(_), Value::Array(busy)) => match busy.as_slice() {
                [Value::Int(ttl), Value::Int(listeners)] => {
                    Some((u64::try_from(*listeners).ok(), held_for(*ttl, false)))
                }
                _ => None,
            },
            (Step::Release(..), Value::Int(number @ 1..)) => {
                let listeners = u64::try_from(number - 1).ok();
                Some((listeners, StepAnswer::Released(0)))
            }
            _ => None,
        }
    }
}

/// Where in the script's arguments the sending's number stands, and whether it is doubtful.
const SEQUENCE: usize = 1;
const DOUBTFUL: usize = 3;
/// Which of the script's keys is the fence.
const FENCE_KEY: usize = 2;
/// Where a fence stands that somebody else has written.
const DISOWNED: usize = 4;
/// Where it stands for how long the lock is to be left free for this client.
const PATIENCE: usize = 5;

/// Who takes the lock, and how.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) owner: Arc<str>,
    pub(crate) term: Term,
    /// Asks for a fencing token.
    pub(crate) fenced: bool,
    /// Leaves the free lock to a client that is next.
    pub(crate) waits: bool,
}

/// What a caller asks for.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Acquire(Claim),
    /// One hold of an owner: this one and no other, or whichever.
    Release(Arc<str>, Option<HoldId>),
    Force,
}

impl Step {
    /// The name for error texts.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Step::Acquire(_) => "lock",
            Step::Release(..) => "unlock",
            Step::Force => "force_unlock",
        }
    }

    pub(crate) fn owner(&self) -> Option<&Arc<str>> {
        match self {
            Step::Acquire(claim) => Some(&claim.owner),
            Step::Release(owner, _) => Some(owner),
            Step::Force => None,
        }
    }

    pub(crate) fn is_fenced(&self) -> bool {
        matches!(self, Step::Acquire(claim) if claim.fenced)
    }
}

/// What a caller is answered.
#[derive(Debug)]
pub(crate) enum Outcome {
    Taken(Hold),
    /// Somebody else holds it.
    Busy,
    Released,
    /// Whether there was anything to take away.
    Forced(bool),
}

pub(crate) type Reply = oneshot::Sender<Result<Outcome>>;

/// One call and its caller.
pub(crate) struct Call {
    pub(crate) step: Step,
    /// `None` once the caller has been answered, or where there is none.
    pub(crate) reply: Option<Reply>,
    /// When it was made.
    pub(crate) since: Instant,
}

impl Call {
    pub(crate) fn forget_caller_who_has_gone(&mut self) {
        if self.reply.as_ref().is_some_and(Reply::is_closed) {
            self.reply = None;
        }
    }

    /// Whether nobody waits for it any more, and it is not owed: then it must not be sent.
    pub(crate) fn is_pointless(&mut self) -> bool {
        self.forget_caller_who_has_gone();
        self.reply.is_none() && !matches!(self.step, Step::Release(..))
    }
}

/// For the log: what somebody has to repair.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}({})",
            self.name(),
            self.owner().map_or("", |owner| owner)
        )
    }
}

/// What is known of a step's owner when it departs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    /// How often it holds the lock.
    pub(crate) holds: Count,
    /// The time to live to be set.
    pub(crate) lease: Duration,
    /// Which hold is given back.
    pub(crate) number: Option<u64>,
}

/// The request for `steps`.
pub(crate) fn request(
    kind: &Kind,
    keys: &Keys,
    next: &Arc<str>,
    token: Option<&Arc<str>>,
    record_life: Duration,
    steps: &[Step],
    known: &[Known],
) -> Request {
    let mut script_keys = vec![
        Arc::clone(keys.object()),
        Arc::clone(keys.channel()),
        Arc::clone(keys.record()),
        Arc::clone(next),
    ];
    if steps.iter().any(Step::is_fenced) {
        script_keys.extend(token.map(Arc::clone));
    }
    let mut args = Vec::with_capacity(6 + 4 * steps.len());
    args.push(Arg::Publish);
    args.push(Arg::Number(0));
    args.push(Arg::millis(record_life));
    args.push(Arg::Number(0));
    args.push(Arg::Word(""));
    args.push(Arg::Number(0));
    for (step, known) in steps.iter().zip(known) {
        let word = match step {
            Step::Acquire(claim) => match (claim.waits, claim.fenced) {
                (true, true) => "wait_fenced",
                (true, false) => "wait",
                (false, true) => "acquire_fenced",
                (false, false) => "acquire",
            },
            Step::Release(..) => "release",
            Step::Force => "force",
        };
        args.push(Arg::Word(word));
        args.push(match step.owner() {
            Some(owner) => Arg::Text(Arc::clone(owner)),
            None => Arg::Word(""),
        });
        args.push(Arg::Number(match known.holds {
            Count::Held(count) => count.into(),
            Count::Over => -1,
        }));
        args.push(Arg::millis(known.lease));
    }
    Request::Script(ScriptCall {
        script: kind.steps,
        keys: script_keys,
        args,
        sequence: Some(SEQUENCE),
        record_flag: Some(DOUBTFUL),
        renumbered: true,
        question: None,
        record: Some(RecordKey {
            index: FENCE_KEY,
            always: steps.iter().any(|step| matches!(step, Step::Force)),
        }),
    })
}

/// The fence because of which nothing of a request was done: it is ahead of the client, so that the client has not
/// written it.
pub(crate) fn foreign_fence(value: &Value) -> Option<String> {
    match value {
        Value::Array(values) => match values.as_slice() {
            [Value::BulkString(word), Value::BulkString(fence)] if word == b"stale" => {
                Some(String::from_utf8_lossy(fence).into_owned())
            }
            _ => None,
        },
        _ => None,
    }
}

/// `request` is to be sent once more, as number `number`: that fence does not count. A copy that arrives late finds
/// another one, which does.
pub(crate) fn disown(request: &mut Request, fence: String, number: u64) {
    request.number(number);
    if let Request::Script(call) = request {
        call.args[DISOWNED] = Arg::Text(fence.into());
    }
}

/// This client has been passed for so long: it is to be next, and the lock is left free for it for the time of its
/// `patience`.
pub(crate) fn come_next(request: &mut Request, passed: Duration, patience: Duration) {
    if let Request::Script(call) = request {
        let text = format!("{} {}", patience.as_millis(), passed.as_millis());
        call.args[PATIENCE] = Arg::Text(text.into());
    }
}

/// No owner holds a lock as often as this; a larger count in a hash has been written by somebody else, and is not
/// worth the memory.
const MOST_HOLDS: i64 = 1 << 20;

/// How often an owner holds a lock, as the server says.
fn count(holds: i64) -> Option<u32> {
    u32::try_from(holds).ok().filter(|_| holds <= MOST_HOLDS)
}

/// What the server answers to one step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StepAnswer {
    /// How often the owner holds it now, and the token.
    Taken(u32, u64),
    /// How long the other one may keep it; `None` where it has no time to live. Whether this client is next.
    Busy {
        ttl: Option<Duration>,
        next: bool,
    },
    /// Nothing was done: the owner does not hold it any more.
    Lost,
    Released(u32),
    NotHeld,
    Forced(bool),
    Refused(String),
}

impl StepAnswer {
    /// The server could not carry the step out at the time, and may be able to in a moment.
    pub(crate) fn is_not_now(&self) -> bool {
        matches!(self, StepAnswer::Refused(error) if !Refusal::from_text(error).is_final(false))
    }
}

/// Somebody else has it, for so many milliseconds, or without an end.
fn held_for(millis: i64, next: bool) -> StepAnswer {
    let ttl = u64::try_from(millis).ok().map(Duration::from_millis);
    StepAnswer::Busy { ttl, next }
}

/// How many hear the channel, where that was learned, and the answers to `steps`. `None` for an answer that
/// makes no sense.
pub(crate) fn read(value: &Value, steps: &[Step]) -> Option<(Option<u64>, Vec<StepAnswer>)> {
    let Value::Array(values) = value else {
        return None;
    };
    let (Value::Int(listeners), results) = values.split_first()? else {
        return None;
    };
    if results.len() != 2 * steps.len() {
        return None;
    }
    let answers = steps.iter().zip(results.chunks_exact(2));
    let answers = answers.map(|(step, pair)| read_step(step, &pair[0], &pair[1]));
    Some((
        u64::try_from(*listeners).ok(),
        answers.collect::<Option<_>>()?,
    ))
}

fn read_step(step: &Step, result: &Value, extra: &Value) -> Option<StepAnswer> {
    let Value::Int(result) = *result else {
        return None;
    };
    let extra = match extra {
        Value::Int(extra) => *extra,
        Value::BulkString(error) if result == -2 => {
            return Some(StepAnswer::Refused(
                String::from_utf8_lossy(error).into_owned(),
            ));
        }
        _ => return None,
    };
    Some(match step {
        Step::Acquire(_) if result == 0 || result == -4 => held_for(extra, result == -4),
        Step::Acquire(_) if result == -3 => StepAnswer::Lost,
        Step::Acquire(_) => {
            let count = count(result).filter(|count| *count > 0)?;
            StepAnswer::Taken(count, u64::try_from(extra).ok()?)
        }
        Step::Release(..) if result == -1 => StepAnswer::NotHeld,
        Step::Release(..) => StepAnswer::Released(count(result)?),
        Step::Force => StepAnswer::Forced(result == 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take() -> Step {
        Step::Acquire(Claim {
            owner: "a".into(),
            term: Term::Watched,
            fenced: false,
            waits: false,
        })
    }

    fn numbers(numbers: &[i64]) -> Value {
        Value::Array(numbers.iter().copied().map(Value::Int).collect())
    }

    #[test]
    fn answers_are_read_by_what_was_asked() {
        let (take, release) = (take(), Step::Release("a".into(), None));
        let steps = [release.clone(), take.clone(), take.clone(), Step::Force];
        let value = numbers(&[3, 0, 0, 2, 17, 0, 250, 1, 0]);
        let (listeners, answers) = read(&value, &steps).unwrap();
        assert_eq!(listeners, Some(3));
        assert_eq!(
            answers,
            [
                StepAnswer::Released(0),
                StepAnswer::Taken(2, 17),
                held_for(250, false),
                StepAnswer::Forced(true)
            ]
        );
        let (listeners, answers) = read(&numbers(&[-1, -1, 0, 0, -1]), &steps[..2]).unwrap();
        assert_eq!(listeners, None);
        assert_eq!(answers, [StepAnswer::NotHeld, held_for(-1, false)]);
        let (_, answers) = read(&numbers(&[5, -4, 20]), &steps[1..2]).unwrap();
        assert_eq!(answers, [held_for(20, true)]);
        let (_, answers) = read(&numbers(&[-1, -3, 0]), &steps[1..2]).unwrap();
        assert_eq!(answers, [StepAnswer::Lost]);
    }

    #[test]
    fn usual_answers_are_one_number_or_two() {
        let (take, release) = (take(), Step::Release("a".into(), None));
        let read = |number, step| Usual::read(&Value::Int(number), step);
        assert_eq!(read(1, &take), Some((None, StepAnswer::Taken(1, 0))));
        assert_eq!(read(0, &take), None);
        let read_two = |two: &[i64]| Usual::read(&numbers(two), &take);
        assert_eq!(read_two(&[7, 3]), Some((Some(3), held_for(7, false))));
        assert_eq!(read_two(&[-1, -1]), Some((None, held_for(-1, false))));
        assert_eq!(read_two(&[7]), None);
        assert_eq!(Usual::read(&numbers(&[7, 3]), &release), None);
        assert_eq!(read(1, &release), Some((Some(0), StepAnswer::Released(0))));
        assert_eq!(read(4, &release), Some((Some(3), StepAnswer::Released(0))));
        assert_eq!(read(0, &release), None);
    }

    #[test]
    fn answers_that_make_no_sense_are_none() {
        let take = take();
        for value in [
            numbers(&[]),
            numbers(&[-1]),
            numbers(&[-1, 1]),
            numbers(&[-1, 1, 0, 1]),
            numbers(&[-1, -7, 0]),
            numbers(&[-1, 1, -5]),
            numbers(&[-1, 4_000_000_000, 0]),
            numbers(&[-1, i64::MAX, i64::MIN]),
            Value::Nil,
            Value::SimpleString("stale".to_owned()),
        ] {
            assert!(
                read(&value, std::slice::from_ref(&take)).is_none(),
                "{value:?}"
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn any_value_is_read(value in crate::any_value::value(), count in 0_usize..5) {
            let step = |index: usize| match index % 3 {
                0 => take(),
                1 => Step::Release("a".into(), None),
                _ => Step::Force,
            };
            let steps: Vec<Step> = (0..count).map(step).collect();
            if let Some((_, answers)) = read(&value, &steps) {
                assert_eq!(answers.len(), count);
                for answer in answers {
                    if let StepAnswer::Taken(holds, _) = answer {
                        assert!(i64::from(holds) <= MOST_HOLDS);
                    }
                }
            }
            for step in &steps {
                Usual::read(&value, step);
            }
        }
    }
}
