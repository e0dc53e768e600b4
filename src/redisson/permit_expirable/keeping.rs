//! Which permits this client keeps, and what it knows of their ends: in the table of `engine::holds`.

use std::sync::Arc;
use std::time::Duration;

use super::RPermitExpirableSemaphore;
use super::call::Call;
use super::held::{AGES, renewing};
use super::ids;
use crate::api::Held;
use crate::clock::Moment;
use crate::engine::holds::{Renewing, Term};
use crate::lease::Lease;

impl RPermitExpirableSemaphore {
    /// The handle of a guard: its permits last for a time.
    pub(super) fn renewing(&self) -> Self {
        self.clone().with_lease(self.renewed_lease())
    }

    fn renewed_lease(&self) -> Duration {
        self.lease.unwrap_or(self.core.config.lock_watchdog_timeout)
    }

    /// The key in which the permits stand that are held.
    pub(super) fn permits_key(&self) -> &Arc<str> {
        self.line.beside()
    }

    fn renewal(&self) -> Renewing {
        renewing(self.renewed_lease())
    }

    /// Renews it from now on.
    pub(super) fn keep(&self, held: &Held) -> Lease {
        let Some(lasts) = self.lease else {
            return Lease::until(held.until);
        };
        let until = held.until.unwrap_or_else(|| Moment::now() + AGES);
        let (key, holds) = (self.permits_key(), &self.core.holds);
        // The queue confirms what it has granted to a guard.
        let is_granted = holds.is_watched(key, &held.id);
        let lease = holds.keep(key, &held.id, Term::Watched, until, self.renewal());
        self.core.renew(lasts);
        // The next round may be a whole pause away.
        if !is_granted && lease.remaining() < Some(lasts / 3 * 2) && !lease.is_lost() {
            let place = (Arc::clone(key), Arc::clone(&held.id));
            self.core.renew_now(place, lasts);
        }
        lease
    }

    /// How long a refresh makes it last: what a guard keeps is to come back by itself, whatever this handle's permits do.
    pub(super) fn lease_anew(&self, id: &str) -> Option<Duration> {
        let kept = || self.core.holds.is_watched(self.permits_key(), id);
        let renewed = self.core.config.lock_watchdog_timeout;
        self.lease.or_else(|| kept().then_some(renewed))
    }

    /// Renews it no more.
    pub(super) fn unkeep(&self, id: &str) {
        self.core.holds.keep_no_more(self.permits_key(), id);
    }

    /// It is given back without waiting for that.
    pub(super) fn release_detached(&self, id: &str) {
        let Some(release) = ids::read(id).map(Call::Release) else {
            tracing::error!(name = self.name(), id, "not released: it is no id");
            return;
        };
        self.core.holds.released(self.permits_key(), id, None, None);
        self.core.holds.tell();
        self.line.owe(release);
    }
}
