//! Which permits this client keeps, and what it knows of their ends: in the table of `engine::holds`.

use std::sync::Arc;
use std::time::Duration;

use super::RPermitExpirableSemaphore;
use super::call::Call;
use super::held::{AGES, renewing};
use super::ids;
use crate::api::Held;
use crate::clock::Moment;
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
        self.queue.beside()
    }

    /// Renews it from now on.
    pub(super) fn keep(&self, held: &Held) -> Lease {
        let Some(lasts) = self.lease else {
            return Lease::until(held.until);
        };
        let until = held.until.unwrap_or_else(|| Moment::now() + AGES);
        let key = self.permits_key();
        self.core.holds.keep(key, &held.id, until, renewing(lasts))
    }

    /// How long a refresh makes it last: what a guard keeps is to come back by itself, whatever this handle's permits do.
    pub(super) fn lease_anew(&self, id: &str) -> Option<Duration> {
        let kept = || self.core.holds.is_renewed(self.permits_key(), id);
        let renewed = self.core.config.lock_watchdog_timeout;
        self.lease.or_else(|| kept().then_some(renewed))
    }

    /// Renews it no more.
    pub(super) fn unkeep(&self, id: &str) {
        self.core.holds.keep_no_more(self.permits_key(), id);
    }

    /// It is released without waiting for that.
    pub(super) fn release_detached(&self, id: &str) {
        let Some(release) = ids::read(id).map(Call::Release) else {
            tracing::error!(name = self.name(), id, "not released: it is no id");
            return;
        };
        self.core.holds.end(self.permits_key(), id);
        self.queue.defer(release);
    }
}
