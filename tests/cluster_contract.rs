//! The contract suites over a cluster, with sharded messages and with plain ones.

// Both suites bring the file that makes calls.
#![allow(clippy::duplicate_mod)]

#[macro_use]
mod contract;
#[macro_use]
mod lock_contract;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use redisson_semaphore::{Client, Lock, Semaphore, ShardedPubSub};
use support::cluster::Cluster;
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
            let client = Client::builder(cluster.url()).sharded_pubsub(mode);
            client
                .connect()
                .await
                .expect("the cluster has been started")
        };
        Clients {
            first: connect().await,
            second: connect().await,
        }
    }
}

impl contract::Fixture for Clients {
    fn fresh(&self, hint: &str) -> Arc<dyn Semaphore> {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        Arc::new(self.first.semaphore(&format!("{hint}-{number}")))
    }

    fn second(&self, of: &Arc<dyn Semaphore>) -> Arc<dyn Semaphore> {
        Arc::new(self.second.semaphore(of.name()))
    }
}

impl lock_contract::Fixture for Clients {
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

contract_suite!(sharded, Clients::start(ShardedPubSub::Auto).await);
contract_suite!(plain, Clients::start(ShardedPubSub::Off).await);
lock_suite!(sharded_lock, Clients::start(ShardedPubSub::Auto).await);
