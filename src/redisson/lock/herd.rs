//! Which clients ask when a lock has come free: one of them can have it.
//!
//! The message reaches all who wait. With few of them all ask. Each that asks and finds the lock taken is told how many listen,
//! and asks half as often from then on, until some [`ANSWERS`] of all do. Who does not asks a while later, in case that nobody has: at a time that
//! it chooses at random, so that all together do so every [`LATE`], or not at all if another message comes before; as many as
//! have been served since it was told are not counted any more, so that the last one does not wait for a crowd that has gone. Who
//! finds the lock free then asks twice as often again: others listen, and do not want it.

use std::time::Duration;

use tokio::time::Instant;

/// Of many that wait so many ask, more or less. JVMs always do: where there are few listeners, so does everybody.
const ANSWERS: f64 = 6.0;
/// Who leaves a message to others asks within this time for each of them.
const LATE: Duration = Duration::from_millis(10);
const MOST_OTHERS: u64 = 10_000;

/// Whether this client asks, and when else.
#[derive(Debug)]
pub(super) struct Herd {
    /// How often it asks, of 1.
    chance: f64,
    /// When it asks if no message comes before.
    late: Option<Instant>,
    asks: Reason,
    /// The others leave the lock to this client.
    next: bool,
}

/// Why the question under way is asked.
#[derive(Debug, Default, PartialEq, Eq)]
enum Reason {
    #[default]
    Other,
    /// A message.
    Message,
    /// There was one, and nobody may have asked.
    Late,
}

impl Default for Herd {
    fn default() -> Self {
        Herd {
            chance: 1.0,
            late: None,
            asks: Reason::Other,
            next: false,
        }
    }
}

impl Herd {
    /// The lock has come free, and so many others listen. Nothing: this client asks now; else when it does so.
    pub(super) fn heard(&mut self, others: u64, now: Instant) -> Option<Instant> {
        let leaves_it = others > 0 && !self.next && fastrand::f64() >= self.chance;
        self.late = leaves_it.then(|| {
            let others = u32::try_from(others.min(MOST_OTHERS)).unwrap_or(u32::MAX);
            now + (LATE * others).mul_f64(fastrand::f64())
        });
        self.asks = match self.late {
            None => Reason::Message,
            Some(_) => Reason::Other,
        };
        self.late
    }

    /// Nobody of this client waits any more.
    pub(super) fn rest(&mut self) {
        self.late = None;
    }

    /// Whether it asks now, as there was none.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let due = self.late.take_if(|late| *late <= now).is_some();
        if due {
            self.asks = Reason::Late;
        }
        due
    }

    /// Others have the lock, and so many listen. Whether this client is `next`.
    pub(super) fn lost(&mut self, others: u64, next: bool) {
        self.next = next;
        if std::mem::take(&mut self.asks) == Reason::Message {
            self.chance /= 2.0;
        }
        let least = (ANSWERS / others.max(1) as f64).min(1.0);
        self.chance = self.chance.max(least);
    }

    /// This client has it.
    pub(super) fn won(&mut self) {
        self.next = false;
        if std::mem::take(&mut self.asks) == Reason::Late {
            self.chance = (2.0 * self.chance).min(1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many messages are answered at once.
    fn answers(herd: &mut Herd, others: u64) -> usize {
        let now = Instant::now();
        let asks = |_: &i32| herd.heard(others, now).is_none();
        (0..10_000).filter(asks).count()
    }

    /// Others have had the lock each time.
    fn lose(herd: &mut Herd, others: u64) {
        for _ in 0..10 {
            while herd.heard(others, Instant::now()).is_some() {}
            herd.lost(others, false);
        }
    }

    #[test]
    fn of_a_few_all_ask() {
        let mut herd = Herd::default();
        lose(&mut herd, 6);
        assert_eq!(answers(&mut herd, 6), 10_000);
    }

    #[test]
    fn of_a_crowd_a_few_ask_unless_the_others_want_nothing() {
        let (mut herd, now) = (Herd::default(), Instant::now());
        herd.lost(600, false);
        assert_eq!(answers(&mut herd, 600), 10_000, "that was no answer");
        lose(&mut herd, 600);
        assert!((20..500).contains(&answers(&mut herd, 600)));
        for _ in 0..7 {
            let late = std::iter::repeat_with(|| herd.heard(600, now)).flatten();
            let late = late.take(1).last().expect("a time");
            assert!(late <= now + 600 * LATE);
            assert!(herd.is_due(late) && !herd.is_due(late));
            herd.won();
        }
        assert_eq!(answers(&mut herd, 600), 10_000);
    }

    #[test]
    fn a_crowd_that_has_become_small_asks_more_often() {
        let mut herd = Herd::default();
        lose(&mut herd, 600);
        herd.lost(6, false);
        assert_eq!(answers(&mut herd, 6), 10_000);
    }

    #[test]
    fn the_last_of_a_crowd_asks_at_once() {
        let mut herd = Herd::default();
        lose(&mut herd, 600);
        assert!(answers(&mut herd, 1) < 500);
        assert_eq!(answers(&mut herd, 0), 10_000);
    }

    #[test]
    fn who_is_next_asks_until_it_has_been_served() {
        let mut herd = Herd::default();
        lose(&mut herd, 600);
        herd.lost(600, true);
        assert_eq!(answers(&mut herd, 600), 10_000);
        herd.won();
        assert!(answers(&mut herd, 600) < 500);
    }

    #[test]
    fn a_message_comes_before_a_late_question() {
        let (mut herd, now) = (Herd::default(), Instant::now());
        lose(&mut herd, 600);
        let late = std::iter::repeat_with(|| herd.heard(600, now)).flatten();
        let late = late.take(1).last().expect("a time");
        let later = herd.heard(600, now);
        assert_eq!(herd.late, later);
        let due = later.is_some_and(|later| later <= late);
        assert_eq!(herd.is_due(late), due);
    }
}
