//! The contract suite for the semaphores in the layouts of the classic recipes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::layouts::{Handle, Layout, Shape};
use crate::leased::{Expiring, Fixture};
use crate::support::server::RedisServer;
use redisson_semaphore::Client;

/// A private server and two clients of it.
struct Redis {
    layout: Layout,
    made: AtomicU32,
    first: Client,
    second: Client,
    _server: RedisServer,
}

impl Redis {
    async fn start(layout: Layout) -> Self {
        let server = RedisServer::start().await;
        let connect = || async {
            // Nobody may be served by a check.
            let never = Duration::from_secs(3600);
            let builder = Client::builder(server.url()).safety_interval(never);
            let client = builder.connect().await;
            client.expect("the server has just been started")
        };
        Redis {
            layout,
            made: AtomicU32::new(0),
            first: connect().await,
            second: connect().await,
            _server: server,
        }
    }
}

impl Fixture for Redis {
    fn fresh(&self, limit: u32) -> Handle {
        self.lasting(limit, Duration::from_secs(10))
    }

    fn second(&self, of: &Handle) -> Handle {
        let lease = of.lease().unwrap_or(Duration::from_secs(10));
        let shape = Shape::new(of.limit().expect("a recipe's handle has one")).lease(lease);
        self.layout.make(&self.second, of.name(), shape)
    }

    fn has_slots(&self) -> bool {
        self.layout == Layout::Slots
    }
}

impl Expiring for Redis {
    fn lasting(&self, limit: u32, lease: Duration) -> Handle {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let name = format!("semaphore-{number}");
        let shape = Shape::new(limit).lease(lease);
        self.layout.make(&self.first, &name, shape)
    }
}

/// Both suites, or that one alone that is for permits without an end.
macro_rules! suites {
    ($($suite:ident $(, $expiring:ident)?: $layout:ident;)*) => {$(
        leased_suite!($suite, Redis::start(Layout::$layout).await);
        $(expiring_suite!($expiring, Redis::start(Layout::$layout).await);)?
    )*};
}

suites! {
    timestamp, timestamp_expiring: Timestamp;
    timestamp_in_seconds, timestamp_in_seconds_expiring: TimestampInSeconds;
    fair, fair_expiring: Fair;
    fair_under_lock, fair_under_lock_expiring: FairUnderLock;
    fair_with_tokens, fair_with_tokens_expiring: FairWithTokens;
    set: Set;
    slots, slots_expiring: Slots;
}
