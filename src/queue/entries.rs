//! The entries of this client that are believed to stand in the queue in Redis.

use std::collections::BTreeMap;
use std::time::Duration;

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

pub(super) struct Entries<W> {
    all: BTreeMap<Ticket, Entry<W>>,
    by_want: BTreeMap<W, usize>,
}

impl<W> Default for Entries<W> {
    fn default() -> Self {
        Entries {
            all: BTreeMap::new(),
            by_want: BTreeMap::new(),
        }
    }
}

impl<W: Want> Entries<W> {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn get(&self, ticket: Ticket) -> Option<&Entry<W>> {
        self.all.get(&ticket)
    }

    pub(super) fn insert(&mut self, ticket: Ticket, entry: Entry<W>) {
        if self.all.insert(ticket, entry).is_none() {
            *self.by_want.entry(entry.want).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Entry<W>> {
        let entry = self.all.remove(&ticket)?;
        if let Some(count) = self.by_want.get_mut(&entry.want) {
            *count -= 1;
            if *count == 0 {
                self.by_want.remove(&entry.want);
            }
        }
        Some(entry)
    }

    pub(super) fn take_all(&mut self) -> BTreeMap<Ticket, Entry<W>> {
        self.by_want.clear();
        std::mem::take(&mut self.all)
    }

    pub(super) fn has(&self, want: W) -> bool {
        self.by_want.contains_key(&want)
    }

    /// Each want, and how many entries have it.
    pub(super) fn wants(&self) -> impl Iterator<Item = (W, usize)> {
        self.by_want.iter().map(|(want, count)| (*want, *count))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Ticket, &Entry<W>)> {
        self.all.iter().map(|(ticket, entry)| (*ticket, entry))
    }

    pub(super) fn tickets(&self) -> impl Iterator<Item = Ticket> {
        self.all.keys().copied()
    }

    /// The one for this that has so many others before it.
    pub(super) fn nth(&self, want: W, before: usize) -> Option<Ticket> {
        let mut alike = self.all.iter().filter(|(_, entry)| entry.want == want);
        alike.nth(before).map(|(ticket, _)| *ticket)
    }

    /// The entries whose waiters need not wait any more when this has been granted.
    pub(super) fn let_in_by(&self, want: W) -> Vec<Ticket> {
        let all = self.all.iter();
        let let_in = all.filter(|(_, entry)| want.lets_in(entry.want));
        let_in.map(|(ticket, _)| *ticket).collect()
    }

    /// The latest one for this.
    pub(super) fn last(&self, want: W) -> Option<Ticket> {
        let mut alike = self
            .all
            .iter()
            .rev()
            .filter(|(_, entry)| entry.want == want);
        alike.next().map(|(ticket, _)| *ticket)
    }
}
