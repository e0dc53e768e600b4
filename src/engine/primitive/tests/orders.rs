//! Every order of arriving, leaving, answering and losing, for two waiters.

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::fair::{Call, FairLock};
use super::gate::{Down, Gate};
use super::rwlock::{Holders, RwLock};
use super::world::{Step, World};
use super::{Server, Subject};
use crate::engine::primitive::state::Item;

fn after<P: Subject>(path: &[Step]) -> World<P> {
    let mut world = World::new(2);
    for step in path {
        world.step(*step);
    }
    world
}

/// Tries all that can happen behind `path`, `depth` steps far, and lets it come to its end after each; how many ways there
/// were.
fn explore<P: Subject>(path: &mut Vec<Step>, depth: usize) -> usize {
    let told = std::panic::catch_unwind(|| after::<P>(path).finish());
    if told.is_err() {
        panic!("behind {path:?}");
    }
    if depth == 0 {
        return 1;
    }
    let mut ways = 1;
    for step in after::<P>(path).steps() {
        path.push(step);
        ways += explore::<P>(path, depth - 1);
        path.pop();
    }
    ways
}

const DEPTH: usize = 6;

#[test]
fn a_latch_in_every_order() {
    assert!(explore::<Gate>(&mut Vec::new(), DEPTH) > 10_000);
}

#[test]
fn a_fair_lock_in_every_order() {
    assert!(explore::<FairLock>(&mut Vec::new(), DEPTH) > 10_000);
}

#[test]
fn a_read_write_lock_in_every_order() {
    assert!(explore::<RwLock>(&mut Vec::new(), DEPTH) > 10_000);
}

fn owed(world: &World<FairLock>) -> Vec<Call> {
    let call = |item: &Item<FairLock>| match item {
        Item::Call(queued) => queued.call,
        Item::Command(_) => unreachable!("there are none here"),
    };
    world.state.queue.iter().map(call).collect()
}

/// Its place would be taken behind a withdrawal that has gone before.
#[test]
fn who_leaves_while_its_first_question_is_under_way_withdraws_behind_the_round() {
    let mut world = after::<FairLock>(&[Step::Arrive(0), Step::Leave(0)]);
    assert_eq!(owed(&world), [], "nothing is sent before");
    assert!(world.state.gone.len() == 1 && !world.server.is_clean());
    world.step(Step::Answer);
    // It has departed at once.
    world.step(Step::Answer);
    world.step(Step::OutsiderGoes);
    assert!(world.server.is_clean());
}

#[test]
fn the_last_try_at_the_deadline_has_the_same_place() {
    let steps = [Step::ArriveFor(0), Step::Answer, Step::TimePasses];
    let mut world = after::<FairLock>(&steps);
    world.step(Step::OutsiderGoes);
    world.step(Step::Answer);
    assert_eq!(world.refused, 0, "it was granted by its last question");
    world.finish();
    let mut world = after::<FairLock>(&steps);
    world.step(Step::Answer);
    assert_eq!(world.refused, 1, "it has waited in vain");
    world.finish();
}

/// Else the owner's place is taken before the withdrawal that was owed.
#[test]
fn no_question_overtakes_a_call_that_did_not_fit() {
    let steps = [Step::Try(0), Step::Arrive(1), Step::Again, Step::LoseReply];
    let answers = [Step::Answer, Step::Answer, Step::Answer];
    after::<FairLock>(&[&steps[..], &answers[..]].concat()).finish();
}

#[test]
fn who_leaves_the_first_place_lets_those_behind_ask() {
    let mut world = World::<RwLock>::new(2);
    world.server = Holders::read();
    // A writer, and a reader behind it, which has not asked.
    for step in [Step::Arrive(1), Step::Answer, Step::Arrive(0)] {
        world.step(step);
    }
    assert!(
        !world.steps().contains(&Step::Answer),
        "nothing is under way"
    );
    world.step(Step::Leave(1));
    world.step(Step::Answer);
    assert!(world.steps().contains(&Step::Release(0)), "it reads");
    world.finish();
}

/// While the server does not answer, a call takes no more memory than its caller.
#[test]
fn what_nobody_waits_for_takes_no_room_however_much_it_is() {
    let mut state = super::state::<Gate>();
    let now = Instant::now();
    let (waiting, _outcome) = oneshot::channel();
    state.call(Down(1), Some(waiting), now);
    for _ in 0..100_000 {
        // Its caller goes at once.
        state.call(Down(1), Some(oneshot::channel().0), now);
        assert!(state.queue.len() <= 1024, "it grows");
    }
    state.sweep();
    let down = |item: &Item<Gate>| match item {
        Item::Call(queued) => queued.call.0,
        Item::Command(_) => unreachable!("there are none here"),
    };
    let downs: Vec<_> = state.queue.iter().map(down).collect();
    assert_eq!(downs, [1, 100_000]);
}
