//! What waits for the next rounds.
//!
//! It stays short while the server does not answer. A call whose caller waits takes no more memory than
//! the caller does, and has its deadline, the retry window. Of the others only the releases are kept: they
//! are owed, and are added up. Everything else that nobody waits for any more is dropped: at the latest when its turn comes, and
//! whenever the queue has doubled, so that it costs a call next to nothing.

use std::collections::VecDeque;

use super::Queued;
use crate::engine::batch::{Call, Operation};
use crate::engine::log::list_of;

/// Below this length nothing is looked through.
const SHORT: usize = 1024;
/// What one release can give back: Redisson's permits are signed 32 bits.
const MOST_PERMITS: u32 = i32::MAX as u32;

/// Calls and commands in the order in which they were made.
pub(super) struct Queue {
    items: VecDeque<Queued>,
    /// The length at which those are dropped that nobody waits for.
    sweep_at: usize,
}

impl Queue {
    pub(super) fn new() -> Self {
        Queue {
            items: VecDeque::new(),
            sweep_at: SHORT,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The next one that is to be carried out.
    pub(super) fn front(&mut self) -> Option<&Queued> {
        while self.items.front_mut().is_some_and(is_pointless) {
            self.items.pop_front();
        }
        self.items.front()
    }

    pub(super) fn pop_front(&mut self) -> Option<Queued> {
        self.items.pop_front()
    }

    /// What is owed and nobody waits for, for the log; empty where there is nothing.
    pub(super) fn owed(&mut self) -> String {
        self.sweep(Some);
        let owed = |queued: &Queued| match queued {
            Queued::Call(call) if call.reply.is_none() => Some((call.operation, 1)),
            _ => None,
        };
        list_of(self.items.iter().filter_map(owed))
    }

    /// Puts calls back that have not been sent, in their order.
    pub(super) fn put_back(&mut self, calls: impl DoubleEndedIterator<Item = Call>) {
        for call in calls.rev() {
            self.items.push_front(Queued::Call(call));
        }
    }

    /// The last one from now on.
    pub(super) fn push(&mut self, queued: Queued) {
        if let Queued::Call(call) = &queued
            && let Some(Queued::Call(last)) = self.items.back_mut()
            && add_up(last, call)
        {
            return;
        }
        if self.items.len() >= self.sweep_at {
            self.sweep(Some);
        }
        self.items.push_back(queued);
    }

    /// Drops what `keep` takes, and what nobody waits for and nothing is owed by.
    pub(super) fn sweep(&mut self, mut keep: impl FnMut(Queued) -> Option<Queued>) {
        let mut swept: VecDeque<Queued> = VecDeque::new();
        // The owed releases that a later one may be added to: a batch may put them in this order, too.
        let (mut release, mut release_if_exists) = (None, None);
        for mut queued in self.items.drain(..) {
            if is_pointless(&mut queued) {
                continue;
            }
            let Some(queued) = keep(queued) else {
                continue;
            };
            let twin = match &queued {
                Queued::Call(call) => match call.operation {
                    Operation::Release(_) => Some(&mut release),
                    Operation::ReleaseIfExists(_) => Some(&mut release_if_exists),
                    // A guard's are no more than the permits that are held.
                    Operation::TryAcquire(_)
                    | Operation::TryTake(_)
                    | Operation::GiveBack(..)
                    | Operation::Forget(..) => None,
                    _ => {
                        (release, release_if_exists) = (None, None);
                        None
                    }
                },
                Queued::Command(_) => {
                    (release, release_if_exists) = (None, None);
                    None
                }
            };
            if let (Some(twin), Queued::Call(call)) = (twin, &queued)
                && call.reply.is_none()
            {
                if let Some(index) = *twin
                    && let Some(Queued::Call(earlier)) = swept.get_mut(index)
                    && add_up(earlier, call)
                {
                    continue;
                }
                *twin = Some(swept.len());
            }
            swept.push_back(queued);
        }
        self.sweep_at = (2 * swept.len()).max(SHORT);
        self.items = swept;
    }
}

/// Whether its caller has gone, and nothing is owed by it.
fn is_pointless(queued: &mut Queued) -> bool {
    match queued {
        Queued::Call(call) => call.is_pointless(),
        Queued::Command(command) => command.is_pointless(),
    }
}

/// Adds a release that nobody waits for to an earlier one of the same kind; whether that was possible.
fn add_up(earlier: &mut Call, call: &Call) -> bool {
    if earlier.reply.is_some() || call.reply.is_some() {
        return false;
    }
    let (sum, more) = match (&mut earlier.operation, call.operation) {
        (Operation::Release(sum), Operation::Release(more))
        | (Operation::ReleaseIfExists(sum), Operation::ReleaseIfExists(more)) => (sum, more),
        (Operation::GiveBack(sum, life), Operation::GiveBack(more, same)) if *life == same => {
            (sum, more)
        }
        _ => return false,
    };
    let Some(total) = sum.checked_add(more).filter(|total| *total <= MOST_PERMITS) else {
        return false;
    };
    *sum = total;
    true
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tokio::time::Instant;

    use super::*;
    use crate::engine::command::Command;
    use crate::engine::request::Request;
    use crate::engine::waiters::Reply;
    use crate::transport;

    fn push(queue: &mut Queue, operation: Operation, reply: Option<Reply>) {
        queue.push(Queued::Call(Call {
            operation,
            reply,
            since: Instant::now(),
        }));
    }

    fn operations(queue: &Queue) -> Vec<Operation> {
        let operation = |queued: &Queued| match queued {
            Queued::Call(call) => call.operation,
            Queued::Command(_) => panic!("none was queued"),
        };
        queue.items.iter().map(operation).collect()
    }

    #[test]
    fn what_nobody_waits_for_takes_no_room_however_many_they_are() {
        let mut queue = Queue::new();
        let (waiting, _answer) = oneshot::channel();
        push(&mut queue, Operation::TryAcquire(3), Some(waiting));
        for _ in 0..100_000 {
            for operation in [
                Operation::TryAcquire(1),
                Operation::Release(2),
                Operation::ReleaseIfExists(1),
                Operation::Available,
                Operation::Drain,
                Operation::Add(1),
                Operation::TrySet(1, None),
            ] {
                // Its caller goes at once.
                push(&mut queue, operation, Some(oneshot::channel().0));
                assert!(queue.items.len() <= SHORT, "it grows");
            }
        }
        queue.sweep(Some);
        for _ in 0..100_000 {
            // Its caller goes, too.
            let request = Request::Plain(transport::Command::new("EXISTS"));
            let (command, _) = Command::new("exists", request);
            queue.push(Queued::Command(command));
            assert!(queue.items.len() <= SHORT, "it grows");
        }
        queue.sweep(Some);
        assert_eq!(
            operations(&queue),
            [
                Operation::TryAcquire(3),
                Operation::Release(200_000),
                Operation::ReleaseIfExists(100_000),
            ]
        );
    }

    #[test]
    fn releases_are_not_moved_before_what_looks_at_the_whole_counter() {
        let mut queue = Queue::new();
        let (waiting, _answer) = oneshot::channel();
        push(&mut queue, Operation::Release(1), None);
        push(&mut queue, Operation::Drain, Some(waiting));
        for operation in [
            Operation::Release(2),
            Operation::TryAcquire(1),
            Operation::Release(3),
        ] {
            push(&mut queue, operation, None);
        }
        queue.sweep(Some);
        assert_eq!(
            operations(&queue),
            [
                Operation::Release(1),
                Operation::Drain,
                Operation::Release(5)
            ]
        );
    }

    #[test]
    fn a_sum_stays_within_what_one_release_can_give_back() {
        let mut queue = Queue::new();
        let most = Operation::Release(MOST_PERMITS - 1);
        for operation in [most, Operation::Release(1), Operation::Release(1)] {
            push(&mut queue, operation, None);
        }
        assert_eq!(
            operations(&queue),
            [Operation::Release(MOST_PERMITS), Operation::Release(1)]
        );
    }
}
