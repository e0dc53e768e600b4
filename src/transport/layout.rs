//! The server of each channel: the listeners of a channel are counted there, as scripts count them.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::Notify;

use super::address::Address;
use super::link::Link;
use super::map::Map;
use super::messages::Messages;
use super::slot::slot;
use super::{Refusal, Subscriber};

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
    /// The connection for commands there.
    link: Arc<Link>,
    /// As it stands in the map of a cluster.
    address: Option<Address>,
    messages: Messages,
    /// Something was not where it should be.
    recheck: Arc<Notify>,
}

impl Layout {
    pub(super) fn of_one(link: Arc<Link>) -> Self {
        let node = Node {
            link,
            address: None,
            messages: Messages::Plain,
            recheck: Arc::default(),
        };
        Layout {
            nodes: [node].into(),
            map: None,
        }
    }

    /// The masters of `map` that have `links`.
    pub(super) fn of_cluster(
        links: &BTreeMap<Address, Arc<Link>>,
        map: Arc<Map>,
        messages: Messages,
        recheck: &Arc<Notify>,
    ) -> Self {
        let node = |address: &Address| {
            Some(Node {
                link: Arc::clone(links.get(address)?),
                address: Some(address.clone()),
                messages,
                recheck: Arc::clone(recheck),
            })
        };
        Layout {
            nodes: map.masters().iter().filter_map(node).collect(),
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
        self.link.endpoint().address()
    }

    pub(crate) fn is(&self, other: &Node) -> bool {
        Arc::ptr_eq(&self.link, &other.link)
    }

    /// A channel is not at home here: the map is asked for again.
    pub(crate) fn recheck(&self) {
        self.recheck.notify_one();
    }

    /// Connects for messages to where commands go, as soon as there is a connection for those. The future ends when commands have
    /// another one, which may lead to another server.
    pub(crate) async fn connect(&self) -> Result<(Subscriber, BoxFuture<'static, ()>), Refusal> {
        let none = Weak::new();
        let live = self.link.other(&none).await;
        let (server, known) = (live.server.clone(), Arc::downgrade(&live));
        // Dropped here: `Live` counts its holders at its end, and takes each further one for a lost command.
        drop(live);
        let link = Arc::clone(&self.link);
        let mut moved = async move { drop(link.other(&known).await) }.boxed();
        let endpoint = self.link.endpoint();
        let stream = tokio::select! {
            biased;
            stream = endpoint.connect_to(&server) => stream?,
            () = &mut moved => {
                return Err(Refusal::unreachable("commands go to another server now"));
            }
        };
        let limit = endpoint.patience.response_timeout;
        Ok((Subscriber::new(stream, self.messages, limit), moved))
    }
}
