//! The command connection: one multiplexed connection that comes back by itself, for as long as it takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis::aio::MultiplexedConnection;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::endpoint;
use super::failure::Reason;
use super::{Backoff, Cmd, Endpoint, Failure, Refusal, Value};
use crate::error::Error;

/// The state of the connection.
#[derive(Clone)]
enum Link {
    /// Usable; the number tells one connection from its successor.
    Up(u64, MultiplexedConnection),
    /// Being made again; why the last attempt failed.
    Down(Refusal),
}

struct Shared {
    endpoint: Endpoint,
    link: watch::Sender<Link>,
    broken: Notify,
    /// How many commands are not answered yet.
    under_way: AtomicUsize,
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
        let shared = Arc::new(Shared {
            endpoint,
            link: watch::Sender::new(Link::Up(0, first)),
            broken: Notify::new(),
            under_way: AtomicUsize::new(0),
        });
        let keeper = tokio::spawn(keep(Arc::clone(&shared))).abort_handle();
        Ok(Connection { shared, keeper })
    }

    /// Sends one command on the connection as it is now.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, Failure> {
        let (generation, mut connection) = self.at_hand().map_err(Failure::NoConnection)?;
        let before = self.shared.under_way.fetch_add(1, Ordering::Relaxed);
        let _under_way = UnderWay(&self.shared.under_way);
        let answer = if before < endpoint::MOST_UNDER_WAY {
            connection.send_packed_command(command).await
        } else {
            let command = command.clone();
            let sending =
                tokio::spawn(async move { connection.send_packed_command(&command).await });
            // It ends without an answer where the runtime does.
            sending
                .await
                .unwrap_or_else(|ended| Err(std::io::Error::other(ended).into()))
        };
        answer.and_then(Value::extract_error).map_err(|error| {
            let failure = Failure::of_command(&error);
            match &failure {
                Failure::Unanswered(why) => {
                    self.replace(generation, Refusal::unreachable(why));
                }
                Failure::Refused(refusal) if refusal.reason == Reason::ReadOnly => {
                    self.replace(generation, refusal.clone());
                }
                _ => {}
            }
            failure
        })
    }

    /// Closes the connection for good.
    pub(crate) fn close(&self) {
        self.keeper.abort();
        let closed = Refusal::unreachable("the client has been shut down");
        self.shared.link.send_replace(Link::Down(closed));
    }

    /// Whether commands can be sent.
    pub(crate) fn is_up(&self) -> bool {
        matches!(&*self.shared.link.borrow(), Link::Up(..))
    }

    /// Waits until they can; or until `patience` has run out, and says why not.
    pub(crate) async fn until_up(&self, patience: Instant) -> Result<(), Refusal> {
        let mut link = self.shared.link.subscribe();
        let up = link.wait_for(|link| matches!(link, Link::Up(..)));
        let _ = tokio::time::timeout_at(patience, up).await;
        self.at_hand().map(drop)
    }

    fn at_hand(&self) -> Result<(u64, MultiplexedConnection), Refusal> {
        match &*self.shared.link.borrow() {
            Link::Up(generation, connection) => Ok((*generation, connection.clone())),
            Link::Down(refusal) => Err(refusal.clone()),
        }
    }

    fn replace(&self, generation: u64, why: Refusal) {
        let detail = why.detail.clone();
        let replaced = self.shared.link.send_if_modified(|link| {
            let current = matches!(link, Link::Up(current, _) if *current == generation);
            if current {
                *link = Link::Down(why);
            }
            current
        });
        if replaced {
            tracing::warn!(server = %self.shared.endpoint.address(), why = detail, "connection lost");
            self.shared.broken.notify_one();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close();
    }
}

/// Makes the connection anew each time that it is found broken.
async fn keep(shared: Arc<Shared>) {
    let mut generation = 0;
    loop {
        shared.broken.notified().await;
        let mut backoff = Backoff::new();
        loop {
            match shared.endpoint.connect().await {
                Ok(connection) => {
                    generation += 1;
                    shared.link.send_replace(Link::Up(generation, connection));
                    tracing::info!(server = %shared.endpoint.address(), "connected again");
                    break;
                }
                Err(refusal) => {
                    tracing::debug!(server = %shared.endpoint.address(), detail = %refusal.detail, "not connected");
                    shared.link.send_replace(Link::Down(refusal));
                    tokio::time::sleep(backoff.next()).await;
                }
            }
        }
    }
}

fn first_connect_error(endpoint: &Endpoint, refusal: Refusal, began: Instant) -> Error {
    let server = endpoint.address();
    match refusal.reason {
        Reason::Authentication => Error::Authentication {
            server,
            detail: refusal.detail,
        },
        Reason::Unreachable | Reason::NotNow => Error::Unavailable {
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
