//! The server of each channel: the listeners of a channel are counted there, as scripts count them.

use std::sync::Arc;

use tokio::sync::{Notify, watch};

use super::Endpoint;
use super::address::Address;
use super::cluster::Map;
use super::link::Linked;
use super::messages::Messages;
use super::slot::slot;
use super::{Failure, Value};
use crate::state::ConnectionState;

/// The servers that channels are subscribed at. It is a new one each time that something has moved.
#[derive(Clone)]
pub(crate) struct Layout(Kind);

#[derive(Clone)]
enum Kind {
    One(Endpoint, Linked),
    Cluster {
        /// Of any node.
        endpoint: Endpoint,
        map: Arc<Map>,
        messages: Messages,
        /// Something was not where it should be.
        doubted: Arc<Notify>,
    },
}

/// A server that channels are subscribed at.
#[derive(Clone)]
pub(crate) struct Node {
    endpoint: Endpoint,
    /// The connection for commands there; in a cluster the map says where a master is.
    linked: Option<Linked>,
    /// As it stands in the map of a cluster.
    address: Option<Address>,
    messages: Messages,
    doubted: Option<Arc<Notify>>,
}

impl Layout {
    pub(super) fn of_one(endpoint: Endpoint, linked: Linked) -> Self {
        Layout(Kind::One(endpoint, linked))
    }

    pub(super) fn of_cluster(
        endpoint: Endpoint,
        map: Arc<Map>,
        messages: Messages,
        doubted: Arc<Notify>,
    ) -> Self {
        Layout(Kind::Cluster {
            endpoint,
            map,
            messages,
            doubted,
        })
    }

    pub(crate) fn nodes(&self) -> Vec<Node> {
        match &self.0 {
            Kind::One(endpoint, linked) => vec![Node {
                endpoint: endpoint.clone(),
                linked: Some(linked.clone()),
                address: None,
                messages: Messages::Plain,
                doubted: None,
            }],
            Kind::Cluster {
                endpoint,
                map,
                messages,
                doubted,
            } => {
                let node = |address: &Address| Node {
                    linked: None,
                    endpoint: endpoint.at(address),
                    address: Some(address.clone()),
                    messages: *messages,
                    doubted: Some(Arc::clone(doubted)),
                };
                map.masters().iter().map(node).collect()
            }
        }
    }

    pub(crate) fn has(&self, node: &Node) -> bool {
        match (&self.0, &node.address) {
            (Kind::One(..), _) => true,
            (Kind::Cluster { map, .. }, Some(address)) => map.masters().contains(address),
            (Kind::Cluster { .. }, None) => false,
        }
    }

    /// Whether `channel` is to be subscribed at `node`.
    pub(crate) fn is_at(&self, channel: &str, node: &Node) -> bool {
        match &self.0 {
            Kind::One(..) => true,
            Kind::Cluster { map, .. } => map.owner(slot(channel)) == node.address.as_ref(),
        }
    }
}

impl Node {
    /// Its address, for the log.
    pub(crate) fn name(&self) -> &str {
        self.endpoint.address()
    }

    pub(crate) fn is(&self, other: &Node) -> bool {
        self.address == other.address
    }

    /// A channel is not at home here.
    pub(crate) fn doubt(&self) {
        if let Some(doubted) = &self.doubted {
            doubted.notify_one();
        }
    }

    /// The state of the connection for commands, where messages might come from another server.
    pub(crate) fn commands(&self) -> Option<watch::Receiver<ConnectionState>> {
        self.linked.as_ref().map(Linked::shown)
    }

    /// Which of these channels, that are subscribed, have no listener where commands go: messages come from somewhere else.
    pub(crate) async fn unheard(&self, channels: Vec<String>) -> Result<Vec<String>, Failure> {
        let live = self.linked.as_ref().map(Linked::live);
        let Some(Ok(live)) = live else {
            return Ok(Vec::new());
        };
        let names = channels.iter().map(String::as_str);
        let command = self.messages.count_listeners(names);
        let Value::Array(answer) = live.send(&command).await? else {
            return Ok(Vec::new());
        };
        let pairs = channels.into_iter().zip(answer.chunks(2));
        let unheard = pairs.filter(|(_, pair)| matches!(pair, [_, Value::Int(0)]));
        Ok(unheard.map(|(channel, _)| channel).collect())
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(super) fn messages(&self) -> Messages {
        self.messages
    }
}
