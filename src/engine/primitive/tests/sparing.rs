//! What a primitive may say so that less is sent, and what it is told of what was not done.

use std::str::SplitAsciiWhitespace;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::clock::Moment;
use crate::engine::once::{Patience, Trouble};
use crate::engine::primitive::endings::Answered;
use crate::engine::primitive::state::{Item, State, Task};
use crate::engine::primitive::{
    Batch, Done, Got, Look, Outcome, Primitive, Ticket, Unlearned, Verdict, Waiters,
};
use crate::engine::request::Arg;
use crate::error::{Error, Result};

const SECOND: Duration = Duration::from_secs(1);

/// A place that is taken and left; it does as the test has set.
#[derive(Default)]
struct Seat {
    /// A try that was made by then is in vain.
    in_vain: Option<Instant>,
    serves: bool,
    joins: Option<Look>,
    undone: usize,
    unknown: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum Call {
    Try,
    Leave,
    /// Owed, so often.
    Give(u32),
}

impl Primitive for Seat {
    const KIND: &'static str = "seat";
    const WAIT: &'static str = "wait";
    const OVERTAKES: bool = true;
    const SETTLES: bool = true;
    type Call = Call;
    type Reply = bool;
    /// How often what was granted to it has been given back.
    type Want = u32;
    type Grant = ();
    type Steps = ();

    fn name(_: &Call) -> &'static str {
        "call"
    }

    fn is_owed(call: &Call) -> bool {
        *call != Call::Try
    }

    fn outlasts_refusals(call: &Call) -> bool {
        *call != Call::Try
    }

    fn add_up(earlier: &mut Call, call: &Call) -> bool {
        let (Call::Give(sum), Call::Give(more)) = (earlier, call) else {
            return false;
        };
        *sum += more;
        true
    }

    fn give_back((): ()) -> Option<Call> {
        Some(Call::Leave)
    }

    fn asks_anew(want: &mut u32) {
        *want += 1;
    }

    fn frees(&self, call: &Call) -> bool {
        *call == Call::Leave
    }

    fn takes(_: &u32) -> bool {
        true
    }

    fn fits(&self, batch: &mut Batch<Self>, _: &Call) -> bool {
        batch.calls.is_empty()
    }

    fn joins(&mut self, _: &u32, _: &Waiters<Self>, _: Instant) -> Look {
        self.joins.unwrap_or(Look::Now)
    }

    fn settled(&mut self, _: &Batch<Self>, call: &Call, since: Instant) -> Option<Result<bool>> {
        let known = *call == Call::Try && self.in_vain.is_some_and(|then| since <= then);
        known.then_some(Ok(false))
    }

    fn asks<'a>(&mut self, _: &Batch<Self>, waiters: &'a Waiters<Self>) -> Vec<(Ticket, &'a u32)> {
        waiters.iter().take(1).collect()
    }

    fn would_serve(&mut self, waiters: &Waiters<Self>, _: Instant) -> bool {
        self.serves && !waiters.is_empty()
    }

    fn undone(&mut self) {
        self.undone += 1;
    }

    fn unknown(&mut self, _: &Batch<Self>) -> Vec<Call> {
        self.unknown += 1;
        Vec::new()
    }

    fn take_back(taken: bool) -> Option<Call> {
        taken.then_some(Call::Leave)
    }

    fn encode(&mut self, _: &Batch<Self>, _: &mut Vec<Arg>) {}

    fn decode(
        &mut self,
        _: &Batch<Self>,
        _: &mut SplitAsciiWhitespace<'_>,
    ) -> Option<Verdict<Self>> {
        None
    }
}

type Answer = oneshot::Receiver<Result<Outcome<Seat>>>;

fn line() -> (State<Seat>, Instant) {
    (State::new(Seat::default(), false), Instant::now())
}

fn join(state: &mut State<Seat>, now: Instant) -> Answer {
    let (reply, outcome) = oneshot::channel();
    state.join(0, reply, None, now);
    outcome
}

fn call(state: &mut State<Seat>, call: Call, now: Instant) -> Answer {
    let (reply, outcome) = oneshot::channel();
    state.call(call, Some(reply), now);
    outcome
}

fn depart(state: &mut State<Seat>) -> Batch<Seat> {
    match state.depart(Moment::now()) {
        Some(Task::Batch(batch)) => *batch,
        _ => panic!("nothing departs"),
    }
}

/// The answer to `batch`; what gives back that which nobody has learned of.
fn arrive(
    state: &mut State<Seat>,
    batch: Batch<Seat>,
    replies: Vec<Done<bool>>,
    grants: Vec<Got<()>>,
    now: Instant,
) -> Vec<Call> {
    let verdict = Verdict {
        replies,
        grants,
        ..Verdict::new(Vec::new(), [], Look::No)
    };
    let answered = Answered {
        verdict,
        sent: now,
        now,
    };
    let unlearned = state.arrive("name", batch, answered).tell();
    let owed = unlearned.into_iter().map(|unlearned| match unlearned {
        Unlearned::Owed(call) => call,
        Unlearned::Refused(_) => panic!("nothing was refused"),
    });
    owed.collect()
}

fn refusal() -> Error {
    Error::NotHeld {
        name: "name".to_owned(),
        owner: "a".to_owned(),
    }
}

fn forbidden() -> Error {
    Error::PermissionDenied {
        name: "name".to_owned(),
        detail: "NOPERM".to_owned(),
    }
}

fn replied(answer: &mut Answer) -> Option<bool> {
    match answer.try_recv() {
        Ok(Ok(Outcome::Reply(reply))) => Some(reply),
        _ => None,
    }
}

#[test]
fn what_is_known_is_not_sent() {
    let (mut state, now) = line();
    let (mut early, mut other) = (
        call(&mut state, Call::Try, now),
        call(&mut state, Call::Try, now),
    );
    let mut late = call(&mut state, Call::Try, now + SECOND);
    state.primitive.in_vain = Some(now);
    let batch = depart(&mut state);
    assert_eq!(batch.calls.len(), 1);
    assert!(state.take_settled().tell().is_empty());
    assert_eq!(
        (replied(&mut early), replied(&mut other)),
        (Some(false), Some(false))
    );
    assert!(late.try_recv().is_err(), "it is under way");
}

#[test]
fn the_earliest_time_counts() {
    let (mut state, now) = line();
    state.primitive.joins = Some(Look::After(SECOND));
    let _waiter = join(&mut state, now);
    assert!(!state.has_work());
    assert_eq!(state.alarm(), Some(now + SECOND));
    state.note(Look::After(2 * SECOND), now);
    assert_eq!(state.alarm(), Some(now + SECOND));
}

#[test]
fn what_was_for_others_is_no_reason_for_who_comes_later() {
    let (mut state, now) = line();
    state.primitive.joins = Some(Look::No);
    drop(join(&mut state, now));
    state.note(Look::After(SECOND), now);
    state.leave(0, now);
    state.look = false;
    let _waiter = join(&mut state, now);
    assert_eq!(state.alarm(), None);
}

#[test]
fn what_nobody_has_been_told_of_is_taken_back() {
    let (mut state, now) = line();
    let caller = call(&mut state, Call::Try, now);
    let batch = depart(&mut state);
    drop(caller);
    let owed = arrive(&mut state, batch, vec![Done::Reply(true)], Vec::new(), now);
    assert_eq!(owed, [Call::Leave]);
}

#[test]
fn who_would_be_served_asks_at_once() {
    for serves in [false, true] {
        let (mut state, now) = line();
        let (_first, _second) = (join(&mut state, now), join(&mut state, now));
        let batch = depart(&mut state);
        state.primitive.serves = serves;
        state.look = false;
        arrive(&mut state, batch, Vec::new(), vec![Got::Granted(())], now);
        assert_eq!(state.has_work(), serves);
    }
}

/// A call of the same kind stays behind: that is not about who asks.
#[test]
fn those_who_wait_may_travel_in_front_of_calls_that_do_not_fit() {
    let (mut state, now) = line();
    let _calls = [
        call(&mut state, Call::Leave, now),
        call(&mut state, Call::Leave, now),
    ];
    let _waiter = join(&mut state, now);
    let batch = depart(&mut state);
    assert_eq!((batch.calls.len(), batch.asks.len()), (1, 1));
}

#[test]
fn what_was_not_done_is_told_apart_from_what_is_unknown() {
    let (mut state, now) = line();
    let seen = |state: &State<Seat>| (state.primitive.undone, state.primitive.unknown);
    let _waiter = join(&mut state, now);
    let batch = depart(&mut state);
    state.put_back(batch, now);
    assert_eq!(seen(&state), (1, 0));
    let batch = depart(&mut state);
    state.give_up(&batch, now);
    assert_eq!(seen(&state), (1, 1));
    let batch = depart(&mut state);
    let told = state.fail("name", batch, (&refusal(), None), now);
    assert!(told.tell().is_empty());
    assert_eq!(seen(&state), (2, 1));
}

/// What a later answer says it says of all questions before.
#[test]
fn an_answer_may_settle_an_earlier_doubt() {
    let (mut state, now) = line();
    let mut waiter = join(&mut state, now);
    let batch = depart(&mut state);
    state.give_up(&batch, now);
    let batch = depart(&mut state);
    arrive(&mut state, batch, Vec::new(), vec![Got::Nothing], now);
    let told = state.close("name", true, now).tell();
    assert!(told.is_empty());
    let error = waiter.try_recv().expect("it is told").err();
    assert!(matches!(error, Some(Error::ShutDown { .. })), "{error:?}");
}

/// What is queued.
fn queued(state: &State<Seat>) -> Vec<&Call> {
    let mut calls = Vec::new();
    for item in &state.queue {
        match item {
            Item::Call(queued) => calls.push(&queued.call),
            Item::Command(_) => panic!("none was made"),
        }
    }
    calls
}

#[test]
fn what_is_owed_and_what_nobody_waits_for_takes_no_room() {
    let (mut state, now) = line();
    let _waits = call(&mut state, Call::Try, now);
    for _ in 0..100_000 {
        state.owe([Call::Give(1)], now);
        // Its caller goes at once.
        drop(call(&mut state, Call::Try, now));
        assert!(state.queue.len() <= 1024, "it grows");
    }
    state.sweep();
    assert_eq!(queued(&state), [&Call::Try, &Call::Give(100_000)]);
}

#[test]
fn what_is_owed_and_forbidden_is_tried_again_together_for_five_minutes() {
    let (mut state, now) = line();
    let error = forbidden();
    let refuse = |state: &mut State<Seat>, now: Instant| {
        let batch = depart(state);
        let told = state.fail("name", batch, (&error, None), now);
        assert!(told.tell().is_empty() && !state.has_work());
    };
    for _ in 0..1000 {
        state.owe([Call::Give(1)], now);
        refuse(&mut state, now);
    }
    state.ring(now + SECOND / 2);
    assert!(!state.has_work(), "too early");
    assert_eq!(state.alarm(), Some(now + SECOND));
    for second in 1..300 {
        state.ring(now + second * SECOND);
        assert_eq!(queued(&state), [&Call::Give(1000)]);
        refuse(&mut state, now + second * SECOND);
    }
    state.ring(now + 300 * SECOND);
    refuse(&mut state, now + 300 * SECOND);
    assert_eq!(state.alarm(), None);
}

/// Its caller has gone when it is told, or with what it was told.
#[test]
fn a_refusal_that_nobody_learns_of_is_that_of_a_call_without_a_caller() {
    for in_time in [false, true] {
        let (mut state, now) = line();
        let mut caller = call(&mut state, Call::Leave, now);
        let batch = depart(&mut state);
        let told = state.fail("name", batch, (&forbidden(), None), now);
        let unlearned = if in_time {
            assert!(told.tell().is_empty() && !state.has_plans());
            let told = caller.try_recv().expect("it is told").expect("what it was");
            told.unlearned().into_iter().collect()
        } else {
            drop(caller);
            told.tell()
        };
        state.unlearned(unlearned, now);
        state.ring(now + SECOND);
        assert_eq!(queued(&state), [&Call::Leave]);
    }
}

/// One is tried a second; the time is over for all of them together.
#[test]
fn what_is_forbidden_and_is_not_added_up_is_lost_when_its_time_is_over() {
    let (mut state, now) = line();
    let refuse = |state: &mut State<Seat>, now: Instant| {
        let batch = depart(state);
        let told = state.fail("name", batch, (&forbidden(), None), now);
        assert!(told.tell().is_empty());
    };
    for _ in 0..50 {
        state.owe([Call::Leave], now);
        refuse(&mut state, now);
    }
    state.ring(now + SECOND);
    assert_eq!(queued(&state), [&Call::Leave]);
    refuse(&mut state, now + SECOND);
    state.ring(now + 300 * SECOND);
    assert_eq!(queued(&state), [&Call::Leave]);
    refuse(&mut state, now + 300 * SECOND);
    assert!(!state.has_plans());
}

#[test]
fn of_what_is_forbidden_one_shows_whether_the_others_are_allowed_again() {
    let (mut state, now) = line();
    let error = forbidden();
    for call in [Call::Give(1), Call::Leave, Call::Leave] {
        state.owe([call], now);
        let batch = depart(&mut state);
        let told = state.fail("name", batch, (&error, None), now);
        assert!(told.tell().is_empty());
    }
    state.ring(now + SECOND);
    assert_eq!(queued(&state), [&Call::Give(1)]);
    let batch = depart(&mut state);
    arrive(&mut state, batch, vec![Done::Reply(true)], Vec::new(), now);
    assert_eq!(queued(&state), [&Call::Leave, &Call::Leave]);
    assert!(!state.has_plans());
}

#[test]
fn what_is_owed_is_not_moved_before_what_bars_it() {
    let (mut state, now) = line();
    state.owe([Call::Give(1)], now);
    let _bars = call(&mut state, Call::Leave, now);
    state.owe([Call::Give(2)], now);
    state.owe([Call::Give(3)], now);
    state.sweep();
    let expected = [&Call::Give(1), &Call::Leave, &Call::Give(5)];
    assert_eq!(queued(&state), expected);
}

#[test]
fn who_waits_without_asking_is_told_what_those_before_it_are() {
    let (mut state, now) = line();
    let _first = join(&mut state, now);
    let batch = depart(&mut state);
    arrive(&mut state, batch, Vec::new(), vec![Got::Nothing], now);
    state.primitive.joins = Some(Look::No);
    let _quiet = join(&mut state, now + SECOND);
    assert!(!state.has_work());
    state.leave(0, now + SECOND);
    assert!(state.somebody_was_told(), "the channel is heard on");
    assert_eq!(state.waiters.answered_ones(), [1]);
}

/// What it may have been granted is given back, perhaps behind its next question.
#[test]
fn who_waits_on_behind_a_question_that_was_given_up_asks_for_something_else() {
    let (mut state, now) = line();
    let _waits = join(&mut state, now);
    let batch = depart(&mut state);
    assert_eq!(batch.asks[0].want, 0);
    state.give_up(&batch, now);
    assert_eq!(depart(&mut state).asks[0].want, 1);
}

/// The next server may never have granted it.
#[test]
fn what_no_replica_has_is_granted_to_nobody() {
    let (mut state, now) = line();
    state.apart = true;
    let mut waits = join(&mut state, now);
    let mut batch = depart(&mut state);
    batch.unconfirmed = true;
    arrive(&mut state, batch, Vec::new(), vec![Got::Granted(())], now);
    assert!(waits.try_recv().is_err(), "it waits on");
    let batch = depart(&mut state);
    assert_eq!(batch.calls.len(), 1);
    let done = vec![Done::Reply(true)];
    arrive(&mut state, batch, done, Vec::new(), now);
    assert_eq!(depart(&mut state).asks[0].want, 1, "it asks anew");
}

/// What it was granted is not kept for as long as somebody else waits for replicas.
#[test]
fn who_goes_ends_the_wait_for_replicas() {
    let patience = |goes: bool, calls: bool, unconfirmed: bool| {
        let (mut state, now) = line();
        let (_goes, _waits) = (join(&mut state, now), join(&mut state, now));
        let _calls = calls.then(|| call(&mut state, Call::Leave, now));
        let mut batch = depart(&mut state);
        if goes {
            state.leave(0, now);
        }
        let trouble = Trouble {
            last: false,
            unconfirmed,
            ..Trouble::unknown("too few")
        };
        let (_, patience) = state.tell_impatient("name", &mut batch, &trouble, now, 60 * SECOND);
        patience == Patience::Nobody
    };
    assert!(patience(true, false, true));
    assert!(!patience(false, false, true), "somebody waits");
    assert!(!patience(true, false, false), "its answer will come");
    assert!(
        !patience(true, true, true),
        "what is given back must be confirmed"
    );
}
