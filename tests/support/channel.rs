//! Records the messages of a channel, or of all channels that match a pattern.

use std::time::Duration;

use futures::StreamExt;
use redis::aio::{MultiplexedConnection, PubSub};
use tokio::time::timeout;

use super::server::RedisServer;

const DEADLINE: Duration = Duration::from_secs(20);

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub channel: String,
    /// Bytes that are no UTF-8 are replaced.
    pub payload: String,
}

/// A running record. Its markers travel on a channel of their own, so the others see none of them.
/// (Messages of `SPUBLISH` are not in it.)
pub struct Channel {
    messages: PubSub,
    control: MultiplexedConnection,
    marker_channel: String,
    markers: u64,
}

impl Channel {
    /// Records one channel from now on.
    pub async fn subscribe(server: &RedisServer, channel: &str) -> Channel {
        let mut record = Channel::open(server).await;
        record
            .messages
            .subscribe(channel)
            .await
            .expect("SUBSCRIBE answers");
        record
    }

    /// Records all channels that match, from now on.
    pub async fn pattern(server: &RedisServer, pattern: &str) -> Channel {
        let mut record = Channel::open(server).await;
        record
            .messages
            .psubscribe(pattern)
            .await
            .expect("PSUBSCRIBE answers");
        record
    }

    async fn open(server: &RedisServer) -> Channel {
        let mut control = server.connection().await;
        let id: u64 = redis::cmd("CLIENT")
            .arg("ID")
            .query_async(&mut control)
            .await
            .expect("CLIENT ID answers");
        let marker_channel = format!("channel-marker-{id}");
        let mut messages = server
            .client()
            .get_async_pubsub()
            .await
            .expect("the server runs");
        messages
            .subscribe(&marker_channel)
            .await
            .expect("SUBSCRIBE answers");
        Channel {
            messages,
            control,
            marker_channel,
            markers: 0,
        }
    }

    /// The next message; panics when none comes for a long time.
    pub async fn next(&mut self) -> Message {
        loop {
            let message = self.receive().await;
            if message.channel != self.marker_channel {
                return message;
            }
        }
    }

    /// All messages since the last call that were published up to this moment.
    pub async fn until_marker(&mut self) -> Vec<Message> {
        self.markers += 1;
        let marker = Message {
            channel: self.marker_channel.clone(),
            payload: self.markers.to_string(),
        };
        let _: u64 = redis::cmd("PUBLISH")
            .arg(&[&marker.channel, &marker.payload])
            .query_async(&mut self.control)
            .await
            .expect("PUBLISH answers");
        let mut messages = Vec::new();
        loop {
            let message = self.receive().await;
            if message == marker {
                return messages;
            }
            // A pattern like `*` brings each marker a second time.
            if message.channel != self.marker_channel {
                messages.push(message);
            }
        }
    }

    async fn receive(&mut self) -> Message {
        let message = timeout(DEADLINE, self.messages.on_message().next())
            .await
            .expect("a message arrives in time")
            .expect("the record goes on while the server runs");
        Message {
            channel: message.get_channel_name().to_owned(),
            payload: String::from_utf8_lossy(message.get_payload_bytes()).into_owned(),
        }
    }
}
