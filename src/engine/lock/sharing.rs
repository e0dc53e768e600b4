//! When a client that wants the lock all the time leaves it to others.
//!
//! Whoever is awake takes a lock that has come free; those who sleep until they hear of it come too late, again and
//! again. So a client to which the lock has come back for `local_hand_over`, while others listen for it, leaves it to
//! them: as many *turns* as there are others. A turn begins when the lock comes free and ends when it does so again,
//! which its message tells. If nobody has taken it for [`GIVE_WAY`], the others' turns are over. They are offered fewer
//! then, as many as were taken, for a while that grows each time: some who listen may not want it just now.
//!
//! Clients of this crate that all want the lock serve themselves in a circle so, with JVMs in it. Who is alone never
//! leaves the lock to anybody.

use std::time::Duration;

use tokio::time::Instant;

/// How long the lock is left free for others: those who wait need a moment to wake and a round trip.
const GIVE_WAY: Duration = Duration::from_millis(5);
/// The same where nobody was that fast the last time: a JVM may be slow to wake.
const GIVE_WAY_TO_THE_SLOW: Duration = Duration::from_millis(10);
/// What is not taken is not offered for up to 2^6 times as long as the lock stays here at a time.
const MOST_DOUBLINGS: u32 = 6;

/// How a client shares the lock with others.
#[derive(Default, Debug)]
pub(super) struct Sharing {
    /// How many other clients listen for the lock, as far as is known.
    others: u64,
    /// Since when the lock has been this client's again and again.
    kept_since: Option<Instant>,
    /// When this client last left it free.
    freed: Option<Instant>,
    /// Messages of this client's own that it is going to hear.
    echoes: u32,
    /// How many turns others have before this client's next one.
    owed: u64,
    /// How many they have had since this client's last one.
    taken: u64,
    /// The lock is left free until then.
    until: Option<Instant>,
    /// How often turns were left over, without all having been taken in between.
    declined: u32,
    /// No more turns than were taken the last time are offered until then.
    shy_until: Option<Instant>,
    wanted: u64,
}

impl Sharing {
    /// As many listen for the lock, this client itself left out.
    pub(super) fn told(&mut self, others: u64) {
        self.others = others;
    }

    /// How many turns are to be left to others now.
    fn due(&self, now: Instant, window: Duration) -> u64 {
        if self.owed > 0 {
            return self.owed.min(self.others);
        }
        let since = self.kept_since.unwrap_or(now);
        if now.saturating_duration_since(since) < window {
            return 0;
        }
        match self.shy_until {
            Some(until) if now < until => self.others.min(self.wanted),
            _ => self.others,
        }
    }

    /// The lock is about to be given back: may somebody of this client take it in the same step?
    pub(super) fn may_keep(&self, now: Instant, window: Duration) -> bool {
        !window.is_zero() && self.due(now, window) == 0
    }

    /// Until when those who wait here do not ask.
    pub(super) fn gives_way(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| now < *until)
    }

    /// The lock is about to be given back to whoever comes first, which this client is going to hear.
    pub(super) fn expect_echo(&mut self) {
        self.echoes += 1;
    }

    /// It was not given back, or to somebody of this client.
    pub(super) fn no_echo(&mut self) {
        self.echoes = self.echoes.saturating_sub(1);
    }

    /// The channel is heard anew, or not any more.
    pub(super) fn forget_echoes(&mut self) {
        self.echoes = 0;
    }

    /// This client has given the lock back, and nobody here has it.
    pub(super) fn freed(&mut self, now: Instant, window: Duration) {
        self.freed = Some(now);
        let due = self.due(now, window);
        if due > 0 {
            if self.owed == 0 {
                self.taken = 0;
            }
            self.owed = due;
            self.kept_since = None;
            self.leave(now);
        }
    }

    fn leave(&mut self, now: Instant) {
        self.until = Some(match self.declined {
            0 => now + GIVE_WAY,
            _ => now + GIVE_WAY_TO_THE_SLOW,
        });
    }

    /// A message says that the lock has come free.
    pub(super) fn heard(&mut self, now: Instant) {
        if self.echoes > 0 {
            self.echoes -= 1;
        } else if self.owed > 0 {
            self.owed -= 1;
            self.taken += 1;
            self.until = None;
            if self.owed > 0 {
                self.leave(now);
            } else if self.taken >= self.others {
                self.declined = 0;
                self.shy_until = None;
            }
        }
    }

    /// Somebody else has the lock.
    pub(super) fn others_have_it(&mut self) {
        self.kept_since = None;
        self.until = None;
    }

    /// Somebody here wants the lock, and nobody did before.
    pub(super) fn wanted_again(&mut self, now: Instant) {
        if self
            .freed
            .is_some_and(|freed| now > freed + GIVE_WAY_TO_THE_SLOW)
        {
            self.kept_since = None;
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
            Some(_) if self.owed > 0 => {
                self.owed = 0;
                self.wanted = self.taken;
                self.declined = (self.declined + 1).min(MOST_DOUBLINGS);
                let shy = window
                    .max(GIVE_WAY)
                    .saturating_mul(2_u32.pow(self.declined));
                self.shy_until = now.checked_add(shy);
            }
            _ => self.owed = 0,
        }
    }
}
