//! A caller's place at a lock.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::LockLine;
use super::calls::Outcome;
use crate::engine::answer::answer_of;
use crate::engine::drive::{self, Inline};
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
    ticket: Option<u64>,
    inline: Option<Inline<LockLine>>,
}

impl Seat {
    pub(super) fn new(
        line: &Arc<LockLine>,
        owner: Option<Arc<str>>,
        answer: oneshot::Receiver<Result<Outcome>>,
        ticket: Option<u64>,
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
        self.answered().await
    }

    /// Waits for the answer until `deadline`, and then for the answer to one last question.
    pub(super) async fn outcome_until(mut self, deadline: Option<Instant>) -> Result<Outcome> {
        let Some(deadline) = deadline else {
            return self.answered().await;
        };
        match tokio::time::timeout_at(deadline, self.answered()).await {
            Ok(outcome) => outcome,
            Err(_) => {
                self.ask_for_the_last_time();
                self.answered().await
            }
        }
    }

    async fn answered(&mut self) -> Result<Outcome> {
        let answer = answer_of(&mut self.inline, &mut self.answer).await;
        self.ticket = None;
        self.owner = None;
        answer.unwrap_or_else(|| Err(self.line.shut_down()))
    }

    /// Stays in its place: a question may be on its way that this caller is part of already.
    fn ask_for_the_last_time(&mut self) {
        let Some(ticket) = self.ticket else {
            return;
        };
        let mut state = self.line.lock();
        // Not there any more: the answer is on its way.
        if !state.waiting.end(ticket, Instant::now()) {
            return;
        }
        self.line.note_busy(&mut state);
        drop(state);
        // The round that is under way, if it is this caller's own, must go on while it waits.
        if self.inline.is_none() {
            self.inline = self.line.drive();
        } else {
            drive::kick(&self.line);
        }
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
