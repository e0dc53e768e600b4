//! Giving way to other processes.
//!
//! A process whose releases serve its own waiters in the same script would keep the permits for ever.
//! So, as long as others listen on the semaphore's channel, it does that for [`KEEP`] at a time; then its
//! waiters stand back for [`GIVE_WAY`], while what it releases is announced and free for the others.

use std::time::Duration;

use tokio::time::Instant;

/// How long permits may go round within the process while others wait.
const KEEP: Duration = Duration::from_millis(5);
/// How long the process's waiters stand back after that.
const GIVE_WAY: Duration = Duration::from_millis(2);

/// Whose turn it is, as far as this process knows.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    others_listen: bool,
    kept_since: Option<Instant>,
    standing_back_until: Option<Instant>,
}

impl Turns {
    /// Whether waiters may ask for permits now.
    pub(crate) fn may_claim(&self, now: Instant) -> bool {
        self.standing_back_until.is_none_or(|until| now >= until)
    }

    /// A batch with releases is about to leave while callers wait; says until when they stand back, if
    /// that begins now.
    pub(crate) fn releasing(&mut self, now: Instant) -> Option<Instant> {
        if !self.others_listen || !self.may_claim(now) {
            return None;
        }
        let since = *self.kept_since.get_or_insert(now);
        if now.saturating_duration_since(since) < KEEP {
            return None;
        }
        self.kept_since = None;
        self.standing_back_until = Some(now + GIVE_WAY);
        self.standing_back_until
    }

    /// Whether a release may serve a waiter of this process without Redis.
    pub(crate) fn may_keep(&mut self, now: Instant) -> bool {
        if !self.others_listen {
            return true;
        }
        let since = *self.kept_since.get_or_insert(now);
        self.may_claim(now) && now.saturating_duration_since(since) < KEEP
    }

    /// How many other listeners a batch has seen.
    pub(crate) fn seen(&mut self, others: u64) {
        self.others_listen = others > 0;
        if others == 0 {
            self.kept_since = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_gives_way_to_nobody() {
        let mut turns = Turns::default();
        let now = Instant::now();
        assert_eq!(turns.releasing(now), None);
        assert_eq!(turns.releasing(now + KEEP * 10), None);
        assert!(turns.may_claim(now + KEEP * 10));
    }

    #[test]
    fn with_others_keeping_and_standing_back_take_turns() {
        let mut turns = Turns::default();
        let start = Instant::now();
        turns.seen(1);
        assert_eq!(turns.releasing(start), None);
        let over = start + KEEP;
        let back = turns.releasing(over).expect("the time to keep is over");
        assert!(!turns.may_claim(over));
        assert!(turns.may_claim(back));
        assert_eq!(turns.releasing(back), None, "a new turn begins");
        assert!(turns.releasing(back + KEEP).is_some());
    }
}
