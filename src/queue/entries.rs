//! The entries of this client that are believed to stand in the queue in Redis.

use std::time::Duration;

use super::by_want::{ByWant, Wanting};
use super::outcome::{Ticket, Want};

/// A client has so many entries at the most.
pub(super) const MOST: usize = 64;

#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<W> {
    pub(super) want: W,
    /// Its score: when the waiter came that it was made for, in microseconds by the server's clock.
    pub(super) arrival: u64,
    /// How long a grant lasts that is not confirmed; in milliseconds.
    pub(super) life: u64,
}

/// A grant, and its end by the server's clock.
pub(super) type Unconfirmed<W> = (Entry<W>, u64);

impl<W: Want> Entry<W> {
    /// As it stands in Redis, behind the client's id; `header` is the script's argument about what is held.
    pub(super) fn text(&self, ticket: Ticket, header: &str) -> String {
        let want = self.want;
        let (kind, amount, tail) = (want.kind(), want.amount(), want.tail(header));
        format!("{kind}{ticket}:{amount}:{}{tail}", self.life)
    }

    /// From how it stands in Redis behind the client's id; its arrival is not known by that.
    pub(super) fn read(text: &str) -> Option<(Ticket, Self)> {
        let (kind, words) = text.split_at_checked(1)?;
        let mut words = words.splitn(4, ':');
        let mut number = || words.next()?.parse::<u64>().ok();
        let (ticket, amount, life) = (number()?, number()?, number()?);
        let want = W::read(kind, amount, words.next().unwrap_or(""))?;
        let entry = Entry {
            want,
            arrival: 0,
            life,
        };
        Some((ticket, entry))
    }

    pub(super) fn life(&self) -> Duration {
        Duration::from_millis(self.life)
    }
}

impl<W: Want> Wanting for Entry<W> {
    type Want = W;

    fn want(&self) -> W {
        self.want
    }
}

/// The entries by their tickets.
pub(super) type Entries<W> = ByWant<Entry<W>>;
