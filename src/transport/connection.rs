//! The command connection: one multiplexed connection that comes back by itself, for as long as it takes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use redis::aio::MultiplexedConnection;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::endpoint::{MOST_UNDER_WAY, Opened};
use super::failure::Reason;
use super::socket::Traffic;
use super::{Backoff, Cmd, Endpoint, Failure, Moment, Refusal, Value};
use crate::error::Error;

/// The state of the connection.
#[derive(Clone)]
enum Link {
    Up(Live),
    /// Being made again; why the last attempt failed.
    Down(Refusal),
}

/// A connection that can be used. It is closed when the last command that waits for it has gone.
#[derive(Clone)]
pub(crate) struct Live {
    /// Tells one connection from its successor.
    generation: u64,
    connection: MultiplexedConnection,
    traffic: Arc<Traffic>,
    /// How many commands are not answered yet.
    under_way: Arc<AtomicUsize>,
    shared: Weak<Shared>,
    _driver: Arc<Driver>,
}

/// What moves the bytes of a connection.
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Shared {
    endpoint: Endpoint,
    link: watch::Sender<Link>,
    broken: Notify,
}

/// A command that is not answered yet.
struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The one connection of a client that carries commands.
///
/// A connection that failed, or left a command unanswered, is replaced; commands that wait on the old
/// one run into their own time-outs.
///
/// A caller may leave its future unpolled. A command is handed over at the first poll, as long as there is room for it;
/// if there may be none, a task waits for it: the connection keeps places for those who wait, and one that nobody polls
/// would keep its place for ever.
pub(crate) struct Connection {
    shared: Arc<Shared>,
    keeper: AbortHandle,
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
            let retry = matches!(refusal.reason, Reason::Unreachable | Reason::NotNow);
            if !retry || began.elapsed() + pause > endpoint.connect_timeout() {
                return Err(first_connect_error(&endpoint, refusal, began));
            }
            tokio::time::sleep(pause).await;
        };
        let down = Refusal::unreachable("not connected yet");
        let shared = Arc::new(Shared {
            endpoint,
            link: watch::Sender::new(Link::Down(down)),
            broken: Notify::new(),
        });
        shared.set_up(0, first);
        let keeper = tokio::spawn(keep(Arc::clone(&shared))).abort_handle();
        Ok(Connection { shared, keeper })
    }

    /// The connection as it is now; or why there is none.
    pub(crate) fn live(&self) -> Result<Live, Refusal> {
        self.shared.at_hand()
    }

    /// The server's address.
    pub(crate) fn server(&self) -> &str {
        self.shared.endpoint.address()
    }

    /// Closes the connection for good.
    pub(crate) fn close(&self) {
        self.keeper.abort();
        let closed = Refusal::unreachable("the client has been shut down");
        self.shared.link.send_replace(Link::Down(closed));
    }

    /// Waits until there is one; or until `patience` has run out, and says why not.
    pub(crate) async fn until_up(&self, patience: Instant) -> Result<(), Refusal> {
        let mut link = self.shared.link.subscribe();
        let up = link.wait_for(|link| matches!(link, Link::Up(_)));
        let _ = tokio::time::timeout_at(patience, up).await;
        self.live().map(drop)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close();
    }
}

impl Live {
    /// Sends one command.
    pub(crate) async fn send(&mut self, command: &Cmd) -> Result<Value, Failure> {
        let written = self.traffic.written();
        let sent = Moment::now();
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        let _under_way = UnderWay(&self.under_way);
        let answer = if before < MOST_UNDER_WAY {
            self.connection.send_packed_command(command).await
        } else {
            let (mut connection, command) = (self.connection.clone(), command.clone());
            let sending =
                tokio::spawn(async move { connection.send_packed_command(&command).await });
            // It ends without an answer where the runtime does.
            sending
                .await
                .unwrap_or_else(|ended| Err(std::io::Error::other(ended).into()))
        };
        answer.and_then(Value::extract_error).map_err(|error| {
            let failure = match Refusal::from_server(&error) {
                Some(refusal) => Failure::Refused(refusal),
                // It was still to be written when the connection ended.
                None if !error.is_timeout() && self.traffic.written() == written => {
                    Failure::NoConnection(Refusal::unreachable(error.to_string()))
                }
                None => Failure::unanswered(error.to_string(), sent),
            };
            let replaced = match &failure {
                Failure::Unanswered { detail, .. } => Some(Refusal::unreachable(detail)),
                Failure::NoConnection(refusal) => Some(refusal.clone()),
                Failure::Refused(refusal) => {
                    (refusal.reason == Reason::ReadOnly).then(|| refusal.clone())
                }
            };
            if let (Some(why), Some(shared)) = (replaced, self.shared.upgrade()) {
                shared.replace(self.generation, why);
            }
            failure
        })
    }
}

impl Shared {
    fn set_up<D>(self: &Arc<Self>, generation: u64, opened: Opened<D>)
    where
        D: Future<Output = ()> + Send + 'static,
    {
        let Opened {
            connection,
            driver,
            traffic,
        } = opened;
        let shared = Arc::downgrade(self);
        let driver = {
            let (traffic, shared) = (Arc::clone(&traffic), Weak::clone(&shared));
            // An idle client notices the end by this.
            tokio::spawn(async move {
                driver.await;
                traffic.end();
                if let Some(shared) = shared.upgrade() {
                    shared.replace(generation, ended());
                }
            })
        };
        let live = Live {
            generation,
            connection,
            traffic: Arc::clone(&traffic),
            under_way: Arc::default(),
            shared,
            _driver: Arc::new(Driver(driver.abort_handle())),
        };
        self.link.send_replace(Link::Up(live));
        if traffic.has_ended() {
            self.replace(generation, ended());
        }
    }

    fn at_hand(&self) -> Result<Live, Refusal> {
        match &*self.link.borrow() {
            Link::Up(live) => Ok(live.clone()),
            Link::Down(refusal) => Err(refusal.clone()),
        }
    }

    fn replace(&self, generation: u64, why: Refusal) {
        let detail = why.detail.clone();
        // To follow the address to another server is no loss, and is done again and again.
        let to_follow = why.reason == Reason::ReadOnly;
        let replaced = self.link.send_if_modified(|link| {
            let current = matches!(link, Link::Up(current) if current.generation == generation);
            if current {
                *link = Link::Down(why);
            }
            current
        });
        if replaced {
            let server = self.endpoint.address();
            if to_follow {
                tracing::debug!(server, why = detail, "connecting again");
            } else {
                tracing::warn!(server, why = detail, "connection lost");
            }
            self.broken.notify_one();
        }
    }
}

fn ended() -> Refusal {
    Refusal::unreachable("the server has closed the connection")
}

/// Makes the connection anew each time that it is found broken.
async fn keep(shared: Arc<Shared>) {
    let mut generation = 0;
    let mut backoff = Backoff::new();
    let mut since = Instant::now();
    loop {
        shared.broken.notified().await;
        let lost =
            matches!(&*shared.link.borrow(), Link::Down(why) if why.reason != Reason::ReadOnly);
        // The first attempt is made at once, unless there was one just now.
        if !backoff.note_end(since.elapsed()) {
            tokio::time::sleep(backoff.next()).await;
        }
        loop {
            match shared.endpoint.connect().await {
                Ok(opened) => {
                    generation += 1;
                    shared.set_up(generation, opened);
                    since = Instant::now();
                    let server = shared.endpoint.address();
                    if lost {
                        tracing::info!(server, "connected again");
                    } else {
                        tracing::debug!(server, "connected again");
                    }
                    break;
                }
                Err(refusal) => {
                    tracing::debug!(server = shared.endpoint.address(), detail = %refusal.detail, "not connected");
                    shared.link.send_replace(Link::Down(refusal));
                    tokio::time::sleep(backoff.next()).await;
                }
            }
        }
    }
}

fn first_connect_error(endpoint: &Endpoint, refusal: Refusal, began: Instant) -> Error {
    let server = endpoint.address().to_owned();
    match refusal.reason {
        Reason::Authentication => Error::Authentication {
            name: server,
            detail: refusal.detail,
        },
        Reason::NotNow => Error::RefusedForNow {
            name: server,
            detail: refusal.detail,
        },
        Reason::Unreachable => Error::Unavailable {
            name: server,
            waited: began.elapsed(),
            detail: refusal.detail,
        },
        _ => Error::Server {
            name: server,
            detail: refusal.detail,
        },
    }
}
