use super::*;

fn verdict(text: &str) -> Option<Verdict> {
    Some(Verdict::read(text).expect("as the script writes it"))
}

/// Nobody is waited for.
fn kept() -> Option<Verdict> {
    verdict("turn:0:0:0:2:0:0")
}

#[test]
fn alone_nothing_is_reported() {
    let (mut turns, now) = (Turns::default(), Instant::now());
    assert!(
        !turns.wants_report(now, false),
        "a caller who has not been told to wait"
    );
    assert!(turns.wants_report(now, true), "does anybody else listen?");
    turns.seen(0, now);
    assert!(!turns.wants_report(now, true));
    assert!(
        turns.wants_report(now + FRESH, true),
        "does anybody by now?"
    );
    turns.forget();
    assert!(turns.wants_report(now, true), "perhaps somebody does");
}

#[test]
fn who_has_told_others_looks_whether_they_came_until_it_hears_that_they_did() {
    let (mut turns, now) = (Turns::default(), Instant::now());
    let told = verdict("turn:0:1:5000:2:0:0");
    let waits = verdict("turn:0:0:4000:1000000000:0:0");
    assert_eq!(
        turns.answered(waits, true, true, now, now),
        None,
        "somebody else has told them"
    );
    let held = verdict("turn:1:0:4000:1000000000:0:0");
    let late = turns.answered(held, true, true, now, now);
    assert!(
        late.is_some_and(|due| due > now + FRESH),
        "those who have told them may be gone, too: {late:?}"
    );
    let told_by_others = verdict("turn:1:0:4000:2:0:0");
    assert_eq!(
        turns.answered(told_by_others, false, false, now, now),
        None,
        "nobody of this client waits: it would look for as long as the line is stopped"
    );
    let due = turns.answered(told, true, true, now, now).expect("a look");
    assert_eq!(due, now + Duration::from_millis(5));
    assert_eq!(
        turns.answered(told, true, true, now, now + FRESH),
        None,
        "one look for all of them"
    );
    assert!(turns.is_due(due) && !turns.is_due(due));
    let due = turns.answered(told, true, true, now, now).expect("a look");
    turns.answered(kept(), true, true, now, now);
    assert!(!turns.is_due(due), "they came");
}

#[test]
fn its_place_is_taken_back_when_nobody_waits_any_more() {
    let (mut turns, now) = (Turns::default(), Instant::now());
    turns.answered(kept(), true, true, now, now);
    turns.seen(0, now);
    assert!(turns.wants_report(now, false) && turns.is_in_line());
    turns.answered(kept(), true, false, now, now);
    assert!(!turns.wants_report(now, false));
}

#[test]
fn where_no_line_may_be_kept_it_is_tried_later() {
    let (mut turns, now) = (Turns::default(), Instant::now());
    turns.seen(1, now);
    assert!(turns.wants_report(now, true));
    turns.answered(verdict("turn:off"), true, true, now, now);
    assert!(!turns.is_in_line() && !turns.are_kept(now));
    assert!(!turns.wants_report(now, true));
    assert!(turns.wants_report(now + REFUSED, true));
    let again = now + REFUSED;
    assert!(!turns.takes_part(again), "it hears nothing of it yet");
    assert!(turns.answers(again) && !turns.comes_back(now));
    assert!(turns.comes_back(again) && turns.takes_part(again));
    assert!(!turns.comes_back(again), "once");
}

#[test]
fn of_a_crowd_a_few_answer_what_is_for_all() {
    let (mut turns, now) = (Turns::default(), Instant::now());
    let times = |happens: &dyn Fn() -> bool| (0..10_000).filter(|_| happens()).count();
    turns.answered(verdict("turn:0:0:0:3:0:0"), true, true, now, now);
    assert_eq!(times(&|| turns.answers(now)), 10_000);
    turns.answered(verdict("turn:0:0:0:1000:0:0"), true, true, now, now);
    assert!((1..200).contains(&times(&|| turns.answers(now))));
    turns.comes_near();
    assert_eq!(times(&|| turns.answers(now)), 10_000, "its turn comes soon");
    turns.answered(verdict("turn:0:0:0:1000:0:0"), true, true, now, now);
    assert!(times(&|| turns.answers(now)) < 200, "others came before it");
    turns.answered(verdict("turn:0:0:0:1000:1:0"), true, true, now, now);
    assert_eq!(times(&|| turns.answers(now)), 10_000);
    let interval = Duration::from_secs(5);
    assert!((1_500..3_500).contains(&times(&|| turns.looks(interval, now))));
}

#[test]
fn who_is_called_asks_until_a_later_question_is_answered() {
    let now = Instant::now();
    let later = now + Duration::from_millis(1);
    let mut turns = Turns::default();
    turns.seen(0, later);
    assert_eq!(turns.asks_once_more(false, now), Look::Now);
    assert!(turns.wants_report(later, false), "whatever is believed");
    turns.answered(None, false, true, later, later);
    assert!(turns.is_to_ask(), "nobody has asked");
    turns.answered(None, true, true, now, later);
    assert!(!turns.is_to_ask(), "nobody is there any more");
    let look = turns.asks_once_more(true, later);
    assert_eq!(look, Look::No, "a question is under way");
    turns.answered(kept(), true, true, now, later);
    assert!(turns.is_to_ask(), "its place may have been lost since");
    turns.answered(kept(), true, true, later, later);
    assert!(!turns.is_to_ask() && turns.is_in_line());
    assert_eq!(
        turns.asks_once_more(false, later),
        Look::Now,
        "that one too"
    );
}

/// The answer to a question that was under way says that it stands in line, and not that something has become free since.
#[test]
fn what_nobody_in_line_can_use_is_asked_for_behind_the_question_under_way() {
    let now = Instant::now();
    let (heard, later) = (now + PATIENCE, now + 2 * PATIENCE);
    let mut turns = Turns::default();
    turns.answered(kept(), true, true, now, now);
    turns.comes_near();
    assert_eq!(turns.left_over(true, heard), Look::No);
    turns.answered(kept(), true, true, now, heard);
    assert!(turns.is_in_line() && turns.is_to_ask());
    turns.answered(kept(), true, true, later, later);
    assert!(!turns.is_to_ask());
}

#[test]
fn who_may_have_told_others_looks_until_nobody_is_waited_for() {
    let (mut turns, now) = (Turns::default(), Instant::now());
    turns.seen(0, now);
    assert!(!turns.wants_report(now, false));
    turns.may_have_told(now);
    assert!(turns.wants_report(now, false), "or it could not look");
    let due = turns.look_at().expect("a look");
    assert!(turns.is_due(due));
    let told_before = verdict("turn:0:0:45000:2:0:0");
    let due = turns.answered(told_before, false, false, now, now);
    assert_eq!(
        due,
        Some(now + Duration::from_millis(45)),
        "they have more time"
    );
    assert!(turns.is_due(now + Duration::from_millis(45)));
    turns.answered(kept(), false, false, now, now);
    let due = turns.answered(told_before, false, false, now, now);
    assert_eq!(due, None, "that was told by others");
}

#[test]
fn who_has_told_several_looks_until_each_has_come_or_is_out() {
    let (mut turns, now) = (Turns::default(), Instant::now());
    let told = verdict("turn:0:150000:5000:2:0:0");
    let one_is_far = verdict("turn:0:0:145000:2:0:0");
    assert_eq!(
        turns.answered(one_is_far, false, false, now, now),
        None,
        "others have told it"
    );
    let due = turns.answered(told, false, false, now, now);
    let due = due.expect("a look");
    assert!(turns.is_due(due));
    let next = turns.answered(one_is_far, false, false, due, due);
    let next = next.expect("another look");
    assert_eq!(next, due + Duration::from_millis(145));
    assert!(turns.is_due(next));
    turns.answered(kept(), false, false, next, next);
    assert_eq!(
        turns.answered(one_is_far, false, false, next, next),
        None,
        "others have told it"
    );
}

/// Whom what is free would do for may stand behind those that one script reads.
#[test]
fn a_look_goes_on_in_another_script_whatever_is_answered_meanwhile() {
    let (mut turns, now) = (Turns::default(), Instant::now());
    let of_waiters = Report::default();
    let goes_on = verdict("turn:0:1:1:300:0:256");
    let due = turns.answered(goes_on, false, false, now, now);
    let due = due.expect("a look");
    assert!(due <= now + SHORTEST_PAUSE);
    let from = turns.report(of_waiters, 2, now).from;
    assert_eq!(from, 0, "what departs before it looks at the first");
    turns.answered(kept(), true, true, now, now);
    assert!(turns.is_due(due), "nobody else does");
    assert_eq!(turns.report(of_waiters, 2, now).from, 256);
    let tells_one = verdict("turn:0:5000:1:300:0:512");
    let next = turns.answered(tells_one, false, false, due, due);
    let next = next.expect("another look");
    assert!(next <= due + SHORTEST_PAUSE, "it waits for nobody");
    assert!(turns.is_due(next));
    assert_eq!(turns.report(of_waiters, 2, now).from, 512);
    turns.answered(kept(), false, false, next, next);
    let due = due + Duration::from_millis(5);
    assert_eq!(turns.look_at(), Some(due), "it has not seen that one");
    assert!(turns.is_due(due));
    assert_eq!(turns.report(of_waiters, 2, now).from, 0);
    turns.answered(kept(), false, false, due, due);
    assert_eq!(turns.look_at(), None, "nobody is left");
    turns.may_have_told(due);
    assert!(turns.is_due(due + PATIENCE));
    assert_eq!(turns.report(of_waiters, 2, now).from, 0, "it begins anew");
}

#[test]
fn who_may_have_told_others_has_nothing_to_see_to_when_nobody_listens() {
    for alone in [None, verdict("turn:off")] {
        let (mut turns, now) = (Turns::default(), Instant::now());
        turns.may_have_told(now);
        turns.answered(alone, false, false, now, now);
        assert!(!turns.wants_report(now + REFUSED, false));
    }
}

/// What told it of its turn meanwhile was heard by nobody.
#[test]
fn who_begins_to_hear_asks_once_more_even_if_it_stands_in_line() {
    let (mut turns, asked) = (Turns::default(), Instant::now());
    turns.answered(verdict("turn:0:0:0:1:1:0"), true, true, asked, asked);
    turns.seen(1, asked);
    let moment = Duration::from_millis(1);
    let (heard, again) = (asked + moment, asked + 2 * moment);
    assert_eq!(
        turns.asks_once_more(true, heard),
        Look::No,
        "a question is on its way"
    );
    turns.answered(verdict("turn:0:0:0:1:1:0"), true, true, asked, again);
    assert!(turns.is_to_ask(), "it was sent before");
    turns.answered(None, false, true, again, again);
    assert!(turns.is_to_ask(), "that was no question");
    turns.answered(verdict("turn:0:0:0:1:1:0"), true, true, again, again);
    assert!(!turns.is_to_ask());
    assert_eq!(turns.asks_once_more(false, again), Look::Now);
    turns.answered(None, false, false, again, again);
    assert!(!turns.is_to_ask(), "nobody waits");
    turns.asks_once_more(true, again);
    turns.answered(verdict("turn:off"), true, true, asked, again);
    assert!(!turns.is_to_ask(), "no line is kept");
    turns.asks_once_more(true, again + REFUSED);
    turns.switch_off();
    assert!(!turns.is_to_ask());
}

/// No answer would ever count for it: it would ask again at once, without end.
#[test]
fn who_is_called_where_no_line_is_kept_has_nothing_to_ask_for() {
    let (mut turns, now) = (Turns::default(), Instant::now());
    turns.seen(1, now);
    turns.asks_once_more(true, now);
    turns.answered(verdict("turn:off"), true, true, now, now);
    assert!(!turns.is_to_ask(), "called before the answer");
    assert_eq!(turns.asks_once_more(false, now), Look::Now, "it looks once");
    assert!(!turns.is_to_ask(), "called behind it");
    turns.asks_once_more(true, now + REFUSED);
    assert!(turns.is_to_ask(), "it is tried again");
    turns.switch_off();
    assert!(!turns.is_to_ask());
}

#[test]
fn who_leaves_a_message_to_others_looks_later_and_once() {
    let (mut turns, now) = (Turns::default(), Instant::now());
    turns.answered(verdict("turn:0:0:0:1000000000:0:0"), true, true, now, now);
    let look = turns.message(now);
    let Look::After(pause) = look else {
        panic!("left to others: {look:?}");
    };
    assert_eq!(turns.message(now), Look::No, "it looks anyway");
    assert_eq!(turns.left_over(false, now), Look::No, "so it does for this");
    assert!(pause <= LATE * 1_000_000_000);
    turns.looks_now();
    assert!(matches!(turns.left_over(false, now), Look::After(_)));
    turns.comes_near();
    assert_eq!(turns.message(now), Look::Now);
}

#[test]
fn an_answer_that_is_older_than_a_message_is_no_answer_to_it() {
    let (mut turns, now) = (Turns::default(), Instant::now());
    let crowd = || verdict("turn:0:0:0:1000000000:0:0");
    turns.answered(crowd(), true, true, now, now);
    let (sent, heard) = (now + PATIENCE, now + 2 * PATIENCE);
    assert!(matches!(turns.message(heard), Look::After(_)));
    turns.answered(crowd(), true, true, sent, heard);
    assert!(turns.is_to_ask(), "it asks once more");
    turns.answered(crowd(), true, true, heard, heard);
    assert!(!turns.is_to_ask());
    assert!(matches!(turns.message(heard), Look::After(_)));
    turns.answered(crowd(), true, true, heard, heard);
    assert!(!turns.is_to_ask(), "that one was newer");
}

#[test]
fn what_is_known_of_others_counts_for_a_while() {
    let (mut turns, now) = (Turns::default(), Instant::now());
    turns.seen(0, now);
    assert_eq!(turns.remembers(), None, "alone");
    turns.seen(1, now);
    assert_eq!(turns.remembers(), Some(now + COMPANY));
}

#[test]
fn a_count_is_worth_less_with_each_second() {
    let (mut turns, now) = (Turns::default(), Instant::now());
    turns.answered(verdict("turn:0:0:0:1000000000:0:0"), true, true, now, now);
    let interval = Duration::from_secs(5);
    let later = now + 4 * interval;
    assert!(turns.looks(interval, later) && !turns.looks(interval, now));
    for _ in 0..100 {
        assert!(turns.late(later) <= LATE * 1_000_000_000 / 21);
    }
    // Counted anew, they are as many.
    turns.answered(
        verdict("turn:0:0:0:1000000000:0:0"),
        true,
        true,
        later,
        later,
    );
    assert!(!turns.looks(interval, later));
}

#[test]
fn switched_off_it_takes_what_it_can_get() {
    let (mut turns, now) = (Turns::default(), Instant::now());
    turns.switch_off();
    turns.seen(3, now);
    assert!(!turns.wants_report(now, true));
    assert!(turns.answers(now));
}
