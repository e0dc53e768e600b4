//! What the answer to a batch means for those who asked, and for what the owners hold.

use std::sync::Arc;
use std::time::Duration;

use super::primitive::{Held, Lock, renewed};
use super::steps::{Answer, Claim, Granted, Known, Reply, Step, StepAnswer};
use crate::api::Hold;
use crate::engine::holds::{Count, Term};
use crate::engine::once::{refused, refused_in_doubt};
use crate::engine::primitive::{Batch, Done, Got, Look, Verdict};
use crate::engine::turns::{Said, Standing};
use crate::error::{Error, Result};
use crate::transport::Refusal;

/// What a batch has come to, as far as those are concerned who wait.
#[derive(Default)]
struct Seen {
    /// The lock has come free.
    freed: bool,
    /// An owner did not hold what it gave back, or nobody held what was to be taken away.
    lost: bool,
    /// In what time it comes to its end, if nobody renews it or gives it back.
    ends: Option<Duration>,
}

impl Seen {
    fn note(&mut self, answer: &StepAnswer, known: &Known) {
        match answer {
            freed if freed.sets_free() => self.freed = true,
            StepAnswer::Taken(..) | StepAnswer::Released(_) => self.ends = Some(known.lease),
            StepAnswer::NotHeld | StepAnswer::Forced(false) => self.lost = true,
            _ => {}
        }
    }
}

impl Lock {
    /// Notes what the server has answered to the steps of `batch`; `None` where the word about turns makes no sense.
    pub(super) fn arrive(
        &mut self,
        batch: &Batch<Self>,
        answer: Answer<'_>,
    ) -> Option<Verdict<Self>> {
        let Answer {
            listeners,
            steps: answers,
            turn,
        } = answer;
        let served = answers.iter().skip(batch.calls.len()).zip(&batch.asks);
        let served =
            served.filter(|(answer, ask)| !ask.last && matches!(answer, StepAnswer::Taken(..)));
        let standing = self.place.answered(Said {
            listeners,
            word: turn,
            free: answers.iter().any(StepAnswer::sets_free),
            asked: batch.asks.iter().any(|ask| !ask.last),
            waiting: self.report(batch).waiting > served.count(),
            again: batch.unanswered.is_some(),
            sent: batch.departed.timer(),
            now: batch.answered,
        })?;
        Some(self.settle_all(batch, answers, standing))
    }

    /// `batch` has only looked, and somebody holds the lock, for `ttl` ms more: nobody needs to be looked after.
    pub(super) fn is_held_still(&mut self, batch: &Batch<Self>, ttl: i64) -> Verdict<Self> {
        let comes = self.place.is_idle() && self.report(batch).waiting > 0;
        let standing = Standing {
            comes,
            ..Standing::default()
        };
        let ttl = u64::try_from(ttl).ok().map(Duration::from_millis);
        let busy = batch.asks.iter().map(|_| StepAnswer::Busy(ttl));
        let answers = [StepAnswer::Tended].into_iter().chain(busy);
        self.settle_all(batch, answers.collect(), standing)
    }

    /// Notes what `answers` mean for those who asked, and for what the owners hold.
    fn settle_all(
        &mut self,
        batch: &Batch<Self>,
        answers: Vec<StepAnswer>,
        standing: Standing,
    ) -> Verdict<Self> {
        let now = batch.answered;
        let Standing {
            held: left_to_others,
            comes,
            look: tend,
            ..
        } = standing;
        let under_way = std::mem::take(&mut self.under_way);
        let forced = answers.contains(&StepAnswer::Forced(true));
        if doubtful(batch) || forced {
            // It has left a fence.
            self.fenced_until = now.checked_add(self.times.record_life);
        }
        self.taken_by = None;
        let mut seen = Seen::default();
        let mut answers = under_way.steps.into_iter().zip(answers);
        let mut again = false;
        // The last of the calls found the lock taken, or took it.
        let mut is_taken = false;
        let replies = batch.calls.iter().zip(&mut answers);
        let replies = replies.map(|(_, ((step, known), answer))| {
            if self.is_to_be_asked_again(&step, &answer, &known) {
                again = true;
                return Done::Again;
            }
            seen.note(&answer, &known);
            is_taken = matches!(answer, StepAnswer::Busy(_) | StepAnswer::Taken(..));
            match self.settle(batch, step, answer, &known) {
                Ok(reply) => Done::Reply(reply),
                Err(error) => Done::Failed(error.into()),
            }
        });
        let replies: Vec<_> = replies.collect();
        self.taken = (is_taken && !again).then_some(batch.sent.timer());
        let grants = answers.map(|((step, known), answer)| {
            if self.is_to_be_asked_again(&step, &answer, &known) {
                return Got::Again;
            }
            seen.note(&answer, &known);
            if let StepAnswer::Busy(ttl) = answer {
                seen.ends = ttl;
            }
            match self.settle(batch, step, answer, &known) {
                Ok(Reply::Taken(granted)) => Got::Granted(granted),
                Ok(_) => Got::Nothing,
                Err(error) => Got::Failed(error.into()),
            }
        });
        let grants: Vec<_> = grants.collect();
        let held = self.holds.is_held(self.keys.object());
        // A millisecond that Redis rounds off, and the way there.
        let ends = seen.ends.map(|ends| ends + Duration::from_millis(1));
        self.held = ends.filter(|_| held).map(|ends| Held {
            fresh_until: now + self.times.window,
            ends: now + ends,
        });
        let look = if comes || (seen.freed || seen.lost) && !held && !left_to_others {
            Look::Now
        } else {
            // All who wait know when it comes to its end: not all look then.
            ends.map_or(Look::No, |ends| Look::After(ends + self.place.delay(now)))
        };
        Verdict {
            replies,
            grants,
            look,
            stopped: None,
            later: tend.map(|pause| (pause, Step::Tend)),
            owed: None,
        }
    }

    /// Whether nothing was done, and another sending will do.
    fn is_to_be_asked_again(&self, step: &Step, answer: &StepAnswer, known: &Known) -> bool {
        match (step, answer) {
            (Step::Acquire(claim), StepAnswer::Lost) => {
                self.holds.lost(self.keys.object(), &claim.owner);
                true
            }
            // What was done in front of it is done; alone it is tried again until the server can.
            (step, answer) if answer.is_not_now() => {
                self.note_refusal(step, known);
                true
            }
            _ => false,
        }
    }

    /// Notes what an answer means for the holds.
    fn settle(
        &mut self,
        batch: &Batch<Self>,
        step: Step,
        answer: StepAnswer,
        known: &Known,
    ) -> Result<Reply> {
        let doubtful = doubtful(batch);
        let (holds, key, until) = (&self.holds, self.keys.object(), batch.sent + known.lease);
        match (step, answer) {
            (Step::Acquire(claim), StepAnswer::Taken(_, token)) => {
                Ok(Reply::Taken(self.granted(batch, claim, token, known)))
            }
            (Step::Acquire(claim), StepAnswer::Busy(_) | StepAnswer::Left) => {
                holds.lost(key, &claim.owner);
                Ok(Reply::Busy)
            }
            (Step::Tend, StepAnswer::Tended) => Ok(Reply::Tended),
            (Step::Release(owner, _), StepAnswer::Released(left)) => {
                holds.released(key, &owner, known.number, (left > 0).then_some(until));
                Ok(Reply::Released)
            }
            // The first copy has done it.
            (Step::Release(owner, _), StepAnswer::NotHeld)
                if doubtful && known.holds == Count::Held(1) =>
            {
                holds.released(key, &owner, known.number, None);
                Ok(Reply::Released)
            }
            // The first copy may have done it, and what was left has been lost since.
            (Step::Release(owner, _), StepAnswer::NotHeld)
                if doubtful && matches!(known.holds, Count::Held(2..)) =>
            {
                holds.lost(key, &owner);
                Ok(Reply::Released)
            }
            (Step::Release(owner, _), StepAnswer::NotHeld) => {
                holds.lost(key, &owner);
                Err(self.not_held(&owner))
            }
            (Step::Force, StepAnswer::Forced(forced)) => {
                holds.all_lost(key, holds.kept());
                Ok(Reply::Forced(forced))
            }
            (step, StepAnswer::Refused(error)) => {
                let refusal = Refusal::from_text(&error);
                // Locks have no record, so it says nothing about an earlier sending.
                match batch.unanswered {
                    None => {
                        self.note_refusal(&step, known);
                        Err(refused(self.keys.name(), &refusal))
                    }
                    Some(waited) => {
                        self.note_silence(&step, known);
                        Err(refused_in_doubt(self.keys.name(), &refusal.detail, waited))
                    }
                }
            }
            (step, answer) => Err(Error::Server {
                name: self.keys.name().to_owned(),
                detail: format!("unexpected answer {answer:?} to {}", step.name()),
            }),
        }
    }

    /// Notes that `claim`'s owner has taken the lock.
    fn granted(&mut self, batch: &Batch<Self>, claim: Claim, token: u64, known: &Known) -> Granted {
        let Claim { owner, term, .. } = claim;
        let (key, until) = (self.keys.object(), batch.sent + known.lease);
        let renewing = renewed(self.times.watchdog);
        let (lease, id) = self.holds.taken(key, &owner, term, until, renewing);
        self.taken_by = Some(Arc::clone(&owner));
        self.renews |= term == Term::Watched;
        let token = claim.fenced.then_some(token);
        let hold = Hold { lease, id, token };
        Granted { owner, hold }
    }
}

/// Whether an earlier sending, or an earlier batch, may have been carried out or still arrive.
fn doubtful(batch: &Batch<Lock>) -> bool {
    batch.doubtful || batch.unanswered.is_some()
}
