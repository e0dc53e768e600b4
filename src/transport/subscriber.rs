//! The subscription connection: never carries commands, so that no reply can go astray.

use futures::StreamExt;
use redis::aio::{PubSubSink, PubSubStream};

use super::{Endpoint, Failure, Refusal};
use crate::clock::Moment;

/// How a message begins that is meant for JVMs alone: see `lua/semaphore/nudge.lua`.
const NOTHING_NEW: &[u8] = b"+";

/// The half that asks for subscriptions.
pub(crate) struct Subscriptions {
    sink: PubSubSink,
    response_timeout: std::time::Duration,
}

/// The half that hears messages.
pub(crate) struct Subscriber {
    stream: PubSubStream,
}

impl Subscriber {
    pub(crate) async fn connect(endpoint: &Endpoint) -> Result<(Subscriptions, Self), Refusal> {
        let (sink, stream) = endpoint.connect_pubsub().await?.split();
        let subscriptions = Subscriptions {
            sink,
            response_timeout: endpoint.response_timeout(),
        };
        Ok((subscriptions, Subscriber { stream }))
    }

    /// The channel of the next message, and whether it is not one of the zeros that follow an announcement;
    /// `None` when the connection is gone.
    ///
    /// Else the payload is of no interest: a message means "look again", never "you own something". What is new to
    /// JVMs only is passed over.
    pub(crate) async fn next(&mut self) -> Option<(String, bool)> {
        loop {
            let message = self.stream.next().await?;
            let payload = message.get_payload_bytes();
            if !payload.starts_with(NOTHING_NEW) {
                return Some((message.get_channel_name().to_owned(), payload != b"0"));
            }
        }
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
