//! The subscription connection: never carries commands, so that no reply can go astray.

use std::time::Duration;

use super::address::Address;
use super::layout::Node;
use super::messages::{Heard, Messages};
use super::pubsub::{self, Asking, Hearing};
use super::slot::slot;
use super::{Endpoint, Failure, Refusal};
use crate::clock::Moment;

/// One command names this many channels at the most.
const MOST_CHANNELS: usize = 512;

/// The half that asks for subscriptions.
pub(crate) struct Subscriptions {
    asking: Asking,
    kind: Messages,
    response_timeout: Duration,
}

/// The half that receives messages.
pub(crate) struct Subscriber {
    hearing: Hearing,
    endpoint: Endpoint,
    /// Where it leads.
    address: Address,
}

impl Subscriber {
    pub(crate) async fn connect(node: &Node) -> Result<(Subscriptions, Self), Refusal> {
        let endpoint = node.endpoint();
        let (address, stream) = endpoint.connect_pubsub().await?;
        let (asking, hearing) = pubsub::start(stream);
        let subscriptions = Subscriptions {
            asking,
            kind: node.messages(),
            response_timeout: endpoint.response_timeout(),
        };
        let subscriber = Subscriber {
            hearing,
            endpoint: endpoint.clone(),
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

impl Subscriptions {
    /// Whether each end of a subscription is heard, also where it was asked for.
    pub(crate) fn tell_of_ends(&self) -> bool {
        self.kind == Messages::Sharded
    }

    /// `channels` in those groups that can be subscribed together, in their order.
    pub(crate) fn groups(&self, mut channels: Vec<String>) -> Vec<Vec<String>> {
        if self.kind == Messages::Sharded {
            channels.sort_by_cached_key(|channel| slot(channel));
        }
        let together = |one: &String, two: &String| match self.kind {
            Messages::Plain => true,
            Messages::Sharded => slot(one) == slot(two),
        };
        let groups = channels.chunk_by(together);
        let groups = groups.flat_map(|group| group.chunks(MOST_CHANNELS));
        groups.map(<[String]>::to_vec).collect()
    }

    /// Subscribes each of `groups` and waits for the server's confirmation of every channel; what it refuses, it refuses
    /// for a group.
    pub(crate) async fn subscribe(
        &mut self,
        groups: &[&[String]],
    ) -> Result<Vec<Result<(), Refusal>>, Failure> {
        let asking = self.asking.subscribe(self.kind, groups);
        limited(self.response_timeout, asking).await
    }

    /// Returns those that had gone elsewhere, of which no end is heard any more.
    pub(crate) async fn unsubscribe(
        &mut self,
        groups: &[&[String]],
    ) -> Result<Vec<String>, Failure> {
        let asking = self.asking.unsubscribe(self.kind, groups);
        limited(self.response_timeout, asking).await
    }

    /// Asks whether the server is still there.
    pub(crate) async fn ping(&mut self) -> Result<(), Failure> {
        limited(self.response_timeout, self.asking.ping()).await
    }
}

async fn limited<T>(
    limit: Duration,
    asking: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let sent = Moment::now();
    tokio::time::timeout(limit, asking)
        .await
        .unwrap_or_else(|_| {
            let detail = format!("no answer within {limit:?}");
            Err(Failure::unanswered(detail, sent))
        })
}
