//! Carries batches out: one at a time, each until it is answered.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::answer::{Results, Said};
use super::batch::Batch;
use super::object::{Inner, Object};
use super::primitive::Primitive;
use crate::clock::Moment;
use crate::engine::drive::{Driver, Round, Rounds};
use crate::engine::log;
use crate::engine::once::{Ending, Trouble, refused, unexpected_answer};
use crate::engine::request::{Arg, Request};
use crate::error::Error;
use crate::sync::MutexGuard;
use crate::transport::{Refusal, Value};

/// Queue and notes are kept for a minute without use, or for so many slow checks.
const CHECKS_KEPT: u32 = 4;

impl<P: Primitive> Rounds for Object<P> {
    fn round(self: Arc<Self>) -> Round {
        let runtime = self.core.runtime.clone();
        let round = async move {
            let (lost, departed) = {
                let mut inner = self.lock();
                // A batch that is still there was left by a round that has panicked.
                let lost = inner.state.lose();
                let batch = inner.state.depart(Moment::now());
                let departed = batch.map(|batch| (self.encode(batch), batch.sent));
                match &lost {
                    Some(_) => self.finish(inner),
                    None => self.unlock(inner),
                }
                (lost, departed)
            };
            if let Some(calls) = lost {
                self.core.lost(self.name(), &calls);
            }
            if let Some((request, sent)) = departed {
                self.carry_out(request, sent).await;
            }
        };
        // A caller may poll it on another runtime.
        Box::pin(async move { runtime.within(round).await })
    }

    fn has_work(&self) -> bool {
        let mut inner = self.lock();
        if inner.state.under_way.is_some() || inner.state.has_work() {
            self.core.note_busy(&mut inner.busy);
            return true;
        }
        // Waiting alone is no work.
        self.core.note_idle(&mut inner.busy);
        false
    }

    fn abandon(&self) {
        let (replies, lost, deferred, _kept) = {
            let mut inner = self.lock();
            self.core.note_idle(&mut inner.busy);
            let state = &mut inner.state;
            let lost = state.lose();
            let deferred = state.abandon(Instant::now());
            let replies = std::mem::take(&mut state.replies);
            (replies, lost, deferred, inner.kept.take())
        };
        if let Some(calls) = lost {
            self.core.lost(self.name(), &calls);
        }
        self.core.abandoned(self.name(), deferred);
        // Errors; no grant is among them.
        drop(replies.send());
    }

    fn driver(&self) -> &Driver {
        &self.driver
    }

    fn spawn(&self, task: Round) {
        self.core.runtime.spawn(task);
    }
}

impl<P: Primitive> Object<P> {
    async fn carry_out(&self, mut request: Request, sent: Moment) {
        // A call that was never answered may arrive late: this one goes on record, whatever it does.
        if self.core.record_is_uncertain(self.keys.record()) {
            request.mark_repeated();
        }
        let mut smooth = true;
        let is_wanted = |trouble: &Trouble<'_>| {
            smooth = false;
            let mut inner = self.lock();
            let wanted = inner.state.troubled(trouble, Instant::now());
            self.finish(inner);
            wanted
        };
        let ending = self.core.carry_out(&mut request, is_wanted).await;
        if smooth {
            self.core.note_round_trip(sent.timer().elapsed());
        }
        self.ended(&request, ending).await;
        if !self.lock().state.entries.is_empty() {
            self.core.keep_record(self.keys.record());
        }
    }

    /// The request of the batch under way has ended.
    async fn ended(&self, request: &Request, ending: Ending) {
        let name = self.name();
        let record = request.record();
        let unconfirmed = record.filter(|_| matches!(ending, Ending::Unconfirmed(_)));
        let (error, unknown) = match ending {
            Ending::Answer(value) | Ending::Unconfirmed(value) => {
                match self.answered(&value, unconfirmed.map(|(_, number)| number)) {
                    Some(errors) => errors,
                    None => return,
                }
            }
            Ending::Refused(refusal, unanswered) => {
                let unknown = unanswered.then(|| refusal.detail.clone());
                (refused(name, &refusal), unknown)
            }
            Ending::NotSent => {
                let mut inner = self.lock();
                inner.state.not_sent(Instant::now());
                return self.finish(inner);
            }
            Ending::Unknown => {
                let mut inner = self.lock();
                let calls = inner.state.contents();
                inner.state.never_answered(Instant::now());
                self.finish(inner);
                return log::unknown(name, calls);
            }
            Ending::ShutDown => (self.gone(), None),
        };
        let error = self.core.explain(error, || self.keys.typed()).await;
        let mut inner = self.lock();
        inner
            .state
            .failed(&error, unknown.as_deref(), Instant::now());
        self.finish(inner);
    }

    /// Tells the callers of the batch their parts of `value`. Returns the error for all of them where it is one; where their calls may have been
    /// carried out, also why that is not known. `unconfirmed`: its number, where too few replicas have it.
    fn answered(&self, value: &Value, unconfirmed: Option<u64>) -> Option<(Error, Option<String>)> {
        let name = self.name();
        let now = Instant::now();
        let mut inner = self.lock();
        let batch = &mut inner.state.under_way.as_mut()?.batch;
        batch.unconfirmed = unconfirmed;
        let request = batch.request();
        let (alone, plain) = (request.is_some(), request.is_some_and(Request::is_plain));
        let text = match value {
            Value::Bytes(bytes) if !plain => String::from_utf8_lossy(bytes),
            _ => Cow::default(),
        };
        match Said::read(&text) {
            None if alone => inner.state.replied(value, now),
            Some(Said::NotDone) => inner.state.not_sent(now),
            Some(Said::Done(mut answer)) => match Results::read(name, batch, &mut answer) {
                Some(results) => inner.state.answered(&answer, results, now),
                None => return Some(self.nonsense(inner, value)),
            },
            Some(Said::Refused(error)) => return Some((refused(name, &self.refusal(error)), None)),
            Some(Said::Unsure(error)) => {
                let refusal = self.refusal(error);
                return Some((refused(name, &refusal), Some(refusal.detail)));
            }
            Some(Said::Unreadable(found)) => {
                let (name, found) = (name.to_owned(), found.to_owned());
                return Some((Error::NotANumber { name, found }, None));
            }
            Some(Said::Stale) | None => return Some(self.nonsense(inner, value)),
        }
        self.finish(inner);
        None
    }

    /// The errors for an answer that no script of this crate gives.
    fn nonsense(&self, inner: MutexGuard<'_, Inner<P>>, value: &Value) -> (Error, Option<String>) {
        let calls = inner.state.contents();
        drop(inner);
        log::unknown(self.name(), calls);
        let unknown = format!("unexpected answer {value:?}");
        (unexpected_answer(self.name(), value), Some(unknown))
    }

    /// Reads the server's words inside a script.
    fn refusal(&self, text: &str) -> Refusal {
        let names = || self.script_keys().iter().map(ToString::to_string).collect();
        Refusal::from_text(text).naming(names)
    }

    fn encode(&self, batch: &Batch<P>) -> Request {
        let mut request = batch.request().cloned().unwrap_or_else(|| {
            let mut args = self.header(&batch.header);
            batch.encode(&mut args);
            let life = self.core.config.record_life();
            Request::once(self.script, self.script_keys(), life, args)
        });
        match batch.takes_back {
            Some(number) => request.takes_back(number),
            None => request.number(self.core.next_sequence()),
        }
        request
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
        let kept = (config.safety_interval * CHECKS_KEPT).max(Duration::from_secs(60));
        vec![
            Arg::Text(Arc::clone(&self.queue.client)),
            Arg::millis(config.lock_watchdog_timeout),
            Arg::Text(Arc::clone(held)),
            Arg::millis(kept),
        ]
    }
}
