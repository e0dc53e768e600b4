//! Waits until replicas have what a connection has changed: one `WAIT` for all that was answered before it is sent.
//!
//! `WAIT` is about the connection that it comes on, and holds up what comes behind it. So there is one at a time, and calls that
//! come meanwhile share the next one: a hundred callers wait twice as long as one, not a hundred times.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::Shared;
use redis::{FromRedisValue, RedisResult};
use tokio::sync::{Mutex as Turn, oneshot};

use super::wire::Wire;
use crate::outside;
use crate::sync::Mutex;

/// How many replicas are to have a change before it counts, and how long one `WAIT` waits for them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replicas {
    pub(super) count: u32,
    pub(super) patience: Duration,
}

/// The answer to one `WAIT`, for each call that shares it.
type Answer = Shared<oneshot::Receiver<RedisResult<i64>>>;

/// The calls that wait for the replicas of one connection.
pub(super) struct Confirming {
    wire: Wire,
    replicas: Replicas,
    /// A call that comes now shares this one, which has not been sent yet.
    next: Mutex<Option<Answer>>,
    turn: Turn<()>,
}

impl Confirming {
    pub(super) fn new(wire: Wire, replicas: Replicas) -> Self {
        Confirming {
            wire,
            replicas,
            next: Mutex::default(),
            turn: Turn::default(),
        }
    }

    pub(super) fn replicas(&self) -> Replicas {
        self.replicas
    }

    /// How many replicas have all that was answered before this was called.
    pub(super) async fn confirmed(self: &Arc<Self>) -> RedisResult<i64> {
        let ended = |_| Err(std::io::Error::other("the runtime has ended").into());
        self.join().await.unwrap_or_else(ended)
    }

    fn join(self: &Arc<Self>) -> Answer {
        let mut next = self.next.lock();
        if let Some(shared) = &*next {
            return shared.clone();
        }
        let (sender, answer) = oneshot::channel();
        let answer = next.insert(answer.shared()).clone();
        drop(next);
        let itself = Arc::clone(self);
        // A task, as the call that began it may be dropped, or not polled.
        outside::spawn(async move {
            let _turn = itself.turn.lock().await;
            itself.next.lock().take();
            let mut wait = redis::cmd("WAIT");
            let patience = itself.replicas.patience.as_millis();
            let patience = u64::try_from(patience).unwrap_or(u64::MAX);
            wait.arg(itself.replicas.count).arg(patience.max(1));
            let answer = itself.wire.ask(&wait).await;
            drop(sender.send(answer.and_then(|count| Ok(i64::from_redis_value(count)?))));
        });
        answer
    }
}
