//! Waits until replicas have what a connection has changed: one `WAIT` for all that was answered before it is sent.
//!
//! `WAIT` is about the connection that it comes on, and holds up what comes behind it. So there is one at a time, and calls that
//! come meanwhile share the next one: a hundred callers wait twice as long as one, not a hundred times.

use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::RedisResult;
use redis::aio::MultiplexedConnection;
use tokio::sync::{Mutex as Turn, mpsc, oneshot};

use crate::outside;
use crate::sync::Mutex;

/// How many replicas are to have a change before it counts, and how long one `WAIT` waits for them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replicas {
    pub(super) count: u32,
    pub(super) patience: Duration,
}

/// A call that waits for the answer to a `WAIT`.
type Waiter = oneshot::Sender<RedisResult<i64>>;

/// The calls that wait for the replicas of one connection.
pub(super) struct Confirming {
    connection: MultiplexedConnection,
    replicas: Replicas,
    /// A call that comes now shares this one, which has not been sent yet.
    next: Mutex<Option<mpsc::UnboundedSender<Waiter>>>,
    turn: Turn<()>,
    itself: Weak<Confirming>,
}

impl Confirming {
    pub(super) fn new(connection: MultiplexedConnection, replicas: Replicas) -> Arc<Self> {
        Arc::new_cyclic(|itself| Confirming {
            connection,
            replicas,
            next: Mutex::default(),
            turn: Turn::default(),
            itself: itself.clone(),
        })
    }

    pub(super) fn replicas(&self) -> Replicas {
        self.replicas
    }

    /// How many replicas have all that was answered before this was called.
    pub(super) async fn confirmed(&self) -> RedisResult<i64> {
        let ended = || Err(std::io::Error::other("the runtime has ended").into());
        self.join().await.unwrap_or_else(|_| ended())
    }

    fn join(&self) -> oneshot::Receiver<RedisResult<i64>> {
        let (waiter, answer) = oneshot::channel();
        let mut next = self.next.lock();
        let waiter = match &*next {
            Some(shared) => match shared.send(waiter) {
                Ok(()) => return answer,
                Err(unsent) => unsent.0,
            },
            None => waiter,
        };
        let (shared, waiters) = mpsc::unbounded_channel();
        drop(shared.send(waiter));
        *next = Some(shared);
        drop(next);
        // When one of them is dropped, the others get their answer.
        if let Some(itself) = self.itself.upgrade() {
            outside::spawn(itself.ask(waiters));
        }
        answer
    }

    async fn ask(self: Arc<Self>, mut waiters: mpsc::UnboundedReceiver<Waiter>) {
        let _turn = self.turn.lock().await;
        self.next.lock().take();
        let mut wait = redis::cmd("WAIT");
        let patience = u64::try_from(self.replicas.patience.as_millis()).unwrap_or(u64::MAX);
        wait.arg(self.replicas.count).arg(patience.max(1));
        let count = wait.query_async(&mut self.connection.clone()).await;
        // In the order of their coming, so that what follows has the same order each time.
        while let Ok(waiter) = waiters.try_recv() {
            drop(waiter.send(count.clone()));
        }
    }
}
