//! What a verdict may say besides who was granted something.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::fair::{self, FairLock};
use super::gate::{Down, Gate};
use super::state;
use crate::clock::Moment;
use crate::engine::once::refused_in_doubt;
use crate::engine::primitive::endings::Answered;
use crate::engine::primitive::state::{State, Task};
use crate::engine::primitive::{Batch, Got, Look, Outcome, Verdict};
use crate::error::{Error, Result};

type Answer = oneshot::Receiver<Result<Outcome<Gate>>>;

fn join(state: &mut State<Gate>, deadline: Option<Instant>, now: Instant) -> Answer {
    let (reply, outcome) = oneshot::channel();
    state.join((), reply, deadline, now);
    outcome
}

fn depart(state: &mut State<Gate>) -> Batch<Gate> {
    match state.depart(Moment::now()) {
        Some(Task::Batch(batch)) => *batch,
        _ => panic!("nothing departs"),
    }
}

/// `replies` to the calls of the batch under way, and the same to each of its questions.
fn verdict(batch: &Batch<Gate>, got: fn() -> Got<()>) -> Verdict<Gate> {
    let mut verdict = Verdict::new(batch.calls.iter().map(|_| 0).collect(), [], Look::No);
    verdict.grants = batch.asks.iter().map(|_| got()).collect();
    verdict
}

fn arrive(state: &mut State<Gate>, batch: Batch<Gate>, verdict: Verdict<Gate>, now: Instant) {
    let answered = Answered {
        verdict,
        sent: now,
        now,
    };
    assert!(state.arrive("name", batch, answered).tell().is_empty());
}

#[test]
fn what_stops_those_who_ask_stops_all_who_wait_and_no_call() {
    let (mut state, now) = (state::<Gate>(), Instant::now());
    let mut callers = [None, Some(now)].map(|deadline| join(&mut state, deadline, now));
    let (reply, mut call) = oneshot::channel();
    state.call(Down(1), Some(reply), now);
    let batch = depart(&mut state);
    let mut late = join(&mut state, None, now);
    let mut stopped = verdict(&batch, || Got::Nothing);
    let error = Error::NotANumber {
        name: "name".to_owned(),
        found: "x".to_owned(),
    };
    stopped.stopped = Some(error.clone());
    arrive(&mut state, batch, stopped, now);
    assert!(matches!(call.try_recv(), Ok(Ok(Outcome::Reply(0)))));
    for caller in callers.iter_mut().chain([&mut late]) {
        let told = caller.try_recv().expect("it is told");
        assert_eq!(told.err(), Some(error.clone()));
    }
    assert!(state.waiters.is_empty());
}

#[test]
fn a_call_that_follows_is_made_in_time_unless_a_later_answer_says_otherwise() {
    let (mut state, now) = (state::<Gate>(), Instant::now());
    let pause = Duration::from_secs(2);
    let _caller = join(&mut state, None, now);
    let follow = |state: &mut State<Gate>, after: Option<Duration>| {
        state.look = true;
        let batch = depart(state);
        let calls = batch.calls.len();
        let mut verdict = verdict(&batch, || Got::Nothing);
        verdict.later = after.map(|after| (after, Down(3)));
        arrive(state, batch, verdict, now);
        calls
    };
    follow(&mut state, Some(pause));
    assert_eq!(state.alarm(), Some(now + pause));
    state.ring(now + pause / 2);
    assert!(!state.has_work(), "it is made too early");
    state.ring(now + pause);
    assert!(state.has_work());
    assert_eq!(follow(&mut state, Some(pause)), 1, "it is not made");
    assert_eq!(follow(&mut state, None), 0, "it is made twice");
    assert_eq!(state.alarm(), None, "it is made all the same");
    follow(&mut state, Some(pause));
    let _ = state.close("name", true, now).tell();
    assert_eq!(state.alarm(), None, "nobody is there for it");
}

#[test]
fn a_closed_line_makes_calls_that_follow_for_a_moment_only() {
    let (mut state, began) = (state::<Gate>(), Instant::now());
    let pause = Duration::from_millis(20);
    let _ = state.close("name", true, began).tell();
    state.call(Down(3), None, began);
    // The server has been away for long.
    let (mut now, mut made) = (began + Duration::from_secs(3600), 0);
    while state.has_work() && made < 100 {
        let batch = depart(&mut state);
        made += 1;
        let mut verdict = verdict(&batch, || Got::Nothing);
        verdict.later = Some((pause, Down(3)));
        arrive(&mut state, batch, verdict, now);
        now += pause;
        state.ring(now);
    }
    assert_eq!(made, 51, "the call itself, and those of a second");
    assert_eq!(state.alarm(), None);
}

#[test]
fn a_batch_says_who_waited_when_it_departed() {
    let (mut state, now) = (state::<Gate>(), Instant::now());
    let first = join(&mut state, None, now);
    let _second = join(&mut state, None, now);
    let batch = depart(&mut state);
    assert_eq!((batch.waiting, batch.end), (2, 2));
    let nothing = verdict(&batch, || Got::Nothing);
    arrive(&mut state, batch, nothing, now);
    drop(first);
    state.leave(0, now);
    let _third = join(&mut state, None, now);
    let batch = depart(&mut state);
    assert_eq!((batch.waiting, batch.end), (2, 3));
}

/// Two of a fair lock's callers wait, and a third one unlocks: what each is told when the batch that names the first is refused.
fn refused_behind(doubt: Option<&Error>) -> [Option<Error>; 3] {
    let (mut state, now) = (state::<FairLock>(), Instant::now());
    let (reply, mut first) = oneshot::channel();
    state.join(1, reply, None, now);
    let (reply, mut call) = oneshot::channel();
    state.call(fair::Call::Unlock(3), Some(reply), now);
    let Some(Task::Batch(batch)) = state.depart(Moment::now()) else {
        panic!("nothing departs");
    };
    let (reply, mut second) = oneshot::channel();
    state.join(2, reply, None, now);
    let told = state.fail("name", *batch, (&plain(), doubt), now);
    assert!(told.tell().is_empty());
    let error =
        |told: Result<Result<Outcome<FairLock>>, _>| told.ok()?.and_then(Outcome::or_refusal).err();
    [
        error(call.try_recv()),
        error(first.try_recv()),
        error(second.try_recv()),
    ]
}

fn plain() -> Error {
    Error::NotANumber {
        name: "name".to_owned(),
        found: "x".to_owned(),
    }
}

#[test]
fn a_refusal_behind_a_lost_reply_is_in_doubt_for_those_who_asked_alone() {
    let doubt = refused_in_doubt("name", "refused", Duration::from_secs(1));
    let told = refused_behind(Some(&doubt));
    assert_eq!(told, [Some(doubt.clone()), Some(doubt), Some(plain())]);
    assert_eq!(refused_behind(None), [plain(), plain(), plain()].map(Some));
}

#[test]
fn what_may_have_been_taken_before_a_refusal_is_given_back() {
    let doubt = refused_in_doubt("name", "refused", Duration::from_secs(1));
    for (doubt, owes) in [(Some(&doubt), true), (None, false)] {
        let (mut state, now) = (state::<FairLock>(), Instant::now());
        let (reply, _caller) = oneshot::channel();
        state.join(1, reply, None, now);
        let Some(Task::Batch(batch)) = state.depart(Moment::now()) else {
            panic!("nothing departs");
        };
        assert!(
            state
                .fail("name", *batch, (&plain(), doubt), now)
                .tell()
                .is_empty()
        );
        let next = state.depart(Moment::now());
        let owed = matches!(next, Some(Task::Batch(batch)) if !batch.calls.is_empty());
        assert_eq!(owed, owes);
    }
}

#[test]
fn who_takes_nothing_is_in_no_doubt() {
    let (mut state, now) = (state::<Gate>(), Instant::now());
    let mut caller = join(&mut state, None, now);
    let batch = depart(&mut state);
    let doubt = refused_in_doubt("name", "refused", Duration::from_secs(1));
    let told = state.fail("name", batch, (&plain(), Some(&doubt)), now);
    assert!(told.tell().is_empty());
    let told = caller.try_recv().expect("it is told");
    assert_eq!(told.err(), Some(plain()));
}

/// Its first question was never answered; then the channel must not be heard.
#[test]
fn who_was_in_doubt_stays_so_when_it_may_not_listen() {
    let (mut state, now) = (state::<FairLock>(), Instant::now());
    let (reply, mut caller) = oneshot::channel();
    state.join(1, reply, None, now);
    let Some(Task::Batch(batch)) = state.depart(Moment::now()) else {
        panic!("nothing departs");
    };
    state.waiters.answered(now);
    state.give_up(&batch, now);
    let told = state.cannot_listen("name", &plain(), now);
    assert!(told.tell().is_empty());
    let told = caller.try_recv().expect("it is told").err();
    assert!(
        matches!(told, Some(Error::OutcomeUnknown { .. })),
        "{told:?}"
    );
}

/// It came behind another one that had been told to wait, and was no reason to ask.
#[test]
fn who_has_never_asked_asks_when_those_before_it_may_not_listen() {
    let (mut state, now) = (state::<Gate>(), Instant::now());
    let mut first = join(&mut state, None, now);
    let batch = depart(&mut state);
    let nothing = verdict(&batch, || Got::Nothing);
    arrive(&mut state, batch, nothing, now);
    let later = now + Duration::from_secs(1);
    let mut second = join(&mut state, None, later);
    state.look = false;
    let told = state.cannot_listen("name", &plain(), later);
    assert!(told.tell().is_empty());
    let told = first.try_recv().expect("it is told").err();
    assert_eq!(told, Some(plain()));
    assert!(second.try_recv().is_err(), "it has not been answered");
    assert_eq!(depart(&mut state).asks.len(), 1);
}
