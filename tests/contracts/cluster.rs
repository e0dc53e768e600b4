//! The contract suites over a cluster, with sharded messages and with plain ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::layouts::{Layout, Shape};
use crate::support::clients::NEVER;
use crate::support::cluster::Cluster;
use crate::support::server::RedisServer;
use redisson_semaphore::{Client, LeasedSemaphore, Lock, Semaphore, ShardedPubSub};
use tokio::sync::OnceCell;

/// One for all of these tests: it ends with the process.
static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
static MADE: AtomicU32 = AtomicU32::new(0);

/// Two clients of a cluster.
struct Clients {
    first: Client,
    second: Client,
}

impl Clients {
    async fn start(mode: ShardedPubSub) -> Self {
        let cluster = CLUSTER.get_or_init(Cluster::start).await;
        let connect = || async {
            // Nobody may be served by a check.
            let client = Client::builder(cluster.url()).safety_interval(NEVER);
            let client = client.sharded_pubsub(mode).connect().await;
            client.expect("the cluster has been started")
        };
        Clients {
            first: connect().await,
            second: connect().await,
        }
    }
}

impl crate::contract::Fixture for Clients {
    fn fresh(&self, hint: &str) -> Arc<dyn Semaphore> {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        Arc::new(self.first.semaphore(&format!("{hint}-{number}")))
    }

    fn second(&self, of: &Arc<dyn Semaphore>) -> Arc<dyn Semaphore> {
        Arc::new(self.second.semaphore(of.name()))
    }
}

impl crate::lock_contract::Fixture for Clients {
    fn fresh(&self, hint: &str) -> Arc<dyn Lock> {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        Arc::new(self.first.lock(&format!("{hint}-{number}")))
    }

    fn neighbour(&self, of: &Arc<dyn Lock>) -> Arc<dyn Lock> {
        Arc::new(self.first.lock(of.name()))
    }

    fn stranger(&self, to: &Arc<dyn Lock>) -> Arc<dyn Lock> {
        Arc::new(self.second.lock(to.name()))
    }
}

/// Permits with ids, as Redisson has them (no layout) or in that of a classic recipe.
struct Leased {
    layout: Option<Layout>,
    cluster: &'static Cluster,
    clients: Clients,
}

impl Leased {
    async fn start(layout: Option<Layout>) -> Self {
        Leased {
            layout,
            clients: Clients::start(ShardedPubSub::Auto).await,
            cluster: CLUSTER.get().expect("the clients have started it"),
        }
    }

    fn make(&self, client: &Client, name: &str, shape: Shape) -> Arc<dyn LeasedSemaphore> {
        match self.layout {
            Some(layout) => layout.make(client, name, shape),
            None => Arc::new(
                client
                    .permit_expirable_semaphore(name)
                    .with_lease(shape.lease),
            ),
        }
    }
}

impl crate::leased::Fixture for Leased {
    fn fresh(&self, limit: u32) -> Arc<dyn LeasedSemaphore> {
        crate::leased::Expiring::lasting(self, limit, Duration::from_secs(10))
    }

    fn second(&self, of: &Arc<dyn LeasedSemaphore>) -> Arc<dyn LeasedSemaphore> {
        let lease = of.lease().unwrap_or(Duration::from_secs(10));
        let shape = Shape::new(of.limit().unwrap_or_default()).lease(lease);
        self.make(&self.clients.second, of.name(), shape)
    }

    fn has_slots(&self) -> bool {
        self.layout == Some(Layout::Slots)
    }
}

impl crate::leased::Expiring for Leased {
    fn lasting(&self, limit: u32, lease: Duration) -> Arc<dyn LeasedSemaphore> {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        // Nothing but the braces keeps the keys of a recipe together.
        let name = format!("{{leased-{number}}}");
        if self.layout.is_none() {
            let set = |server: &RedisServer| {
                let mut control = server.client().get_connection().unwrap();
                redis::Commands::set::<_, _, ()>(&mut control, &name, limit).is_ok()
            };
            assert!(self.cluster.servers.iter().any(set), "nobody has the slot");
        }
        self.make(&self.clients.first, &name, Shape::new(limit).lease(lease))
    }
}

contract_suite!(sharded, Clients::start(ShardedPubSub::Auto).await);
contract_suite!(plain, Clients::start(ShardedPubSub::Off).await);
lock_suite!(sharded_lock, Clients::start(ShardedPubSub::Auto).await);
leased_suite!(permits, Leased::start(None).await);
expiring_suite!(permits_expiring, Leased::start(None).await);

/// The suite for each layout.
macro_rules! recipes {
    ($($suite:ident: $layout:ident,)*) => {
        $(leased_suite!($suite, Leased::start(Some(Layout::$layout)).await);)*
    };
}

recipes! {
    timestamp: Timestamp,
    fair: Fair,
    fair_under_lock: FairUnderLock,
    fair_with_tokens: FairWithTokens,
    set: Set,
    slots: Slots,
}
