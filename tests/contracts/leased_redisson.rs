//! The contract suite for the semaphore with ids that is shared with Redisson.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::leased::{Expiring, Fixture};
use crate::support::clients::builder;
use crate::support::server::RedisServer;
use redisson_semaphore::{Client, LeasedSemaphore, Protocol};

type Handle = Arc<dyn LeasedSemaphore>;

/// A private server and two clients of it. Nobody is served by a slow look.
struct Redis {
    made: AtomicU32,
    first: Client,
    second: Client,
    server: RedisServer,
}

impl Redis {
    async fn start(protocol: Protocol) -> Self {
        let server = RedisServer::start().await;
        let client = || async { builder(server.url()).protocol(protocol).connect().await };
        Redis {
            made: AtomicU32::new(0),
            first: client().await.unwrap(),
            second: client().await.unwrap(),
            server,
        }
    }
}

impl Fixture for Redis {
    fn fresh(&self, limit: u32) -> Handle {
        self.lasting(limit, Duration::from_secs(10))
    }

    fn second(&self, of: &Handle) -> Handle {
        let semaphore = self.second.permit_expirable_semaphore(of.name());
        Arc::new(semaphore.with_lease(of.lease().expect("it has one")))
    }

    fn has_slots(&self) -> bool {
        false
    }
}

impl Expiring for Redis {
    fn lasting(&self, limit: u32, lease: Duration) -> Handle {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let name = format!("semaphore-{number}");
        let mut control = self.server.client().get_connection().unwrap();
        let _: () = redis::Commands::set(&mut control, &name, limit).unwrap();
        let semaphore = self.first.permit_expirable_semaphore(&name);
        Arc::new(semaphore.with_lease(lease))
    }
}

leased_suite!(permit_expirable, Redis::start(Protocol::Resp2).await);
leased_suite!(by_resp3, Redis::start(Protocol::Resp3).await);
expiring_suite!(
    permit_expirable_expiring,
    Redis::start(Protocol::Resp2).await
);
