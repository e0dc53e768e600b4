//! Any number of callers, and any order of what can happen to them.

use proptest::prelude::*;

use super::Subject;
use super::fair::FairLock;
use super::gate::Gate;
use super::rwlock::RwLock;
use super::world::World;

fn by_chance<P: Subject>(callers: usize, choices: &[usize]) {
    let mut world = World::<P>::new(callers);
    for choice in choices {
        let steps = world.steps();
        if steps.is_empty() {
            break;
        }
        world.step(steps[choice % steps.len()]);
    }
    world.finish();
}

proptest! {
    #[test]
    fn nobody_waits_for_ever_and_nothing_is_left(
        callers in 1..6_usize,
        choices in proptest::collection::vec(0..1000_usize, 0..60),
    ) {
        by_chance::<Gate>(callers, &choices);
        by_chance::<FairLock>(callers, &choices);
        by_chance::<RwLock>(callers, &choices);
    }
}
