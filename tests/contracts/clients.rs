//! Two clients of a server or of a cluster, and the objects that they share. All tests of this program have the same server and the
//! same cluster, so each object has a name of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::layouts::{Layout, Shape};
use crate::support::clients::NEVER;
use crate::support::cluster::Cluster;
use crate::support::server::RedisServer;
use redisson_semaphore::{
    Client, ClientBuilder, LeasedSemaphore, Lock, Protocol, Semaphore, ShardedPubSub,
};
use tokio::sync::OnceCell;

/// Both end with the process.
static SERVER: OnceCell<RedisServer> = OnceCell::const_new();
static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
static MADE: AtomicU32 = AtomicU32::new(0);

/// A name that is used nowhere else.
pub(crate) fn name(hint: &str) -> String {
    format!("{hint}-{}", MADE.fetch_add(1, Ordering::Relaxed))
}

pub(crate) struct Clients {
    pub(crate) first: Client,
    pub(crate) second: Client,
    servers: &'static [RedisServer],
}

impl Clients {
    /// Clients of the server.
    pub(crate) async fn start(protocol: Protocol) -> Self {
        Clients::set(|builder| builder.protocol(protocol)).await
    }

    /// Clients of the server with a setting.
    pub(crate) async fn set(set: impl Fn(ClientBuilder) -> ClientBuilder) -> Self {
        let server = SERVER.get_or_init(RedisServer::start).await;
        Clients::connect(server.url(), std::slice::from_ref(server), set).await
    }

    /// Clients of the cluster.
    pub(crate) async fn of_cluster(mode: ShardedPubSub) -> Self {
        let cluster = CLUSTER.get_or_init(Cluster::start).await;
        Clients::connect(cluster.url(), &cluster.servers, |builder| {
            builder.sharded_pubsub(mode)
        })
        .await
    }

    async fn connect(
        url: String,
        servers: &'static [RedisServer],
        set: impl Fn(ClientBuilder) -> ClientBuilder,
    ) -> Self {
        // Nobody may be served by a check.
        let connect = || set(Client::builder(url.clone()).safety_interval(NEVER)).connect();
        Clients {
            first: connect().await.expect("the servers run"),
            second: connect().await.expect("the servers run"),
            servers,
        }
    }
}

impl crate::contract::Fixture for Clients {
    fn fresh(&self, hint: &str) -> Arc<dyn Semaphore> {
        Arc::new(self.first.semaphore(&name(hint)))
    }

    fn second(&self, of: &Arc<dyn Semaphore>) -> Arc<dyn Semaphore> {
        Arc::new(self.second.semaphore(of.name()))
    }
}

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

/// The locks of one kind.
pub(crate) struct Locks(pub(crate) Kind, pub(crate) Clients);

impl Locks {
    fn lock(&self, client: &Client, name: &str) -> Arc<dyn Lock> {
        match self.0 {
            Kind::Plain => Arc::new(client.lock(name)),
            Kind::Fenced => Arc::new(client.fenced_lock(name)),
            Kind::Fair => Arc::new(client.fair_lock(name)),
            Kind::Writer | Kind::Reader => Arc::new(client.read_write_lock(name).write()),
            Kind::StringLock => Arc::new(client.string_lock(name)),
        }
    }
}

impl crate::lock_contract::Fixture for Locks {
    fn fresh(&self, hint: &str) -> Arc<dyn Lock> {
        match self.0 {
            Kind::Reader => Arc::new(self.1.first.read_write_lock(&name(hint)).read()),
            _ => self.lock(&self.1.first, &name(hint)),
        }
    }

    fn neighbour(&self, of: &Arc<dyn Lock>) -> Arc<dyn Lock> {
        self.lock(&self.1.first, of.name())
    }

    fn stranger(&self, to: &Arc<dyn Lock>) -> Arc<dyn Lock> {
        self.lock(&self.1.second, to.name())
    }
}

/// Permits with ids, as Redisson has them (no layout) or in that of a classic recipe.
pub(crate) struct Leased(pub(crate) Option<Layout>, pub(crate) Clients);

impl Leased {
    fn make(&self, client: &Client, name: &str, shape: Shape) -> Arc<dyn LeasedSemaphore> {
        match self.0 {
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
        self.make(&self.1.second, of.name(), shape)
    }

    fn has_slots(&self) -> bool {
        self.0 == Some(Layout::Slots)
    }
}

impl crate::leased::Expiring for Leased {
    fn lasting(&self, limit: u32, lease: Duration) -> Arc<dyn LeasedSemaphore> {
        // In a cluster nothing but the braces keeps the keys of a recipe together.
        let name = format!("{{{}}}", name("leased"));
        if self.0.is_none() {
            let set = |server: &RedisServer| {
                let mut control = server.client().get_connection().unwrap();
                redis::Commands::set::<_, _, ()>(&mut control, &name, limit).is_ok()
            };
            assert!(self.1.servers.iter().any(set), "nobody has the slot");
        }
        self.make(&self.1.first, &name, Shape::new(limit).lease(lease))
    }
}
