//! When the first holder expires, as far as is known.
//!
//! A zset tells at once. Slots have to be asked one by one, so each look asks those of one page: all pages one after the
//! other when somebody begins to wait, then one with each look.

use std::time::Duration;

use tokio::time::Instant;

use super::settings::{Layout, Settings};

/// `ENDS` in `lua/recipes/slots.lua`.
const PAGE: u32 = 128;

/// What is known of the pages.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// When the first of each expires, if any does; in their order, without those that have not been asked yet.
    known: Vec<Option<Instant>>,
    /// The page to be asked next.
    next: usize,
}

impl Ends {
    /// The slot with which the page begins that is to be asked at `now`: one of which somebody should have expired, if
    /// there is any, or the next one.
    pub(super) fn from(&self, now: Instant) -> u32 {
        let over = |end: &Option<Instant>| end.is_some_and(|end| end <= now);
        let page = self.known.iter().position(over).unwrap_or(self.next);
        u32::try_from(page).unwrap_or_default() * PAGE + 1
    }

    /// The page that begins with the slot `from` has been asked: the first of it expires so long after `now`. `true` if
    /// there are pages that have not been asked yet.
    pub(super) fn note(
        &mut self,
        settings: &Settings,
        from: u32,
        left: Option<Duration>,
        now: Instant,
    ) -> bool {
        let pages = match settings.layout {
            Layout::Slots => settings.limit.div_ceil(PAGE) as usize,
            _ => 1,
        };
        let page = (from / PAGE) as usize;
        // What has its end in this very millisecond is there until the next one.
        let end = left.map(|left| left.saturating_add(Duration::from_millis(1)));
        let end = end.and_then(|left| now.checked_add(left));
        match self.known.get_mut(page) {
            Some(known) => *known = end,
            None => self.known.push(end),
        }
        self.next = (page + 1) % pages;
        self.known.len() < pages
    }

    /// When the first of all expires.
    pub(super) fn first(&self) -> Option<Instant> {
        self.known.iter().flatten().min().copied()
    }
}
