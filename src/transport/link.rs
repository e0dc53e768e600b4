//! The connection to one server that carries commands: multiplexed, and back by itself, for as long as that takes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::endpoint::Opened;
use super::live::{CLOSED, End, Keeper, Live};
use super::{Backoff, Endpoint, Refusal};
use crate::outside;
use crate::state::ConnectionState;
use crate::sync::{Locking, Mutex};

/// The state of the connection.
enum State {
    Up(Arc<Live>),
    /// Being made again; why the last one, or the last attempt, failed.
    Down(Refusal),
    /// For good.
    Closed,
}

/// The state of a link, as it reports it; several may share it.
#[derive(Default)]
pub(super) struct News {
    /// Tasks that wait for another state are woken in the order of their arrival.
    pub(super) changed: Notify,
    /// How often a connection was made in place of another one.
    reconnects: AtomicU64,
}

impl News {
    pub(super) fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Relaxed)
    }
}

struct Shared {
    endpoint: Endpoint,
    state: Mutex<State>,
    news: Arc<News>,
    /// The same for users, which may be slow to read it.
    shown: watch::Sender<ConnectionState>,
    broken: Notify,
    /// The log has a loss; it will have its end, too.
    told: AtomicBool,
}

/// The connection to a server that carries commands.
///
/// A connection that failed, or left a command unanswered, is replaced; commands that wait on the old
/// one run into their own time-outs. One that has ended while it was idle is replaced at once.
///
/// A caller may leave its future unpolled: a command is passed on at the first poll.
pub(super) struct Link {
    shared: Arc<Shared>,
    tasks: Vec<AbortHandle>,
}

/// A view of a link, which does not keep it open.
#[derive(Clone)]
pub(super) struct Linked(Arc<Shared>);

impl Link {
    /// Connects for the first time.
    pub(super) async fn open(endpoint: Endpoint) -> Result<Self, Refusal> {
        let first = endpoint.connect().await?;
        let link = Self::new(endpoint, Arc::default(), false);
        link.shared.set_up(0, first);
        Ok(link)
    }

    /// Connects in the background, for as long as it takes.
    pub(super) fn lazy(endpoint: Endpoint, news: Arc<News>) -> Self {
        let link = Self::new(endpoint, news, true);
        link.shared.broken.notify_one();
        link
    }

    /// `lazy`: only the keeper makes the first one.
    fn new(endpoint: Endpoint, news: Arc<News>, lazy: bool) -> Self {
        let down = State::Down(Refusal::unreachable("not connected yet"));
        let shared = Arc::new(Shared {
            endpoint,
            shown: watch::Sender::new(down.shown()),
            state: Mutex::new(down),
            news,
            broken: Notify::new(),
            told: AtomicBool::new(false),
        });
        let mut tasks = vec![outside::spawn(keep(Arc::clone(&shared), lazy)).abort_handle()];
        if let Some(watching) = shared.endpoint.watch() {
            tasks.push(outside::spawn(watching).abort_handle());
        }
        Link { shared, tasks }
    }

    /// The connection as it is now, or why there is none.
    pub(super) fn live(&self) -> Result<Arc<Live>, Refusal> {
        self.shared.live()
    }

    /// Ends when there is a connection, or will never be one.
    pub(super) async fn settled(&self) {
        loop {
            let changed = self.shared.news.changed.notified();
            // A change from here on is not missed.
            if !matches!(*self.shared.state.lock(), State::Down(_)) {
                return;
            }
            changed.await;
        }
    }

    pub(super) fn reconnects(&self) -> u64 {
        self.shared.news.reconnects()
    }

    /// The state of the connection.
    pub(super) fn shown(&self) -> watch::Receiver<ConnectionState> {
        self.shared.shown.subscribe()
    }

    /// The same link, for the task that maintains it.
    pub(super) fn linked(&self) -> Linked {
        Linked(Arc::clone(&self.shared))
    }

    /// The server's address.
    pub(super) fn server(&self) -> &str {
        self.shared.endpoint.address()
    }

    /// Closes the connection for good.
    pub(super) fn close(&self) {
        self.tasks.iter().for_each(AbortHandle::abort);
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

/// Why nothing is sent after the shutdown.
pub(super) fn closed() -> Refusal {
    Refusal::unreachable("the client has been shut down")
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
    }
}

impl Linked {
    pub(super) fn live(&self) -> Result<Arc<Live>, Refusal> {
        self.0.live()
    }

    pub(super) fn shown(&self) -> watch::Receiver<ConnectionState> {
        self.0.shown.subscribe()
    }
}

impl Shared {
    fn live(&self) -> Result<Arc<Live>, Refusal> {
        match &*self.state.lock() {
            State::Up(live) => Ok(Arc::clone(live)),
            State::Down(refusal) => Err(refusal.clone()),
            State::Closed => Err(closed()),
        }
    }

    fn set_up<D>(self: &Arc<Self>, generation: u64, opened: Opened<D>)
    where
        D: Future<Output = ()> + Send + 'static,
    {
        let keeper: Weak<dyn Keeper> = Arc::downgrade(self) as _;
        let (live, kept) = Live::start(generation, opened, &keeper);
        self.put(State::Up(live));
        let _ = kept.send(());
    }

    /// The new state, unless the connection has been closed.
    fn put(&self, new: State) {
        self.replace(new, |state| !matches!(state, State::Closed));
    }

    /// The new state if the old one is such; whether it was.
    fn replace(&self, new: State, old: impl FnOnce(&State) -> bool) -> bool {
        let former = {
            let mut state = self.state.lock();
            if !old(&state) {
                return false;
            }
            std::mem::replace(&mut *state, new)
        };
        // Wakers are called while no mutex is held.
        drop(former);
        self.news.changed.notify_waiters();
        // The watch is locked meanwhile.
        let _locking = Locking::begin();
        self.shown.send_if_modified(|known| {
            let state = self.state.lock().shown();
            let changed = *known != state;
            *known = state;
            changed
        });
        true
    }
}

impl State {
    fn shown(&self) -> ConnectionState {
        match self {
            State::Up(_) => ConnectionState::Connected,
            State::Down(refusal) => ConnectionState::Disconnected {
                detail: refusal.detail.clone(),
            },
            State::Closed => ConnectionState::ShutDown,
        }
    }
}

impl Keeper for Shared {
    fn ended(&self, generation: u64, end: End) {
        let server = self.endpoint.address();
        let replaced = |why: Refusal| {
            let current =
                |state: &State| matches!(state, State::Up(live) if live.generation == generation);
            self.replace(State::Down(why), current)
        };
        // A repeated observation is no event.
        let replaced = match end {
            End::Failed(refusal) => {
                let why = refusal.detail.clone();
                let replaced = replaced(refusal);
                if replaced && !self.told.swap(true, Ordering::SeqCst) {
                    tracing::warn!(server, why, "connection lost");
                }
                replaced
            }
            End::Idle => replaced(Refusal::unreachable(CLOSED)),
            End::Moved(refusal) => replaced(refusal),
        };
        if replaced {
            self.broken.notify_one();
        }
    }
}

/// Makes the connection anew each time that it is found broken.
async fn keep(shared: Arc<Shared>, lazy: bool) {
    let server = shared.endpoint.address();
    let mut generation = 0;
    let mut backoff = Backoff::new();
    let mut since = Instant::now();
    let mut first = lazy;
    loop {
        shared.broken.notified().await;
        // The first attempt is made at once, unless there was one just now.
        if !backoff.note_end(since.elapsed()) {
            tokio::time::sleep(backoff.next()).await;
        }
        let opened = loop {
            match shared.endpoint.connect().await {
                Ok(opened) => break opened,
                Err(refusal) => {
                    let why = refusal.detail.clone();
                    if shared.told.swap(true, Ordering::SeqCst) {
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
        generation += 1;
        if !first {
            shared.news.reconnects.fetch_add(1, Ordering::Relaxed);
        }
        shared.set_up(generation, opened);
        since = Instant::now();
        let told = shared.told.swap(false, Ordering::SeqCst);
        if std::mem::take(&mut first) {
            tracing::info!(server, "connected");
        } else if told {
            tracing::info!(server, "connected again");
        } else {
            tracing::debug!(server, "connected again");
        }
    }
}
