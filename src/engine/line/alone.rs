//! A batch of one call, the usual case where a semaphore has one caller at a time: it travels in short form, together
//! with those of other semaphores (see [`coalesce`](crate::engine::coalesce)).

use std::sync::Arc;

use super::Line;
use crate::engine::batch::Batch;
use crate::engine::coalesce::{FirstAttempt, LoneCall, Outcome};
use crate::engine::once::{Ending, Trouble};
use crate::transport::Failure;

/// How the short form ended.
pub(super) enum Alone {
    Answered(Outcome),
    /// It was not carried out, and will not be.
    NotDone,
    /// The same, but that took a while: its caller may have gone.
    Settled,
    /// The whole script is to go on from here.
    Failed(Failure),
    /// There is no answer, and no more to be done.
    Ended(Ending),
}

impl Line {
    /// Carries `batch` out in short form: one call that gives `permits`, or takes them if that is less than zero.
    pub(super) async fn carry_out_alone(&self, batch: &mut Batch, permits: i64) -> Alone {
        let call = LoneCall {
            semaphore: Arc::clone(self.keys.object()),
            channel: Arc::clone(self.keys.channel()),
            permits,
        };
        let (failure, question) = match self.core.first_attempt_together(call).await {
            FirstAttempt::Answered(outcome) => return Alone::Answered(outcome),
            FirstAttempt::NotDone => return Alone::NotDone,
            FirstAttempt::Failed(failure) => return Alone::Failed(failure),
            FirstAttempt::Lost(failure, question) => (failure, question),
        };
        let callers = |trouble: &Trouble<'_>| self.tell_impatient(trouble, batch);
        let mut request = question.request(&self.core);
        let ending = Box::pin(self.core.carry_on(&mut request, failure, callers));
        match ending.await {
            Ending::Answer(value) => match question.read(&value) {
                Some(done) => Alone::Answered(Outcome {
                    done,
                    available: None,
                    listeners: None,
                }),
                None => Alone::Settled,
            },
            ending => Alone::Ended(ending),
        }
    }
}
