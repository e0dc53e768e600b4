//! The lock's contract for the lock that is shared through Redis, for the one with tokens, for the fair one, for both sides of the
//! read-write lock, and for the string lock of the classic recipes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::lock_contract::Fixture;
use crate::support::server::RedisServer;
use redisson_semaphore::{Client, Lock, Protocol};

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Plain,
    Fenced,
    Fair,
    Writer,
    /// The first owner reads; the others write, as readers keep out nobody else.
    Reader,
    StringLock,
}

/// A private server and two clients of it.
pub(crate) struct Redis {
    pub(crate) made: AtomicU32,
    pub(crate) first: Client,
    pub(crate) second: Client,
    kind: Kind,
    pub(crate) server: RedisServer,
}

impl Redis {
    pub(crate) async fn start(kind: Kind, protocol: Protocol) -> Self {
        let server = RedisServer::start().await;
        let connect = || async {
            let client = Client::builder(server.url()).protocol(protocol);
            let client = client.connect().await;
            client.expect("the server has just been started")
        };
        Redis {
            made: AtomicU32::new(0),
            first: connect().await,
            second: connect().await,
            kind,
            server,
        }
    }

    fn lock(&self, client: &Client, name: &str) -> Arc<dyn Lock> {
        match self.kind {
            Kind::Plain => Arc::new(client.lock(name)),
            Kind::Fenced => Arc::new(client.fenced_lock(name)),
            Kind::Fair => Arc::new(client.fair_lock(name)),
            Kind::Writer | Kind::Reader => Arc::new(client.read_write_lock(name).write()),
            Kind::StringLock => Arc::new(client.string_lock(name)),
        }
    }
}

impl Fixture for Redis {
    fn fresh(&self, hint: &str) -> Arc<dyn Lock> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let name = format!("{hint}-{number}");
        match self.kind {
            Kind::Reader => Arc::new(self.first.read_write_lock(&name).read()),
            _ => self.lock(&self.first, &name),
        }
    }

    fn neighbour(&self, of: &Arc<dyn Lock>) -> Arc<dyn Lock> {
        self.lock(&self.first, of.name())
    }

    fn stranger(&self, to: &Arc<dyn Lock>) -> Arc<dyn Lock> {
        self.lock(&self.second, to.name())
    }
}

lock_suite!(rlock, Redis::start(Kind::Plain, Protocol::Resp2).await);
lock_suite!(
    fenced_lock,
    Redis::start(Kind::Fenced, Protocol::Resp2).await
);
lock_suite!(by_resp3, Redis::start(Kind::Fenced, Protocol::Resp3).await);
lock_suite!(fair_lock, Redis::start(Kind::Fair, Protocol::Resp2).await);

lock_suite!(writers, Redis::start(Kind::Writer, Protocol::Resp2).await);
// Readers do not keep each other out, set the end of all holds, or are forced out by a writer.
lock_suite!(
    readers,
    Redis::start(Kind::Reader, Protocol::Resp2).await;
    each reentrant
);
// It is not reentrant, and lasts for ten seconds at a time.
lock_suite!(
    string_lock,
    Redis::start(Kind::StringLock, Protocol::Resp2).await;
    each exclusive
);
