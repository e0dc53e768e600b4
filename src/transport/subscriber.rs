//! The subscription connection: never carries commands, so that no reply can go astray.

use futures::StreamExt;
use redis::aio::{PubSubSink, PubSubStream};

use super::address::Address;
use super::{Endpoint, Failure, Message, Refusal};
use crate::clock::Moment;

/// The half that asks for subscriptions.
pub(crate) struct Subscriptions {
    sink: PubSubSink,
    response_timeout: std::time::Duration,
}

/// The half that hears messages.
pub(crate) struct Subscriber {
    stream: PubSubStream,
    endpoint: Endpoint,
    /// Where it leads.
    address: Address,
}

impl Subscriber {
    pub(crate) async fn connect(endpoint: &Endpoint) -> Result<(Subscriptions, Self), Refusal> {
        let (address, pubsub) = endpoint.connect_pubsub().await?;
        let (sink, stream) = pubsub.split();
        let subscriptions = Subscriptions {
            sink,
            response_timeout: endpoint.response_timeout(),
        };
        let subscriber = Subscriber {
            stream,
            endpoint: endpoint.clone(),
            address,
        };
        Ok((subscriptions, subscriber))
    }

    /// The next message; `None` when the connection is gone, or leads to a server that is not the master any more.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        let message = tokio::select! {
            message = self.stream.next() => message?,
            () = self.endpoint.until_not(&self.address) => return None,
        };
        Some(Message {
            channel: message.get_channel_name().to_owned(),
            payload: message.get_payload_bytes().to_vec(),
        })
    }
}

impl Subscriptions {
    /// Subscribes and waits for the server's confirmation of every channel.
    pub(crate) async fn subscribe(&mut self, channels: &[String]) -> Result<(), Failure> {
        limited(self.response_timeout, self.sink.subscribe(channels)).await
    }

    pub(crate) async fn unsubscribe(&mut self, channels: &[String]) -> Result<(), Failure> {
        limited(self.response_timeout, self.sink.unsubscribe(channels)).await
    }

    /// Asks whether the server is still there.
    pub(crate) async fn ping(&mut self) -> Result<(), Failure> {
        let pong = limited(self.response_timeout, self.sink.ping::<redis::Value>()).await;
        match pong {
            // An ACL may forbid PING, and a busy server refuses it; that it answers is all that matters.
            Ok(_) | Err(Failure::Refused(_)) => Ok(()),
            Err(failure) => Err(failure),
        }
    }
}

async fn limited<T>(
    limit: std::time::Duration,
    asking: impl Future<Output = redis::RedisResult<T>>,
) -> Result<T, Failure> {
    let sent = Moment::now();
    match tokio::time::timeout(limit, asking).await {
        Ok(answer) => answer.map_err(|error| Failure::of_command(&error, sent)),
        Err(_) => {
            let detail = format!("no answer within {limit:?}");
            Err(Failure::unanswered(detail, sent))
        }
    }
}
