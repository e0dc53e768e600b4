//! Turns between processes: first come, first served, to within a few milliseconds.
//!
//! # The rule
//!
//! *A caller may take its permits if what is left will do for all callers elsewhere who came clearly before it*:
//! more than 5 ms and a tenth of its own wait earlier. That holds between the clients of one semaphore, as long as
//! more than one listens. Within a client callers are served in the order of their arrival, as ever; the
//! allowance lets a client hand a permit on within its process instead of passing it round for every caller. It
//! does so for 20 ms (four times `local_hand_over`) after it last asked, and asks early enough to go on, with a look
//! at the others' records.
//!
//! Nothing is kept for ever. Permits that have been free for 5 ms, while callers whom they would fit were held
//! back, are *free for all*; those for whom they were kept are skipped for 20 ms and a quarter of their wait, or
//! until they come, and then as long as there is not enough for the first of them. So a client that is frozen or dead,
//! or a record that nobody knows, costs a few milliseconds now and then, for ten seconds at the most; a client whose
//! last caller gives up takes its record back at once. A large request is waited for in the same way: for 5 ms
//! small ones leave it what comes free, then they pass.
//!
//! *Strangers*, listeners without a record (JVMs), are given an equal share. When `n` callers have got permits in `m`
//! clients, each stranger has `n / m` permits to its credit; so many are kept free, and 5 ms later (10 ms where the
//! stranger has missed three or more), if they have not been taken, they are free for all, and the stranger gets half
//! the credit from then on (all of it again as soon as it takes some). A stranger that has had more than its share
//! all the same, as [`strangers`] finds by counting messages, gets no credit, and permits are handed over within
//! processes as if it were not there.
//!
//! Who only tries (`try_acquire`) takes what is free.
//!
//! # The record
//!
//! A hash beside the semaphore, `redisson_sc_turns:{name}` (`redisson_sc_turns::name` where the name has braces of
//! its own), written by `lua/semaphore/turns.lua` where others listen, and only then. It vanishes 10 s after its last
//! use, and 1.5 s after the last caller who waited. A client none of whose callers wait, and that has seen within the
//! last second that no stranger listens, leaves it alone: its releases need no count. Times are microseconds since
//! 1970 by the server's clock. Clients' records are binary, since a script may have to read hundreds of them.
//!
//! | field | value | form |
//! |---|---|---|
//! | a client's id (36 bytes) | when its first caller in line came; when its last one came; how many permits all of them want, 0 where nobody waits any more; when this was written; how many the first one wants, 0 if it has not come since it was last skipped; until when it is skipped, or 0 | 48 bytes: six unsigned integers of 64 bits, the most significant byte first |
//! | `*` | since when permits are free while callers are held back, or 0; the counter behind the last script; what is to the strangers' credit; how much of it they are given (0.0313 to 1); how many messages have announced permits; how many callers have had permits | decimal ASCII with one space between the numbers: `^\d+ -?\d+ \d+\.\d+ \d+\.\d+ \d+ \d+$` |
//!
//! Callers between the first and the last are taken to have come evenly. A client's field counts for 10 s from
//! when it was written. What is not in this form counts as missing. Deleting it costs the order of a few callers;
//! permits and answers do not depend on it: once-only execution has a key of its own ([`once`](super::once)).
//! Where the server does not let it be written, or expire, there is none, and callers take what is free; once a second
//! that is tried again. A hash of more than 1,000 fields is begun anew, since reading it would hold the server up.
//!
//! | File | What it holds |
//! |---|---|
//! | `mod.rs` | what a client knows of the others, and what that allows it |
//! | `report.rs` | what travels with a batch, and what comes back |
//! | `strangers.rs` | how listeners without a record get on |

mod report;
mod strangers;

use std::time::Duration;

use tokio::time::Instant;

pub(crate) use report::{Report, Verdict};
use strangers::Strangers;

/// What a client knows of others is believed for this long while its callers wait.
const FRESH: Duration = Duration::from_millis(20);
/// That all others who listen keep records is believed for this long, by clients none of whose callers wait.
const KNOWN: Duration = Duration::from_secs(1);

/// Whose turn it is, as far as this process knows.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    off: bool,
    /// The server has refused the record: none is kept until then.
    refused_until: Option<Instant>,
    others: u64,
    /// When `others` was learned.
    learned: Option<Instant>,
    /// The record in Redis says that callers of this client wait.
    on_record: bool,
    strangers: Strangers,
    /// So many others listened when there was no stranger among them, and when that was.
    no_strangers: Option<(u64, Instant)>,
    /// How many callers were served without Redis since the last report.
    handed_over: i64,
    /// Callers who came before this may be served within the process.
    keep_before: Option<Instant>,
    /// Until then what is free is kept for others.
    held_until: Option<Instant>,
}

impl Turns {
    /// From now on this client takes what it can get.
    pub(crate) fn switch_off(&mut self) {
        self.off = true;
    }

    /// Whether the next batch carries a report. `waiting`: callers wait; `answered`: the server has said so to some.
    pub(crate) fn wants_report(&self, now: Instant, waiting: bool, answered: bool) -> bool {
        if self.off || self.refused_until.is_some_and(|until| now < until) {
            return false;
        }
        let within = |at: Instant, time: Duration| now.saturating_duration_since(at) < time;
        let fresh = |at: Instant| within(at, FRESH);
        // What is released is counted for the sake of strangers.
        let uncounted = |(others, at)| others == self.others && within(at, KNOWN);
        self.on_record
            || answered && !self.learned.is_some_and(fresh)
            || self.others > 0 && (waiting || !self.no_strangers.is_some_and(uncounted))
    }

    /// Whether the rule is to be kept.
    pub(crate) fn others_listen(&self) -> bool {
        !self.off && self.others > 0
    }

    /// Whether a release may serve callers of this process without Redis, the first of whom came at `came`
    /// and can be served by it, or not.
    pub(crate) fn may_keep(&self, came: Instant, fits: bool) -> bool {
        if self.off || self.others == 0 {
            return true;
        }
        fits && self.strangers.offer() == 0 && self.keep_before.is_some_and(|before| came <= before)
    }

    /// A message that announces permits has come.
    pub(crate) fn heard(&mut self) {
        self.strangers.heard();
    }

    /// Messages may have been missed.
    pub(crate) fn deaf(&mut self) {
        self.strangers.deaf();
    }

    /// Callers have been served without Redis.
    pub(crate) fn handed_over(&mut self, callers: usize) {
        if self.others_listen() {
            self.handed_over += i64::try_from(callers).unwrap_or(0);
        }
    }

    /// Whether the record says that callers of this client wait.
    pub(crate) fn is_on_record(&self) -> bool {
        self.on_record && !self.off
    }

    /// Completes what a batch reports; `own`: how many of the listeners are this client.
    pub(crate) fn report(&mut self, of_line: Report, own: u64) -> Report {
        // Taken back with it; if that fails, it is not tried again: the record will not be believed for long.
        self.on_record &= of_line.want > 0;
        Report {
            own,
            offer: self.strangers.offer(),
            handed_over: std::mem::take(&mut self.handed_over),
            ..of_line
        }
    }

    /// Whether the pause that ends at `instant` still holds: no answer has come since.
    pub(crate) fn is_held_until(&self, instant: Instant) -> bool {
        self.held_until == Some(instant)
    }

    /// Whether callers of this process are held back while permits are free.
    pub(crate) fn is_held(&self, now: Instant) -> bool {
        self.held_until.is_some_and(|until| now < until)
    }

    /// How many other listeners a batch has seen.
    pub(crate) fn seen(&mut self, others: u64, now: Instant) {
        self.others = others;
        self.learned = Some(now);
    }

    /// The server's answer to a batch with a report, sent at `sent`, in which callers who wait have `asked` or not,
    /// and that leaves some of those `waiting` who were reported, or none. Says when those who were held back
    /// should look again.
    pub(crate) fn answered(
        &mut self,
        verdict: Option<Verdict>,
        asked: bool,
        waiting: bool,
        sent: Instant,
        now: Instant,
    ) -> Option<Instant> {
        self.on_record = verdict.is_some() && waiting;
        if asked {
            self.held_until = None;
        }
        let verdict = verdict?;
        if verdict.off {
            self.refused_until = Some(now + KNOWN);
            self.on_record = false;
        }
        if let Some(seen) = verdict.seen {
            let distance = Duration::from_micros(seen.keep.unsigned_abs());
            self.keep_before = if seen.keep < 0 {
                sent.checked_add(distance)
            } else {
                sent.checked_sub(distance)
            };
            (self.strangers.count, self.strangers.clients) = (seen.strangers, seen.clients);
            self.no_strangers = (seen.strangers == 0).then_some((self.others, now));
        }
        self.strangers
            .counted(verdict.announced, verdict.granted, now);
        let until = now + verdict.pause?;
        Some(*self.held_until.insert(until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(keep: i64, strangers: u32) -> Option<Verdict> {
        Verdict::read(&format!("turn:0:{keep}:{strangers}:2:0:0"))
    }

    #[test]
    fn alone_nothing_is_reported_and_all_is_kept() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        assert!(
            !turns.wants_report(now, false, false),
            "a caller who has not been told to wait"
        );
        assert!(
            turns.wants_report(now, true, true),
            "does anybody else listen?"
        );
        turns.seen(0, now);
        assert!(!turns.wants_report(now, true, true));
        assert!(
            turns.wants_report(now + FRESH, true, true),
            "does anybody by now?"
        );
        assert!(turns.may_keep(now, false));
    }

    #[test]
    fn beside_others_callers_are_served_within_the_process_until_theirs_are_older() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        turns.seen(1, now);
        assert!(turns.wants_report(now, false, false));
        assert!(
            !turns.may_keep(now, true),
            "nothing is known of the others yet"
        );
        let sent = now + Duration::from_secs(1);
        turns.answered(verdict(30_000, 0), true, true, sent, sent);
        assert!(turns.may_keep(sent - Duration::from_millis(30), true));
        assert!(!turns.may_keep(sent - Duration::from_millis(29), true));
        assert!(
            !turns.may_keep(sent - Duration::from_millis(30), false),
            "a large one is not passed"
        );
        turns.answered(verdict(-5_000, 0), true, true, sent, sent);
        assert!(turns.may_keep(sent + Duration::from_millis(5), true));
    }

    #[test]
    fn beside_strangers_who_wait_for_their_share_nothing_is_kept() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        turns.seen(1, now);
        turns.answered(verdict(-5_000, 1), true, true, now, now);
        assert!(!turns.may_keep(now, true));
    }

    #[test]
    fn whose_callers_do_not_wait_reports_for_the_sake_of_strangers_only() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        turns.seen(1, now);
        assert!(
            turns.wants_report(now, false, false),
            "one of ours, or not?"
        );
        turns.answered(verdict(0, 0), true, false, now, now);
        assert!(!turns.wants_report(now, false, false));
        assert!(turns.wants_report(now, true, false));
        assert!(turns.wants_report(now + KNOWN, false, false));
        turns.seen(2, now);
        assert!(
            turns.wants_report(now, false, false),
            "who is the other one?"
        );
        turns.answered(verdict(0, 1), true, false, now, now);
        assert!(turns.wants_report(now, false, false));
    }

    #[test]
    fn who_is_held_back_looks_again_unless_an_answer_comes_before() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        let held = Verdict::read("turn:5000:0:0:2:0:0");
        let until = turns.answered(held, true, true, now, now).expect("a pause");
        assert_eq!(until, now + Duration::from_millis(5));
        assert!(turns.is_held(now) && turns.is_held_until(until));
        assert_eq!(turns.answered(verdict(0, 0), false, true, now, now), None);
        assert!(
            turns.is_held_until(until),
            "others of this process have asked for something else"
        );
        assert_eq!(turns.answered(verdict(0, 0), true, true, now, now), None);
        assert!(!turns.is_held(now) && !turns.is_held_until(until));
    }

    #[test]
    fn the_record_is_taken_back_when_nobody_waits_any_more() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        turns.answered(verdict(0, 0), true, true, now, now);
        turns.seen(0, now);
        assert!(turns.wants_report(now, false, false));
        turns.answered(verdict(0, 0), true, false, now, now);
        assert!(!turns.wants_report(now, false, false));
    }

    #[test]
    fn where_no_record_may_be_kept_nobody_is_held_back_and_it_is_tried_later() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        turns.seen(1, now);
        assert!(turns.wants_report(now, true, true));
        let until = turns.answered(Verdict::read("turn:off"), true, true, now, now);
        assert_eq!(until, Some(now), "they look again at once");
        assert!(!turns.is_on_record() && !turns.is_held(now));
        assert!(!turns.wants_report(now, true, true));
        assert!(turns.wants_report(now + KNOWN, true, true));
    }

    #[test]
    fn switched_off_it_takes_what_it_can_get() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        turns.switch_off();
        turns.seen(3, now);
        assert!(!turns.wants_report(now, true, true));
        assert!(turns.may_keep(now, false));
    }

    proptest::proptest! {
        #[test]
        fn any_words_are_read(words in proptest::collection::vec(crate::any_value::text(), 1..6)) {
            let (mut turns, now) = (Turns::default(), Instant::now());
            turns.seen(3, now);
            for word in words {
                let verdict = Verdict::read(&String::from_utf8_lossy(&word));
                if let Some(until) = turns.answered(verdict, true, true, now, now) {
                    assert!(until <= now + Duration::from_secs(1));
                }
                turns.may_keep(now, true);
                let offer = turns.strangers.offer();
                assert!((0..=1000).contains(&offer), "{offer}");
                turns.heard();
            }
        }
    }
}
