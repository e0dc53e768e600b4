//! The calls of one client on one object: queued, sent in rounds, answered one by one.
//!
//! A round takes what is queued, sends it as one script call, waits for the answer and tells the callers.
//! There is one round at a time, so the calls keep their order. Callers that wait for permits stand in
//! [`Waiters`] and are part of a round when there is reason to look: on their arrival, when this client
//! releases, when a message comes or may have been missed.
//!
//! Nothing is lost when a caller goes: a release that has been queued is carried out, and permits granted to
//! somebody who has gone are released with the next round. Any other call is not sent any more.
//!
//! | File | What it holds |
//! |---|---|
//! | `mod.rs` | the line, and how calls get into it |
//! | `queue.rs` | what waits for the next rounds, and why it stays short |
//! | `round.rs` | what a round takes along, and how it is carried out |
//! | `alone.rs` | the short form of a round with one call |
//! | `answers.rs` | who is told what when a batch has been answered, refused, or kept waiting |
//! | `hand_over.rs` | what is served within the process |
//! | `listening.rs` | the line's ear on its channel, and when a nudge is due |
//! | `recorded.rs` | what guards have on record |
//! | `seat.rs` | a caller's place, and what its drop gives back |
//! | `timer.rs` | what is due though nothing happens |

mod alone;
mod answers;
mod hand_over;
pub(crate) mod listening;
mod queue;
mod recorded;
mod round;
mod seat;
mod timer;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::answer::{self, answer_of};
use super::batch::{Batch, Call, Operation};
use super::command::{Command, Commands};
use super::core::Core;
use super::drive::{self, Driver, Inline};
use super::keys::Keys;
use super::listening::Listening;
use super::nudge::Leavings;
use super::once::{CLIENT_CLOSED, Trouble};
use super::primitive::Ticket;
use super::primitive::timer::Timer;
use super::registry::Shared;
use super::request::Request;
use super::turns::{self, Ear, Turns};
use super::waiters::{Waiter, Waiters, Want};
use super::watchdog::Life;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::sync::{Mutex, MutexGuard};
use crate::transport::Value;
use queue::Queue;
use seat::Seat;

/// One object of one client.
pub(crate) struct Line {
    core: Arc<Core>,
    keys: Keys,
    driver: Driver,
    state: Mutex<State>,
    /// Tells a series of nudges that is under way.
    left_more: Notify,
    /// On the channels of turns.
    ears: [Arc<Ear>; 2],
    itself: Weak<Line>,
    /// The watchdog looks after it.
    watched: AtomicBool,
    /// The lease of the latest life, by its number.
    lease: Mutex<Option<(u64, Lease)>>,
}

struct State {
    queue: Queue,
    waiters: Waiters,
    /// The last ticket of those in line whom the question under way names.
    asking: Option<Ticket>,
    /// How many requests the client had sent before that question.
    sent_before: u64,
    /// The question under way puts this client into the line of those who take turns.
    coming: bool,
    /// Permits may have become free since the waiters last asked.
    look: bool,
    /// What was free when those who asked could not use it, and others behind them may: they are searched for when there
    /// is a reason to ask, however often that comes.
    free: Option<i64>,
    /// The counter behind the last batch.
    available: i64,
    /// When the last batch was sent that has been answered.
    seen: Option<Instant>,
    listening: Listening,
    turns: Turns,
    leavings: Leavings,
    /// The next look has no message for a reason; so has the one that is under way.
    unprompted: bool,
    looking_unprompted: bool,
    /// A batch was given up whose copies may still reach the server.
    doubtful: bool,
    /// Under what the permits of guards are on record.
    life: Option<Life>,
    /// The deadlines of those who wait, and the looks that are due by themselves.
    timer: Timer,
    /// It is to be seen whether those have come who were told.
    tends: bool,
    /// While that is due later.
    kept: Option<Arc<Line>>,
    /// Counted as busy in the core.
    busy: bool,
    closed: bool,
}

/// Something queued for the next round.
enum Queued {
    Call(Call),
    Command(Command),
}

impl State {
    /// Whether others may wait for callers of this client who have all gone.
    fn is_awaited_in_vain(&self) -> bool {
        self.waiters.is_empty() && self.turns.is_in_line()
    }

    /// Whether there is something for a round to carry out.
    fn has_work(&self) -> bool {
        let claims = self.look && !self.waiters.is_empty();
        let owed = self.tends || self.is_awaited_in_vain();
        !self.queue.is_empty() || claims || owed || self.waiters.somebody_ends()
    }
}

/// What a round carries out.
enum Task {
    Batch(Batch),
    Command(Command),
}

/// What the client's registry knows lines by.
const KIND: &str = "semaphore";

impl Line {
    /// The client's one line of the object with these names.
    pub(crate) fn of(core: &Arc<Core>, keys: Keys) -> Arc<Self> {
        let object = Arc::clone(keys.object());
        core.objects.find_or_make(KIND, &object, |closed| {
            Line::new(Arc::clone(core), keys, closed)
        })
    }

    fn new(core: Arc<Core>, keys: Keys, closed: bool) -> Arc<Self> {
        Arc::new_cyclic(|itself| Line {
            core,
            keys,
            driver: Driver::default(),
            left_more: Notify::new(),
            ears: [turns::Call::Turn, turns::Call::NewLine]
                .map(|call| Arc::new(Ear::new(itself.clone(), call))),
            itself: itself.clone(),
            watched: AtomicBool::new(false),
            lease: Mutex::new(None),
            state: Mutex::new(State {
                queue: Queue::new(),
                waiters: Waiters::new(),
                asking: None,
                sent_before: 0,
                coming: false,
                look: false,
                free: None,
                available: 0,
                seen: None,
                listening: Listening::default(),
                turns: Turns::default(),
                leavings: Leavings::default(),
                unprompted: false,
                looking_unprompted: false,
                doubtful: false,
                life: None,
                timer: Timer::default(),
                tends: false,
                kept: None,
                busy: false,
                closed,
            }),
        })
    }

    fn name(&self) -> &str {
        self.keys.name()
    }

    /// Whose object it is.
    pub(crate) fn client(&self) -> &Arc<Core> {
        &self.core
    }

    /// From now on the callers of this client take what they can get.
    pub(crate) fn without_turns(&self) {
        self.lock().turns.switch_off();
        self.leave_turns();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Carries `operation` out and returns its number. Queued at the first poll; when the future is dropped after that, a
    /// release is carried out all the same, anything else if it has been sent; permits that it took are given back.
    pub(crate) async fn call(self: &Arc<Self>, operation: Operation) -> Result<i64> {
        if self.hand_over(operation) {
            return Ok(1);
        }
        let (reply, answer) = oneshot::channel();
        self.enqueue(Queued::Call(Call {
            operation,
            reply: Some(reply),
            since: Instant::now(),
        }))?;
        let permits = match operation {
            Operation::TryAcquire(permits) | Operation::TryTake(permits) => permits,
            _ => 0,
        };
        let recorded = operation.is_recorded();
        Seat::new(self, permits, recorded, answer, None)
            .served()
            .await
    }

    /// Carries `operation` out with nobody waiting for it.
    pub(crate) fn call_detached(self: &Arc<Self>, operation: Operation) {
        if self.hand_over(operation) {
            return;
        }
        let queued = self.enqueue(Queued::Call(Call {
            operation,
            reply: None,
            since: Instant::now(),
        }));
        match queued {
            Ok(()) => drive::kick(self),
            Err(error) => {
                tracing::error!(%error, call = %operation, "not carried out");
            }
        }
    }

    /// Joins the line of those who wait for `permits` permits, which are to be on record, until `deadline` if there is one.
    pub(crate) fn join(
        self: &Arc<Self>,
        permits: u32,
        recorded: bool,
        deadline: Option<Instant>,
    ) -> Result<Seat> {
        let (reply, answer) = oneshot::channel();
        let mut state = self.lock();
        if state.closed {
            return Err(self.shut_down());
        }
        let now = Instant::now();
        // Behind others, and with nothing free that is known of, there is no reason to ask yet: whatever
        // wakes those in front looks for the newcomer, too.
        let wait_quietly = !state.waiters.is_empty()
            && state.listening.is_confirmed()
            && (i64::from(permits) > state.available || state.turns.is_held());
        state.look |= !wait_quietly;
        let want = Want {
            permits,
            recorded,
            since: now,
        };
        let ticket = state.waiters.join(want, reply, deadline, !wait_quietly);
        self.note_busy(&mut state);
        self.unlock(state);
        Ok(Seat::new(self, permits, recorded, answer, Some(ticket)))
    }

    /// Sees to what has been queued.
    fn drive(self: &Arc<Self>) -> Option<Inline<Line>> {
        answer::drive(self, &self.core.runtime)
    }

    fn enqueue(&self, queued: Queued) -> Result<()> {
        let mut state = self.lock();
        // What guards owe is carried out as long as there is a connection.
        let owed = matches!(&queued, Queued::Call(call) if call.reply.is_none());
        if state.closed && (!owed || self.core.is_finished()) {
            return Err(self.shut_down());
        }
        state.queue.push(queued);
        self.note_busy(&mut state);
        Ok(())
    }

    fn shut_down(&self) -> Error {
        Error::ShutDown {
            name: self.name().to_owned(),
        }
    }

    fn note_busy(&self, state: &mut State) {
        self.core.note_busy(&mut state.busy);
    }
}

impl Commands for Line {
    fn core(&self) -> &Core {
        &self.core
    }

    fn keys(&self) -> &Keys {
        &self.keys
    }

    fn announced_at<'a>(&self, keys: &'a Keys) -> Option<&'a Arc<str>> {
        Some(keys.channel())
    }

    async fn command(self: &Arc<Self>, operation: &'static str, request: Request) -> Result<Value> {
        let (command, mut answer) = Command::new(operation, request);
        self.enqueue(Queued::Command(command))?;
        let answer = answer_of(&mut self.drive(), &mut answer).await;
        answer.unwrap_or_else(|| Err(self.shut_down()))
    }
}

impl Shared for Line {
    fn waiting(&self) -> usize {
        self.lock().waiters.len()
    }

    fn close(self: Arc<Self>) {
        let (asking, waiters) = {
            let mut state = self.lock();
            state.closed = true;
            // Where nothing was sent since then, the question was not; nor will it be, as those whom it names have left.
            let sent = (self.core.sent).since(state.sent_before, Some(self.keys.object()));
            let asking = state.asking.filter(|_| sent);
            if state.turns.look_at().is_some() {
                self.note_busy(&mut state);
            }
            state.waiters.take_line(asking)
        };
        // What they may be granted still is given back.
        let trouble = Trouble::unknown(CLIENT_CLOSED);
        for waiter in asking {
            let error = trouble.error(self.name(), "acquire", waiter.want.since);
            let _ = waiter.reply.send(Err(error));
        }
        tell_all(waiters, &self.shut_down());
        drive::kick(&self);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.lock().timer.end();
        self.core.objects.forget(KIND, self.keys.object());
    }
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line")
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}

/// Ends the waiting of `waiters` with `error`.
fn tell_all(waiters: Vec<Waiter>, error: &Error) {
    for waiter in waiters {
        let _ = waiter.reply.send(Err(error.clone()));
    }
}

/// When `wait` ends; `None` where the clock cannot express it: never.
pub(crate) fn deadline(wait: Duration) -> Option<Instant> {
    Instant::now().checked_add(wait)
}
