//! Callers of the recipes.

use std::sync::Arc;
use std::time::Duration;

use redisson_semaphore::{Client, Effect, Error, LeasedSemaphore, RPermitExpirableSemaphore};
use tokio::time::Instant;

use super::Actor;
use crate::judge::{Object, Term};
use crate::plan::{Ask, Call, Give, Layout, Recipe};

pub(super) fn handle(client: &Client, number: usize, recipe: &Recipe) -> Arc<dyn LeasedSemaphore> {
    let key = Object::Recipe(number).key();
    let (limit, timeout, check) = (recipe.limit, recipe.timeout, recipe.check);
    match recipe.layout {
        Layout::FairUnderLock => {
            let semaphore = client.fair_semaphore(&key, limit).under_lock(&key);
            Arc::new(semaphore.timeout(timeout).check_interval(check))
        }
        Layout::Set => Arc::new(client.set_semaphore(&key, limit).check_interval(check)),
        Layout::Slots => {
            let semaphore = client.slot_semaphore(&key, limit);
            Arc::new(semaphore.timeout(timeout).check_interval(check))
        }
        Layout::Expirable if recipe.endless => Arc::new(client.permit_expirable_semaphore(&key)),
        Layout::Expirable => Arc::new(client.permit_expirable_semaphore(&key).with_lease(timeout)),
    }
}

impl Actor {
    pub(super) async fn hold_recipe(
        &self,
        semaphore: &dyn LeasedSemaphore,
        number: usize,
        call: &Call,
    ) {
        let recipe = &self.settings.recipes[number];
        if recipe.layout == Layout::Expirable && call.ask == Ask::Try && call.several {
            return self.hold_several(number, call).await;
        }
        if !call.guard {
            return self.hold_by_id(semaphore, number, call).await;
        }
        let asking = async {
            match call.ask {
                Ask::Wait => semaphore.permit().await.map(Some),
                Ask::Try => semaphore.try_permit().await,
                Ask::For(wait) => semaphore.permit_for(wait).await,
            }
        };
        let Some((_, permit)) = self.wait(call, asking).await else {
            return;
        };
        let id = permit.id().to_owned();
        let lasts = self.guards_last(number);
        let lease = permit.lease().clone();
        if let (Some(lasts), None) = (lasts, call.stall) {
            let lost = lease.is_lost();
            self.judge().is_handed(call.object, self.host, lasts, lost);
        }
        let term = Term::Lease(lease.clone());
        let held = self
            .judge()
            .has_permit(number, self.host, &id, term, recipe.limit);
        let in_hand = InHand { actor: self, held };
        if recipe.layout == Layout::Expirable {
            self.prolong(number, &id, call).await;
        }
        let lost = self
            .keeps(call.hold, lease.lost(), || lease.is_lost())
            .await;
        // A client does not renew a permit that its caller has not received.
        if lost && call.stall.is_none() {
            self.judge().loses_permit(held, lasts);
        }
        drop(in_hand);
        if call.give != Give::Call {
            return;
        }
        match permit.release().await {
            Ok(_) | Err(Error::NotHeld { .. }) => {}
            Err(error) => {
                if error.effect() == Effect::NotApplied {
                    self.judge().stays(number, &id);
                }
                self.judge().failed(self.host, "release", &error);
            }
        }
    }
}

impl Actor {
    /// How long the permit of a guard lasts if it is not renewed.
    fn guards_last(&self, number: usize) -> Option<Duration> {
        let recipe = &self.settings.recipes[number];
        match recipe.endless {
            true => Some(self.settings.watchdog),
            false => recipe.lasts(),
        }
    }

    /// Returns a semaphore whose permits have ids and, by themselves, no end.
    async fn expirable(&self, number: usize) -> RPermitExpirableSemaphore {
        let key = Object::Recipe(number).key();
        self.client().await.permit_expirable_semaphore(&key)
    }

    /// Sets a longer end for a permit that is renewed anyway.
    async fn prolong(&self, number: usize, id: &str, call: &Call) {
        let Some(lasts) = self.guards_last(number) else {
            return;
        };
        let Some((Some(lease), _)) = call.nested else {
            return;
        };
        let semaphore = self.expirable(number).await;
        let prolonging = semaphore.update_lease_time(id, Some(lease.max(lasts)));
        if let Err(error) = prolonging.await {
            self.judge().failed(self.host, "prolong", &error);
        }
    }

    /// Holds a permit by its id, without a guard. The permit lasts for its time, or until it is released.
    async fn hold_by_id(&self, semaphore: &dyn LeasedSemaphore, number: usize, call: &Call) {
        let recipe = &self.settings.recipes[number];
        let leased = match call.lease {
            Some(lease) if recipe.layout == Layout::Expirable && !recipe.endless => {
                Some(self.expirable(number).await.with_lease(lease))
            }
            _ => None,
        };
        let semaphore = leased
            .as_ref()
            .map_or(semaphore, |leased| leased as &dyn LeasedSemaphore);
        let asking = async {
            match call.ask {
                Ask::Wait => semaphore.acquire().await.map(Some),
                Ask::Try => semaphore.try_acquire().await,
                Ask::For(wait) => semaphore.try_acquire_for(wait).await,
            }
        };
        let Some((_, held)) = self.wait(call, asking).await else {
            return;
        };
        let id = held.id();
        let after = |time: Duration| Instant::now() + time;
        let term = Term::Until(held.remaining().map(after));
        let held = self
            .judge()
            .has_permit(number, self.host, id, term, recipe.limit);
        let in_hand = InHand { actor: self, held };
        self.process.sleep(call.hold / 2).await;
        if let Some((lease, _)) = call.nested {
            let asked = Instant::now();
            let lasts = match recipe.layout {
                Layout::Expirable if !recipe.endless => lease.or(recipe.lasts()),
                _ => recipe.lasts(),
            };
            let end = lasts.map(|lasts| asked + lasts);
            self.judge().may_end_sooner(id);
            self.judge().lasts_until(held, end, false);
            let prolonged = match (recipe.layout, lasts) {
                (Layout::Expirable, Some(lease)) => {
                    let semaphore = self.expirable(number).await;
                    semaphore.update_lease_time(id, Some(lease)).await
                }
                _ => semaphore.refresh(id).await,
            };
            match prolonged {
                Ok(true) => self.judge().lasts_until(held, end, true),
                Ok(false) => self.judge().is_gone(held, "a refresh"),
                Err(error) => {
                    self.judge().failed(self.host, "refresh", &error);
                    // It is unknown now how long the permit lasts.
                    return;
                }
            }
        }
        self.process.sleep(call.hold / 2).await;
        if call.give != Give::Call {
            return;
        }
        self.judge().gives_permit(held);
        match semaphore.release(id).await {
            Ok(true) => {}
            Ok(false) => self.judge().is_gone(held, "a release"),
            Err(error) => self.judge().failed(self.host, "release", &error),
        }
        drop(in_hand);
    }
}

impl Actor {
    /// Holds several ids at once, if that many are free.
    async fn hold_several(&self, number: usize, call: &Call) {
        let recipe = &self.settings.recipes[number];
        let semaphore = self.expirable(number).await.with_lease(recipe.timeout);
        let asking = semaphore.try_acquire_many(recipe.limit.min(2));
        let Some((_, several)) = self.wait(call, asking).await else {
            return;
        };
        let in_hand: Vec<_> = several
            .iter()
            .map(|held| {
                let term = Term::Until(held.remaining().map(|time| Instant::now() + time));
                let mut judge = self.judge();
                let held = judge.has_permit(number, self.host, held.id(), term, recipe.limit);
                InHand { actor: self, held }
            })
            .collect();
        self.process.sleep(call.hold).await;
        if call.give != Give::Call {
            return;
        }
        let ids: Vec<_> = several.iter().map(|held| held.id()).collect();
        if call.nested.is_some() {
            self.give_with_nobody_s(&semaphore, &ids).await;
        }
        let over = in_hand.iter().any(|of| self.judge().is_over(of.held));
        in_hand
            .iter()
            .for_each(|of| self.judge().gives_permit(of.held));
        match semaphore.try_release_many(&ids).await {
            Ok(released) if over || released as usize == ids.len() => {}
            Ok(_) => in_hand
                .iter()
                .for_each(|of| self.judge().is_gone(of.held, "a release")),
            Err(error) => self.judge().failed(self.host, "release", &error),
        }
        drop(in_hand);
    }

    /// Releases the ids together with one that no caller has: then none of them is released.
    async fn give_with_nobody_s(&self, semaphore: &RPermitExpirableSemaphore, ids: &[&str]) {
        let ids: Vec<_> = ids.iter().copied().chain([NOBODY_S]).collect();
        match semaphore.try_release_many(&ids).await {
            Ok(0) => {}
            Ok(released) => {
                let detail = format!("c{} gives {released} back beside nobody's", self.host);
                self.judge().accuse("effects", detail);
            }
            Err(error) => self.judge().failed(self.host, "release", &error),
        }
    }
}

/// An id that no caller has.
const NOBODY_S: &str = "00000000000000000000000000000000";

/// A permit that a caller holds, for the judges.
struct InHand<'a> {
    actor: &'a Actor,
    held: u64,
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        self.actor.judge().has_no_permit(self.held);
    }
}
