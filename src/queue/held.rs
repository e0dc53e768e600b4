//! The permits of one object that this client's guards hold: entries of the grants, each under its own lease.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::entries::Entry;
use super::object::QueueKeys;
use super::outcome::{Amount, Grant, Outcome, Ticket, Want};
use super::primitive::{Call, Held, Overtaking, Primitive, Result};
use crate::api::encoded;
use crate::clock::Moment;
use crate::engine::Core;
use crate::engine::holds::Renewing;
use crate::engine::keys::Keys;
use crate::engine::request::Arg;
use crate::lease::Lease;

/// One script call renews so many at the most, which takes half a millisecond.
const MOST_RENEWED: usize = 250;

pub(crate) struct Leases<P> {
    core: Arc<Core>,
    /// The key of the grants.
    grants: Arc<str>,
    /// The text that this client adds to the entries of its guards: its name.
    suffix: Arc<str>,
    /// The permits of each ticket that are not released, and how the entry reads.
    all: BTreeMap<Ticket, (u32, u64)>,
    /// Something has been held.
    used: bool,
    primitive: PhantomData<fn() -> P>,
}

impl<P> Leases<P> {
    pub(crate) fn new(core: &Arc<Core>, _: &Keys, queue: &QueueKeys) -> Self {
        let suffix = match &**core.client_name() {
            "" => Arc::default(),
            name => format!(":{}", encoded(name)).into(),
        };
        Leases {
            core: Arc::clone(core),
            grants: Arc::clone(&queue.beside),
            suffix,
            all: BTreeMap::new(),
            used: false,
            primitive: PhantomData,
        }
    }

    fn id(&self, text: &str) -> Arc<str> {
        format!("{}:{text}", self.core.id()).into()
    }

    fn text(&self, ticket: Ticket) -> Option<String> {
        let (amount, life) = *self.all.get(&ticket)?;
        let entry = Entry {
            want: Amount {
                amount,
                leased: true,
            },
            arrival: 0,
            life,
        };
        Some(entry.text(ticket, &self.suffix))
    }

    /// The lease of `ticket` is renewed from now on; it ends at `until` for the time being.
    fn keep(&self, ticket: Ticket, until: Moment) {
        if let Some(text) = self.text(ticket) {
            let (id, renewing) = (self.id(&text), self.renewing());
            self.core.holds.keep(&self.grants, &id, until, renewing);
        }
    }

    /// So many permits of a ticket are being released: how the entry reads in Redis until then; `None` where it does not hold so much.
    /// The rest of the ticket is not renewed until that is answered.
    fn take(&mut self, given: Grant<Amount>) -> Option<String> {
        let before = self.text(given.ticket)?;
        let (amount, _) = self.all.get_mut(&given.ticket)?;
        *amount = amount.checked_sub(given.want.amount)?;
        if *amount == 0 {
            self.all.remove(&given.ticket);
            self.core.holds.end(&self.grants, &self.id(&before));
        } else if let Some(text) = self.text(given.ticket) {
            let holds = &self.core.holds;
            holds.rename(&self.grants, &self.id(&before), &self.id(&text));
        }
        Some(before)
    }

    fn renewing(&self) -> Renewing {
        Renewing {
            kind: "grants",
            most: MOST_RENEWED,
            id: |id| Arg::Text(Arc::clone(id)),
            others: Renewing::nothing_else,
            lease: self.watchdog(),
        }
    }

    fn watchdog(&self) -> Duration {
        self.core.config.lock_watchdog_timeout
    }
}

impl<P> Held<P> for Leases<P>
where
    P: Primitive<Want = Amount, Held = Self>,
    P::Call: Call<Want = Amount, Note = Option<String>>,
{
    fn header(&mut self, _: &mut dyn Iterator<Item = Amount>) -> Arc<str> {
        Arc::clone(&self.suffix)
    }

    fn queued(&mut self, call: &P::Call) -> Option<String> {
        self.take(call.ends()?)
    }

    fn answered(
        &mut self,
        call: &P::Call,
        _: &Option<String>,
        result: Result<Amount>,
        sent: Moment,
    ) -> Result<Amount> {
        if let Some(grant) = call.ends() {
            let (ticket, until) = (grant.ticket, sent + self.watchdog());
            match result {
                Ok(Outcome::Number(0)) => self.extended(ticket, grant.want, None),
                // The rest has been renewed by that, and its renewal goes on.
                Ok(_) => {
                    self.keep(ticket, until);
                    self.extended(ticket, grant.want, Some(sent));
                }
                Err(_) => self.keep(ticket, until),
            }
        }
        result
    }

    fn granted(&mut self, grant: Grant<Amount>, life: u64, until: Moment) {
        if grant.want.is_leased() {
            self.all.insert(grant.ticket, (grant.want.amount, life));
            self.used = true;
            self.keep(grant.ticket, until);
        }
    }

    fn extended(&mut self, ticket: Ticket, _: Amount, sent: Option<Moment>) {
        let Some(text) = self.text(ticket) else {
            return;
        };
        let (id, renewing) = (self.id(&text), self.renewing());
        let holds = &self.core.holds;
        match sent {
            Some(sent) => holds.ends(&self.grants, &id, sent + self.watchdog(), renewing),
            None => drop(holds.lost(&self.grants, &id)),
        }
    }

    fn has(&self, ticket: Ticket, _: Amount) -> bool {
        self.all.contains_key(&ticket)
    }

    fn lease(&self, ticket: Ticket) -> Option<Lease> {
        let text = self.text(ticket)?;
        self.core.holds.lease(&self.grants, &self.id(&text))
    }

    fn lease_time(&self, _: Amount) -> Duration {
        self.watchdog()
    }

    /// A smaller amount may be free.
    fn overtaking(&self) -> Overtaking<Amount> {
        Overtaking::Smaller
    }

    /// Guards may belong to clients that are killed while no other client makes calls.
    fn checks_after(&self) -> Option<Duration> {
        self.used.then(|| 2 * self.watchdog())
    }
}
