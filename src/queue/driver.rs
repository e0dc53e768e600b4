//! Carries batches out: one at a time, each until it is answered.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};
use std::slice::from_ref;
use std::sync::Arc;

use tokio::time::Instant;

use super::answer::Said;
use super::batch::Batch;
use super::object::Object;
use super::primitive::Primitive;
use super::results::Results;
use crate::clock::Moment;
use crate::engine::drive::{Driver, Round, Rounds};
use crate::engine::log;
use crate::engine::once::{
    Ending, NOTHING, Patience, Trouble, refused, refused_or_done, unexpected_answer,
};
use crate::engine::request::{Arg, Request};
use crate::engine::sent::UnderWay;
use crate::error::Error;
use crate::transport::{Refusal, Value};

/// Queue and notes are kept for a minute without use, or for so many slow checks.
const CHECKS_KEPT: u32 = 4;

impl<P: Primitive> Object<P> {
    fn encode(&self, batch: &Batch<P>) -> Request {
        if let Some(request) = batch.request() {
            return request.clone();
        }
        let mut args = self.header(&batch.header);
        batch.encode(&mut args);
        let life = self.core.config.record_life();
        Request::once(self.script, self.script_keys(), life, args)
    }

    fn script_keys(&self) -> Vec<Arc<str>> {
        let [record, object, channel] = self.keys.own();
        let queue = &self.queue;
        let keys = [
            record,
            object,
            channel,
            &queue.queue,
            &queue.beside,
            &queue.notes,
        ];
        keys.into_iter().chain(self.keys.parts()).cloned().collect()
    }

    /// The arguments of each script, behind those of the record.
    fn header(&self, held: &Arc<str>) -> Vec<Arg> {
        let config = &self.core.config;
        let kept = (config.safety_interval * CHECKS_KEPT).max(std::time::Duration::from_secs(60));
        vec![
            Arg::Text(Arc::clone(&self.queue.client)),
            Arg::millis(config.lock_watchdog_timeout),
            Arg::Text(Arc::clone(held)),
            Arg::millis(kept),
        ]
    }

    async fn carry_out(&self, batch: Box<Batch<P>>, departing: UnderWay<'_>) {
        let mut request = self.encode(&batch);
        let mut batch = InHand::new(self, batch);
        let mut departing = Some(departing);
        request.number(self.core.next_sequence());
        // A call that was never answered may arrive late: this one goes on record, whatever it does.
        if self.core.record_is_uncertain(self.keys.record()) {
            request.mark_repeated();
        }
        let mut unanswered = false;
        let callers = |trouble: &Trouble<'_>| {
            departing = None;
            unanswered |= trouble.maybe_done;
            self.impatient(Some(&mut batch), trouble)
        };
        let ending = self.core.carry_out(&mut request, callers).await;
        if departing.is_some() {
            self.core.note_round_trip(batch.sent.timer().elapsed());
        }
        self.ended(batch, ending, unanswered && !request.is_plain())
            .await;
        let (returning, waits) = {
            let mut inner = self.lock();
            (inner.state.returning(), !inner.state.entries.is_empty())
        };
        if waits {
            self.core.record_is_awaited(self.keys.record());
        }
        if let Some((batch, (_, number))) = returning.zip(request.record()) {
            Box::pin(self.take_back(batch, number)).await;
        }
    }

    /// Takes back what the batch with this number was granted, which no replica has confirmed: where that is lost in a failover, it is
    /// not given back.
    async fn take_back(&self, batch: Batch<P>, number: u64) {
        let mut request = self.encode(&batch);
        let mut batch = InHand::new(self, Box::new(batch));
        request.takes_back(number);
        let callers = |trouble: &Trouble<'_>| {
            self.impatient(None, trouble);
            Patience::Forever
        };
        match self.core.carry_out(&mut request, callers).await {
            Ending::Answer(value) if value.is(NOTHING) => drop(batch.take()),
            // The script may have served others of this client.
            Ending::Answer(value) => drop(self.answered(&mut batch, &value)),
            _ => log::unknown(self.name(), batch.take().contents()),
        }
    }

    async fn ended(&self, mut batch: InHand<'_, P>, ending: Ending, unanswered: bool) {
        let name = self.name();
        let waited = unanswered.then(|| batch.sent.timer().elapsed());
        batch.unconfirmed = matches!(ending, Ending::Unconfirmed(..));
        let (error, unknown) = match ending {
            Ending::Answer(value) | Ending::Unconfirmed(value) => {
                match self.answered(&mut batch, &value) {
                    None => return,
                    Some(Answered::Refused(error)) => (error, None),
                    Some(Answered::Unsure(refusal)) => {
                        let waited = batch.sent.timer().elapsed();
                        let unknown = refused_or_done(name, &refusal.detail, waited);
                        (refused(name, &refusal), Some(unknown))
                    }
                    Some(Answered::Nonsense) => {
                        log::unknown(name, batch.contents());
                        let unknown = unexpected_answer(
                            name,
                            &value,
                            waited.or(Some(std::time::Duration::ZERO)),
                        );
                        (unexpected_answer(name, &value, None), Some(unknown))
                    }
                }
            }
            Ending::Refused(refusal) => {
                let unknown = waited.map(|waited| refused_or_done(name, &refusal.detail, waited));
                (refused(name, &refusal), unknown)
            }
            Ending::NotSent => {
                let mut inner = self.lock();
                inner.state.not_sent(batch.take());
                return self.finish(inner);
            }
            Ending::Unknown => {
                log::unknown(name, batch.contents());
                let mut inner = self.lock();
                let trouble = Trouble::unknown("its batch was never answered");
                inner.state.never_answered(name, batch.take(), &trouble);
                return self.finish(inner);
            }
            Ending::ShutDown => (self.gone(), None),
        };
        let error = self.core.explain(error, || self.keys.typed()).await;
        let mut inner = self.lock();
        inner
            .state
            .failed(batch.take(), &error, unknown.as_ref(), Instant::now());
        self.finish(inner);
    }

    /// Tells the callers of `batch` what `value` says; how it ended where that is not all.
    fn answered(&self, batch: &mut InHand<'_, P>, value: &Value) -> Option<Answered> {
        let request = batch.request();
        let (alone, plain) = (request.is_some(), request.is_some_and(Request::is_plain));
        let text = match value {
            Value::Bytes(bytes) if !plain => String::from_utf8_lossy(bytes),
            _ => Cow::default(),
        };
        let name = self.name();
        match Said::read(&text) {
            None if alone => {
                let mut inner = self.lock();
                inner.state.replied(batch.take(), value, Instant::now());
                self.finish(inner);
                None
            }
            Some(Said::Done(mut answer)) => {
                let Some(results) = Results::read(name, batch, &mut answer) else {
                    return Some(Answered::Nonsense);
                };
                let mut inner = self.lock();
                inner
                    .state
                    .answered(name, batch.take(), &answer, results, Instant::now());
                self.finish(inner);
                None
            }
            Some(Said::Refused(error)) => {
                Some(Answered::Refused(refused(name, &self.refusal(error))))
            }
            Some(Said::Unsure(error)) => Some(Answered::Unsure(self.refusal(error))),
            Some(Said::Unreadable(found)) => Some(Answered::Refused(Error::NotANumber {
                name: name.to_owned(),
                found: found.to_owned(),
            })),
            Some(Said::NotDone) => {
                let mut inner = self.lock();
                inner.state.not_sent(batch.take());
                self.finish(inner);
                None
            }
            Some(Said::Stale) | None => Some(Answered::Nonsense),
        }
    }

    /// Reads the server's words inside a script.
    fn refusal(&self, text: &str) -> Refusal {
        let names = || self.script_keys().iter().map(ToString::to_string).collect();
        Refusal::from_text(text).naming(names)
    }

    /// Ends the calls whose time is over; returns how long the others wait.
    fn impatient(&self, batch: Option<&mut Batch<P>>, trouble: &Trouble<'_>) -> Patience {
        let mut inner = self.lock();
        let patience = inner.state.impatient(self.name(), batch, trouble);
        self.finish(inner);
        patience
    }
}

/// An answer that is none to each caller.
enum Answered {
    Refused(Error),
    /// The same, and some of it was done.
    Unsure(Refusal),
    /// No script of this crate says it: the outcome is unknown.
    Nonsense,
}

impl<P: Primitive> Rounds for Object<P> {
    fn round(self: Arc<Self>) -> Round {
        let runtime = self.core.runtime.clone();
        let round = async move {
            let departing = self.core.sent.departs(from_ref(self.keys.object()));
            let batch = {
                let mut inner = self.lock();
                let batch = inner.state.depart(Moment::now());
                self.unlock(inner);
                batch
            };
            if let Some(batch) = batch {
                self.carry_out(batch, departing).await;
            }
        };
        // A caller may poll it on another runtime.
        Box::pin(async move { runtime.within(round).await })
    }

    fn has_work(&self) -> bool {
        let mut inner = self.lock();
        if inner.state.has_work() {
            self.core.note_busy(&mut inner.busy);
            return true;
        }
        // Waiters leave nothing to carry out.
        self.core.note_idle(&mut inner.busy);
        false
    }

    fn abandon(&self) {
        let (replies, deferred) = {
            let mut inner = self.lock();
            self.core.note_idle(&mut inner.busy);
            let state = &mut inner.state;
            let deferred = state.abandon(self.name(), self.keys.object(), Instant::now());
            (std::mem::take(&mut state.replies), deferred)
        };
        self.core.abandoned(self.name(), deferred);
        // A grant without a receiver must be released.
        drop(replies.send());
    }

    fn driver(&self) -> &Driver {
        &self.driver
    }

    fn spawn(&self, task: Round) {
        self.core.runtime.spawn(task);
    }
}

/// The batch that is under way, until it is taken. Where its round is dropped, with its runtime, its outcome stays unknown, and its callers
/// get that error.
struct InHand<'a, P: Primitive> {
    object: &'a Object<P>,
    batch: Option<Box<Batch<P>>>,
}

const TAKEN: &str = "nobody asks for a batch that has been taken";

impl<'a, P: Primitive> InHand<'a, P> {
    fn new(object: &'a Object<P>, batch: Box<Batch<P>>) -> Self {
        let batch = Some(batch);
        InHand { object, batch }
    }

    /// From now on it is seen to.
    fn take(&mut self) -> Batch<P> {
        *self.batch.take().expect(TAKEN)
    }
}

impl<P: Primitive> Deref for InHand<'_, P> {
    type Target = Batch<P>;

    fn deref(&self) -> &Batch<P> {
        self.batch.as_ref().expect(TAKEN)
    }
}

impl<P: Primitive> DerefMut for InHand<'_, P> {
    fn deref_mut(&mut self) -> &mut Batch<P> {
        self.batch.as_mut().expect(TAKEN)
    }
}

impl<P: Primitive> Drop for InHand<'_, P> {
    fn drop(&mut self) {
        if let Some(batch) = self.batch.take() {
            let object = self.object;
            object.core.lost(object.name(), &batch.contents());
            let replies = {
                let state = &mut object.lock().state;
                state.lose(object.name(), *batch);
                std::mem::take(&mut state.replies)
            };
            drop(replies.send());
        }
    }
}
