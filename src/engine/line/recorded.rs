//! What this client's guards have on record at the line's semaphore; see [`watchdog`](crate::engine::watchdog).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;

use super::{Line, State};
use crate::clock::Moment;
use crate::engine::batch::{Call, Operation, Step, StepResult};
use crate::engine::waiters::Waiter;
use crate::engine::watchdog::{Balance, Entry, Life, Renewal};
use crate::lease::Lease;

impl State {
    /// The number of the life that has not ended, as far as is known here.
    pub(super) fn live(&self) -> Option<u64> {
        let life = self.life.as_ref().filter(|life| !life.is_over());
        life.map(|life| life.number)
    }

    /// These calls will not take anything off the record, though nobody has the permits any more: they come back with the next
    /// answer.
    pub(super) fn spend(&mut self, calls: &[Operation]) {
        for (permits, life) in calls.iter().filter_map(|call| call.off_record()) {
            if let Some(known) = self.life.as_mut().filter(|known| known.number == life) {
                known.spend(permits.into());
            }
        }
    }
}

/// What has to be done when nothing is locked any more.
#[derive(Default)]
pub(super) struct Outcome {
    lost: Option<Lease>,
    /// Is on record, and nobody has it.
    pub(super) excess: Option<Operation>,
}

impl Outcome {
    /// Tells the guards.
    pub(super) fn tell(&mut self) {
        if let Some(lease) = self.lost.take() {
            lease.lose();
        }
    }
}

impl Line {
    /// The permits of guards are on record here: it is seen to that they stay, and that those of the dead come back.
    pub(crate) fn watch(&self) {
        if !self.watched.load(Ordering::Relaxed) && !self.watched.swap(true, Ordering::Relaxed) {
            self.core.watch(&self.keys, &self.itself);
        }
    }

    /// The lease of what was granted under the life with this number.
    pub(crate) fn lease(&self, life: u64) -> Lease {
        match &*self.lease.lock() {
            Some((number, lease)) if *number == life => lease.clone(),
            // It has ended meanwhile.
            _ => Lease::until(Some(Instant::now())),
        }
    }

    /// Under what the permits of a batch that departs now are on record.
    pub(super) fn entry(&self, state: &mut State) -> Entry {
        let time_out = self.core.config.lock_watchdog_timeout;
        if let Some(life) = state.life.take_if(|life| life.is_over()) {
            self.tell_of_loss(&life);
        }
        state.life.take_if(|life| life.is_stale(time_out));
        let life = state.life.get_or_insert_with(|| {
            let number = self.core.next_sequence();
            let life = Life::begin(self.core.id(), number, Moment::now(), time_out);
            *self.lease.lock() = Some((number, life.lease.clone()));
            life
        });
        life.departs(time_out, self.core.client_name())
    }

    fn tell_of_loss(&self, life: &Life) {
        if life.holds() > 0 {
            let (name, permits) = (self.name(), life.holds());
            tracing::warn!(name, permits, "lost");
        }
    }

    fn lose(&self, state: &mut State) -> Option<Lease> {
        let life = state.life.take()?;
        self.tell_of_loss(&life);
        Some(life.lease)
    }

    /// The server does not know the life under which a batch was sent, of which nothing was done.
    pub(super) fn is_gone(&self, life: u64) {
        let lost = {
            let mut state = self.lock();
            let current = state
                .life
                .as_ref()
                .is_some_and(|known| known.number == life);
            current.then(|| self.lose(&mut state)).flatten()
        };
        if let Some(lease) = lost {
            lease.lose();
        }
    }

    /// A batch about permits on record has been answered: its `steps`, but what is `granted` to those who wait.
    pub(super) fn balance<'a>(
        &self,
        state: &mut State,
        life: u64,
        held: Option<u64>,
        steps: impl Iterator<Item = (&'a Step, &'a StepResult)>,
        granted: &[(u32, bool, Option<Waiter>)],
    ) -> Outcome {
        let recorded = granted.iter().filter(|(_, recorded, _)| *recorded);
        let mut taken: u64 = recorded.map(|(permits, ..)| u64::from(*permits)).sum();
        let (mut given, mut refused) = (0, false);
        for (step, result) in steps {
            if let (Operation::TryTake(permits), StepResult::Number(served)) =
                (step.operation, result)
            {
                taken += u64::from(permits) * u64::try_from(*served).unwrap_or(0);
            }
            if let Some((permits, of)) = step.operation.off_record()
                && of == life
            {
                given += u64::from(permits) * step.calls.len() as u64;
                refused |= matches!(result, StepResult::OutOfRange(..));
            }
        }
        let known = state.life.as_mut().filter(|known| known.number == life);
        let (Some(known), Some(held)) = (known, held) else {
            return Outcome::default();
        };
        match known.answered(taken, given, held) {
            // The counter takes no more now.
            Balance::Excess(_) if refused => Outcome::default(),
            balance => self.settle(state, balance),
        }
    }

    /// What of this client's there is to be put off.
    pub(crate) fn renewal(&self) -> Option<Renewal> {
        self.lock().life.as_ref()?.renewal()
    }

    /// It is on record until then, with so many permits; or it is not.
    pub(crate) fn renewed(
        self: &Arc<Self>,
        renewal: &Renewal,
        on_record: Option<u64>,
        until: Moment,
    ) {
        let (mut outcome, lease) = {
            let mut state = self.lock();
            let life = state.life.as_mut();
            let Some(life) = life.filter(|life| life.number == renewal.life) else {
                return;
            };
            let lease = life.lease.clone();
            let balance = life.renewed(renewal, on_record);
            (self.settle(&mut state, balance), lease)
        };
        if on_record.is_some() && outcome.lost.is_none() {
            lease.extend(Some(until));
        }
        outcome.tell();
        if let Some(excess) = outcome.excess {
            self.call_detached(excess);
        }
    }

    fn settle(&self, state: &mut State, balance: Balance) -> Outcome {
        let mut outcome = Outcome::default();
        match (balance, &mut state.life) {
            (Balance::Excess(permits), Some(life)) => {
                life.adopt(permits);
                outcome.excess = Some(Operation::GiveBack(permits, life.number));
            }
            (Balance::Lost, _) => outcome.lost = self.lose(state),
            _ => {}
        }
        outcome
    }

    /// Answers those who give back what was lost before their call departed.
    pub(super) fn answer_lost(calls: Vec<Call>) {
        for call in calls {
            if let Some(reply) = call.reply {
                let _ = reply.send(Ok(0));
            }
        }
    }
}
