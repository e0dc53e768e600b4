//! What the guards of this client hold of one object, under leases that the table of [`engine::holds`](crate::engine::holds) renews.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::entries::Entry;
use super::outcome::{Grant, Ticket, Want};
use crate::clock::Moment;
use crate::engine::Core;
use crate::engine::holds::{Renewing, Term};
use crate::engine::request::{Arg, Script};
use crate::lease::Lease;
use crate::lua;

static RENEWAL: LazyLock<Script> = LazyLock::new(|| Script::new(lua::RENEW_GRANTS));

/// One script call renews so many at the most, which takes half a millisecond.
const MOST_RENEWED: usize = 250;

pub(super) struct Held {
    core: Arc<Core>,
    /// The key of the grants.
    grants: Arc<str>,
    /// What this client adds to the entries of what it holds.
    suffix: Arc<str>,
    /// How much of what was granted under each ticket has not been given back, and how the entry reads.
    all: BTreeMap<Ticket, (u32, u64)>,
    /// Leases have changed, and nobody has been told.
    changed: bool,
    /// Something has been held.
    used: bool,
}

impl Held {
    pub(super) fn new(core: &Arc<Core>, grants: &Arc<str>, suffix: Arc<str>) -> Self {
        Held {
            core: Arc::clone(core),
            grants: Arc::clone(grants),
            suffix,
            all: BTreeMap::new(),
            changed: false,
            used: false,
        }
    }

    pub(super) fn has(&self, ticket: Ticket) -> bool {
        self.all.contains_key(&ticket)
    }

    /// How the entry of `ticket` reads in Redis, behind the client's id.
    pub(super) fn text(&self, ticket: Ticket) -> Option<String> {
        let (amount, life) = *self.all.get(&ticket)?;
        let want = Want {
            amount,
            leased: true,
        };
        let entry = Entry {
            want,
            arrival: 0,
            life,
        };
        Some(entry.text(ticket, &self.suffix))
    }

    fn id(&self, text: &str) -> Arc<str> {
        format!("{}:{text}", self.core.id()).into()
    }

    pub(super) fn insert(&mut self, grant: Grant, life: u64) {
        self.all.insert(grant.ticket, (grant.want.amount, life));
        self.used = true;
    }

    /// What `ticket` holds is renewed from now on; it ends at `until` for the time being.
    pub(super) fn keep(&mut self, ticket: Ticket, until: Moment) {
        if let Some(text) = self.text(ticket) {
            let (id, renewing) = (self.id(&text), self.renewing());
            self.core
                .holds
                .keep(&self.grants, &id, Term::Watched, until, renewing);
            self.changed = true;
        }
    }

    /// The server says that what `ticket` holds ends at `until`, or that it is not held any more.
    pub(super) fn extended(&mut self, ticket: Ticket, until: Option<Moment>) {
        let Some(text) = self.text(ticket) else {
            return;
        };
        let (id, renewing) = (self.id(&text), self.renewing());
        match until {
            Some(until) => self
                .core
                .holds
                .ends(&self.grants, &id, None, until, renewing),
            None => self.core.holds.lost(&self.grants, &id),
        }
        self.changed = true;
    }

    /// So much of what a ticket holds is being given back: how the entry reads in Redis until then; `None` where it does not hold so much.
    /// What is left is not renewed until that is answered.
    pub(super) fn take(&mut self, given: Grant) -> Option<String> {
        let before = self.text(given.ticket)?;
        let (amount, _) = self.all.get_mut(&given.ticket)?;
        *amount = amount.checked_sub(given.want.amount)?;
        if *amount == 0 {
            self.all.remove(&given.ticket);
            self.core
                .holds
                .released(&self.grants, &self.id(&before), None, None);
        } else if let Some(text) = self.text(given.ticket) {
            let holds = &self.core.holds;
            holds.rename(&self.grants, &self.id(&before), &self.id(&text));
        }
        self.changed = true;
        Some(before)
    }

    /// It has not been given back, after all.
    pub(super) fn take_again(&mut self, given: Grant, life: u64) {
        let before = self.text(given.ticket);
        let (amount, _) = self.all.entry(given.ticket).or_insert((0, life));
        *amount += given.want.amount;
        if let Some((before, text)) = before.zip(self.text(given.ticket)) {
            self.core
                .holds
                .rename(&self.grants, &self.id(&before), &self.id(&text));
        }
        self.keep(given.ticket, Moment::now() + self.lease_time());
    }

    pub(super) fn lease(&self, ticket: Ticket) -> Option<Lease> {
        let text = self.text(ticket)?;
        self.core.holds.lease(&self.grants, &self.id(&text))
    }

    fn renewing(&self) -> Renewing {
        Renewing {
            script: &RENEWAL,
            several: true,
            most: MOST_RENEWED,
            owner: |id| Arg::Text(Arc::clone(id)),
            lease: self.lease_time(),
        }
    }

    /// Whether anything has been held here.
    pub(super) fn is_used(&self) -> bool {
        self.used
    }

    pub(super) fn lease_time(&self) -> Duration {
        self.core.config.lock_watchdog_timeout
    }

    /// Whether [`tell`] is to be called when nothing is locked.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}

/// Renews what is held, and tells those who wait for a change.
pub(super) fn tell(core: &Arc<Core>) {
    core.renew(core.config.lock_watchdog_timeout);
    core.holds.tell();
}
