//! Single orders of events that once went wrong, and the example in the description of the queue.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::time::Instant;

use super::histories::World;
use super::model::{CLOCK, Call, forbidden};
use crate::clock::Moment;
use crate::config::Config;
use crate::engine::Core;
use crate::engine::request::Arg;
use crate::error::Error;
use crate::queue::answer::{Results, Said};
use crate::queue::entries::Entry;
use crate::queue::known::Known;
use crate::queue::outcome::{Amount, Grant, Taken};
use crate::queue::primitive::{Held, Primitive};
use crate::queue::state::State;

fn one(leased: bool) -> Amount {
    Amount { amount: 1, leased }
}

fn entry(want: Amount) -> Entry<Amount> {
    Entry {
        want,
        arrival: 0,
        life: 3000,
    }
}

/// A grant that a guard uses is confirmed soon, also where the first batch that says so is refused.
#[tokio::test(start_paused = true)]
async fn a_confirmation_is_repeated_behind_a_refused_batch() {
    let state = &mut World::new().clients[0].state;
    let want = one(true);
    let until = Moment::now() + Duration::from_secs(3);
    let _grant = state.granted(want, 7, Taken::default(), 3000, until);
    state.unconfirmed.insert(7, (entry(want), CLOCK));
    state.call(Call::Release(1), None, Instant::now());
    for _ in 0..2 {
        let Some(batch) = state.depart(Moment::now()) else {
            panic!("nothing departs");
        };
        assert_eq!(batch.extends.len(), 1);
        state.failed(&forbidden(), None, Instant::now());
        tokio::time::advance(Duration::from_millis(100)).await;
        state.tick(Instant::now());
    }
}

/// A waiter asks whether its entry is still there, behind a script that has failed after a change.
#[tokio::test(start_paused = true)]
async fn a_waiter_asks_behind_changes_that_stay() {
    let state = &mut World::new().clients[0].state;
    let want = one(false);
    state.entries.insert(7, entry(want));
    let (reply, mut waits) = oneshot::channel();
    state.join(want, reply, None, Instant::now());
    for unknown in [None, Some("not now")] {
        state.call(Call::Release(1), None, Instant::now());
        let Some(batch) = state.depart(Moment::now()) else {
            panic!("nothing departs");
        };
        assert!(!batch.check);
        state.failed(&forbidden(), unknown, Instant::now());
        assert_eq!(state.confirm_all, unknown.is_some());
    }
    let Some(batch) = state.depart(Moment::now()) else {
        panic!("nothing departs");
    };
    assert!(batch.check && batch.confirms.len() == 1);
    let passing = Error::RefusedForNow {
        name: "model".to_owned(),
        detail: "a slot moves".to_owned(),
    };
    state.failed(&passing, Some("not now"), Instant::now());
    assert!(state.confirm_all);
    assert_eq!(waits.try_recv().err(), Some(TryRecvError::Empty));
}

/// A batch without an answer may not have removed the entries that it was to remove.
#[tokio::test(start_paused = true)]
async fn an_entry_leaves_behind_a_batch_without_an_answer() {
    let state = &mut World::new().clients[0].state;
    for round in 0..2 {
        state.leaving.push((7, entry(one(false))));
        state.call(Call::Release(1), None, Instant::now());
        assert!(state.depart(Moment::now()).is_some());
        match round {
            0 => state.never_answered(Instant::now()),
            _ => assert!(state.lose().is_some()),
        }
        state.call(Call::Release(1), None, Instant::now());
        let batch = state.depart(Moment::now()).expect("it departs");
        assert_eq!(batch.leaves.len(), 1);
        state.under_way = None;
    }
}

/// A batch that was never sent has announced and confirmed nothing.
#[tokio::test(start_paused = true)]
async fn the_next_batch_says_what_one_that_was_not_sent_had_to_say() {
    let state = &mut World::new().clients[0].state;
    let want = one(false);
    let (reply, _waits) = oneshot::channel();
    state.join(want, reply, None, Instant::now());
    state.entries.insert(7, entry(want));
    state.granted.push(7);
    state.announcements.due = true;
    for _ in 0..2 {
        let batch = state.depart(Moment::now()).expect("it announces");
        assert!(batch.announce && batch.confirms.len() == 1);
        state.not_sent(Instant::now());
    }
}

/// Redis may have entries that the client has forgotten. A grant that no replica has is not theirs.
#[tokio::test(start_paused = true)]
async fn a_batch_that_takes_back_grants_nothing_to_its_client() {
    let state = &mut World::new().clients[0].state;
    state.returns = Some((5, vec![Call::Release(1)]));
    let batch = state.depart(Moment::now()).expect("it takes back");
    assert_eq!((batch.takes_back, batch.apart), (Some(5), true));
    state.under_way = None;
    let batch = state.depart(Moment::now()).expect("it serves");
    assert!(batch.serve && !batch.apart);
}

/// The clock of the next server may be behind that of the last one: no arrival of the last one counts there.
#[tokio::test(start_paused = true)]
async fn an_arrival_is_not_compared_with_those_at_another_server() {
    let state = &mut World::new().clients[0].state;
    state.last_arrival = CLOCK;
    state.deaf();
    let (reply, _waits) = oneshot::channel();
    state.join(one(false), reply, None, Instant::now());
    let batch = state.depart(Moment::now()).expect("it departs");
    assert_eq!((batch.runs.len(), batch.behind), (1, 0));
}

/// The clock of a lease ends it before any server says so.
#[tokio::test(start_paused = true)]
async fn a_lease_that_has_run_out_is_not_handed_on() {
    for ended in [false, true] {
        let state = &mut World::new().clients[0].state;
        let want = one(true);
        let until = Moment::now() + Duration::from_secs(3);
        let _held = state.granted(want, 7, Taken::default(), 3000, until);
        let (reply, _waits) = oneshot::channel();
        state.join(want, reply, None, Instant::now());
        if ended {
            tokio::time::advance(Duration::from_secs(4)).await;
        }
        let now = Instant::now();
        state.known = Some(Known {
            seen: now,
            available: 0,
            foreign: None,
            jvms: 0,
        });
        let call = Call::GiveBack(Grant::new(want, 7));
        assert_eq!(state.hand_off(&call, now), !ended);
    }
}

/// The subscription may be confirmed before the answer to the batch that has queued the entry.
#[tokio::test(start_paused = true)]
async fn an_entry_is_confirmed_behind_a_subscription_that_came_before_its_answer() {
    let state = &mut World::new().clients[0].state;
    let want = one(false);
    let (reply, _waits) = oneshot::channel();
    state.join(want, reply, None, Instant::now());
    assert!(state.depart(Moment::now()).is_some());
    state.may_have_missed();
    state.entries.insert(7, entry(want));
    state.under_way = None;
    let Some(batch) = state.depart(Moment::now()) else {
        panic!("nothing departs");
    };
    assert!(batch.check && batch.confirms.len() == 1);
}

/// As the model, beside peers that free permits without a message.
struct Paced;

struct Hourly;

impl Held<Paced> for Hourly {
    fn header(&mut self, _: &mut dyn Iterator<Item = Amount>) -> Arc<str> {
        Arc::default()
    }

    fn lease_time(&self, _: Amount) -> Duration {
        Duration::ZERO
    }

    fn pace(&self) -> Option<Duration> {
        Some(Duration::from_secs(3600))
    }
}

impl Primitive for Paced {
    const KIND: &'static str = "paced";
    const WAIT: &'static str = "acquire";
    type Want = Amount;
    type Call = Call;
    type Held = Hourly;

    fn give_back(grant: Grant<Amount>) -> Call {
        Call::Release(grant.want.amount)
    }
}

/// The script of a batch has seen an older state than a notification that comes before its answer tells.
#[tokio::test(start_paused = true)]
async fn the_first_client_looks_though_an_older_answer_comes_later() {
    let core = Core::connect_lazy(Config::new("redis://127.0.0.1:1"), None).expect("it is lazy");
    let mut state: State<Paced> = State::new(&core, "paced", Hourly, false);
    let (reply, _outcome) = oneshot::channel();
    let want = Amount {
        amount: 1,
        leased: false,
    };
    state.join(want, reply, None, Instant::now());
    assert!(state.depart(Moment::now()).is_some(), "it asks");
    state.notified("first 3000", Instant::now());
    let text = format!("done 0 -1 -1 0 1 {CLOCK} 0 |");
    let Some(Said::Done(mut answer)) = Said::read(&text) else {
        panic!("{text}");
    };
    let batch = &state.under_way.as_ref().expect("it asks").batch;
    let results = Results::read("paced", batch, &mut answer).expect("it is complete");
    state.answered(&answer, results, Instant::now());
    assert!(state.has_work());
}

/// A guard is used at once. Where replicas must confirm it, its grant makes the client ask, and is held when they have it.
#[tokio::test(start_paused = true)]
async fn a_grant_by_message_is_not_held_before_replicas_have_it() {
    for replicas in [None, Some(1)] {
        let mut config = Config::new("redis://127.0.0.1:1");
        config.replicas = replicas;
        let core = Core::connect_lazy(config, None).expect("it is lazy");
        let mut state: State<Paced> = State::new(&core, "paced", Hourly, false);
        let want = one(true);
        let (reply, _outcome) = oneshot::channel();
        state.join(want, reply, None, Instant::now());
        state.entries.insert(7, entry(want));
        state.clock = Some((Moment::now(), CLOCK));
        state.notified(&format!("grant a7 {CLOCK}"), Instant::now());
        assert_eq!(state.waiters.is_empty(), replicas.is_none());
    }
}

/// An object without handles is kept for a batch that it has promised, also where a later answer does not speak of it.
#[tokio::test(start_paused = true)]
async fn a_promised_batch_keeps_the_object() {
    let state = &mut World::new().clients[0].state;
    for pause in [1_000_000, -1] {
        state.call(Call::Release(1), None, Instant::now());
        let batch = state.depart(Moment::now()).expect("it departs");
        let text = format!("done 0 {pause} -1 0 0 {CLOCK} 1 |");
        let Some(Said::Done(mut answer)) = Said::read(&text) else {
            panic!("{text}");
        };
        let results = Results::read("model", batch, &mut answer).expect("it is complete");
        state.answered(&answer, results, Instant::now());
        assert!(state.stays(), "{text}");
    }
    tokio::time::advance(Duration::from_millis(1100)).await;
    state.tick(Instant::now());
    assert!(state.has_work());
}

/// The example in the description of the queue.
#[tokio::test(start_paused = true)]
async fn a_batch_reads_so() {
    let state = &mut World::new().clients[0].state;
    state.call(Call::Release(1), None, Instant::now());
    let want = Amount {
        amount: 2,
        leased: false,
    };
    let (reply, _waits) = oneshot::channel();
    state.join(want, reply, None, Instant::now());
    tokio::time::advance(Duration::from_micros(1500)).await;
    let mut args = Vec::new();
    let batch = state.depart(Moment::now()).expect("it departs");
    batch.encode(&mut args);
    let ticket = batch.runs[0].ticket;
    let words = args.iter().skip(2).map(|arg| match arg {
        Arg::Word(word) => (*word).to_owned(),
        Arg::Text(text) => text.to_string(),
        Arg::Number(number) => number.to_string(),
        Arg::Bytes(_) => unreachable!("no step has these"),
    });
    let steps = format!("release 1 1 wait 2 1 a {ticket} 1500 0 3000 1");
    assert_eq!(words.collect::<Vec<_>>().join(" "), steps);
    let text = format!("done 1 -1 -1 0 0 {CLOCK} 1 0 |");
    let Some(Said::Done(mut answer)) = Said::read(&text) else {
        panic!("{text}");
    };
    let results = Results::read("model", batch, &mut answer).expect("it is complete");
    assert_eq!((results.calls.len(), results.runs[0].0), (1, 0));
    state.answered(&answer, results, Instant::now());
    assert!(state.entries.has(ticket));
}
