//! The effect of messages, and of their loss.

use std::time::Duration;

use tokio::time::Instant;

use super::entries::{Entry, MOST};
use super::outcome::{Taken, Ticket, Want};
use super::primitive::{Held, Primitive};
use super::state::State;
use super::waiters::Id;

/// A grant that a guard uses already is confirmed after so long, or with the next batch.
pub(super) const CONFIRM_AFTER: Duration = Duration::from_millis(100);
impl<P: Primitive> State<P> {
    /// A notification to this client.
    pub(super) fn notified(&mut self, message: &str, now: Instant) {
        let mut words = message.split_ascii_whitespace();
        match words.next() {
            Some("grant") => {
                let ticket = words.next().and_then(|word| word.get(1..)?.parse().ok());
                let mut number = || words.next().and_then(|word| word.parse().ok());
                if let Some((ticket, clock)) = ticket.zip(number()) {
                    let token = number().unwrap_or(0);
                    self.grant(ticket, Some((clock, token)), now);
                }
            }
            // It asks anew, and gets the reason.
            Some("none") => {
                let ticket = words.next().and_then(|word| word.get(1..)?.parse().ok());
                if let Some(ticket) = ticket
                    && self.entries.remove(ticket).is_none()
                    && self.under_way.is_some()
                {
                    // The batch may have made the entry.
                    self.early.push(ticket);
                }
            }
            Some("watch") if !self.waiters.is_empty() => {
                self.listens_to_jvms = true;
                // The answer of a batch under way may know of another one.
                self.serve = true;
            }
            Some("watch") => self.unwatch = true,
            // The answer to the batch may know less.
            Some("first") if self.under_way.is_some() => self.serve = true,
            Some("first") => {
                let micros = words.next().and_then(|word| word.parse().ok());
                self.check_as_first(micros.map(Duration::from_micros), now);
            }
            // "gone", or that a latch has changed.
            _ => self.may_have_missed(),
        }
    }

    /// `ticket` was granted. `made`: when, by the server's clock, and its token; without these the grant is confirmed before it is used.
    pub(super) fn grant(&mut self, ticket: Ticket, made: Option<(u64, u64)>, now: Instant) {
        if self.leaving.iter().any(|(other, _)| *other == ticket) {
            // Others wait for it.
            self.serve = true;
            return;
        }
        let under_way = self.under_way.as_ref();
        let touched = |entry: &Entry<P::Want>| {
            under_way.is_some_and(|under_way| under_way.batch.touches(ticket, entry.want))
        };
        let entry = self.entries.get(ticket).filter(|entry| !touched(entry));
        let Some(entry) = entry.copied() else {
            match under_way {
                Some(_) => self.early.push(ticket),
                None => self.may_have_missed(),
            }
            self.early.truncate(2 * MOST);
            return;
        };
        let fresh =
            made.and_then(|(clock, token)| Some((self.fresh_until(clock, &entry)?, clock, token)));
        if let Some((until, clock, token)) = fresh.filter(|_| entry.want.is_used_at_once())
            && let Some(waiter) = self.waiters.take(entry.want, Id::MAX)
        {
            self.entries.remove(ticket);
            let count = entry.want.count_of_grant();
            let taken = Taken { token, count };
            self.answer_waiter(ticket, &entry, taken, waiter, until);
            let ends = clock.saturating_add(entry.life.saturating_mul(1000));
            self.unconfirmed.insert(ticket, (entry, ends));
            self.confirm_at.get_or_insert(now + CONFIRM_AFTER);
        } else if !self.granted.contains(&ticket) {
            self.granted.push(ticket);
        }
    }

    /// A JVM has released.
    pub(super) fn jvm_released(&mut self) {
        self.heard = self.heard.saturating_add(1);
        self.serve = true;
    }

    /// Messages of JVMs are not heard any more.
    pub(super) fn watch_no_more(&mut self) {
        self.unwatch |= std::mem::take(&mut self.listens_to_jvms);
    }

    /// This client is the first in the queue. It checks for permits that are freed without a message: after `pause`, as some may
    /// be free then, and at the pace of its handle.
    pub(super) fn check_as_first(&mut self, pause: Option<Duration>, now: Instant) {
        let Some(pause) = self.held.pace().map(|pace| pause.unwrap_or(pace).min(pace)) else {
            return;
        };
        if pause.is_zero() {
            self.serve = true;
        } else {
            self.serve_at = self.serve_at.into_iter().chain([now + pause]).min();
        }
    }

    /// The next batch is for the waiters, if there are any.
    pub(super) fn serve_waiters(&mut self) {
        self.serve |= !self.waiters.is_empty();
    }

    /// Messages may have been missed.
    pub(super) fn may_have_missed(&mut self) {
        // A batch under way may queue entries.
        self.confirm_all |= !self.entries.is_empty() || self.under_way.is_some();
        self.serve |= !P::QUEUES && !self.waiters.is_empty();
    }

    /// The slow check; not where all entries are new.
    pub(super) fn slow_check(&mut self, now: Instant) {
        let interval = self.core.config.safety_interval;
        let is_recent = |at: Instant| now.saturating_duration_since(at) < interval / 2;
        if !self.checked.is_some_and(is_recent) {
            self.may_have_missed();
            self.serve_waiters();
        }
    }

    /// The connection for messages is gone: what comes by the next one is of another server, perhaps.
    pub(super) fn deaf(&mut self) {
        self.clock = None;
        self.last_arrival = 0;
    }
}
