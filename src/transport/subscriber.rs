//! The subscription connection to one server.

use super::address::Address;
use super::layout::Node;
use super::messages::Heard;
use super::pubsub::{self, Hearing, Subscriptions};
use super::{Endpoint, Refusal};

/// The half that receives messages from the server to listen to.
pub(crate) struct Subscriber {
    hearing: Hearing,
    endpoint: Endpoint,
    /// Where it leads.
    address: Address,
}

impl Subscriber {
    pub(crate) async fn connect(node: &Node) -> Result<(Subscriptions, Self), Refusal> {
        let endpoint = node.endpoint().clone();
        let (address, stream) = endpoint.connect_pubsub().await?;
        let (subscriptions, hearing) =
            pubsub::start(stream, node.messages(), endpoint.patience.response_timeout);
        let subscriber = Subscriber {
            hearing,
            endpoint,
            address,
        };
        Ok((subscriptions, subscriber))
    }

    /// The next message or event; `None` when the connection is gone, or leads to a server that is not the master any more.
    pub(crate) async fn next(&mut self) -> Option<Heard> {
        tokio::select! {
            biased;
            () = self.endpoint.until_not(&self.address) => None,
            heard = self.hearing.next() => heard,
        }
    }
}
