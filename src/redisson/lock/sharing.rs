//! When a client that wants the lock all the time leaves it to others.
//!
//! Whoever is awake takes a lock that has come free; those who sleep until they hear of it come too late, again and
//! again. So a client that has had the lock for `local_hand_over` in all, while others listen for it, leaves it to
//! them: as many *turns* as there are others. A turn begins when the lock comes free and ends when it does so again,
//! which its message tells. When the lock stays free for [`GIVE_WAY`], it is taken again, and the next time it is left
//! free for twice as long, up to [`LONGEST_WAY`]: others may be far away. For a while, that grows each time, no more turns
//! are left to them than they took then: some who listen may not want the lock just now.
//!
//! So clients of this crate serve themselves one after the other, and JVMs among them. Who is alone never leaves the
//! lock to anybody.

use std::time::Duration;

use tokio::time::Instant;

/// How long the lock is left free for others: those who wait need a moment to wake, and a round trip.
const GIVE_WAY: Duration = Duration::from_millis(5);
/// The same when nobody was that fast the last times: a JVM may be slow to wake, and a client far away.
const LONGEST_WAY: Duration = Duration::from_millis(80);
/// So many turns are left to others at the most: one of them may take them all.
const MOST_TURNS: u64 = 16;
/// They rest for as long as so many others have had it at the most.
const MOST_RESTS: u32 = 8;
/// What nobody has taken is left to nobody for up to 2^6 times as long as it was left free in vain.
const MOST_DOUBLINGS: u32 = 6;

/// How a client shares a lock with others.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    /// How many other clients listen for the lock, as far as is known.
    others: u64,
    /// How often others have been heard to give it back since that was learned.
    served: u64,
    /// Since when the lock has been this client's, and for how long it had been so before, since others last had turns.
    kept_since: Option<Instant>,
    kept: Duration,
    /// When this client left it free, if nobody has been seen to have it since.
    freed: Option<Instant>,
    /// This many messages of its own the client has not heard yet.
    echoes: u32,
    /// How many turns others have before this client's next one.
    owed: u64,
    /// How many there were to be, and how many they have had since this client's last one.
    offered: u64,
    taken: u64,
    /// And where there are several, others are to have had it until then: each about as long as this client, which is not
    /// told how many turns of one of them follow each other.
    rests_until: Option<Instant>,
    /// The lock is left free until then.
    until: Option<Instant>,
    /// How often the time for that is to be doubled.
    slowness: u32,
    /// How often it was left free in vain, without others having taken all of their turns in between.
    declined: u32,
    /// Until then others are left no more turns than they `wanted` the last time.
    shy_until: Option<Instant>,
    wanted: u64,
}

impl Sharing {
    /// So many other clients listen.
    pub(super) fn told(&mut self, others: u64) {
        self.others = others;
        self.served = 0;
    }

    /// How many did the last time that it was learned.
    pub(super) fn others(&self) -> u64 {
        self.others
    }

    /// How many of them are left, if nobody has come since: each time that the lock comes free somebody has been served,
    /// before the first time one who did not wait any more.
    pub(super) fn others_left(&self) -> u64 {
        self.others.saturating_sub(self.served.saturating_sub(1))
    }

    /// How many turns are due to others now.
    fn due(&self, now: Instant, window: Duration) -> u64 {
        let others = self.others.min(MOST_TURNS);
        if self.owed > 0 {
            return self.owed.min(others);
        }
        if self.kept_by(now) < window {
            return 0;
        }
        match self.shy_until {
            Some(until) if now < until => self.wanted.min(others),
            _ => others,
        }
    }

    /// For how long this client has had the lock.
    fn kept_by(&self, now: Instant) -> Duration {
        let since = self.kept_since.unwrap_or(now);
        self.kept + now.saturating_duration_since(since)
    }

    /// How long the lock is left free now.
    fn way(&self) -> Duration {
        GIVE_WAY.saturating_mul(1 << self.slowness).min(LONGEST_WAY)
    }

    /// The lock is about to be given back: may somebody of this client take it in the same step?
    pub(super) fn may_keep(&self, now: Instant, window: Duration) -> bool {
        !window.is_zero() && self.due(now, window) == 0
    }

    /// Until when nobody of this client asks for the lock.
    pub(super) fn gives_way(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| now < *until)
    }

    /// The lock is about to be given back, and this client hears of it itself.
    pub(super) fn expect_echo(&mut self) {
        self.echoes += 1;
    }

    /// It has not come free after all.
    pub(super) fn no_echo(&mut self) {
        self.echoes = self.echoes.saturating_sub(1);
    }

    /// The channel is not heard any more, or is again.
    pub(super) fn forget_echoes(&mut self) {
        self.echoes = 0;
    }

    /// This client has given the lock back, and left it free.
    pub(super) fn freed(&mut self, now: Instant, window: Duration) {
        self.freed = Some(now);
        self.kept = self.kept_by(now);
        self.kept_since = None;
        let due = self.due(now, window);
        if due == 0 {
            return;
        }
        if self.owed == 0 {
            self.taken = 0;
        }
        self.owed = due;
        let each = std::mem::take(&mut self.kept).min(LONGEST_WAY);
        let all = u32::try_from(due - 1).unwrap_or(u32::MAX).min(MOST_RESTS);
        self.offered = due;
        self.rests_until = Some(now + all * each);
        self.until = Some(now + self.way());
    }

    /// A message says that the lock has come free.
    pub(super) fn heard(&mut self, now: Instant) {
        if self.echoes > 0 {
            self.echoes -= 1;
            return;
        }
        self.served = self.served.saturating_add(1);
        if self.owed == 0 {
            return;
        }
        self.taken += 1;
        let rests = self.rests_until.is_some_and(|until| now < until);
        if self.owed > 1 || rests {
            self.owed = (self.owed - 1).max(1);
            self.until = Some(now + self.way());
            return;
        }
        self.owed = 0;
        self.until = None;
        if self.taken >= self.others.min(MOST_TURNS) {
            self.declined = 0;
            self.shy_until = None;
            self.slowness = self.slowness.saturating_sub(1);
        }
    }

    /// Somebody else has the lock.
    pub(super) fn others_have_it(&mut self) {
        self.kept_since = None;
        self.freed = None;
        self.until = None;
    }

    /// Somebody of this client wants the lock, and nobody did before.
    pub(super) fn wanted_again(&mut self, now: Instant) {
        let long_ago = |freed: Instant| now > freed + 2 * self.way();
        if self.freed.is_some_and(long_ago) {
            self.kept_since = None;
            self.kept = Duration::ZERO;
        }
        if self.until.is_some_and(|until| until <= now) {
            self.until = None;
            self.owed = 0;
        }
    }

    /// Somebody of this client has got the lock.
    pub(super) fn granted(&mut self, now: Instant, window: Duration) {
        self.freed = None;
        self.kept_since.get_or_insert(now);
        match self.until.take() {
            // By a call that does not wait: the others still have their turns before them.
            Some(until) if now < until => {}
            // Each has had a turn, and nobody wants it for longer.
            Some(_) if self.taken >= self.offered => self.owed = 0,
            Some(_) if self.owed > 0 => {
                self.owed = 0;
                self.wanted = self.taken;
                self.declined = (self.declined + 1).min(MOST_DOUBLINGS);
                let shy = window.max(self.way()).saturating_mul(1 << self.declined);
                self.shy_until = now.checked_add(shy);
                if self.way() < LONGEST_WAY {
                    self.slowness += 1;
                }
            }
            _ => self.owed = 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_millis(5);

    /// A client beside so many others, and its clock.
    struct Client {
        sharing: Sharing,
        now: Instant,
    }

    impl Client {
        fn beside(others: u64) -> Self {
            let mut sharing = Sharing::default();
            sharing.told(others);
            Client {
                sharing,
                now: Instant::now(),
            }
        }

        fn pass(&mut self, millis: u64) {
            self.now += Duration::from_millis(millis);
        }

        /// Takes the lock, holds it, and gives it back; whether it is left to others then.
        fn turn(&mut self, hold: u64) -> bool {
            self.sharing.wanted_again(self.now);
            self.sharing.granted(self.now, WINDOW);
            self.pass(hold);
            self.sharing.freed(self.now, WINDOW);
            self.gives_way()
        }

        fn gives_way(&self) -> bool {
            self.sharing.gives_way(self.now).is_some()
        }

        /// Waits until it may ask, and gets the lock, as nobody else has taken it; how long that took.
        fn wait_in_vain(&mut self) -> Duration {
            let before = self.now;
            self.now = self.sharing.until.expect("it gives way");
            self.sharing.granted(self.now, WINDOW);
            self.now - before
        }
    }

    #[test]
    fn alone_it_never_gives_way() {
        let mut client = Client::beside(0);
        for _ in 0..100 {
            assert!(!client.turn(3));
            assert!(client.sharing.may_keep(client.now, WINDOW));
        }
    }

    #[test]
    fn beside_others_it_gives_way_after_its_time_until_each_has_had_a_turn() {
        let mut client = Client::beside(2);
        assert!(!client.turn(3), "its time is not over");
        assert!(client.turn(3));
        assert!(!client.sharing.may_keep(client.now, WINDOW));
        client.pass(1);
        client.sharing.heard(client.now);
        assert!(client.gives_way(), "the second one's turn");
        client.sharing.others_have_it();
        client.pass(30);
        client.sharing.heard(client.now);
        assert!(!client.gives_way());
        assert!(!client.turn(3), "a time of its own again");
    }

    #[test]
    fn two_that_take_it_from_each_other_leave_it_to_a_third_one() {
        let mut client = Client::beside(2);
        let turns = (1..).find(|_| {
            let gives_way = client.turn(1);
            client.pass(1);
            client.sharing.others_have_it();
            gives_way
        });
        assert!(turns.is_some_and(|turns| turns <= 5), "{turns:?}");
    }

    #[test]
    fn who_is_far_away_has_turns_too() {
        let mut client = Client::beside(1);
        let mut taken = 0;
        // The lock comes free again 30 ms after it was left free, and the far one has it for 5.
        while client.now < Instant::now() + Duration::from_secs(10) {
            if !client.turn(2) {
                continue;
            }
            let until = client.sharing.until.expect("it gives way");
            if until < client.now + Duration::from_millis(30) {
                client.wait_in_vain();
            } else {
                client.pass(35);
                client.sharing.others_have_it();
                client.sharing.heard(client.now);
                taken += 1;
            }
        }
        assert!(taken >= 40, "{taken} turns in ten seconds");
    }

    #[test]
    fn its_own_message_is_nobodys_turn() {
        let mut client = Client::beside(1);
        client.sharing.expect_echo();
        assert!(client.turn(6));
        client.sharing.heard(client.now);
        assert!(client.gives_way());
        client.sharing.heard(client.now);
        assert!(!client.gives_way());
    }

    #[test]
    fn what_nobody_takes_is_offered_less_and_less_often() {
        let mut client = Client::beside(1);
        let mut offers = 0;
        assert!(client.turn(6));
        let mut way = GIVE_WAY;
        assert_eq!(client.wait_in_vain(), way);
        for _ in 0..20_000 {
            client.pass(1);
            client.sharing.freed(client.now, WINDOW);
            if client.gives_way() {
                way = (2 * way).min(LONGEST_WAY);
                assert_eq!(client.wait_in_vain(), way);
                offers += 1;
            } else {
                client.sharing.granted(client.now, WINDOW);
            }
        }
        assert!((6..=10).contains(&offers), "{offers} offers");
        // Somebody takes one at last.
        client.pass(6000);
        client.sharing.freed(client.now, WINDOW);
        client.sharing.heard(client.now);
        assert!(client.turn(6));
    }

    #[test]
    fn who_only_listens_costs_nothing_more_after_a_while() {
        // One of two wants the lock.
        let mut client = Client::beside(2);
        let mut in_vain = 0;
        for _ in 0..200 {
            if client.turn(6) {
                client.sharing.heard(client.now);
                if client.gives_way() {
                    client.wait_in_vain();
                    client.pass(1);
                    client.sharing.freed(client.now, WINDOW);
                    in_vain += 1;
                }
            }
        }
        assert!((1..=12).contains(&in_vain), "{in_vain} times in vain");
    }

    #[test]
    fn who_comes_back_later_has_its_whole_time() {
        let mut client = Client::beside(1);
        assert!(!client.turn(3));
        client.pass(100);
        assert!(!client.turn(3));
    }

    #[test]
    fn a_crowd_of_which_nobody_comes_back_shrinks_with_each_that_is_served() {
        let mut client = Client::beside(80);
        let mut serve = |times| {
            for _ in 0..times {
                client.sharing.heard(client.now);
            }
            client.sharing.others_left()
        };
        assert_eq!(serve(1), 80, "who had it did not wait any more");
        assert_eq!(serve(60), 20);
        assert_eq!(serve(60), 0);
        client.sharing.told(7);
        assert_eq!(client.sharing.others_left(), 7);
    }

    #[test]
    fn a_call_that_does_not_wait_ends_nobodys_turn() {
        let mut client = Client::beside(1);
        assert!(client.turn(6));
        client.pass(1);
        client.sharing.granted(client.now, WINDOW);
        client.pass(1);
        client.sharing.freed(client.now, WINDOW);
        assert!(client.gives_way());
    }
}
