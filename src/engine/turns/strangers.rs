//! JVMs and other listeners that keep no record: how they get on beside those that do.
//!
//! Who releases permits announces that with one message. So the messages that were heard and that no script of
//! ours has counted are releases of strangers, and about as many callers of theirs have had permits.

use tokio::time::Instant;

/// After this long what has happened counts half.
const HALF_LIFE: f64 = 0.5;
/// Strangers are offered permits until they have had so many times an equal share: they are slow to take them.
const ENOUGH: f64 = 1.5;

/// How strangers get on.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    /// How many there are.
    pub(super) count: u32,
    /// How many clients with a record have callers who wait.
    pub(super) clients: u32,
    /// Messages so far.
    heard: i64,
    /// What was heard, announced and granted when last looked at, and when that was.
    last: Option<(i64, i64, i64, Instant)>,
    /// How many callers of strangers, and of clients with a record, have had permits lately.
    theirs: f64,
    ours: f64,
}

impl Strangers {
    /// A message that announces permits has come.
    pub(super) fn heard(&mut self) {
        self.heard += 1;
    }

    /// Messages may have been missed.
    pub(super) fn deaf(&mut self) {
        self.last = None;
    }

    /// What the scripts have counted so far.
    pub(super) fn counted(&mut self, announced: i64, granted: i64, now: Instant) {
        let last = self.last.replace((self.heard, announced, granted, now));
        let Some((heard, announced_before, granted_before, then)) = last else {
            return;
        };
        if announced < announced_before || granted < granted_before {
            // The record has been made anew.
            return;
        }
        let fade = 0.5_f64.powf(now.saturating_duration_since(then).as_secs_f64() / HALF_LIFE);
        // Whatever stands in the hash, it is counted.
        let foreign = (self.heard - heard) as f64 - (announced as f64 - announced_before as f64);
        self.theirs = self.theirs * fade + foreign;
        self.ours = self.ours * fade + (granted as f64 - granted_before as f64);
    }

    /// How many thousandths of an equal share they are offered.
    pub(super) fn offer(&self) -> i64 {
        if self.count == 0 {
            return 0;
        }
        let theirs = self.theirs.max(0.0) / f64::from(self.count);
        let ours = self.ours.max(1.0) / f64::from(self.clients.max(1));
        // All until they have an equal share, then less and less.
        let offer = (ENOUGH - theirs / ours) / (ENOUGH - 1.0);
        (1000.0 * offer).clamp(0.0, 1000.0) as i64
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Three clients and one stranger that has `theirs` releases while ours have `ours` callers served.
    fn after(theirs: i64, ours: i64) -> Strangers {
        let start = Instant::now();
        let mut strangers = Strangers {
            count: 1,
            clients: 3,
            ..Strangers::default()
        };
        strangers.counted(7, 70, start);
        for _ in 0..theirs + 20 {
            strangers.heard();
        }
        strangers.counted(7 + 20, 70 + ours, start + Duration::from_millis(100));
        strangers
    }

    #[test]
    fn who_gets_less_than_a_share_is_offered_all_of_it() {
        assert_eq!(after(0, 300).offer(), 1000);
        assert_eq!(after(100, 300).offer(), 1000);
    }

    #[test]
    fn who_has_enough_is_offered_nothing() {
        assert_eq!(after(125, 300).offer(), 500);
        assert_eq!(after(150, 300).offer(), 0);
        assert_eq!(after(1000, 300).offer(), 0);
    }

    #[test]
    fn where_there_are_no_strangers_nothing_is_offered() {
        let mut strangers = after(0, 300);
        strangers.count = 0;
        assert_eq!(strangers.offer(), 0);
    }

    #[test]
    fn a_record_made_anew_and_missed_messages_are_no_releases() {
        let mut strangers = after(0, 300);
        let now = Instant::now() + Duration::from_secs(1);
        strangers.counted(0, 0, now);
        strangers.deaf();
        strangers.heard();
        strangers.counted(9, 0, now);
        assert!(strangers.theirs.abs() < 1e-9);
    }
}
