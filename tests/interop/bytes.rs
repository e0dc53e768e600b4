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

fn counters_before() -> Vec<State> {
    let lasting_texts = [
        "0",
        "1",
        "3",
        "-2",
        "2147483647",
        "-2147483648",
        "3000000000",
        "-3000000000",
        "",
        "seats",
        " 7",
        "007",
        "-0",
        "1e3",
        "0x10",
        "99999999999999999999",
    ];
    let mut states = vec![
        lasting(Content::Missing),
        lasting(Content::Hash),
        expiring(Content::SortedSet),
    ];
    states.extend(lasting_texts.map(|text| lasting(Content::Text(text))));
    states.extend(["0", "3", "-2", "1.5", "inf"].map(|text| expiring(Content::Text(text))));
    states
}

fn counter_operations(state: State) -> Vec<Op> {
    let minute = Duration::from_secs(60);
    let moment = Duration::from_millis(60);
    const MOST: u32 = HIGHEST as u32;
    let mut ops = vec![
        Op::TrySetFor(0, minute),
        Op::TrySetFor(1, minute),
        Op::TrySetFor(4, minute),
        Op::TrySetFor(4, Duration::ZERO),
        Op::Acquire(0),
        Op::TryAcquireFor(0, moment),
        Op::TryAcquireFor(2, Duration::ZERO),
        Op::TryAcquireFor(2, moment),
        Op::Drain,
        Op::Available,
    ];
    ops.extend([0, 1, 4, 100, MOST].map(Op::TrySet));
    ops.extend([0, 1, 3, 4, MOST].map(Op::TryAcquire));
    ops.extend([0, 1, 2, 3, 63, 64, 65, 1000, MOST].map(Op::Release));
    ops.extend([0, 1, 2, 5, MOST].map(Op::ReleaseIfExists));
    ops.extend([0, 1, 2, 5, -1, -3, -5, i32::MAX, i32::MIN].map(Op::Add));
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
        let states = counters_before().into_iter();
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
    let reading = [
        "Add",
        "Available",
        "Drain",
        "TryAcquire",
        "TryAcquireFor",
        "TrySet",
        "TrySetFor",
    ];
    comparison.end(&[
        (KeepsTtl, &["Add", "Drain"]),
        (SilentWithoutPermits, adding),
        (FurtherMessages, adding),
        (RefusesOverflow, &["Add", "Release", "ReleaseIfExists"]),
        (TellsWideCounters, &["Available", "Drain"]),
        (PublishesNarrowTotals, &["Add"]),
        (RefusesText, &reading),
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
