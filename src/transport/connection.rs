//! The command connection: one multiplexed connection that comes back by itself, for as long as it takes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::endpoint::Opened;
use super::failure::Reason;
use super::live::{CLOSED, End, Keeper, Live};
use super::{Backoff, Endpoint, Refusal};
use crate::error::Error;
use crate::outside;
use crate::state::ConnectionState;
use crate::sync::Mutex;

/// The state of the connection.
enum Link {
    Up(Arc<Live>),
    /// Being made again; why the last one, or the last attempt, failed.
    Down(Refusal),
    /// For good.
    Closed,
}

struct Shared {
    endpoint: Endpoint,
    link: Mutex<Link>,
    /// Those who wait for another link are woken in the order of their coming.
    changed: Notify,
    /// The same for users, who may be slow to look.
    state: watch::Sender<ConnectionState>,
    broken: Notify,
    /// The log tells of a loss; it will tell of its end, too.
    told: AtomicBool,
}

/// The one connection of a client that carries commands.
///
/// A connection that failed, or left a command unanswered, is replaced; commands that wait on the old
/// one run into their own time-outs. One that has ended while it was idle is replaced at once.
///
/// A caller may leave its future unpolled. A command is handed over at the first poll, as long as there is room for it;
/// if there may be none, a task waits for it: the connection keeps places for those who wait, and one that nobody polls
/// would keep its place for ever.
pub(crate) struct Connection {
    shared: Arc<Shared>,
    tasks: Vec<AbortHandle>,
}

impl Connection {
    /// Connects for the first time.
    ///
    /// A server that refuses the connection or is loading is tried again until the connect time-out;
    /// a wrong password ends it at once.
    pub(crate) async fn open(endpoint: Endpoint) -> Result<Self, Error> {
        let began = Instant::now();
        let mut backoff = Backoff::new();
        let first = loop {
            let refusal = match endpoint.connect().await {
                Ok(connection) => break connection,
                Err(refusal) => refusal,
            };
            let pause = backoff.next();
            let retry = refusal.reason == Reason::Unreachable || refusal.may_pass();
            if !retry || began.elapsed() + pause > endpoint.connect_timeout() {
                return Err(first_connect_error(&endpoint, refusal, began));
            }
            tokio::time::sleep(pause).await;
        };
        let connection = Self::new(endpoint, false);
        connection.shared.set_up(0, first);
        Ok(connection)
    }

    /// Connects in the background, for as long as it takes.
    pub(crate) fn lazy(endpoint: Endpoint) -> Self {
        let connection = Self::new(endpoint, true);
        connection.shared.broken.notify_one();
        connection
    }

    /// `lazy`: nobody makes the first one but the keeper.
    fn new(endpoint: Endpoint, lazy: bool) -> Self {
        let down = Link::Down(Refusal::unreachable("not connected yet"));
        let shared = Arc::new(Shared {
            endpoint,
            state: watch::Sender::new(down.state()),
            link: Mutex::new(down),
            changed: Notify::new(),
            broken: Notify::new(),
            told: AtomicBool::new(false),
        });
        let mut tasks = vec![outside::spawn(keep(Arc::clone(&shared), lazy)).abort_handle()];
        if let Some(watching) = shared.endpoint.watch() {
            tasks.push(outside::spawn(watching).abort_handle());
        }
        Connection { shared, tasks }
    }

    /// The connection to the server that has `key` as it is now, or why there is none. A standalone server has all keys.
    pub(crate) fn live_for(&self, _key: Option<&Arc<str>>) -> Result<Arc<Live>, Refusal> {
        match &*self.shared.link.lock() {
            Link::Up(live) => Ok(Arc::clone(live)),
            Link::Down(refusal) => Err(refusal.clone()),
            Link::Closed => Err(Refusal::unreachable("the client has been shut down")),
        }
    }

    /// Waits until there is one; or until `patience` has run out, and says why not.
    pub(crate) async fn until_up(&self, patience: Instant) -> Result<(), Refusal> {
        // The state is looked at in any case.
        let settled = self.shared.settled();
        let _ = tokio::time::timeout_at(patience, settled).await.is_ok();
        self.live_for(None).map(drop)
    }

    /// What is known of the connection.
    pub(crate) fn state(&self) -> watch::Receiver<ConnectionState> {
        self.shared.state.subscribe()
    }

    /// The server's address.
    pub(crate) fn server(&self) -> &str {
        self.shared.endpoint.address()
    }

    /// Closes the connection for good.
    pub(crate) fn close(&self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        self.shared.put(Link::Closed);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn set_up<D>(self: &Arc<Self>, generation: u64, opened: Opened<D>)
    where
        D: Future<Output = ()> + Send + 'static,
    {
        let keeper: Weak<dyn Keeper> = Arc::downgrade(self) as _;
        let (live, kept) = Live::start(generation, opened, &keeper);
        self.put(Link::Up(live));
        let _ = kept.send(());
    }

    /// The new state, unless the connection has been closed.
    fn put(&self, new: Link) {
        self.replace(new, |link| !matches!(link, Link::Closed));
    }

    /// The new state if the old one is such; whether it was.
    fn replace(&self, new: Link, old: impl FnOnce(&Link) -> bool) -> bool {
        let former = {
            let mut link = self.link.lock();
            if !old(&link) {
                return false;
            }
            std::mem::replace(&mut *link, new)
        };
        // What wakes others happens while nothing is locked.
        drop(former);
        self.changed.notify_waiters();
        self.state.send_if_modified(|known| {
            let state = self.link.lock().state();
            let changed = *known != state;
            *known = state;
            changed
        });
        true
    }

    /// Ends when there is a connection, or will never be one.
    async fn settled(&self) {
        loop {
            let changed = self.changed.notified();
            // A change from here on is not missed.
            if !matches!(*self.link.lock(), Link::Down(_)) {
                return;
            }
            changed.await;
        }
    }
}

impl Link {
    fn state(&self) -> ConnectionState {
        match self {
            Link::Up(_) => ConnectionState::Connected,
            Link::Down(refusal) => ConnectionState::Disconnected {
                detail: refusal.detail.clone(),
            },
            Link::Closed => ConnectionState::ShutDown,
        }
    }
}

impl Keeper for Shared {
    fn ended(&self, generation: u64, end: End) {
        let server = self.endpoint.address();
        let replaced = |why: Refusal| {
            let current =
                |link: &Link| matches!(link, Link::Up(live) if live.generation == generation);
            self.replace(Link::Down(why), current)
        };
        // What is noticed in passing, and done again and again, is no news.
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
                    shared.put(Link::Down(refusal));
                    tokio::time::sleep(backoff.next()).await;
                }
            }
        };
        generation += 1;
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

fn first_connect_error(endpoint: &Endpoint, refusal: Refusal, began: Instant) -> Error {
    let name = endpoint.address().to_owned();
    let detail = refusal.detail;
    match refusal.reason {
        Reason::Authentication => Error::Authentication { name, detail },
        Reason::Tls => Error::Tls { name, detail },
        Reason::NotNow | Reason::ReadOnly => Error::RefusedForNow { name, detail },
        Reason::Unreachable => Error::Unavailable {
            name,
            waited: began.elapsed(),
            detail,
        },
        _ => Error::Server { name, detail },
    }
}
