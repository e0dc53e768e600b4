use std::time::Duration;

use futures::FutureExt;
use tokio::time::{advance, sleep};

use super::super::request::Arg;
use super::*;

const SECOND: Duration = Duration::from_secs(1);
pub(in crate::engine) const WATCHDOG: Duration = Duration::from_secs(30);
pub(in crate::engine) const RENEWING: Renewing = Renewing {
    kind: "one",
    id: |id| Arg::Text(Arc::clone(id)),
    others: Renewing::nothing_else,
    most: 100,
    lease: WATCHDOG,
};

fn after(seconds: u32) -> Moment {
    (Instant::now() + seconds * SECOND).into()
}

/// `a` holds `x`, and that is renewed.
fn keep(holds: &LeaseTable, until: Moment) -> Lease {
    holds.keep(&"x".into(), &"a".into(), until, RENEWING)
}

fn change(holds: &LeaseTable, change: impl FnOnce(&mut LeaseEntry)) {
    holds.change("x", "a", change).expect("it is there");
}

/// As a call that departs now has it.
fn departing(holds: &LeaseTable) -> Renewal {
    let place = ("x".into(), "a".into());
    let version = holds.look("x", "a", |entry| entry.version).unwrap();
    Renewal {
        place,
        others: Vec::new(),
        version,
    }
}

/// The ids that are due now, as many as one call renews together.
fn due(holds: &LeaseTable) -> Vec<Vec<String>> {
    let parts = holds.take_due(|_| 0).into_iter();
    parts
        .map(|(_, part)| part.iter().map(|one| one.place.1.to_string()).collect())
        .collect()
}

/// A call may shorten the lease of a permit with an id.
#[tokio::test(start_paused = true)]
async fn a_call_that_may_shorten_a_lease_counts_from_its_departure_on() {
    let holds = LeaseTable::default();
    let lease = keep(&holds, after(30));
    let renewal = departing(&holds);
    let may_end = |seconds| change(&holds, |entry| entry.may_end(after(seconds)));
    may_end(10);
    assert_eq!(lease.remaining(), Some(10 * SECOND));
    may_end(100);
    assert_eq!(lease.remaining(), Some(10 * SECOND));
    assert!(!holds.renewed(&renewal, true, after(40)));
    assert_eq!(lease.remaining(), Some(10 * SECOND), "it departed before");
    assert!(!holds.renewed(&departing(&holds), true, after(40)));
    assert_eq!(lease.remaining(), Some(40 * SECOND));
    // A renewal only ever puts an end off.
    assert!(!holds.renewed(&departing(&holds), true, after(20)));
    assert_eq!(lease.remaining(), Some(40 * SECOND));
    // The call is answered behind a renewal.
    let renewal = departing(&holds);
    change(&holds, |entry| entry.ends(after(5)));
    assert!(!holds.renewed(&renewal, true, after(50)));
    sleep(5 * SECOND).await;
    assert!(lease.is_lost());
}

/// All holds of an object are lost, those that have changed since the call departed among them, but none that came since then.
#[tokio::test(start_paused = true)]
async fn a_loss_of_all_spares_those_that_came_later() {
    let holds = LeaseTable::default();
    let changed = keep(&holds, after(30));
    let departed = holds.kept();
    change(&holds, |entry| entry.ends(after(40)));
    let later = holds.keep(&"x".into(), &"b".into(), after(30), RENEWING);
    holds.all_lost("x", departed, |_| false);
    assert!(changed.is_lost() && !later.is_lost());
}

#[tokio::test(start_paused = true)]
async fn what_is_not_held_any_more_when_it_is_to_be_renewed() {
    let holds = LeaseTable::default();
    let lease = keep(&holds, after(30));
    let renewal = departing(&holds);
    assert!(holds.renewed(&renewal, false, after(30)));
    assert!(lease.is_lost() && holds.lease("x", "a").is_none());
    // The answer comes when it has been taken anew, or is given back.
    let lease = keep(&holds, after(30));
    assert!(!holds.renewed(&renewal, false, after(30)));
    let renewal = departing(&holds);
    change(&holds, |entry| entry.set_renewed(false));
    assert!(!holds.renewed(&renewal, false, after(30)));
    assert!(!lease.is_lost());
    // It runs out here by itself.
    sleep(30 * SECOND).await;
    assert!(lease.is_lost() && holds.holder("x", |_| true).is_none());
    let anew = keep(&holds, after(30));
    assert!(!anew.is_lost() && holds.holder("x", |_| true).is_some());
    // Somebody else has it alone.
    let other = holds.keep(&"x".into(), &"c".into(), after(30), RENEWING);
    let keep_b = |stays: fn(&str) -> bool| {
        let (key, id) = ("x".into(), "b".into());
        holds.all_lost("x", holds.kept(), stays);
        holds.keep_beside(&key, &id, after(30), RENEWING, true, ());
    };
    keep_b(|id| id == "c");
    assert!(!other.is_lost());
    keep_b(|_| false);
    assert!(other.is_lost());
    assert!(anew.is_lost() && holds.lease("x", "a").is_none());
    assert_eq!(holds.holder("x", |_| true).as_deref(), Some("b"));
}

#[tokio::test(start_paused = true)]
async fn the_holder_is_the_one_that_has_come_last() {
    let holds = LeaseTable::default();
    for id in ["b", "a", "c"] {
        holds.keep(&"x".into(), &id.into(), after(30), RENEWING);
        assert_eq!(holds.holder("x", |_| true).as_deref(), Some(id));
    }
}

/// The holder of a long lease learns as soon as others where it is lost.
#[tokio::test(start_paused = true)]
async fn a_long_lease_is_renewed_as_often() {
    let holds = LeaseTable::default();
    keep(&holds, after(3600));
    advance(9 * SECOND).await;
    assert!(due(&holds).is_empty());
    advance(SECOND).await;
    assert_eq!(due(&holds), [["a"]]);
}

#[tokio::test(start_paused = true)]
async fn many_hold_something_of_one_object() {
    let holds = LeaseTable::default();
    let object = "x".into();
    let keep = |id: &str, until| holds.keep(&object, &id.into(), until, RENEWING);
    let ends = |id: &str, until| holds.ends(&object, &id.into(), until, RENEWING);
    let (one, two) = (keep("one", after(30)), keep("two", after(30)));
    assert!(keep("late", Moment::now()).is_lost());
    assert!(keep("one", after(99)).is_same(&one));
    assert_eq!(one.remaining(), Some(30 * SECOND), "as the server said");
    ends("one", after(40));
    assert_eq!(one.remaining(), Some(40 * SECOND));
    holds.keep_no_more("x", "one");
    assert!(!holds.is_renewed("x", "one") && holds.is_renewed("x", "two"));
    ends("one", after(50));
    assert_eq!(
        one.remaining(),
        Some(40 * SECOND),
        "nothing is reported to it"
    );
    let anew = keep("one", after(1));
    assert_eq!(anew.remaining(), Some(50 * SECOND));
    ends("three", after(20));
    assert!(!holds.is_renewed("x", "three"));
    assert_eq!(keep("three", after(1)).remaining(), Some(20 * SECOND));
    holds.end("x", "three");
    assert!(holds.lost("x", "two") && !holds.lost("x", "two"));
    assert!(two.is_lost() && !one.is_lost() && !anew.is_lost());
    let kept = holds.kept();
    let later = keep("later", after(30));
    holds.all_lost("x", kept, |_| false);
    assert!(anew.is_lost() && !later.is_lost());
    // It has another id.
    holds.rename(&object, &"later".into(), &"renamed".into());
    assert!(!holds.is_renewed("x", "renamed") && holds.lease("x", "later").is_none());
    assert!(keep("renamed", after(30)).is_same(&later));
    holds.end("x", "renamed");
    assert!(!later.is_lost() && holds.entries() == 0);
}

#[tokio::test(start_paused = true)]
async fn what_has_run_out_makes_room_and_what_nobody_keeps() {
    let holds = LeaseTable::default();
    let name = |number: usize| number.to_string().into();
    let kept: Vec<_> = (0..10)
        .map(|number| holds.keep(&"x".into(), &name(number), after(30), RENEWING))
        .collect();
    for number in 0..10 * FEW {
        holds.ends(&"x".into(), &name(number), after(60), RENEWING);
    }
    assert!(holds.entries() <= 2 * FEW);
    // An entry that is kept behind that lasts as long as the server has said.
    let last = holds.keep(&"x".into(), &name(10 * FEW - 1), after(1), RENEWING);
    for lease in kept.iter().chain([&last]) {
        assert_eq!(lease.remaining(), Some(60 * SECOND));
    }
    for number in 0..10 * FEW {
        holds.keep(&"y".into(), &name(number), after(1), RENEWING);
        if number % FEW == 0 {
            sleep(SECOND).await;
        }
    }
    assert!(holds.entries() <= 3 * FEW);
}

#[tokio::test(start_paused = true)]
async fn what_is_due_takes_along_what_is_due_soon() {
    let holds = LeaseTable::default();
    let keep = |id: &str, lease: u32| {
        let lease = lease * SECOND;
        let until = Moment::now() + lease;
        let renewing = Renewing { lease, ..RENEWING };
        holds.keep(&"x".into(), &id.into(), until, renewing);
    };
    let is_woken = || holds.woken().notified().now_or_never().is_some();
    keep("one", 30);
    assert!(is_woken());
    let next = holds.next().unwrap();
    assert!(next <= Instant::now() + 10 * SECOND);
    advance(4 * SECOND).await;
    keep("two", 30);
    assert!(!is_woken());
    advance(3 * SECOND).await;
    keep("late", 30);
    keep("long", 300);
    advance(2 * SECOND).await;
    assert!(due(&holds).is_empty());
    // One that lasts for a shorter time is due sooner, and takes along what is half as old as it may be.
    keep("short", 1);
    assert!(holds.next().unwrap() < Instant::now() + SECOND);
    advance(SECOND / 2).await;
    assert_eq!(due(&holds), [vec!["short"], vec!["one", "two"]]);
    assert!(due(&holds).is_empty(), "calls have them");
    let places = ["one", "short"].map(|id| Renewal {
        place: ("x".into(), id.into()),
        others: Vec::new(),
        version: 0,
    });
    holds.call_ended(&places);
    // One that has failed is due again soon.
    advance(SECOND).await;
    assert_eq!(due(&holds), [["one"]]);
    assert!(holds.next().unwrap() > Instant::now() + 5 * SECOND);
    holds.end("x", "late");
    holds.end("x", "long");
    holds.end("x", "two");
    advance(SECOND * 7).await;
    assert!(due(&holds).is_empty());
    assert!(holds.next().is_none());
    assert!(is_woken());
    keep("anew", 30);
    assert!(is_woken());
}

#[tokio::test(start_paused = true)]
async fn calls_are_of_one_kind_and_what_was_refused_is_renewed_alone() {
    let holds = LeaseTable::default();
    let keep = |number: u32| {
        let kind = if number < 20 { "one" } else { "other" };
        let most = if number < 20 { 8 } else { 100 };
        let renewing = Renewing {
            kind,
            most,
            ..RENEWING
        };
        let key = format!("key-{number:02}").into();
        holds.keep(&key, &"a".into(), after(30), renewing);
    };
    (0..25).for_each(keep);
    advance(10 * SECOND).await;
    let slot = |key: &str| u16::from(key == "key-24");
    let take = || -> Vec<_> {
        let parts = holds.take_due(slot).into_iter();
        parts.map(|(_, part)| part).collect()
    };
    let sizes = |parts: &[Vec<Renewal>]| {
        let mut sizes: Vec<_> = parts.iter().map(Vec::len).collect();
        sizes.sort_unstable();
        sizes
    };
    let parts = take();
    assert_eq!(sizes(&parts), [1, 4, 4, 8, 8]);
    // Some have changed when a call departs.
    let mut parts = parts.into_iter();
    let part = parts.find(|part| &*part[0].place.0 == "key-00").unwrap();
    holds.end("key-01", "a");
    holds.change("key-02", "a", |entry| entry.set_renewed(false));
    let some = holds.unchanged(part.clone());
    assert_eq!(some.len(), 6);
    assert!(!holds.refused(&some));
    holds.call_ended(&part);
    let parts = take();
    assert_eq!(sizes(&parts), [1; 6]);
    for reported in [true, false] {
        assert_eq!(holds.refused(&parts[0]), reported, "once");
    }
    for part in &parts {
        assert!(!holds.renewed(&part[0], true, after(30)));
        holds.call_ended(part);
    }
    advance(10 * SECOND).await;
    assert_eq!(sizes(&take()), [6]);
}
