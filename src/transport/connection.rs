//! The connection for a client's commands: one to its server, or one to each master of a cluster.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::cluster::Cluster;
use super::failure::Reason;
use super::layout::Layout;
use super::link::{Events, Link, NOT_YET};
use super::live::Live;
use super::messages::Messages;
use super::slot::slot;
use super::{Command, Endpoint, Failure, Refusal, Value};
use crate::config::ShardedPubSub;
use crate::error::Error;
use crate::state::ConnectionState;
use crate::sync::{Followed, Follower};

/// The connections of a client that carry commands.
pub(crate) struct Connection {
    kind: Kind,
    endpoint: Endpoint,
    events: Arc<Events>,
}

enum Kind {
    One(Arc<Link>),
    Cluster(Arc<Cluster>),
}

/// The connection that a command is to be sent on.
pub(crate) struct Route<'a> {
    live: Arc<Live>,
    cluster: Option<&'a Cluster>,
}

impl Connection {
    /// Connects for the first time.
    ///
    /// A server that refuses the connection or is loading is tried again until the connect time-out;
    /// a wrong password ends it at once. Of a cluster one master will do, when that time is over.
    pub(crate) async fn open(endpoint: Endpoint, sharded: ShardedPubSub) -> Result<Self, Error> {
        let began = Instant::now();
        let limit = began + endpoint.connect_timeout;
        let connection = Self::lazy(endpoint, sharded);
        let events = Arc::clone(&connection.events);
        loop {
            let changed = events.changed.notified();
            let over = Instant::now() >= limit;
            match connection.route(None).map(drop) {
                Ok(()) if over || connection.cluster().is_none_or(Cluster::is_complete) => {
                    return Ok(connection);
                }
                Err(refusal)
                    if refusal.detail != NOT_YET
                        && (over
                            || refusal.reason != Reason::Unreachable && !refusal.may_pass()) =>
                {
                    return Err(refusal.error(connection.server(), began.elapsed()));
                }
                _ => {}
            }
            match over {
                false => drop(timeout_at(limit, changed).await),
                // The first attempt has a limit of its own.
                true => changed.await,
            }
        }
    }

    /// Connects in the background, for as long as it takes.
    pub(crate) fn lazy(endpoint: Endpoint, sharded: ShardedPubSub) -> Self {
        let events = Arc::<Events>::default();
        let kind = if endpoint.seeds().is_none() {
            let link = Link::new(endpoint.clone(), Arc::clone(&events));
            Kind::One(Arc::new(link))
        } else {
            let cluster = Cluster::new(endpoint.clone(), sharded, Arc::clone(&events));
            cluster.keep();
            Kind::Cluster(cluster)
        };
        Connection {
            kind,
            endpoint,
            events,
        }
    }

    fn cluster(&self) -> Option<&Cluster> {
        match &self.kind {
            Kind::One(_) => None,
            Kind::Cluster(cluster) => Some(cluster),
        }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.cluster().is_some()
    }

    /// The connection to the server that has `key` as it is now, or why there is none; to any server without a key.
    pub(crate) fn route(&self, key: Option<&Arc<str>>) -> Result<Route<'_>, Refusal> {
        let live = match &self.kind {
            Kind::One(link) => link.live()?,
            Kind::Cluster(cluster) => cluster.live_for(key.map(|key| &**key))?,
        };
        let cluster = self.cluster();
        Ok(Route { live, cluster })
    }

    /// The masters of a cluster.
    pub(crate) fn masters(&self) -> Vec<String> {
        self.cluster().map(Cluster::masters).unwrap_or_default()
    }

    /// The one of them that has `key`, as [`masters`](Self::masters) names it; nothing where there is but one.
    pub(crate) fn master_of(&self, key: &str) -> String {
        let master = self.cluster().and_then(|cluster| cluster.master_of(key));
        master.unwrap_or_default()
    }

    /// The connection to that one of them, as [`route`](Self::route) names it.
    pub(crate) fn route_to(&self, master: &str) -> Result<Route<'_>, Refusal> {
        match self.cluster() {
            None => self.route(None),
            Some(cluster) => Ok(Route {
                live: cluster.live_at(master)?,
                cluster: Some(cluster),
            }),
        }
    }

    /// Waits until there is one, or something else has changed, for `patience` at the most; returns the reason where there is none.
    pub(crate) async fn until_up(
        &self,
        key: Option<&Arc<str>>,
        patience: Instant,
    ) -> Result<(), Refusal> {
        // A change from here on is not missed.
        let changed = self.events.changed.notified();
        if self.route(key).is_err() {
            // The state is looked at in any case.
            let _ = timeout_at(patience, changed).await.is_ok();
        }
        self.route(key).map(drop)
    }

    /// Keys with the same number can be used in one command. A standalone server's all have.
    pub(crate) fn slot(&self, key: &str) -> u16 {
        self.cluster().map_or(0, |_| slot(key))
    }

    /// The kind of messages. Plain ones, until a cluster is found.
    pub(crate) fn messages(&self) -> Messages {
        self.cluster().map_or(Messages::Plain, Cluster::messages)
    }

    /// Where channels are to be subscribed.
    pub(crate) fn layout(&self) -> Follower<Layout> {
        match &self.kind {
            Kind::One(link) => {
                let one = Layout::of_one(Arc::clone(link));
                Followed::new(one).follow()
            }
            Kind::Cluster(cluster) => cluster.layout(),
        }
    }

    /// How many connections for commands are kept.
    pub(crate) fn count(&self) -> usize {
        self.cluster().map_or(1, Cluster::count)
    }

    /// How often a connection was made in place of another one.
    pub(crate) fn reconnects(&self) -> u64 {
        self.events.reconnects.load(Ordering::Relaxed)
    }

    /// The state of the connection.
    pub(crate) fn state(&self) -> watch::Receiver<ConnectionState> {
        match &self.kind {
            Kind::One(link) => link.shown(),
            Kind::Cluster(cluster) => cluster.shown(),
        }
    }

    /// The server's address.
    pub(crate) fn server(&self) -> &str {
        self.endpoint.address()
    }

    /// Closes everything for good.
    pub(crate) fn close(&self) {
        match &self.kind {
            Kind::One(link) => link.close(),
            Kind::Cluster(cluster) => cluster.close(),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close();
    }
}

impl Route<'_> {
    /// Sends one command, to the server that it is sent to by the others.
    pub(crate) async fn send(&self, command: &Command) -> Result<Value, Failure> {
        match (self.live.send(command, false).await, self.cluster) {
            (Err(Failure::Refused(refusal)), cluster) => {
                Box::pin(self.refused(command, refusal, cluster)).await
            }
            (answer, _) => answer,
        }
    }

    async fn refused(
        &self,
        command: &Command,
        mut refusal: Refusal,
        cluster: Option<&Cluster>,
    ) -> Result<Value, Failure> {
        match (refusal.reason, cluster) {
            (Reason::Elsewhere, Some(cluster)) => {
                return cluster
                    .follow(&self.live.server.address, command, refusal)
                    .await;
            }
            (Reason::Elsewhere, None) => {
                refusal.detail +=
                    " (the server is a node of a cluster: its URL is redis+cluster://)";
            }
            (Reason::NotNow, Some(cluster)) => cluster.recheck.notify_one(),
            _ => {}
        }
        Err(Failure::Refused(refusal))
    }
}
