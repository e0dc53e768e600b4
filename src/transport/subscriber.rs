//! The subscription connection to one server.

use std::sync::{Arc, Weak};

use super::Refusal;
use super::layout::Node;
use super::live::Live;
use super::messages::Heard;
use super::pubsub::{self, Hearing, Subscriptions};

/// The half that receives messages from the server to listen to.
pub(crate) struct Subscriber {
    hearing: Hearing,
    /// The connection for commands, which leads there.
    commands: Weak<Live>,
}

impl Subscriber {
    /// Connects to where commands go, as soon as there is a connection for them.
    pub(crate) async fn connect(node: &Node) -> Result<(Subscriptions, Self), Refusal> {
        let (link, none) = (node.link(), Weak::new());
        let live = link.other(&none).await;
        // Held by no more than its commands it tells whether it ends with a loss.
        let (server, commands) = (live.server.clone(), Arc::downgrade(&live));
        drop(live);
        let endpoint = link.endpoint();
        let stream = tokio::select! {
            biased;
            stream = endpoint.connect_to(&server) => stream?,
            _ = link.other(&commands) => {
                return Err(Refusal::unreachable("commands go to another server now"));
            }
        };
        let (subscriptions, hearing) =
            pubsub::start(stream, node.messages(), endpoint.patience.response_timeout);
        let subscriber = Subscriber { hearing, commands };
        Ok((subscriptions, subscriber))
    }

    /// Ends when commands have another connection, which may lead to another server.
    pub(crate) fn until_moved(&self, node: &Node) -> impl Future<Output = ()> + use<> {
        let (link, commands) = (Arc::clone(node.link()), Weak::clone(&self.commands));
        async move { drop(link.other(&commands).await) }
    }

    /// The next message or event; `None` when the connection is gone.
    pub(crate) async fn next(&mut self) -> Option<Heard> {
        self.hearing.next().await
    }
}
