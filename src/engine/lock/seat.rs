//! A caller's place at a lock.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::LockLine;
use super::calls::Outcome;
use crate::engine::answer::answer_of;
use crate::engine::drive::{self, Inline};
use crate::engine::primitive::Ticket;
use crate::error::Result;

/// A caller's place: where the answer comes.
///
/// Dropped before the answer was read, it leaves the queue, and a lock that was granted meanwhile is given back.
pub(super) struct Seat {
    line: Arc<LockLine>,
    /// Who is to be given the lock.
    owner: Option<Arc<str>>,
    answer: oneshot::Receiver<Result<Outcome>>,
    /// The place among those who wait.
    ticket: Option<Ticket>,
    inline: Option<Inline<LockLine>>,
}

impl Seat {
    pub(super) fn new(
        line: &Arc<LockLine>,
        owner: Option<Arc<str>>,
        answer: oneshot::Receiver<Result<Outcome>>,
        ticket: Option<Ticket>,
    ) -> Self {
        Seat {
            inline: line.drive(),
            line: Arc::clone(line),
            owner,
            answer,
            ticket,
        }
    }

    /// Waits for the answer.
    pub(super) async fn outcome(mut self) -> Result<Outcome> {
        let answer = answer_of(&mut self.inline, &mut self.answer).await;
        self.ticket = None;
        self.owner = None;
        answer.unwrap_or_else(|| Err(self.line.shut_down()))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let Some(owner) = &self.owner else {
            return;
        };
        self.answer.close();
        if let Ok(Ok(Outcome::Taken(hold))) = self.answer.try_recv() {
            self.line.release_detached(owner, Some(hold.id));
        } else if let Some(ticket) = self.ticket {
            let mut state = self.line.lock();
            if self.line.leave(&mut state, ticket).is_some() && !state.waiting.is_empty() {
                drop(state);
                drive::kick(&self.line);
            }
        }
    }
}
