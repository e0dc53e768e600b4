//! The calls of one client on one semaphore: queued, sent in rounds, answered one by one.
//!
//! A round takes what is queued, sends it as one script call, waits for the answer and tells the callers. There
//! is one round at a time. Callers that wait stand in [`Waiters`] and are part of every round; one is made for
//! them when there is reason to look: on their arrival, when a message comes or may have been missed, when
//! the first holder expires, when a peer's lock should be free again, and at the pace of the setting, as peers
//! tell nothing.
//!
//! The waiters of all clients stand in one line in Redis, each client by its first; `lua/recipes/line.lua` keeps it. Whoever
//! gives a permit back tells those whose turn it is, and looks a little later whether they have come.
//!
//! Nothing is lost when a caller goes: a release that has been asked for is carried out, and what was granted to somebody
//! who has gone is released with the next round. Anything else that has not been sent by then is forgotten.
//!
//! | File | What it holds |
//! |---|---|
//! | `mod.rs` | the queue, and how calls get into it |
//! | `waiting.rs` | those who wait, and in which order |
//! | `round.rs` | what a round takes along, and how it is carried out |
//! | `answers.rs` | who is told what |
//! | `alarm.rs` | when to look next, and the ear on the channel |
//! | `ends.rs` | when holders expire |
//! | `peers_lock.rs` | the lock under which peers acquire |
//! | `keeping.rs` | what is refreshed in the background |
//! | `seat.rs` | a caller's place, and what its drop gives back |

pub(super) mod alarm;
mod answers;
mod ends;
pub(super) mod keeping;
mod peers_lock;
mod round;
mod seat;
pub(super) mod waiting;

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::batch::{Call, Operation};
use super::names::{Names, Unnumbered};
use super::numbers::{Number, Numbers};
use super::settings::Settings;
use crate::engine::Core;
use crate::engine::answer;
use crate::engine::drive::{self, Driver, Inline};
use crate::engine::listening::Listening;
use crate::engine::once::CLIENT_CLOSED;
use crate::engine::registry::Shared;
use crate::error::{Error, Result};
use crate::sync::{Mutex, MutexGuard};
use alarm::{Alarm, Rank};
use ends::Ends;
use keeping::Keeping;
use peers_lock::PeersLock;
use seat::Seat;
use waiting::{Done, Waiter, Waiters};

/// The kind under which a client finds its lines again.
const KIND: &str = "recipe";

/// One semaphore of one client.
pub(super) struct Line {
    core: Arc<Core>,
    place: Arc<str>,
    settings: Settings,
    names: Names,
    /// Taken as long as the line is there.
    _number: Number,
    driver: Driver,
    state: Mutex<State>,
    itself: Weak<Line>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Call>,
    waiters: Waiters,
    /// A permit may have become free since the waiters last asked.
    look: bool,
    /// This client stands in the line that all clients see.
    in_line: bool,
    rank: Rank,
    /// Others have been told that it is their turn: it is time to see whether they have come.
    tend: bool,
    /// How long the server takes to answer: the longest of late.
    round_trip: Duration,
    listening: Listening,
    /// When holders expire.
    ends: Ends,
    alarm: Alarm,
    /// The lock of peers, once it has been in the way.
    peers_lock: Option<PeersLock>,
    /// What is refreshed in the background.
    keeping: Keeping,
    /// Who is named in the batch that is under way.
    under_way: Vec<u64>,
    /// A batch was given up whose copies may still reach the server.
    doubtful: bool,
    /// Counted as busy in the core.
    busy: bool,
    closed: bool,
}

impl Line {
    /// The one line of this client with these settings.
    pub(super) fn find(core: &Arc<Core>, settings: &Settings) -> Arc<Line> {
        let settings = settings.shared();
        let place: Arc<str> = format!("{settings:?}").into();
        // The mapper is the user's code: not under the registry's lock.
        let unnumbered = Unnumbered::new(&settings, &core.config.name_mapper);
        let numbers = Numbers::of(core, unnumbered.base());
        core.objects.find_or_make(KIND, &place, |closed| {
            let number = numbers.take();
            Arc::new_cyclic(|itself| Line {
                names: unnumbered.names(core.id(), number.value()),
                _number: number,
                core: Arc::clone(core),
                place: Arc::clone(&place),
                settings,
                driver: Driver::default(),
                itself: itself.clone(),
                state: Mutex::new(State {
                    closed,
                    ..State::default()
                }),
            })
        })
    }

    fn name(&self) -> &str {
        &self.settings.name
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Carries `operation` out. Queued at the first poll. When the future is dropped after that, a release is carried
    /// out all the same; anything else only if it has been sent already, and then what it took is given back.
    pub(super) async fn call(self: &Arc<Self>, operation: Operation) -> Result<Done> {
        let (reply, answer) = oneshot::channel();
        self.enqueue(Call {
            operation,
            reply: Some(reply),
            since: Instant::now(),
        })?;
        Seat::new(self, answer, None).served().await
    }

    /// Releases `id` with nobody waiting for it.
    pub(super) fn release_detached(self: &Arc<Self>, id: &str) {
        self.unkeep(id);
        let queued = self.enqueue(Call {
            operation: Operation::Release(id.into()),
            reply: None,
            since: Instant::now(),
        });
        match queued {
            Ok(()) => drive::kick(self),
            Err(error) => tracing::error!(%error, id, "not released"),
        }
    }

    /// Joins those who wait, for a permit that lasts for `lasts`.
    pub(super) fn join(self: &Arc<Self>, lasts: Duration) -> Result<Seat> {
        let (reply, answer) = oneshot::channel();
        let mut state = self.lock();
        if state.closed {
            return Err(self.shut_down());
        }
        state.look = true;
        let ticket = state.waiters.join(reply, lasts);
        self.note_busy(&mut state);
        drop(state);
        Ok(Seat::new(self, answer, Some(ticket)))
    }

    /// Sees to what has been queued.
    fn drive(self: &Arc<Self>) -> Option<Inline<Line>> {
        answer::drive(self, &self.core.runtime)
    }

    fn enqueue(&self, call: Call) -> Result<()> {
        let mut state = self.lock();
        // What guards owe is carried out as long as there is a connection.
        let owed = call.reply.is_none();
        if state.closed && (!owed || self.core.is_finished()) {
            return Err(self.shut_down());
        }
        state.queue.push_back(call);
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

impl Shared for Line {
    fn close(self: Arc<Self>) {
        let (named, waiters) = {
            let mut state = self.lock();
            state.closed = true;
            let named = std::mem::take(&mut state.under_way);
            let named = state.waiters.take(named);
            (named, state.waiters.take_all())
        };
        // What they may be granted still is given back.
        self.tell_unknown(named, CLIENT_CLOSED);
        tell_all(waiters, &self.shut_down());
        drive::kick(&self);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.core.objects.forget(KIND, &self.place);
    }
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

/// Ends the waiting of `waiters` with `error`.
fn tell_all(waiters: Vec<Waiter>, error: &Error) {
    for waiter in waiters {
        let _ = waiter.reply.send(Err(error.clone()));
    }
}
