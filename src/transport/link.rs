//! The connection to one server that carries commands: multiplexed, and back by itself, for as long as that takes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::live::{End, Live};
use super::{Backoff, Endpoint, Refusal};
use crate::outside;
use crate::state::ConnectionState;
use crate::sync::{Locking, Mutex};

/// The state of the connection.
enum State {
    /// Or it has just ended.
    Up(Arc<Live>),
    /// Being made again; why the last one, or the last attempt, failed.
    Down(Refusal),
    /// For good.
    Closed,
}

/// The events of a client's links.
#[derive(Default)]
pub(super) struct Events {
    /// Tasks that wait for another state are woken in the order of their arrival.
    pub(super) changed: Notify,
    /// How often a connection was made in place of another one.
    pub(super) reconnects: AtomicU64,
}

struct Shared {
    endpoint: Endpoint,
    state: Mutex<State>,
    events: Arc<Events>,
    /// The same for users, which may be slow to read it.
    shown: watch::Sender<ConnectionState>,
}

/// The connection to a server that carries commands.
///
/// A connection that failed, or left a command unanswered, is replaced; commands that wait on the old
/// one run into their own time-outs. One that has ended while it was idle is replaced at once.
///
/// A caller may leave its future unpolled: a command is passed on at the first poll.
pub(super) struct Link {
    shared: Arc<Shared>,
    keeper: AbortHandle,
}

impl Link {
    /// Connects in the background, for as long as it takes.
    pub(super) fn new(endpoint: Endpoint, events: Arc<Events>) -> Self {
        let down = State::Down(Refusal::unreachable(NOT_YET));
        let shared = Arc::new(Shared {
            endpoint,
            shown: watch::Sender::new(down.shown()),
            state: Mutex::new(down),
            events,
        });
        let kept = Arc::clone(&shared);
        let keeping = outside::spawn(async move {
            tokio::join!(keep(&kept), kept.endpoint.watch());
        });
        let keeper = keeping.abort_handle();
        Link { shared, keeper }
    }

    /// The connection as it is now, or why there is none.
    pub(super) fn live(&self) -> Result<Arc<Live>, Refusal> {
        match &*self.shared.state.lock() {
            State::Up(live) => match live.ending().get() {
                None => Ok(Arc::clone(live)),
                Some(end) => Err(end.why.clone()),
            },
            State::Down(refusal) => Err(refusal.clone()),
            State::Closed => Err(closed()),
        }
    }

    /// Waits for a connection that is another one than `known`.
    pub(super) async fn other(&self, known: &Weak<Live>) -> Arc<Live> {
        loop {
            let changed = self.shared.events.changed.notified();
            match self.live() {
                Ok(live) if !known.ptr_eq(&Arc::downgrade(&live)) => return live,
                _ => changed.await,
            }
        }
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.shared.endpoint
    }

    /// The state of the connection.
    pub(super) fn shown(&self) -> watch::Receiver<ConnectionState> {
        self.shared.shown.subscribe()
    }

    /// Closes the connection for good.
    pub(super) fn close(&self) {
        self.keeper.abort();
        self.shared.put(State::Closed);
    }

    /// The same, and commands under way stay unanswered.
    pub(super) fn cut(&self) {
        let live = self.live();
        self.close();
        if let Ok(live) = live {
            live.cut();
        }
    }
}

/// Why there is no connection while the first attempt goes on.
pub(super) const NOT_YET: &str = "not connected yet";

/// Why nothing is sent after the shutdown.
pub(super) fn closed() -> Refusal {
    Refusal::unreachable("the client has been shut down")
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// The new state, unless the connection has been closed.
    fn put(&self, new: State) {
        let former = {
            let mut state = self.state.lock();
            if matches!(*state, State::Closed) {
                return;
            }
            std::mem::replace(&mut *state, new)
        };
        // Wakers are called while no mutex is held.
        drop(former);
        show(&self.shown, || self.state.lock().shown());
        self.events.changed.notify_waiters();
    }
}

impl State {
    fn shown(&self) -> ConnectionState {
        match self {
            State::Up(_) => ConnectionState::Connected,
            State::Down(refusal) => refusal.shown(),
            State::Closed => ConnectionState::ShutDown,
        }
    }
}

/// Shows users another state.
pub(super) fn show(
    shown: &watch::Sender<ConnectionState>,
    state: impl FnOnce() -> ConnectionState,
) {
    // The watch is locked meanwhile.
    let _locking = Locking::begin();
    shown.send_if_modified(|known| {
        let state = state();
        let changed = *known != state;
        *known = state;
        changed
    });
}

/// Makes the connection, and makes it anew each time that it has ended.
async fn keep(shared: &Shared) {
    let server = shared.endpoint.address();
    let mut backoff = Backoff::new();
    let mut first = true;
    // The loss was logged as a warning, so the return is logged as well.
    let mut told = false;
    loop {
        let opened = loop {
            match shared.endpoint.connect().await {
                Ok(opened) => break opened,
                Err(refusal) => {
                    let why = refusal.detail.clone();
                    if std::mem::replace(&mut told, true) {
                        tracing::debug!(server, why, "not connected");
                    } else if first {
                        tracing::warn!(server, why, "no connection");
                    } else {
                        tracing::warn!(server, why, "connection lost");
                    }
                    shared.put(State::Down(refusal));
                    tokio::time::sleep(backoff.next()).await;
                }
            }
        };
        let what = if std::mem::take(&mut first) {
            "connected"
        } else {
            shared.events.reconnects.fetch_add(1, Ordering::Relaxed);
            "connected again"
        };
        let since = Instant::now();
        let live = Live::start(opened, &shared.endpoint);
        let end = Arc::clone(live.ending());
        shared.put(State::Up(live));
        if std::mem::take(&mut told) {
            tracing::info!(server, "{what}");
        } else {
            tracing::debug!(server, "{what}");
        }
        let End { why, loss } = end.wait().await;
        if *loss {
            tracing::warn!(server, why = why.detail, "connection lost");
            told = true;
        }
        shared.put(State::Down(why.clone()));
        // The first attempt is made at once, unless there was one just now.
        if !backoff.note_end(since.elapsed()) {
            tokio::time::sleep(backoff.next()).await;
        }
    }
}
