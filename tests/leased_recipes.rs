//! The contract suite for the semaphores in the layouts of the classic recipes.

#[macro_use]
mod leased;
mod support;

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leased::{Expiring, Fixture};
use redisson_semaphore::recipes::Units;
use redisson_semaphore::{Client, LeasedSemaphore};
use support::server::RedisServer;

/// Nobody may be served by the check: messages and expiries must do.
const NEVER: Duration = Duration::from_secs(3600);

type Handle = Arc<dyn LeasedSemaphore>;

/// One layout.
trait Recipe {
    fn make(client: &Client, name: &str, limit: u32, lease: Duration) -> Handle;
}

struct Timestamp;
impl Recipe for Timestamp {
    fn make(client: &Client, name: &str, limit: u32, lease: Duration) -> Handle {
        let semaphore = client.timestamp_semaphore(name, limit);
        Arc::new(semaphore.timeout(lease).check_interval(NEVER))
    }
}

struct TimestampInSeconds;
impl Recipe for TimestampInSeconds {
    fn make(client: &Client, name: &str, limit: u32, lease: Duration) -> Handle {
        let semaphore = client
            .timestamp_semaphore(name, limit)
            .units(Units::Seconds);
        Arc::new(semaphore.timeout(lease).check_interval(NEVER))
    }
}

struct Fair;
impl Recipe for Fair {
    fn make(client: &Client, name: &str, limit: u32, lease: Duration) -> Handle {
        let semaphore = client.fair_semaphore(name, limit);
        Arc::new(semaphore.timeout(lease).check_interval(NEVER))
    }
}

struct FairUnderLock;
impl Recipe for FairUnderLock {
    fn make(client: &Client, name: &str, limit: u32, lease: Duration) -> Handle {
        let semaphore = client.fair_semaphore(name, limit).under_lock(name);
        Arc::new(semaphore.timeout(lease).check_interval(NEVER))
    }
}

struct FairWithTokens;
impl Recipe for FairWithTokens {
    fn make(client: &Client, name: &str, limit: u32, lease: Duration) -> Handle {
        let semaphore = client
            .fair_semaphore(name, limit)
            .units(Units::Seconds)
            .keys(&format!("{name}-owners"), &format!("{name}-counter"))
            .tokens(&format!("{name}-tokens"));
        Arc::new(semaphore.timeout(lease).check_interval(NEVER))
    }
}

struct Set;
impl Recipe for Set {
    fn make(client: &Client, name: &str, limit: u32, _: Duration) -> Handle {
        Arc::new(client.set_semaphore(name, limit).check_interval(NEVER))
    }
}

struct Slots;
impl Recipe for Slots {
    fn make(client: &Client, name: &str, limit: u32, lease: Duration) -> Handle {
        let semaphore = client.slot_semaphore(name, limit);
        Arc::new(semaphore.timeout(lease).check_interval(NEVER))
    }
}

/// A private server and two clients of it.
struct Redis<R> {
    made: AtomicU32,
    first: Client,
    second: Client,
    recipe: PhantomData<R>,
    _server: RedisServer,
}

impl<R: Recipe> Redis<R> {
    async fn start() -> Self {
        let server = RedisServer::start().await;
        let connect = || async {
            // Messages only.
            let builder = Client::builder(server.url()).safety_interval(NEVER);
            let client = builder.connect().await;
            client.expect("the server has just been started")
        };
        Redis {
            made: AtomicU32::new(0),
            first: connect().await,
            second: connect().await,
            recipe: PhantomData,
            _server: server,
        }
    }
}

impl<R: Recipe> Fixture for Redis<R> {
    fn fresh(&self, limit: u32) -> Handle {
        self.lasting(limit, Duration::from_secs(10))
    }

    fn second(&self, of: &Handle) -> Handle {
        let lease = of.lease().unwrap_or(Duration::from_secs(10));
        R::make(&self.second, of.name(), of.limit(), lease)
    }
}

impl<R: Recipe> Expiring for Redis<R> {
    fn lasting(&self, limit: u32, lease: Duration) -> Handle {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        R::make(&self.first, &format!("semaphore-{number}"), limit, lease)
    }
}

leased_suite!(timestamp, Redis::<Timestamp>::start().await);
leased_suite!(
    timestamp_in_seconds,
    Redis::<TimestampInSeconds>::start().await
);
leased_suite!(fair, Redis::<Fair>::start().await);
leased_suite!(fair_under_lock, Redis::<FairUnderLock>::start().await);
leased_suite!(fair_with_tokens, Redis::<FairWithTokens>::start().await);
leased_suite!(set, Redis::<Set>::start().await);
leased_suite!(slots, Redis::<Slots>::start().await);

expiring_suite!(timestamp_expiring, Redis::<Timestamp>::start().await);
expiring_suite!(
    timestamp_in_seconds_expiring,
    Redis::<TimestampInSeconds>::start().await
);
expiring_suite!(fair_expiring, Redis::<Fair>::start().await);
expiring_suite!(
    fair_under_lock_expiring,
    Redis::<FairUnderLock>::start().await
);
expiring_suite!(
    fair_with_tokens_expiring,
    Redis::<FairWithTokens>::start().await
);
expiring_suite!(slots_expiring, Redis::<Slots>::start().await);
