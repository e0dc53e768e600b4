//! The contract suite for the semaphore that is shared through Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::contract::Fixture;
use crate::support::server::RedisServer;
use redisson_semaphore::{Client, Protocol, Semaphore};

/// A private server and two clients of it.
struct Redis {
    made: AtomicU32,
    first: Client,
    second: Client,
    _server: RedisServer,
}

impl Redis {
    /// Guards hold their permits under leases where they are `watched`.
    async fn start(protocol: Protocol, watched: bool) -> Self {
        let server = RedisServer::start().await;
        let connect = || async {
            let client = Client::builder(server.url()).protocol(protocol);
            let client = client.watch_semaphores(watched).connect().await;
            client.expect("the server has just been started")
        };
        Redis {
            made: AtomicU32::new(0),
            first: connect().await,
            second: connect().await,
            _server: server,
        }
    }
}

impl Fixture for Redis {
    fn fresh(&self, hint: &str) -> Arc<dyn Semaphore> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        Arc::new(self.first.semaphore(&format!("{hint}-{number}")))
    }

    fn second(&self, of: &Arc<dyn Semaphore>) -> Arc<dyn Semaphore> {
        Arc::new(self.second.semaphore(of.name()))
    }
}

contract_suite!(redis_semaphore, Redis::start(Protocol::Resp2, true).await);
contract_suite!(unwatched, Redis::start(Protocol::Resp2, false).await);
contract_suite!(by_resp3, Redis::start(Protocol::Resp3, true).await);
