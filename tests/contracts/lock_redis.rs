//! The lock's contract for the lock that is shared through Redis, and for the one with tokens.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::lock_contract::Fixture;
use crate::support::server::RedisServer;
use redisson_semaphore::{Client, Lock, Protocol};

/// A private server and two clients of it.
struct Redis {
    made: AtomicU32,
    first: Client,
    second: Client,
    fenced: bool,
    _server: RedisServer,
}

impl Redis {
    async fn start(fenced: bool, protocol: Protocol) -> Self {
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
            fenced,
            _server: server,
        }
    }

    fn lock(&self, client: &Client, name: &str) -> Arc<dyn Lock> {
        if self.fenced {
            Arc::new(client.fenced_lock(name))
        } else {
            Arc::new(client.lock(name))
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

lock_suite!(rlock, Redis::start(false, Protocol::Resp2).await);
lock_suite!(fenced_lock, Redis::start(true, Protocol::Resp2).await);
lock_suite!(by_resp3, Redis::start(true, Protocol::Resp3).await);
