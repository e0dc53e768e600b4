//! The lock's contract for the lock that is shared through Redis, for the one with tokens, and for the fair one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::lock_contract::Fixture;
use crate::support::server::RedisServer;
use redisson_semaphore::{Client, Lock, Protocol};

#[derive(Clone, Copy)]
enum Kind {
    Plain,
    Fenced,
    Fair,
}

/// A private server and two clients of it.
struct Redis {
    made: AtomicU32,
    first: Client,
    second: Client,
    kind: Kind,
    _server: RedisServer,
}

impl Redis {
    async fn start(kind: Kind, protocol: Protocol) -> Self {
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
            _server: server,
        }
    }

    fn lock(&self, client: &Client, name: &str) -> Arc<dyn Lock> {
        match self.kind {
            Kind::Plain => Arc::new(client.lock(name)),
            Kind::Fenced => Arc::new(client.fenced_lock(name)),
            Kind::Fair => Arc::new(client.fair_lock(name)),
        }
    }
}

impl Fixture for Redis {
    fn fresh(&self, hint: &str) -> Arc<dyn Lock> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        self.lock(&self.first, &format!("{hint}-{number}"))
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
