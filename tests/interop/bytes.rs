//! Byte for byte: each operation in each state, by the real Redisson on one key and by this crate on another
//! one that was prepared the same way, leaves the same behind: type, value, time to live, messages, answer.
//!
//! Redisson itself says what is right; nothing is typed in by hand but the differences that are meant. Each of
//! them is a [`Difference`], and the tests fail when one appears elsewhere, or disappears.

#[allow(unreachable_pub)]
mod case;
#[allow(unreachable_pub)]
mod comparison;

use std::time::{Duration, SystemTime};

use crate::common::operation::Op;
use case::Difference::{
    AnnouncesMoved, FurtherMessages, KeepsTtl, PublishesNarrowTotals, RefusesOverflow, RefusesText,
    RefusesZeroTtl, SilentWithoutPermits, TellsWideCounters,
};
use case::{Case, Content, HIGHEST, State, TTL, expiring, lasting};
use comparison::Comparison;
use redisson_semaphore::ExpireCondition::{self, Greater, Less, NotSet, Set};

const COUNTERS: [State; 24] = [
    lasting(Content::Missing),
    lasting(Content::Text("0")),
    lasting(Content::Text("1")),
    lasting(Content::Text("3")),
    lasting(Content::Text("-2")),
    lasting(Content::Text("2147483647")),
    lasting(Content::Text("-2147483648")),
    lasting(Content::Text("3000000000")),
    lasting(Content::Text("-3000000000")),
    expiring(Content::Text("0")),
    expiring(Content::Text("3")),
    expiring(Content::Text("-2")),
    lasting(Content::Text("")),
    lasting(Content::Text("seats")),
    expiring(Content::Text("1.5")),
    lasting(Content::Text(" 7")),
    lasting(Content::Text("007")),
    lasting(Content::Text("-0")),
    lasting(Content::Text("1e3")),
    lasting(Content::Text("0x10")),
    expiring(Content::Text("inf")),
    lasting(Content::Text("99999999999999999999")),
    lasting(Content::Hash),
    expiring(Content::SortedSet),
];

fn counter_operations(state: State) -> Vec<Op> {
    let minute = Duration::from_secs(60);
    let moment = Duration::from_millis(60);
    let mut ops = vec![
        Op::TrySet(0),
        Op::TrySet(1),
        Op::TrySet(4),
        Op::TrySet(100),
        Op::TrySet(HIGHEST as u32),
        Op::TrySetFor(0, minute),
        Op::TrySetFor(1, minute),
        Op::TrySetFor(4, minute),
        Op::TrySetFor(4, Duration::ZERO),
        Op::Acquire(0),
        Op::TryAcquire(0),
        Op::TryAcquire(1),
        Op::TryAcquire(3),
        Op::TryAcquire(4),
        Op::TryAcquire(HIGHEST as u32),
        Op::TryAcquireFor(0, moment),
        Op::TryAcquireFor(2, Duration::ZERO),
        Op::TryAcquireFor(2, moment),
        Op::Release(0),
        Op::Release(1),
        Op::Release(2),
        Op::Release(3),
        Op::Release(63),
        Op::Release(64),
        Op::Release(65),
        Op::Release(1000),
        Op::Release(HIGHEST as u32),
        Op::ReleaseIfExists(0),
        Op::ReleaseIfExists(1),
        Op::ReleaseIfExists(2),
        Op::ReleaseIfExists(5),
        Op::ReleaseIfExists(HIGHEST as u32),
        Op::Add(0),
        Op::Add(1),
        Op::Add(2),
        Op::Add(5),
        Op::Add(-1),
        Op::Add(-3),
        Op::Add(-5),
        Op::Add(i32::MAX),
        Op::Add(i32::MIN),
        Op::Drain,
        Op::Available,
    ];
    // In the other states Redisson waits for ever.
    let wrong_type = !matches!(state.content, Content::Text(_) | Content::Missing);
    if wrong_type || state.counter().is_some_and(|counter| counter >= 1) {
        ops.push(Op::Acquire(1));
    }
    ops
}

#[tokio::test(flavor = "multi_thread")]
async fn counters() {
    let mut comparison = Comparison::start().await;
    for listened in [false, true] {
        if listened {
            comparison.listen().await;
        }
        // Nobody hears of what fails.
        let heard = |state: &State| state.content == Content::Missing || state.counter().is_some();
        let states = COUNTERS.into_iter();
        for state in states.filter(|state| !listened || heard(state)) {
            for op in counter_operations(state) {
                let case = Case {
                    state,
                    other: lasting(Content::Missing),
                    op,
                };
                comparison.run(case).await;
            }
        }
    }
    let adding = &["Add", "Release", "ReleaseIfExists", "TrySet", "TrySetFor"];
    comparison.end(&[
        (KeepsTtl, &["Add", "Drain"]),
        (SilentWithoutPermits, adding),
        (FurtherMessages, adding),
        (RefusesOverflow, &["Add", "Release", "ReleaseIfExists"]),
        (TellsWideCounters, &["Available", "Drain"]),
        (PublishesNarrowTotals, &["Add"]),
        (
            RefusesText,
            &[
                "Add",
                "Available",
                "Drain",
                "TryAcquire",
                "TryAcquireFor",
                "TrySet",
                "TrySetFor",
            ],
        ),
        (RefusesZeroTtl, &["TrySetFor"]),
    ]);
}

const OBJECTS: [State; 10] = [
    lasting(Content::Missing),
    lasting(Content::Text("3")),
    lasting(Content::Text("-2")),
    expiring(Content::Text("3")),
    lasting(Content::Text("seats")),
    expiring(Content::Text("seats")),
    lasting(Content::Hash),
    expiring(Content::Hash),
    lasting(Content::List),
    lasting(Content::Set),
];

fn object_operations() -> Vec<Op> {
    let mut ops = vec![
        Op::Exists,
        Op::Delete,
        Op::Unlink,
        Op::Touch,
        Op::Size,
        Op::ClearExpire,
        Op::RemainingTtl,
        Op::ExpireTime,
        Op::Expire(Duration::ZERO, None),
    ];
    let conditions: [Option<ExpireCondition>; 5] =
        [None, Some(NotSet), Some(Set), Some(Greater), Some(Less)];
    for condition in conditions {
        for ttl in [TTL / 2, TTL * 2] {
            ops.push(Op::Expire(ttl, condition));
            ops.push(Op::ExpireAt(SystemTime::now() + ttl, condition));
        }
        let past = SystemTime::now() - Duration::from_secs(1);
        ops.push(Op::ExpireAt(past, condition));
    }
    ops
}

#[tokio::test(flavor = "multi_thread")]
async fn objects() {
    let mut comparison = Comparison::start().await;
    for state in OBJECTS {
        for op in object_operations() {
            let case = Case {
                state,
                other: lasting(Content::Missing),
                op,
            };
            comparison.run(case).await;
        }
        for other in OBJECTS {
            for op in [Op::Rename, Op::RenameNx, Op::Copy, Op::CopyAndReplace] {
                // The second name depends on the first: see `with_other`.
                let case = Case {
                    state,
                    other,
                    op: op(String::new()),
                };
                comparison.run(case).await;
            }
        }
    }
    comparison.end(&[
        (RefusesZeroTtl, &["Expire"]),
        (
            AnnouncesMoved,
            &["Copy", "CopyAndReplace", "Rename", "RenameNx"],
        ),
    ]);
}
