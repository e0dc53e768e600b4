//! What this client's guards have on record at a semaphore; see [`watchdog`](crate::engine::watchdog).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::calls::Call;
use super::nudge;
use super::permits::Permits;
use crate::clock::Moment;
use crate::engine::Core;
use crate::engine::primitive::Line;
use crate::engine::watchdog::{Balance, Entry, Life, OnRecord, Owner, Renewal};
use crate::lease::Lease;
use crate::sync::unlocked;

/// What is known of the record.
#[derive(Default)]
pub(super) struct Record {
    /// Under what the permits of guards are on record.
    life: Option<Life>,
    /// The lease of the latest life, by its number.
    lease: Option<(u64, Lease)>,
    /// How the batch under way names it, where that is about it.
    pub(super) entry: Option<Entry>,
    /// The watchdog looks after it.
    watched: bool,
}

/// What has to be done about a difference.
#[derive(Default)]
pub(super) struct Settled {
    pub(super) lost: Option<Lease>,
    /// Is on record, and nobody has it.
    pub(super) excess: Option<Call>,
}

impl Record {
    /// The number of the life that has not ended, as far as is known here.
    pub(super) fn live(&self) -> Option<u64> {
        let life = self.life.as_ref().filter(|life| !life.is_over());
        life.map(|life| life.number)
    }

    /// The lease of what was granted under the life with this number.
    pub(super) fn lease(&self, life: u64) -> Lease {
        match &self.lease {
            Some((number, lease)) if *number == life => lease.clone(),
            // It has ended meanwhile.
            _ => Lease::until(Some(Instant::now())),
        }
    }

    /// Goes on with what an earlier handle has left.
    pub(super) fn behind(life: Option<Life>) -> Self {
        Record {
            lease: life.as_ref().map(|life| (life.number, life.lease.clone())),
            life,
            ..Record::default()
        }
    }

    /// The last handle goes: what is left on record of nothing.
    pub(super) fn leaves(&mut self) -> Option<Life> {
        self.life.take_if(|life| !life.is_over() && life.may_go())
    }

    /// What there is to be put off.
    pub(super) fn renewal(&self) -> Option<Renewal> {
        self.life.as_ref()?.renewal()
    }

    /// A batch about it departs; whether that is the first one.
    pub(super) fn departs(&mut self, core: &Core, name: &str) -> bool {
        let time_out = core.config.lock_watchdog_timeout;
        if let Some(life) = self.life.take_if(|life| life.is_over()) {
            tell_of_loss(name, &life);
        }
        self.life.take_if(|life| life.is_stale(time_out));
        let lease = &mut self.lease;
        let life = self.life.get_or_insert_with(|| {
            let number = core.next_sequence();
            let life = Life::begin(core.id(), number, Moment::now(), time_out);
            *lease = Some((number, life.lease.clone()));
            life
        });
        self.entry = Some(life.departs(time_out, core.client_name()));
        !std::mem::replace(&mut self.watched, true)
    }

    /// This call will not take anything off the record, though nobody has the permits any more, whether they come back or stay taken:
    /// what is there too much goes with the next answer. Whether it does.
    pub(super) fn spend(&mut self, call: Call) -> bool {
        let Some((permits, life)) = call.off_record() else {
            return false;
        };
        let Some(known) = self.life.as_mut().filter(|known| known.number == life) else {
            return false;
        };
        match call {
            Call::Forget(..) => known.forget(permits.into()),
            _ => known.spend(permits.into()),
        }
        true
    }

    /// The batch under way was carried out as it was `sent` then, and not before.
    pub(super) fn is_as_sent(&mut self, sent: Moment) {
        let Some(entry) = self.entry.as_ref().filter(|entry| entry.begins) else {
            return;
        };
        if let Some(life) = self.life.as_mut().filter(|life| life.number == entry.life) {
            life.begins(sent, entry.time_out);
            self.lease = Some((life.number, life.lease.clone()));
        }
    }

    /// Whether what a batch was granted under this life, that was `sent` then, is over, though nobody has had it: the server had been away
    /// for longer than it lasts.
    pub(super) fn is_outlived(&self, life: u64, sent: Moment, time_out: Duration) -> bool {
        self.live() != Some(life) && !(sent + time_out).has_come()
    }

    /// The batch under way has ended.
    pub(super) fn ends(&mut self) -> Option<Entry> {
        if let Some(life) = &mut self.life {
            life.under_way = false;
        }
        self.entry.take()
    }

    /// The server does not know the life with this number.
    pub(super) fn is_gone(&mut self, name: &str, life: u64) -> Option<Lease> {
        let current = self.life.as_ref().map(|life| life.number);
        (current == Some(life)).then(|| self.lose(name)).flatten()
    }

    /// A batch has been answered by which guards have `taken` permits, and `given` some of the life with this number, or that was
    /// `refused`; `held` are on record now.
    pub(super) fn answered(
        &mut self,
        life: u64,
        held: u64,
        (taken, given, refused): (u64, u64, bool),
    ) -> Balance {
        let known = self.life.as_mut().filter(|known| known.number == life);
        match known.map(|known| known.answered(taken, given, held)) {
            // The counter takes no more now.
            Some(Balance::Excess(_)) if refused => Balance::Right,
            balance => balance.unwrap_or(Balance::Right),
        }
    }

    pub(super) fn settle(&mut self, name: &str, balance: Balance) -> Settled {
        let mut settled = Settled::default();
        match (balance, &mut self.life) {
            (Balance::Excess(permits), Some(life)) => {
                let number = life.number;
                settled.excess = Some(match life.adopt(permits) {
                    0 => Call::GiveBack(permits, number),
                    // What else is there the answer to that tells.
                    forgotten => Call::Forget(forgotten, number),
                });
            }
            (Balance::Lost, _) => settled.lost = self.lose(name),
            _ => {}
        }
        settled
    }

    fn lose(&mut self, name: &str) -> Option<Lease> {
        let life = self.life.take()?;
        tell_of_loss(name, &life);
        Some(life.lease)
    }
}

fn tell_of_loss(name: &str, life: &Life) {
    let (name, permits) = (name.to_owned(), life.holds());
    if permits > 0 {
        unlocked(move || tracing::warn!(name, permits, "lost"));
    }
}

/// Whom the watchdog tells, and what is done when somebody hears of what came back.
pub(super) fn owner(line: &Arc<Line<Permits>>) -> Owner {
    let on_record: Arc<dyn OnRecord> = Arc::<Line<Permits>>::clone(line);
    Owner {
        line: Arc::downgrade(&on_record),
        heard: nudge::is_heard_by_now,
    }
}

impl OnRecord for Line<Permits> {
    fn renewal(&self) -> Option<Renewal> {
        self.primitive(|permits| permits.record.renewal())
    }

    fn renewed(self: Arc<Self>, renewal: &Renewal, on_record: Option<u64>, until: Moment) {
        let renewed = self.primitive(|permits| {
            let record = &mut permits.record;
            let life = record.life.as_mut();
            let life = life.filter(|life| life.number == renewal.life)?;
            let lease = life.lease.clone();
            let balance = life.renewed(renewal, on_record);
            Some((record.settle(permits.keys.name(), balance), lease))
        });
        let Some((settled, lease)) = renewed else {
            return;
        };
        if on_record.is_some() && settled.lost.is_none() {
            lease.extend(Some(until));
        }
        if let Some(lost) = settled.lost {
            lost.lose();
        }
        if let Some(excess) = settled.excess {
            self.owe(excess);
        }
    }

    fn has_been_given_more(self: Arc<Self>) {
        nudge::has_been_given_more(&self);
    }
}
