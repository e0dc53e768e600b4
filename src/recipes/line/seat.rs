//! A caller's place in a line.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Line;
use super::waiting::Done;
use crate::engine::answer::answer_of;
use crate::engine::drive::{self, Inline};
use crate::error::Result;

/// A caller's place: what it has asked for, and where the answer comes.
///
/// Dropped before the answer was read, it leaves the line and gives back what was granted meanwhile.
pub(in crate::recipes) struct Seat {
    line: Arc<Line>,
    answer: oneshot::Receiver<Result<Done>>,
    ticket: Option<u64>,
    inline: Option<Inline<Line>>,
}

impl Seat {
    pub(super) fn new(
        line: &Arc<Line>,
        answer: oneshot::Receiver<Result<Done>>,
        ticket: Option<u64>,
    ) -> Self {
        Seat {
            inline: line.drive(),
            line: Arc::clone(line),
            answer,
            ticket,
        }
    }

    /// Waits for the answer, carrying a round out first if that has fallen to this caller.
    pub(in crate::recipes) async fn served(&mut self) -> Result<Done> {
        let answer = answer_of(&mut self.inline, &mut self.answer).await;
        self.ticket = None;
        answer.unwrap_or_else(|| Err(self.line.shut_down()))
    }

    /// Waits for the answer until `deadline`, and then for the answer to one last question.
    pub(in crate::recipes) async fn served_until(&mut self, deadline: Instant) -> Result<Done> {
        if let Ok(done) = tokio::time::timeout_at(deadline, self.served()).await {
            return done;
        }
        self.ask_for_the_last_time();
        self.served().await
    }

    /// Keeps its place: a question that names it may be on its way.
    fn ask_for_the_last_time(&mut self) {
        let Some(ticket) = self.ticket else {
            return;
        };
        let mut state = self.line.lock();
        // Not there any more: the answer is on its way.
        if !state.waiters.end(ticket) {
            return;
        }
        state.look = true;
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
        self.answer.close();
        if let Ok(Ok(Done::Held(Some(held)))) = self.answer.try_recv() {
            self.line.release_detached(&held.id);
        } else if let Some(ticket) = self.ticket {
            let mut state = self.line.lock();
            if state.waiters.leave(ticket).is_some() {
                // Others may have stood back for it, here and in other processes.
                state.look = true;
                self.line.leave_if_unneeded(&mut state);
                self.line.note_busy(&mut state);
                drop(state);
                drive::kick(&self.line);
            }
        }
    }
}
