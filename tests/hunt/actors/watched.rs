//! Callers of watched semaphores: their permits are on record, and may be lost.

use std::sync::{Arc, Weak};

use redisson_semaphore::{Error, Permit, RSemaphore};

use super::Actor;
use crate::plan::{Ask, Call, Give};

impl Actor {
    pub(super) async fn hold_watched(&self, semaphore: &RSemaphore, object: usize, call: &Call) {
        let semaphore = semaphore.clone().watched();
        self.judge().watches(object, self.host);
        let asking = async {
            match call.ask {
                Ask::Wait => semaphore.permit(call.permits).await.map(Some),
                Ask::Try => semaphore.try_permit(call.permits).await,
                Ask::For(wait) => semaphore.permit_for(call.permits, wait).await,
            }
        };
        let Some((number, permit)) = self.wait(call, asking).await else {
            return;
        };
        if call.stall.is_none() {
            let (object, lasts) = (call.object, self.settings.watchdog);
            let lost = permit.is_lost();
            self.judge().is_handed(object, self.host, lasts, lost);
        }
        let held = OnRecord::new(self, number, object, permit, call.stall.is_some());
        if self.keeps(call.hold, held.lost(), || held.is_lost()).await {
            self.judge().loses(held.number);
        }
        if call.give == Give::Call {
            held.release().await;
        }
    }
}

/// Permits on record that a caller holds.
struct OnRecord<'a> {
    actor: &'a Actor,
    object: usize,
    number: u64,
    /// The judges check whether it is lost.
    permit: Option<Arc<Permit>>,
}

impl<'a> OnRecord<'a> {
    fn new(actor: &'a Actor, call: u64, object: usize, permit: Permit, stalled: bool) -> Self {
        let permit = Arc::new(permit);
        let seen: Weak<Permit> = Arc::downgrade(&permit);
        let number = actor.judge().has_on_record(
            call,
            object,
            actor.host,
            permit.permits().into(),
            (seen, stalled),
        );
        OnRecord {
            actor,
            object,
            number,
            permit: Some(permit),
        }
    }

    fn is_lost(&self) -> bool {
        self.permit.as_ref().is_some_and(|permit| permit.is_lost())
    }

    async fn lost(&self) {
        self.permit.as_ref().expect("held").lost().await;
    }

    /// The caller does not hold the permits any more.
    fn lets_go(&mut self) -> Option<Permit> {
        let permit = self.permit.take()?;
        self.actor.judge().gives_from_record(self.number);
        Arc::into_inner(permit)
    }

    async fn release(mut self) {
        let permit = self.lets_go().expect("held");
        let (was_lost, permits) = (permit.is_lost(), permit.permits());
        let Err(error) = permit.release().await else {
            return;
        };
        let (actor, object) = (self.actor, self.object);
        let mut judge = actor.judge();
        match error {
            Error::NotHeld { .. } if was_lost => {}
            Error::NotHeld { .. } => judge.is_refused(object, actor.host),
            // The permits stay on record until their time is over.
            Error::ShutDown { .. } => judge.strands(object, actor.host, permits.into()),
            error => {
                judge.failed(actor.host, "release", &error);
                judge.keeps_on_record(object, actor.host);
            }
        }
    }
}

impl Drop for OnRecord<'_> {
    fn drop(&mut self) {
        let ended = self.actor.judge().has_ended(self.actor.host);
        if let Some(permit) = self.lets_go()
            && ended
        {
            let (object, host) = (self.object, self.actor.host);
            let permits = permit.permits().into();
            self.actor.judge().strands(object, host, permits);
        }
    }
}
