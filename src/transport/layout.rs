//! The server of each channel: the listeners of a channel are counted there, as scripts count them.

use std::sync::Arc;

use tokio::sync::{Notify, watch};

use super::Endpoint;
use super::address::Address;
use super::link::Link;
use super::map::Map;
use super::messages::Messages;
use super::slot::slot;
use super::{Failure, Value};
use crate::state::ConnectionState;

/// The servers that channels are subscribed at. It is a new one each time that something has moved.
#[derive(Clone)]
pub(crate) struct Layout {
    nodes: Arc<[Node]>,
    /// The slots of a cluster.
    map: Option<Arc<Map>>,
}

/// A server that channels are subscribed at.
#[derive(Clone)]
pub(crate) struct Node {
    endpoint: Endpoint,
    /// The connection for commands there; in a cluster the map says where a master is.
    link: Option<Arc<Link>>,
    /// As it stands in the map of a cluster.
    address: Option<Address>,
    messages: Messages,
    /// Something was not where it should be.
    recheck: Arc<Notify>,
}

impl Layout {
    pub(super) fn of_one(endpoint: Endpoint, link: Arc<Link>) -> Self {
        let node = Node {
            endpoint,
            link: Some(link),
            address: None,
            messages: Messages::Plain,
            recheck: Arc::default(),
        };
        Layout {
            nodes: [node].into(),
            map: None,
        }
    }

    /// `endpoint` is that of any node.
    pub(super) fn of_cluster(
        endpoint: &Endpoint,
        map: Arc<Map>,
        messages: Messages,
        recheck: &Arc<Notify>,
    ) -> Self {
        let node = |address: &Address| Node {
            endpoint: endpoint.at(address),
            link: None,
            address: Some(address.clone()),
            messages,
            recheck: Arc::clone(recheck),
        };
        Layout {
            nodes: map.masters().iter().map(node).collect(),
            map: Some(map),
        }
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(crate) fn has(&self, node: &Node) -> bool {
        self.nodes.iter().any(|other| other.is(node))
    }

    /// Whether `channel` is to be subscribed at `node`.
    pub(crate) fn is_at(&self, channel: &str, node: &Node) -> bool {
        match &self.map {
            None => true,
            Some(map) => map.owner(slot(channel)) == node.address.as_ref(),
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

    /// A channel is not at home here: the map is asked for again.
    pub(crate) fn recheck(&self) {
        self.recheck.notify_one();
    }

    /// The state of the connection for commands, where messages might come from another server.
    pub(crate) fn commands(&self) -> Option<watch::Receiver<ConnectionState>> {
        self.link.as_ref().map(|link| link.shown())
    }

    /// Which of these channels, that are subscribed, have no listener where commands go: messages come from somewhere else.
    pub(crate) async fn unheard(&self, channels: Vec<String>) -> Result<Vec<String>, Failure> {
        let live = self.link.as_ref().map(|link| link.live());
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
