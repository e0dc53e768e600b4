use std::sync::LazyLock;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;

use super::super::request::{Arg, Script};
use super::table::FEW;
use super::*;

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new("return 1"));
static OTHER: LazyLock<Script> = LazyLock::new(|| Script::new("return 2"));

const SECOND: Duration = Duration::from_secs(1);
const WATCHDOG: Duration = Duration::from_secs(30);
const RENEWING: Renewing = Renewing {
    script: &SCRIPT,
    several: false,
    owner: |owner| Arg::Text(Arc::clone(owner)),
    most: 100,
    lease: WATCHDOG,
};
const SHORT: Term = Term::Limited(SECOND);
const LONG: Term = Term::Limited(Duration::from_secs(60));

fn after(seconds: u32) -> Moment {
    (Instant::now() + seconds * SECOND).into()
}

/// `a` takes the lock `x` for `term`.
fn take(holds: &Holds, term: Term, until: Moment) -> (Lease, u64) {
    let (lease, id) = taken(holds, "a", term, until);
    (lease, id.number())
}

fn taken(holds: &Holds, owner: &str, term: Term, until: Moment) -> (Lease, HoldId) {
    let number = holds.lock().last_number + 1;
    holds.taken(&"x".into(), &owner.into(), number, term, until, RENEWING);
    holds.claim("x", owner, number)
}

fn release(holds: &Holds, number: Option<u64>, left: bool) {
    holds.released("x", "a", number, left.then(|| after(60)));
}

/// The locks whose renewal is due.
fn due(holds: &Holds) -> Vec<Renewal> {
    let renewals = holds.next_renewals(&mut holds.to_renew(WATCHDOG), 100, |_| 0);
    renewals.map_or_else(Vec::new, |(_, some)| some)
}

#[tokio::test(start_paused = true)]
async fn holds_are_counted_and_end_together() {
    let holds = Holds::default();
    let (lease, first) = take(&holds, Term::Watched, after(60));
    let (_, second) = take(&holds, SHORT, after(60));
    assert_eq!(holds.count("x", "a"), Count::Held(2));
    assert_eq!(holds.count("x", "b"), Count::Held(0));
    assert_eq!(
        holds.term_without("x", "a", Some(second)),
        Some(Term::Watched)
    );
    assert_eq!(holds.term_without("x", "a", Some(first)), Some(SHORT));
    release(&holds, Some(first), true);
    assert_eq!(holds.term_without("x", "a", Some(second)), None);
    assert!(holds.holder("x").is_some() && !holds.is_watched("x", "a"));
    release(&holds, Some(second), false);
    assert!(holds.holder("x").is_none() && !lease.is_lost());
    assert!(holds.lock().by_object.is_empty());
}

#[tokio::test(start_paused = true)]
async fn without_a_number_the_latest_that_is_nobodys_is_meant() {
    let holds = Holds::default();
    let take = |term| {
        let (lease, id) = taken(&holds, "a", term, after(60));
        (lease, id)
    };
    assert_eq!(holds.latest("x", "a"), None);
    let (_, first) = take(SHORT);
    drop(take(LONG));
    let (lease, third) = take(SHORT);
    let second = holds.latest("x", "a");
    assert_eq!(second, Some(first.number() + 1));
    assert_eq!(holds.term_without("x", "a", second), Some(SHORT));
    release(&holds, second, true);
    assert_eq!(holds.latest("x", "a"), Some(third.number()));
    let number = first.number();
    drop(first);
    assert_eq!(holds.latest("x", "a"), Some(number));
    release(&holds, Some(number), true);
    // One that was given back already does not stand for another.
    assert!(holds.is_gone("x", "a", number));
    release(&holds, Some(number), true);
    assert_eq!(holds.count("x", "a"), Count::Held(1));
    release(&holds, Some(third.number()), false);
    assert!(!lease.is_lost() && holds.holder("x").is_none());
}

#[tokio::test(start_paused = true)]
async fn each_of_several_that_could_not_be_given_back_is_spent() {
    let holds = Holds::default();
    let take = || {
        let (_, id) = taken(&holds, "a", Term::Watched, after(60));
        id
    };
    let guarded = take();
    drop((take(), take()));
    for left in [2, 1] {
        let latest = holds.latest("x", "a").expect("one is left");
        assert_ne!(latest, guarded.number(), "somebody has the id");
        holds.spend("x", "a", latest);
        assert_eq!(holds.count("x", "a"), Count::Held(left));
    }
    assert!(holds.is_watched("x", "a"), "somebody has the id");
    holds.spend("x", "a", guarded.number());
    assert!(!holds.is_watched("x", "a"));
}

#[tokio::test(start_paused = true)]
async fn what_was_lost_is_not_what_is_held() {
    let holds = Holds::default();
    let (old, number) = take(&holds, SHORT, after(1));
    tokio::time::sleep(SECOND).await;
    assert!(old.is_lost() && holds.holder("x").is_none());
    assert_eq!(holds.count("x", "a"), Count::Over);
    assert!(!holds.is_gone("x", "a", number), "it may be left over");
    let (new, later) = take(&holds, SHORT, after(1));
    assert!(holds.is_gone("x", "a", number) && !holds.is_gone("x", "a", later));
    assert_eq!(holds.count("x", "a"), Count::Held(1));
    // Another owner has it.
    taken(&holds, "b", LONG, after(60));
    assert!(new.is_lost() && holds.is_gone("x", "a", later));
    assert_eq!(holds.count("x", "a"), Count::Held(0));
    let lease = holds.lease("x", "b").unwrap();
    holds.lost("x", "a");
    assert!(!lease.is_lost());
    holds.all_lost("x", holds.kept());
    assert!(lease.is_lost() && holds.lease("x", "b").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_step_that_is_not_answered_may_bring_the_end_nearer() {
    let holds = Holds::default();
    let (lease, _) = take(&holds, LONG, after(60));
    holds.departs("x", "a", after(1), 1 * SECOND);
    assert_eq!(lease.remaining(), Some(SECOND));
    holds.departs("x", "a", after(2), 2 * SECOND);
    assert_eq!(lease.remaining(), Some(SECOND));
    holds.stays("x", "a");
    assert_eq!(lease.remaining(), Some(60 * SECOND));
    holds.departs("x", "a", after(100), 100 * SECOND);
    assert_eq!(lease.remaining(), Some(60 * SECOND));
    take(&holds, LONG, after(100));
    assert_eq!(lease.remaining(), Some(100 * SECOND));
    holds.departs("x", "a", after(1), 1 * SECOND);
    tokio::time::sleep(SECOND).await;
    assert!(lease.is_lost());
}

#[tokio::test(start_paused = true)]
async fn a_step_that_will_not_be_answered_counts_until_the_next_renewal() {
    let holds = Holds::default();
    let (lease, _) = take(&holds, Term::Watched, after(30));
    let earlier = due(&holds);
    holds.departs("x", "a", after(10), 10 * SECOND);
    let meanwhile = due(&holds);
    holds.is_not_answered("x", "a");
    for renewal in [&earlier[0], &meanwhile[0]] {
        assert!(!holds.renewed(renewal, true, after(40)));
        assert_eq!(lease.remaining(), Some(10 * SECOND));
    }
    assert!(!holds.renewed(&due(&holds)[0], true, after(40)));
    assert_eq!(lease.remaining(), Some(40 * SECOND));
    // One that is still to be answered is told by its own answer.
    holds.departs("x", "a", after(10), 10 * SECOND);
    assert!(!holds.renewed(&due(&holds)[0], true, after(50)));
    assert_eq!(lease.remaining(), Some(10 * SECOND));
}

/// As long as the server refuses it, or no replica confirms it, a step may stay without an answer for longer than what is held
/// lasts.
#[tokio::test(start_paused = true)]
async fn a_step_with_the_lease_of_a_renewal_brings_the_end_nearer_until_the_next_one() {
    let holds = Holds::default();
    let (lease, _) = take(&holds, Term::Watched, after(30));
    let earlier = due(&holds);
    tokio::time::sleep(5 * SECOND).await;
    holds.departs("x", "a", after(25), WATCHDOG);
    assert!(!holds.renewed(&earlier[0], true, after(35)));
    assert_eq!(lease.remaining(), Some(25 * SECOND));
    assert!(!holds.renewed(&due(&holds)[0], true, after(40)));
    assert_eq!(lease.remaining(), Some(40 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn what_is_held_without_a_lease_is_renewed_until_it_leaves() {
    let holds = Holds::default();
    assert!(holds.begin_renewing(WATCHDOG) && !holds.begin_renewing(WATCHDOG));
    let (lease, _) = take(&holds, SHORT, after(30));
    assert!(due(&holds).is_empty());
    assert!(holds.begin_renewing(WATCHDOG), "there was nothing to renew");
    let (_, watched) = take(&holds, Term::Watched, after(30));
    assert!(!holds.begin_renewing(WATCHDOG));
    let renewals = due(&holds);
    assert!(!holds.renewed(&renewals[0], true, after(40)));
    assert_eq!(lease.remaining(), Some(40 * SECOND));
    // An end is only ever put off.
    assert!(!holds.renewed(&renewals[0], true, after(20)));
    assert_eq!(lease.remaining(), Some(40 * SECOND));
    holds.departs("x", "a", after(1), 1 * SECOND);
    assert!(!holds.renewed(&renewals[0], true, after(50)));
    assert_eq!(lease.remaining(), Some(SECOND));
    holds.stays("x", "a");
    assert_eq!(lease.remaining(), Some(40 * SECOND));
    // The answer comes late: it was renewed before its end was brought nearer.
    let (_, limited) = take(&holds, SHORT, after(60));
    let renewals = due(&holds);
    holds.departs("x", "a", after(30), 30 * SECOND);
    holds.released("x", "a", Some(limited), Some(after(30)));
    assert!(!holds.renewed(&renewals[0], true, after(50)));
    assert_eq!(lease.remaining(), Some(30 * SECOND));

    holds.leaves("x", "a", Some(watched), true);
    assert!(due(&holds).is_empty());
    holds.leaves("x", "a", Some(watched), false);
    assert_eq!(due(&holds).len(), 1);
    release(&holds, Some(watched), true);
    assert!(due(&holds).is_empty());
}

/// The answer to the release is not there yet, or never comes: all that is left may last for a shorter time than the hold that goes.
#[tokio::test(start_paused = true)]
async fn a_renewal_does_not_bring_back_an_end_that_a_release_has_brought_nearer() {
    for answered in [true, false] {
        let holds = Holds::default();
        take(&holds, Term::Watched, after(30));
        let (lease, _) = take(&holds, LONG, after(60));
        holds.departs("x", "a", after(30), WATCHDOG);
        if !answered {
            holds.is_not_answered("x", "a");
        }
        let renewals = due(&holds);
        assert!(!holds.renewed(&renewals[0], true, after(35)));
        assert_eq!(lease.remaining(), Some(35 * SECOND));
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_held_any_more_when_it_is_to_be_renewed() {
    let holds = Holds::default();
    let (lease, _) = take(&holds, Term::Watched, after(30));
    let renewals = due(&holds);
    assert!(holds.renewed(&renewals[0], false, after(30)));
    assert!(lease.is_lost() && holds.lease("x", "a").is_none());
    // The answer comes when it is given back, or when that has been taken anew.
    let (lease, number) = take(&holds, Term::Watched, after(30));
    assert!(!holds.renewed(&renewals[0], false, after(30)));
    let renewals = due(&holds);
    holds.leaves("x", "a", Some(number), true);
    assert!(!holds.renewed(&renewals[0], false, after(30)));
    holds.spend("x", "a", number);
    assert!(!holds.renewed(&renewals[0], false, after(30)));
    assert!(!lease.is_lost() && lease.lost().now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_given_back_does_not_count() {
    let holds = Holds::default();
    let (lease, first) = take(&holds, LONG, after(60));
    let (_, second) = take(&holds, Term::Watched, after(60));
    holds.spend("x", "a", second);
    assert_eq!(holds.count("x", "a"), Count::Held(1));
    assert!(!holds.is_watched("x", "a") && !holds.is_gone("x", "a", second));
    holds.leaves("x", "a", Some(second), false);
    assert!(!holds.is_watched("x", "a"));
    assert_eq!(holds.term_without("x", "a", Some(first)), None);
    holds.spend("x", "a", first);
    assert_eq!(holds.count("x", "a"), Count::Over, "it may be left over");
    // It is given back after all.
    holds.leaves("x", "a", Some(first), true);
    assert_eq!(holds.count("x", "a"), Count::Held(1));
    holds.spend("x", "a", first);
    assert!(!lease.is_lost() && holds.holder("x").is_some());
    // Taken anew, it is counted from one on.
    let (_, third) = take(&holds, LONG, after(60));
    assert_eq!(holds.count("x", "a"), Count::Held(1));
    assert!(
        !holds.is_gone("x", "a", third)
            && holds.is_gone("x", "a", first)
            && holds.is_gone("x", "a", second)
    );
}

#[tokio::test(start_paused = true)]
async fn renewals_are_those_of_the_moment() {
    let holds = Holds::default();
    for number in 0..25 {
        let script = if number < 20 { &SCRIPT } else { &OTHER };
        let renewing = Renewing { script, ..RENEWING };
        let lock = format!("lock-{number}").into();
        holds.taken(&lock, &"a".into(), 1, Term::Watched, after(60), renewing);
    }
    let mut places = holds.to_renew(WATCHDOG);
    places.sort();
    assert_eq!(places.len(), 25);
    let mut seen = 0;
    while let Some((renewing, some)) = holds.next_renewals(&mut places, 8, |_| 0) {
        assert!(!some.is_empty() && some.len() <= 8);
        let lock = &some[0].place.0;
        let other = lock["lock-".len()..].parse::<u32>().unwrap() >= 20;
        assert_eq!(std::ptr::eq(renewing.script, &raw const OTHER), other);
        seen += some.len();
        // Each one of a call takes the next one away.
        if let Some((lock, owner)) = places.last() {
            holds.released(lock, owner, holds.latest(lock, owner), None);
            seen += 1;
        }
    }
    assert_eq!((seen, places.len()), (25, 0));
}

#[tokio::test(start_paused = true)]
async fn many_hold_something_of_one_object() {
    let holds = Holds::default();
    let object = "x".into();
    let keep = |owner: &str, term, until, lease| {
        let renewing = Renewing { lease, ..RENEWING };
        holds.keep(&object, &owner.into(), term, until, renewing)
    };
    let one = keep("one", Term::Watched, after(30), WATCHDOG);
    let two = keep("two", Term::Watched, after(5), 5 * SECOND);
    let three = keep("three", SHORT, after(60), WATCHDOG);
    assert!(keep("late", Term::Watched, Moment::now(), WATCHDOG).is_lost());
    assert!(keep("one", Term::Watched, after(99), WATCHDOG).is_same(&one));
    assert_eq!(one.remaining(), Some(30 * SECOND), "as the server said");
    let owners = |lease| -> Vec<String> {
        let places = holds.to_renew(lease).into_iter();
        places.map(|(_, owner)| owner.to_string()).collect()
    };
    // What lasts for another time is renewed at other times.
    assert!(holds.begin_renewing(WATCHDOG) && holds.begin_renewing(5 * SECOND));
    assert_eq!(
        (owners(WATCHDOG), owners(5 * SECOND)),
        (vec!["one".to_owned()], vec!["two".to_owned()])
    );
    assert!(keep("three", Term::Watched, after(1), WATCHDOG).is_same(&three));
    assert_eq!(owners(WATCHDOG), ["one", "three"]);
    holds.ends(&object, &"one".into(), after(40), RENEWING);
    assert_eq!(one.remaining(), Some(40 * SECOND));
    holds.keep_no_more("x", "one");
    assert_eq!(owners(WATCHDOG), ["three"]);
    holds.ends(&object, &"one".into(), after(50), RENEWING);
    assert_eq!(one.remaining(), Some(40 * SECOND), "it is told nothing");
    let one = keep("one", Term::Watched, after(1), WATCHDOG);
    assert_eq!(one.remaining(), Some(50 * SECOND));
    holds.keep_no_more("x", "one");
    holds.ends(&object, &"four".into(), after(20), RENEWING);
    let four = keep("four", Term::Watched, after(1), WATCHDOG);
    assert_eq!(four.remaining(), Some(20 * SECOND));
    holds.released("x", "four", None, None);
    holds.released("x", "three", None, None);
    holds.lost("x", "two");
    assert!(two.is_lost() && !one.is_lost() && !three.is_lost() && !four.is_lost());
    assert!(owners(5 * SECOND).is_empty() && holds.begin_renewing(5 * SECOND));
    let five = keep("five", Term::Watched, after(30), WATCHDOG);
    holds.all_lost("x", holds.kept());
    assert!(five.is_lost() && !one.is_lost());
    assert_eq!(holds.lock().size, 0);
}

#[tokio::test(start_paused = true)]
async fn what_has_run_out_makes_room() {
    let holds = Holds::default();
    for number in 0..10 * FEW {
        let lock = format!("lock-{number}").into();
        holds.taken(&lock, &"a".into(), 1, SHORT, after(1), RENEWING);
        if number % FEW == 0 {
            tokio::time::sleep(SECOND).await;
        }
    }
    assert!(holds.lock().size <= 2 * FEW);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_keeps_makes_room() {
    let holds = Holds::default();
    let keep = |number: usize, term| {
        let owner = format!("{number}").into();
        holds.keep(&"x".into(), &owner, term, after(30), RENEWING)
    };
    let kept: Vec<_> = (0..10).map(|number| keep(number, Term::Watched)).collect();
    for number in 0..10 * FEW {
        holds.ends(
            &"x".into(),
            &format!("{number}").into(),
            after(60),
            RENEWING,
        );
    }
    assert!(holds.lock().size <= 2 * FEW);
    // What is kept behind that lasts as long as the server has said.
    let last = keep(10 * FEW - 1, Term::Watched);
    for lease in kept.iter().chain([&last]) {
        assert_eq!(lease.remaining(), Some(60 * SECOND));
    }
}
