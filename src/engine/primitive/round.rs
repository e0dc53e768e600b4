//! One round: what departs is carried out, and its outcome told.

use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::endings::Answered;
use super::envelope::{self, Answer, Wire};
use super::line::Inner;
use super::state::Task;
use super::{Batch, Line, Primitive, Verdict};
use crate::clock::Moment;
use crate::engine::answer;
use crate::engine::command::{Command, Commands};
use crate::engine::drive::{Driver, Round, Rounds};
use crate::engine::in_hand::{Carries, InHand};
use crate::engine::log;
use crate::engine::once::{
    Ending, MOST_DISOWNED, Patience, Trouble, refused, refused_in_doubt, unexpected_answer,
};
use crate::engine::sent::UnderWay;
use crate::error::Error;
use crate::sync::MutexGuard;
use crate::transport::{Reason, Refusal, Value};

/// How a batch has ended.
enum Ended<P: Primitive> {
    Answered(Verdict<P>),
    /// Nothing was done: its calls are made again, if somebody still wants them.
    NotDone,
    /// Nothing was done; or by the last sending only, and then whoever asked is told the `doubt`. If it has several parts,
    /// `each` may be tried on its own.
    Failed {
        error: Error,
        doubt: Option<Error>,
        each: bool,
    },
    /// Nobody will ever know.
    Unknown,
}

impl<P: Primitive> Ended<P> {
    /// Whether it may be found out which key is meant by an error. For that nobody else is kept waiting who has been `alone` with
    /// it, or is told the same.
    fn has_wrong_type(&mut self, alone: bool) -> bool {
        let is_wrong_type = |error: &Error| matches!(error, Error::WrongType { .. });
        match self {
            Ended::Failed { error, .. } => is_wrong_type(error),
            Ended::Answered(verdict) if alone => verdict.errors().any(|error| is_wrong_type(error)),
            Ended::Answered(verdict) => verdict.stopped.as_ref().is_some_and(is_wrong_type),
            Ended::NotDone | Ended::Unknown => false,
        }
    }
}

impl<P: Primitive> Batch<P> {
    /// Notes whether replicas have what the answer tells of.
    fn confirmed(&mut self, ending: Ending) -> Ending {
        match ending {
            Ending::Unconfirmed(value, _) => {
                self.unconfirmed = true;
                Ending::Answer(value)
            }
            ending => ending,
        }
    }
}

impl<P: Primitive> Line<P> {
    async fn carry_out_batch(&self, batch: Box<Batch<P>>, departing: UnderWay<'_>) {
        let mut batch = InHand::new(self, batch);
        let began = Instant::now();
        let departing = Some(departing);
        // What is rare has a future of its own: this one is made, and moved, for every call.
        let ended = Box::pin(self.carry_out_on_record(&mut batch, departing, began)).await;
        if let Some(mut ended) = ended {
            if ended.has_wrong_type(batch.parts() == 1) {
                ended = Box::pin(self.explained(ended)).await;
            }
            self.settle(*batch.take(), ended);
        }
    }

    /// Carries `batch` out by the envelope. Nothing where its callers have been told.
    async fn carry_out_on_record(
        &self,
        batch: &mut InHand<'_, Self>,
        mut departing: Option<UnderWay<'_>>,
        began: Instant,
    ) -> Option<Ended<P>> {
        let mut request = {
            let mut inner = self.lock();
            self.wire().request(&mut inner.state.primitive, batch)
        };
        request.number(self.core.next_sequence());
        if batch.doubtful {
            request.doubt();
        }
        let (mut sent, mut unanswered, mut disowned) = (batch.sent, false, 0);
        let ending = loop {
            let callers = |trouble: &Trouble<'_>| {
                departing = None;
                unanswered |= trouble.doubtful;
                // The answer, if one comes, will be that of a later sending.
                sent = Moment::now();
                self.tell_impatient(batch, trouble, began)
            };
            let ending = self.core.carry_out(&mut request, callers).await;
            if let Ending::Unconfirmed(_, departed) = &ending {
                sent = *departed;
            }
            let ending = batch.confirmed(ending);
            match &ending {
                Ending::Answer(value)
                    if !unanswered
                        && disowned < MOST_DISOWNED
                        && Answer::read(&envelope::text(value)) == Some(Answer::Stale) =>
                {
                    tracing::warn!(
                        name = self.name(),
                        "somebody else has written to this client's record"
                    );
                    request.disown_record(self.core.next_sequence());
                    disowned += 1;
                }
                _ => break ending,
            }
        };
        batch.sent = sent;
        batch.unanswered = unanswered.then(|| began.elapsed());
        self.ended(batch, ending)
    }

    fn ended(&self, batch: &mut InHand<'_, Self>, ending: Ending) -> Option<Ended<P>> {
        let waited = batch.unanswered;
        Some(match ending {
            Ending::Answer(value) | Ending::Unconfirmed(value, _) => {
                return self.answered(batch, &value);
            }
            Ending::Refused(refusal) => Ended::Failed {
                error: refused(self.name(), &refusal),
                doubt: waited.map(|waited| refused_in_doubt(self.name(), &refusal.detail, waited)),
                each: waited.is_none() && refusal.reason == Reason::Permission,
            },
            Ending::NotSent => Ended::NotDone,
            Ending::Unknown => Ended::Unknown,
            Ending::ShutDown => Ended::Failed {
                error: self.shut_down(),
                doubt: None,
                each: false,
            },
        })
    }

    fn wire(&self) -> Wire<'_> {
        Wire {
            script: self.script,
            keys: &self.keys,
            record_life: self.core.config.record_life(),
        }
    }

    /// Reads what `value` says of `batch`, and tells its callers; how it has ended, if there is more to it.
    fn answered(&self, batch: &mut InHand<'_, Self>, value: &Value) -> Option<Ended<P>> {
        batch.answered = Instant::now();
        let mut inner = self.lock();
        let ended = self.read(&mut inner, batch, value);
        // Where it leads to nothing but what replicas do not have, that of the next one must be confirmed, whatever it changes.
        inner.state.doubtful |= batch.unconfirmed;
        let mut ended = ended.unwrap_or_else(|| self.makes_no_sense(batch, value));
        if ended.has_wrong_type(batch.parts() == 1) {
            return Some(ended);
        }
        match ended {
            Ended::Answered(verdict) => self.arrive(inner, *batch.take(), verdict),
            ended => return Some(ended),
        }
        None
    }

    /// Notes what has been answered to `batch`, and tells its callers.
    fn arrive(
        &self,
        mut inner: MutexGuard<'_, Inner<P>>,
        mut batch: Batch<P>,
        verdict: Verdict<P>,
    ) {
        let heard = std::mem::take(&mut batch.heard);
        let (sent, now) = (batch.sent.timer(), batch.answered);
        let answered = Answered { verdict, sent, now };
        let told = inner.state.arrive(self.keys.name(), batch, answered);
        self.listen_behind(&mut inner, heard);
        self.unlock(inner);
        self.tell(told);
    }

    /// With the key named that its error is about.
    async fn explained(&self, ended: Ended<P>) -> Ended<P> {
        match ended {
            Ended::Failed { error, doubt, each } => Ended::Failed {
                error: self.explain(error).await,
                doubt,
                each,
            },
            Ended::Answered(mut verdict) => {
                for error in verdict.errors() {
                    *error = self.explain(error.clone()).await;
                }
                Ended::Answered(verdict)
            }
            other => other,
        }
    }

    /// Finds out which key is meant, unless that is known.
    async fn explain(&self, error: Error) -> Error {
        let known = match &error {
            Error::WrongType { name, key, .. } if key != name => Some(key.clone()),
            _ => None,
        };
        let typed = || {
            let mut all = self.keys.typed();
            all.retain(|(key, _)| known.as_ref().is_none_or(|known| **key == **known));
            all
        };
        self.core.explain(error, typed).await
    }

    /// Notes how `batch` has ended, and tells its callers.
    fn settle(&self, batch: Batch<P>, ended: Ended<P>) {
        let now = Instant::now();
        let name = self.keys.name();
        let several = batch.parts() > 1;
        let mut inner = self.lock();
        let state = &mut inner.state;
        let told = match ended {
            Ended::Answered(verdict) => return self.arrive(inner, batch, verdict),
            Ended::NotDone => return state.put_back(batch, now),
            Ended::Failed { each: true, .. } if several => {
                return state.try_singly(batch, now);
            }
            Ended::Failed { error, doubt, .. } => {
                // A copy may still arrive; or nobody knows what the answer has said.
                state.doubtful |= batch.unanswered.is_some() || doubt.is_some();
                let told = state.fail(name, batch, (&error, doubt.as_ref()), now);
                self.listen_as_needed(&mut inner, &[]);
                self.unlock(inner);
                told
            }
            Ended::Unknown => {
                log::unknown(name, batch.contents());
                return state.give_up(&batch, now);
            }
        };
        self.tell(told);
    }

    /// Reads the answer to `batch`.
    fn read(&self, inner: &mut Inner<P>, batch: &mut Batch<P>, value: &Value) -> Option<Ended<P>> {
        let text = envelope::text(value);
        let answer = Answer::read(&text)?;
        let state = &mut inner.state;
        // It was to be put there, whatever it is.
        let asked_for = batch.doubtful || batch.unanswered.is_some();
        if answer.is_on_record(&text, asked_for) {
            // Nothing that was sent before can do harm any more.
            state.doubtful = false;
        }
        let name = self.keys.name();
        Some(match answer {
            Answer::Done(words) => {
                let mut words = words.split_ascii_whitespace();
                let verdict = state.primitive.decode(batch, &mut words)?;
                let complete = verdict.replies.len() == batch.calls.len()
                    && verdict.grants.len() == batch.asks.len();
                if !complete || !envelope::is_read(&mut words) {
                    return None;
                }
                Ended::Answered(verdict)
            }
            Answer::NotDone => Ended::NotDone,
            Answer::Stale => return None,
            Answer::Unreadable(found) => Ended::Failed {
                error: state.primitive.unreadable(name, found),
                doubt: None,
                each: true,
            },
            Answer::Refused(error) => Ended::Failed {
                error: refused(name, &Refusal::from_text(error)),
                doubt: None,
                each: true,
            },
        })
    }

    /// An answer that no script of ours gives. One that says it has done something has: what, nobody knows.
    fn makes_no_sense(&self, batch: &Batch<P>, value: &Value) -> Ended<P> {
        let done = envelope::is_done(value);
        let waited = batch.unanswered.or(done.then_some(Duration::ZERO));
        if done {
            log::unknown(self.keys.name(), batch.contents());
        }
        Ended::Failed {
            error: unexpected_answer(self.name(), value, None),
            doubt: waited.map(|waited| unexpected_answer(self.name(), value, Some(waited))),
            each: false,
        }
    }

    fn tell_impatient(
        &self,
        batch: &mut Batch<P>,
        trouble: &Trouble<'_>,
        began: Instant,
    ) -> Patience {
        let window = self.core.config.retry_window;
        let (told, patience) = {
            let mut inner = self.lock();
            let name = self.keys.name();
            let state = &mut inner.state;
            let told = state.tell_impatient(name, batch, trouble, began, window);
            self.listen_as_needed(&mut inner, &[]);
            told
        };
        self.tell(told);
        patience
    }

    async fn carry_out_command(&self, command: Command, departing: UnderWay<'_>) {
        let began = Instant::now();
        let window = self.core.config.retry_window;
        let mut departing = Some(departing);
        let others = |trouble: &Trouble<'_>| {
            departing = None;
            let mut inner = self.lock();
            let name = self.keys.name();
            let (told, _) = inner.state.tell_behind(name, trouble, began, window);
            self.listen_as_needed(&mut inner, &[]);
            drop(inner);
            self.tell(told);
        };
        let done = self.core.carry_out_command(&self.keys, command, others);
        if !done.await {
            self.lock().state.doubtful = true;
        }
    }
}

impl<P: Primitive> Rounds for Line<P> {
    fn round(self: Arc<Self>) -> Round {
        let runtime = self.core().runtime.clone();
        let round = async move {
            let (task, departing) = {
                let mut inner = self.lock();
                let departing = self.core.sent.departs(from_ref(self.keys.object()));
                let mut task = inner.state.depart(Moment::now());
                if let Some(Task::Batch(batch)) = &mut task {
                    batch.heard = inner.channels.heard();
                    inner.sent_before = self.core.sent.count();
                }
                self.unlock(inner);
                (task, departing)
            };
            match task {
                Some(Task::Batch(batch)) => self.carry_out_batch(batch, departing).await,
                Some(Task::Command(command)) => {
                    Box::pin(self.carry_out_command(*command, departing)).await;
                }
                None => {}
            }
        };
        answer::within(runtime, Box::pin(round))
    }

    fn has_work(&self) -> bool {
        let mut inner = self.lock();
        if inner.state.has_work() {
            self.note_busy(&mut inner);
            return true;
        }
        if inner.state.closed && inner.state.later.is_some() {
            return false;
        }
        // Callers that wait are not owed anything.
        self.core.note_idle(&mut inner.busy);
        false
    }

    fn abandon(&self) {
        let (told, owed) = {
            let mut inner = self.lock();
            self.core.note_idle(&mut inner.busy);
            let abandoned = inner.state.abandon(self.keys.name(), Instant::now());
            self.keep_as_needed(&mut inner);
            abandoned
        };
        self.core.abandoned(self.name(), owed);
        // Nobody gives back what nobody takes.
        drop(told.tell());
    }

    fn driver(&self) -> &Driver {
        &self.driver
    }

    fn spawn(&self, task: Round) {
        self.core.runtime.spawn(task);
    }
}

impl<P: Primitive> Carries for Line<P> {
    type Batch = Box<Batch<P>>;

    fn lose(&self, batch: Box<Batch<P>>) {
        self.core.lost(self.name(), &batch.contents());
        let told = self.lock().state.lose(self.keys.name(), *batch);
        drop(told.tell());
    }
}
