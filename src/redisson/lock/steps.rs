//! The calls on a lock, and how they travel: as steps of one script call.

use std::fmt;
use std::str::SplitAsciiWhitespace;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::time::Instant;

use crate::api::{Hold, HoldId};
use crate::engine::holds::{Count, Term};
use crate::engine::keys::Keys;
use crate::engine::primitive::Wire;
use crate::engine::request::{Arg, RecordKey, Request, Script, ScriptCall};
use crate::engine::turns::Place;
use crate::lua;
use crate::transport::Refusal;

/// The usual cases, in short.
static TAKE: LazyLock<Script> = LazyLock::new(|| Script::new(lua::TAKE));
static GIVE: LazyLock<Script> = LazyLock::new(|| Script::new(lua::GIVE));

/// Where in the script's arguments the sending's number stands, and whether it is doubtful.
const SEQUENCE: usize = 1;
const DOUBTFUL: usize = 3;
/// Which of the script's keys is the fence.
const FENCE_KEY: usize = 2;
/// Where a fence stands that somebody else has written.
const DISOWNED: usize = 4;
/// And the first step's word.
const FIRST_STEP: usize = 5;
/// What `force` is where nobody wants it any more.
const FORCED: &str = "forced";

/// Who takes the lock, and how.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    pub(super) owner: Arc<str>,
    pub(super) term: Term,
    /// Asks for a fencing token.
    pub(super) fenced: bool,
    /// By the rule of turns.
    pub(super) waits: bool,
    /// When its caller came.
    pub(super) since: Instant,
}

/// What a caller asks for.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Acquire(Claim),
    /// One hold of an owner: this one and no other, or whichever.
    Release(Arc<str>, Option<HoldId>),
    Force,
    /// Looks whether those come whose turn it is, or leaves the line of all clients.
    Tend,
}

impl Step {
    /// The name for error texts.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Step::Acquire(_) => "lock",
            Step::Release(..) => "unlock",
            Step::Force => "force_unlock",
            Step::Tend => "lock",
        }
    }

    pub(super) fn owner(&self) -> Option<&Arc<str>> {
        match self {
            Step::Acquire(claim) => Some(&claim.owner),
            Step::Release(owner, _) => Some(owner),
            Step::Force | Step::Tend => None,
        }
    }

    pub(super) fn is_fenced(&self) -> bool {
        matches!(self, Step::Acquire(claim) if claim.fenced)
    }
}

/// What a caller is answered.
#[derive(Debug)]
pub(super) enum Reply {
    Taken(Granted),
    /// Somebody else holds it.
    Busy,
    Released,
    /// Whether there was anything to take away.
    Forced(bool),
    Tended,
}

/// What an owner has taken.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) owner: Arc<str>,
    pub(super) hold: Hold,
}

impl Granted {
    /// What gives it back, and no other hold.
    pub(super) fn give_back(self) -> Step {
        Step::Release(self.owner, Some(self.hold.id))
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
pub(super) struct Known {
    /// How often it holds the lock.
    pub(super) holds: Count,
    /// The time to live to be set.
    pub(super) lease: Duration,
    /// Which hold is given back.
    pub(super) number: Option<u64>,
}

/// The short form of `step` alone, where it is a usual case. `line`: that of the clients with whom this one takes turns, and whether it
/// is one of those who listen.
pub(super) fn usual(
    step: &Step,
    known: &Known,
    keys: &Keys,
    line: Option<(&Arc<str>, bool)>,
) -> Option<Request> {
    let (lock, fence, channel) = (keys.object(), keys.record(), keys.channel());
    let (script, script_keys, args) = match step {
        Step::Acquire(claim) if known.holds == Count::Held(0) && !claim.fenced => {
            let mut script_keys = vec![Arc::clone(lock), Arc::clone(fence)];
            let mut args = vec![
                Arg::Text(Arc::clone(&claim.owner)),
                Arg::millis(known.lease),
            ];
            if claim.waits {
                script_keys.push(Arc::clone(channel));
                args.push(Arg::Publish);
                if let Some((line, listens)) = line {
                    script_keys.push(Arc::clone(line));
                    args.push(Arg::Number(listens.into()));
                }
            }
            (&TAKE, script_keys, args)
        }
        Step::Release(owner, _) if known.holds == Count::Held(1) => (
            &GIVE,
            vec![Arc::clone(lock), Arc::clone(channel), Arc::clone(fence)],
            vec![Arg::Publish, Arg::Text(Arc::clone(owner))],
        ),
        _ => return None,
    };
    Some(Request::script(script, script_keys, args))
}

/// The request for any steps, in which the report of `place` travels along, where it has one.
pub(super) fn request(
    wire: &Wire<'_>,
    steps: &[(Step, Known)],
    place: &Place,
    departed: Instant,
) -> Request {
    let keys = wire.keys;
    let mut script_keys = vec![
        Arc::clone(keys.object()),
        Arc::clone(keys.channel()),
        Arc::clone(keys.record()),
    ];
    script_keys.extend(place.keys().cloned());
    if steps.iter().any(|(step, _)| step.is_fenced()) {
        script_keys.extend(keys.beside().cloned());
    }
    let mut args = Vec::with_capacity(14 + 4 * steps.len());
    args.extend([
        Arg::Publish,
        Arg::Number(0),
        Arg::millis(wire.record_life),
        Arg::Number(0),
        Arg::Word(""),
    ]);
    write(steps, &mut args);
    place.write(departed, &mut args);
    let forces = matches!(steps, [(Step::Force, _)]);
    Request::Script(ScriptCall {
        script: wire.script,
        keys: script_keys,
        args,
        sequence: Some(SEQUENCE),
        record_flag: Some(DOUBTFUL),
        renumbered: true,
        question: None,
        record: Some(RecordKey {
            index: FENCE_KEY,
            always: forces,
        }),
        withdrawn: forces.then_some((FIRST_STEP, FORCED)),
        only_renews: false,
    })
}

/// Writes `steps` as the script reads them.
pub(super) fn write(steps: &[(Step, Known)], args: &mut Vec<Arg>) {
    for (step, known) in steps {
        let word = match step {
            Step::Acquire(claim) => match (claim.waits, claim.fenced) {
                (true, true) => "wait_fenced",
                (true, false) => "wait",
                (false, true) => "acquire_fenced",
                (false, false) => "acquire",
            },
            Step::Release(..) => "release",
            Step::Force => "force",
            Step::Tend => "tend",
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
}

/// `request` is to be sent once more, as number `number`: that `fence` is ahead of the client, which has not written it, and
/// does not count. A copy that arrives late finds another one, which does.
pub(super) fn disown(request: &mut Request, number: u64, fence: &str) {
    request.number(number);
    if let Request::Script(call) = request {
        call.args[DISOWNED] = Arg::Text(fence.into());
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
pub(super) enum StepAnswer {
    /// How often the owner holds it now, and the token.
    Taken(u32, u64),
    /// How long the other one may keep it; `None` where it has no time to live.
    Busy(Option<Duration>),
    /// It is free, and it is the turn of others.
    Left,
    /// Nothing was done: the owner does not hold it any more.
    Lost,
    Released(u32),
    NotHeld,
    Forced(bool),
    Tended,
    Refused(String),
}

impl StepAnswer {
    /// Nobody holds it now.
    pub(super) fn sets_free(&self) -> bool {
        matches!(self, StepAnswer::Released(0) | StepAnswer::Forced(true))
    }

    /// The server could not carry the step out at the time, and may be able to in a moment.
    pub(super) fn is_not_now(&self) -> bool {
        matches!(self, StepAnswer::Refused(error) if !Refusal::from_text(error).is_final(false))
    }
}

/// Somebody else has it, for so many milliseconds, or without an end.
fn held_for(millis: i64) -> StepAnswer {
    StepAnswer::Busy(u64::try_from(millis).ok().map(Duration::from_millis))
}

/// What a batch was answered.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    /// How many hear the channel, where that was learned.
    pub(super) listeners: Option<u64>,
    /// To its steps.
    pub(super) steps: Vec<StepAnswer>,
    /// The word about turns.
    pub(super) turn: Option<&'a str>,
}

/// Reads the answer to `steps`. `None` for one that makes no sense.
pub(super) fn read<'a>(
    words: &mut SplitAsciiWhitespace<'a>,
    steps: &[(Step, Known)],
) -> Option<Answer<'a>> {
    let listeners = number(words)?;
    let mut answers = Vec::with_capacity(steps.len());
    for (step, _) in steps {
        answers.push(read_step(step, words)?);
    }
    let turn = words.next();
    words.next().is_none().then(|| Answer {
        listeners: u64::try_from(listeners).ok(),
        steps: answers,
        turn,
    })
}

fn number(words: &mut SplitAsciiWhitespace<'_>) -> Option<i64> {
    words.next()?.parse().ok()
}

fn read_step(step: &Step, words: &mut SplitAsciiWhitespace<'_>) -> Option<StepAnswer> {
    let (result, extra) = (number(words)?, number(words)?);
    if result == -2 {
        let length = usize::try_from(extra).ok()?;
        let error: Vec<&str> = words.take(length).collect();
        return (error.len() == length).then(|| StepAnswer::Refused(error.join(" ")));
    }
    Some(match step {
        Step::Acquire(_) if result == 0 => held_for(extra),
        Step::Acquire(_) if result == -4 => StepAnswer::Left,
        Step::Acquire(_) if result == -3 => StepAnswer::Lost,
        Step::Acquire(_) => {
            let count = count(result).filter(|count| *count > 0)?;
            StepAnswer::Taken(count, u64::try_from(extra).ok()?)
        }
        Step::Release(..) if result == -1 => StepAnswer::NotHeld,
        Step::Release(..) => StepAnswer::Released(count(result)?),
        Step::Force => StepAnswer::Forced(result == 1),
        Step::Tend => StepAnswer::Tended,
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
            since: Instant::now(),
        })
    }

    fn read(text: &str, steps: &[Step]) -> Option<(Option<u64>, Vec<StepAnswer>)> {
        let known = Known {
            holds: Count::Held(0),
            lease: Duration::ZERO,
            number: None,
        };
        let steps: Vec<_> = steps.iter().map(|step| (step.clone(), known)).collect();
        let answer = super::read(&mut text.split_ascii_whitespace(), &steps)?;
        Some((answer.listeners, answer.steps))
    }

    #[test]
    fn answers_are_read_by_what_was_asked() {
        let (take, release) = (take(), Step::Release("a".into(), None));
        let steps = [release.clone(), take.clone(), take.clone(), Step::Force];
        let (listeners, answers) = read("3 0 0 2 17 0 250 1 0", &steps).unwrap();
        assert_eq!(listeners, Some(3));
        assert_eq!(
            answers,
            [
                StepAnswer::Released(0),
                StepAnswer::Taken(2, 17),
                held_for(250),
                StepAnswer::Forced(true)
            ]
        );
        let (listeners, answers) = read("-1 -1 0 0 -1", &steps[..2]).unwrap();
        assert_eq!(listeners, None);
        assert_eq!(answers, [StepAnswer::NotHeld, held_for(-1)]);
        let (_, answers) = read("5 -4 20", &steps[1..2]).unwrap();
        assert_eq!(answers, [StepAnswer::Left]);
        let (_, answers) = read("-1 -3 0", &steps[1..2]).unwrap();
        assert_eq!(answers, [StepAnswer::Lost]);
        let (_, answers) = read("-1 -2 3 ERR no memory 0 0", &steps[1..3]).unwrap();
        let refused = StepAnswer::Refused("ERR no memory".to_owned());
        assert_eq!(answers, [refused, held_for(0)]);
    }

    #[test]
    fn answers_that_make_no_sense_are_none() {
        for text in [
            "",
            "-1",
            "-1 1",
            "-1 1 0 1 1",
            "-1 -7 0",
            "-1 1 -5",
            "-1 -2 -1",
            "-1 -2 2 ERR",
            "-1 4000000000 0",
            "-1 9223372036854775807 -9223372036854775808",
            "stale",
        ] {
            assert!(read(text, &[take()]).is_none(), "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_answer_is_read(text in "([0-9-]{1,12} |[a-z ]{1,4}){0,12}", count in 0_usize..5) {
            let step = |index: usize| match index % 3 {
                0 => take(),
                1 => Step::Release("a".into(), None),
                _ => Step::Force,
            };
            let steps: Vec<Step> = (0..count).map(step).collect();
            if let Some((_, answers)) = read(&text, &steps) {
                assert_eq!(answers.len(), count);
                for answer in answers {
                    if let StepAnswer::Taken(holds, _) = answer {
                        assert!(i64::from(holds) <= MOST_HOLDS);
                    }
                }
            }
        }
    }
}
