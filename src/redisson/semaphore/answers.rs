//! What an answer means for those who asked, for what guards hold, and for others.

use super::calls::{Call, Grant, Reply, Want};
use super::permits::{Behind, Permits};
use super::steps::Results;
use crate::engine::primitive::{Batch, Done, Got, Look, Verdict};
use crate::engine::turns::Said;

/// What the server has answered to a batch.
pub(super) struct Answer<'a> {
    /// How many listeners the channel has, where it was seen.
    pub(super) listeners: Option<u64>,
    /// The counter behind the batch, where it was seen.
    pub(super) available: Option<i64>,
    pub(super) results: Results,
    /// How many permits are on record under the life with a number, where calls were about such.
    pub(super) held: Option<(u64, u64)>,
    /// The answer to the report, where others listen.
    pub(super) turn: Option<&'a str>,
}

impl Permits {
    /// Nothing of a batch was done, as what guards held is not on record any more: its calls are made again.
    pub(super) fn gone(&mut self, batch: &Batch<Self>, life: Option<u64>) -> Verdict<Self> {
        let lost = life.and_then(|life| self.record.is_gone(self.keys.name(), life));
        self.has_lost(lost);
        Verdict {
            replies: batch.calls.iter().map(|_| Done::Again).collect(),
            grants: batch.asks.iter().map(|_| Got::Again).collect(),
            ..Verdict::new(Vec::new(), [], Look::No)
        }
    }

    /// Nothing is free, so nobody needs to be looked after.
    pub(super) fn nothing_is_free(&mut self, batch: &Batch<Self>) -> Verdict<Self> {
        self.record.ends();
        let comes = self.place.is_idle() && batch.waiting > 0;
        self.looking_unprompted = false;
        self.available = 0;
        self.seen = Some(batch.departed.timer());
        let look = if comes { Look::Now } else { Look::No };
        let nothing = batch.asks.iter().map(|_| None);
        Verdict::new(vec![Reply::Number(1)], nothing, look)
    }

    /// Notes what the server has answered to `batch`.
    pub(super) fn arrive(
        &mut self,
        batch: &Batch<Self>,
        answer: Answer<'_>,
    ) -> Option<Verdict<Self>> {
        let Answer {
            listeners,
            available,
            mut results,
            held,
            turn,
        } = answer;
        let life = held.map(|(life, _)| life);
        let balance = held.map(|(life, held)| {
            let changes = batch.steps.balance(&results, life);
            self.record.answered(life, held, changes)
        });
        let (mut asked, mut served, mut last) = (0, 0, None);
        let grants = batch.asks.iter().enumerate().map(|(index, ask)| {
            let granted = batch.steps.is_served(&mut results, index);
            if !ask.last {
                asked += 1;
                served += usize::from(granted);
                last = if granted { Some(ask.ticket) } else { last };
            }
            let Want {
                permits, recorded, ..
            } = ask.want;
            let life = life.filter(|_| recorded);
            if granted {
                Got::Granted(Grant { permits, life })
            } else {
                Got::Nothing
            }
        });
        let mut grants: Vec<_> = grants.collect();
        let waiting = batch.waiting.saturating_sub(batch.asks.len() - asked);
        let standing = self.place.answered(Said {
            listeners,
            word: turn,
            free: available.is_some_and(|available| available > 0),
            asked: asked > 0,
            waiting: waiting > served,
            again: batch.unanswered.is_some(),
            sent: batch.departed.timer(),
            now: batch.answered,
        })?;

        // Where it is not known, any number of permits may be free.
        let before = std::mem::replace(&mut self.available, available.unwrap_or(i64::MAX));
        let found = std::mem::take(&mut self.looking_unprompted) && self.available > before;
        self.seen = available.map(|_| batch.departed.timer());
        let fared = self.crowd.fared(asked, served, last, self.available);
        self.behind = fared.map_or(Behind::Nothing, |fared| {
            Behind::Answer(fared, standing.held)
        });
        self.leaves(batch, found, listeners, standing.strangers);

        let name = self.keys.name();
        let replies = batch.calls.iter().enumerate().map(|(index, queued)| {
            match (
                queued.call,
                batch.steps.answer(name, &mut results, index, queued.call),
            ) {
                (Call::TryAcquire(permits), Ok(1)) => Done::Reply(Reply::Granted(Grant {
                    permits,
                    life: None,
                })),
                (Call::TryTake(permits), Ok(1)) => {
                    Done::Reply(Reply::Granted(Grant { permits, life }))
                }
                (_, Ok(number)) => Done::Reply(Reply::Number(number)),
                (_, Err(error)) => Done::Failed(error.into()),
            }
        });
        let mut replies: Vec<_> = replies.collect();
        let mut owed = None;
        if let Some(balance) = balance {
            let settled = self.record.settle(name, balance);
            self.has_lost(settled.lost);
            owed = settled.excess;
        }
        if let Some(life) = life {
            self.spend_outlived(batch, life, &mut replies, &mut grants);
        }
        Some(Verdict {
            replies,
            grants,
            look: if standing.comes { Look::Now } else { Look::No },
            stopped: None,
            later: standing.look.map(|pause| (pause, Call::Tend)),
            owed,
        })
    }

    /// What was granted under a life that is over by now would be lost in the caller's hand: it comes back by itself, and is asked for
    /// anew.
    fn spend_outlived(
        &mut self,
        batch: &Batch<Self>,
        life: u64,
        replies: &mut [Done<Reply>],
        grants: &mut [Got<Grant>],
    ) {
        let time_out = self.core.config.lock_watchdog_timeout;
        if !self.record.is_outlived(life, batch.sent, time_out) {
            return;
        }
        let mut spend = |grant: &Grant| {
            let spent = grant.life == Some(life);
            if spent {
                self.record.spend(grant.release());
            }
            spent
        };
        for reply in replies {
            if matches!(reply, Done::Reply(Reply::Granted(grant)) if spend(grant)) {
                *reply = Done::Again;
            }
        }
        for got in grants {
            if matches!(got, Got::Granted(grant) if spend(grant)) {
                *got = Got::Again;
            }
        }
    }

    /// What is left to others behind `batch`: they may have to be told. `found`: no message has told of it.
    fn leaves(
        &mut self,
        batch: &Batch<Self>,
        found: bool,
        listeners: Option<u64>,
        strangers: Option<u32>,
    ) {
        let own = u64::from(batch.hears_at_last(self.keys.channel()));
        let others = listeners.map(|listeners| listeners.saturating_sub(own));
        if self.available < 1 || !batch.steps.add() && !found {
            return;
        }
        // Clients of ours that wait take what is left: whoever else is to have it was not there.
        let no_strangers = strangers == Some(0);
        if !found && (others == Some(0) || no_strangers) {
            self.news().unheard = true;
        } else if !no_strangers {
            // An answer out of the record does not know how many listen.
            let known = (self.available < i64::MAX).then_some(self.available);
            if self.leavings.leave(known, found) {
                self.news().left = true;
            } else {
                self.left_more.notify_one();
            }
        }
    }
}

impl Drop for Permits {
    fn drop(&mut self) {
        if let Some(life) = self.record.leaves() {
            self.core.watchdog.leaves(self.keys.object(), life);
        }
    }
}
