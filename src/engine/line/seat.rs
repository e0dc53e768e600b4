//! A caller's place in a line.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::Line;
use crate::engine::answer::answer_of;
use crate::engine::batch::Operation;
use crate::engine::drive::{self, Inline};
use crate::error::Result;

/// A caller's place: what it has asked for, and where the answer comes.
///
/// Dropped before the answer was read, it leaves the line and gives back what was granted meanwhile.
pub(crate) struct Seat {
    line: Arc<Line>,
    permits: u32,
    /// They are on record.
    recorded: bool,
    answer: oneshot::Receiver<Result<i64>>,
    ticket: Option<u64>,
    inline: Option<Inline<Line>>,
}

impl Seat {
    pub(super) fn new(
        line: &Arc<Line>,
        permits: u32,
        recorded: bool,
        answer: oneshot::Receiver<Result<i64>>,
        ticket: Option<u64>,
    ) -> Self {
        Seat {
            inline: line.drive(),
            line: Arc::clone(line),
            permits,
            recorded,
            answer,
            ticket,
        }
    }

    /// Waits for the answer; 0 says no.
    pub(crate) async fn served(mut self) -> Result<i64> {
        let answer = answer_of(&mut self.inline, &mut self.answer).await;
        self.ticket = None;
        self.permits = 0;
        answer.unwrap_or_else(|| Err(self.line.shut_down()))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.answer.close();
        if let Ok(Ok(granted @ 1..)) = self.answer.try_recv()
            && self.permits > 0
        {
            let undoing = Operation::undoing(self.permits, granted, self.recorded);
            self.line.call_detached(undoing);
        } else if let Some(ticket) = self.ticket {
            let mut state = self.line.lock();
            if state.waiters.leave(ticket).is_some() {
                self.line.way_is_free(&mut state);
                let work = !state.waiters.is_empty() || state.is_awaited_in_vain();
                drop(state);
                if work {
                    drive::kick(&self.line);
                }
            }
        }
    }
}
