//! A queue in which each keeps the number that it came with, and that can be left from the middle.
//!
//! A map ordered by number does the same. This one costs a third: who comes is the last one, and mostly the first one goes.

use std::collections::VecDeque;

use super::Ticket;

/// Below this length nothing is closed up.
const SHORT: usize = 64;

/// Those who stand there, by rising numbers. The first and the last place are not empty.
pub(super) struct Row<T> {
    places: VecDeque<(Ticket, Option<T>)>,
    /// How many of them are not empty.
    len: usize,
    next: Ticket,
}

impl<T> Default for Row<T> {
    fn default() -> Self {
        Row {
            places: VecDeque::new(),
            len: 0,
            next: 0,
        }
    }
}

impl<T> Row<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The number of the next one who comes.
    pub(super) fn end(&self) -> Ticket {
        self.next
    }

    /// The last one from now on.
    pub(super) fn push(&mut self, item: T) -> Ticket {
        let ticket = self.next;
        self.next += 1;
        self.len += 1;
        self.places.push_back((ticket, Some(item)));
        ticket
    }

    pub(super) fn get(&self, ticket: Ticket) -> Option<&T> {
        self.places[self.place(ticket)?].1.as_ref()
    }

    pub(super) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut T> {
        let place = self.place(ticket)?;
        self.places[place].1.as_mut()
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<T> {
        let place = self.place(ticket)?;
        let item = self.places[place].1.take()?;
        self.len -= 1;
        while let Some((_, None)) = self.places.front() {
            self.places.pop_front();
        }
        while let Some((_, None)) = self.places.back() {
            self.places.pop_back();
        }
        if self.places.len() > SHORT.max(2 * self.len) {
            self.places.retain(|(_, item)| item.is_some());
        }
        Some(item)
    }

    pub(super) fn first(&self) -> Option<(Ticket, &T)> {
        let (ticket, item) = self.places.front()?;
        Some((*ticket, item.as_ref()?))
    }

    pub(super) fn last(&self) -> Option<&T> {
        self.places.back()?.1.as_ref()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Ticket, &T)> {
        let all = self.places.iter();
        all.filter_map(|(ticket, item)| Some((*ticket, item.as_ref()?)))
    }

    pub(super) fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (Ticket, &mut T)> {
        let all = self.places.iter_mut();
        all.filter_map(|(ticket, item)| Some((*ticket, item.as_mut()?)))
    }

    fn place(&self, ticket: Ticket) -> Option<usize> {
        let (first, _) = self.places.front()?;
        // Where nothing has been closed up.
        let near = usize::try_from(ticket.checked_sub(*first)?).ok()?;
        match self.places.get(near) {
            Some((there, _)) if *there == ticket => Some(near),
            _ => self
                .places
                .binary_search_by_key(&ticket, |(there, _)| *there)
                .ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_as_a_map_would_be(steps in proptest::collection::vec(0..6_u64, 0..600)) {
            let (mut row, mut map) = (Row::default(), BTreeMap::new());
            for step in steps {
                if step < 4 {
                    let ticket = row.push(step);
                    map.insert(ticket, step);
                } else {
                    // Somewhere in the middle, or the first one.
                    let ticket = map.keys().copied().nth(map.len() * (step as usize - 4) / 2);
                    let ticket = ticket.unwrap_or(7);
                    assert_eq!(row.remove(ticket), map.remove(&ticket));
                    assert_eq!(row.get(ticket), None);
                }
                assert_eq!((row.len(), row.first()), (map.len(), map.iter().next().map(|(t, s)| (*t, s))));
                assert_eq!(row.last(), map.values().next_back());
                assert!(row.places.len() <= SHORT.max(2 * map.len() + 1), "it grows");
            }
            assert!(row.iter().eq(map.iter().map(|(ticket, step)| (*ticket, step))));
            for (ticket, step) in &mut map {
                assert_eq!(row.get_mut(*ticket), Some(step));
            }
        }
    }
}
