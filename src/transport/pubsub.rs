//! The protocol of a connection for subscriptions, by RESP2 or RESP3, with both kinds of messages. The redis crate's own does not know
//! those of a cluster.
//!
//! One request is made at a time, and a task reads all messages, so none is lost while no caller waits for it.

use redis::Value;
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::AbortHandle;

use super::messages::{Heard, Messages};
use super::{Failure, Reason, Refusal};
use crate::clock::Moment;
use crate::outside::{self, Stream};

/// The half that asks.
pub(super) struct Asking {
    writer: WriteHalf<Box<dyn Stream>>,
    replies: UnboundedReceiver<Reply>,
}

/// The half that receives. The connection ends with it.
pub(super) struct Hearing {
    heard: UnboundedReceiver<Heard>,
    reader: AbortHandle,
}

/// The possible answers to a request.
enum Reply {
    Subscribed,
    Unsubscribed(String),
    Pong,
    Refused(Refusal),
}

pub(super) fn start(stream: Box<dyn Stream>) -> (Asking, Hearing) {
    let (reader, writer) = tokio::io::split(stream);
    let (sender, replies) = mpsc::unbounded_channel();
    let (messages, heard) = mpsc::unbounded_channel();
    let reader = outside::spawn(read(reader, sender, messages)).abort_handle();
    (Asking { writer, replies }, Hearing { heard, reader })
}

impl Hearing {
    /// The next one; `None` at the connection's end.
    pub(super) async fn next(&mut self) -> Option<Heard> {
        self.heard.recv().await
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Asking {
    /// Subscribes the channels of each group with a command of its own, all at once; which of them the server refuses.
    pub(super) async fn subscribe(
        &mut self,
        kind: Messages,
        groups: &[&[String]],
    ) -> Result<Vec<Result<(), Refusal>>, Failure> {
        self.send(&commands(kind.subscribe(), groups)).await?;
        let mut answers = Vec::with_capacity(groups.len());
        for group in groups {
            let answer = self.confirmed(group.len()).await?;
            answers.push(answer.map_err(|refusal| refusal.naming(|| group.to_vec())));
        }
        Ok(answers)
    }

    /// The confirmation of so many channels. A refusal is one for all of them.
    async fn confirmed(&mut self, count: usize) -> Result<Result<(), Refusal>, Failure> {
        let mut left = count;
        while left > 0 {
            match self.reply().await? {
                Reply::Subscribed => left -= 1,
                Reply::Refused(refusal) => return Ok(Err(refusal)),
                Reply::Unsubscribed(_) | Reply::Pong => {}
            }
        }
        Ok(Ok(()))
    }

    /// The channels whose slot has gone to another server: their subscriptions here have ended with that.
    pub(super) async fn unsubscribe(
        &mut self,
        kind: Messages,
        groups: &[&[String]],
    ) -> Result<Vec<String>, Failure> {
        self.send(&commands(kind.unsubscribe(), groups)).await?;
        let mut elsewhere = Vec::new();
        for group in groups {
            if !self.left(group).await? {
                elsewhere.extend(group.iter().cloned());
            }
        }
        Ok(elsewhere)
    }

    /// The confirmation that none of `channels` is heard any more, which the server may have said by itself just before. `false` if
    /// they are not here any more.
    async fn left(&mut self, channels: &[String]) -> Result<bool, Failure> {
        for channel in channels {
            loop {
                match self.reply().await? {
                    Reply::Unsubscribed(name) if name == *channel => break,
                    Reply::Refused(refusal) if refusal.reason == Reason::Elsewhere => {
                        return Ok(false);
                    }
                    Reply::Refused(refusal) => return Err(Failure::Refused(refusal)),
                    _ => {}
                }
            }
        }
        Ok(true)
    }

    pub(super) async fn ping(&mut self) -> Result<(), Failure> {
        self.send(&redis::cmd("PING").get_packed_command()).await?;
        loop {
            match self.reply().await? {
                // An ACL may forbid it, and a busy server refuses it; that it answers is all that matters.
                Reply::Pong | Reply::Refused(_) => return Ok(()),
                Reply::Subscribed | Reply::Unsubscribed(_) => {}
            }
        }
    }

    async fn send(&mut self, packed: &[u8]) -> Result<(), Failure> {
        let ended = |error: std::io::Error| unanswered(&error.to_string());
        self.writer.write_all(packed).await.map_err(ended)?;
        self.writer.flush().await.map_err(ended)
    }

    async fn reply(&mut self) -> Result<Reply, Failure> {
        let reply = self.replies.recv().await;
        reply.ok_or_else(|| unanswered("the connection has ended"))
    }
}

fn unanswered(detail: &str) -> Failure {
    Failure::unanswered(detail, Moment::now())
}

fn commands(name: &str, groups: &[&[String]]) -> Vec<u8> {
    let command = |channels: &&[String]| redis::cmd(name).arg(channels).get_packed_command();
    groups.iter().flat_map(command).collect()
}

/// Reads until the connection ends, or says what makes no sense.
async fn read(
    mut reader: ReadHalf<Box<dyn Stream>>,
    replies: UnboundedSender<Reply>,
    heard: UnboundedSender<Heard>,
) {
    let mut decoder = Default::default();
    loop {
        let Ok(value) = redis::parse_redis_value_async(&mut decoder, &mut reader).await else {
            return;
        };
        let reply = match value.extract_error() {
            Err(error) => Reply::Refused(Refusal::at_connect(&error)),
            Ok(value) => match sort(value) {
                Some(Sorted::Message(message)) => {
                    // The listeners end with this task.
                    let _ = heard.send(message);
                    continue;
                }
                // The server says so by itself, too.
                Some(Sorted::Ended(channel)) => {
                    let _ = heard.send(Heard::Ended(channel.clone()));
                    Reply::Unsubscribed(channel)
                }
                Some(Sorted::Reply(reply)) => reply,
                None => return,
            },
        };
        // Nobody asks any more, and messages are heard all the same.
        let _ = replies.send(reply);
    }
}

enum Sorted {
    Reply(Reply),
    Message(Heard),
    Ended(String),
}

fn sort(value: Value) -> Option<Sorted> {
    let (kind, items) = match value {
        Value::SimpleString(word) if word == "PONG" => return Some(Sorted::Reply(Reply::Pong)),
        Value::Array(mut items) if !items.is_empty() => (text(items.remove(0))?, items),
        // By RESP3.
        Value::Push { kind, data } => (kind.to_string(), data),
        _ => return None,
    };
    let mut items = items.into_iter();
    Some(match &*kind {
        "message" | "smessage" => Sorted::Message(Heard::Message {
            channel: text(items.next()?)?,
            payload: bytes(items.next()?)?,
        }),
        "subscribe" | "ssubscribe" => Sorted::Reply(Reply::Subscribed),
        "unsubscribe" => Sorted::Reply(Reply::Unsubscribed(text(items.next()?)?)),
        "sunsubscribe" => Sorted::Ended(text(items.next()?)?),
        "pong" => Sorted::Reply(Reply::Pong),
        _ => return None,
    })
}

fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    }
}

fn text(value: Value) -> Option<String> {
    String::from_utf8(bytes(value)?).ok()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, DuplexStream};

    use super::*;

    fn connection() -> (Asking, Hearing, DuplexStream) {
        let (ours, server) = tokio::io::duplex(4096);
        let (asking, hearing) = start(Box::new(ours));
        (asking, hearing, server)
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[tokio::test]
    async fn each_group_has_an_answer_of_its_own() {
        // By RESP2 and by RESP3.
        for mark in ["*", ">"] {
            let (mut asking, mut hearing, mut server) = connection();
            let said = "@3\r\n$10\r\nssubscribe\r\n$1\r\na\r\n:1\r\n-MOVED 1 h:2\r\n\
                        @3\r\n$8\r\nsmessage\r\n$1\r\na\r\n$2\r\nhi\r\n\
                        @3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:0\r\n\
                        @3\r\n$10\r\nssubscribe\r\n$1\r\nc\r\n:1\r\n@3\r\n$10\r\nssubscribe\r\n$1\r\nd\r\n:2\r\n";
            let said = said.replace('@', mark);
            server.write_all(said.as_bytes()).await.unwrap();
            let groups = [names(&["a"]), names(&["b"]), names(&["c", "d"])];
            let groups: Vec<&[String]> = groups.iter().map(Vec::as_slice).collect();
            let answers = asking.subscribe(Messages::Sharded, &groups).await.unwrap();
            let refused: Vec<_> = answers
                .iter()
                .map(|answer| answer.as_ref().err().map(|refusal| &*refusal.detail))
                .collect();
            assert_eq!(refused, [None, Some("MOVED 1 h:2"), None]);
            let Some(Heard::Message { channel, payload }) = hearing.next().await else {
                panic!("a message comes first");
            };
            assert_eq!((&*channel, &*payload), ("a", &b"hi"[..]));
            assert!(matches!(hearing.next().await, Some(Heard::Ended(a)) if a == "a"));
            let mut asked = vec![0; 1024];
            let count = server.read(&mut asked).await.unwrap();
            let asked = String::from_utf8_lossy(&asked[..count]).into_owned();
            assert_eq!(asked.matches("SSUBSCRIBE").count(), 3);
        }
    }

    #[tokio::test]
    async fn who_leaves_what_has_gone_elsewhere_has_left() {
        let (mut asking, _hearing, mut server) = connection();
        let left = "*3\r\n$12\r\nsunsubscribe\r\n$1\r\nc\r\n:0\r\n";
        let said = format!("-MOVED 1 h:2\r\n{left}-ERR no\r\n");
        server.write_all(said.as_bytes()).await.unwrap();
        let groups = [names(&["a", "b"]), names(&["c"])];
        let groups: Vec<&[String]> = groups.iter().map(Vec::as_slice).collect();
        let elsewhere = asking.unsubscribe(Messages::Sharded, &groups).await;
        assert_eq!(elsewhere.unwrap(), names(&["a", "b"]));
        let other = names(&["d"]);
        let left = asking.unsubscribe(Messages::Sharded, &[&other]).await;
        assert!(matches!(left, Err(Failure::Refused(_))));
    }

    #[tokio::test]
    async fn what_the_server_ended_by_itself_is_no_answer_to_the_next_request() {
        let (mut asking, hearing, mut server) = connection();
        let ended = "*3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:0\r\n";
        let other = "*3\r\n$12\r\nsunsubscribe\r\n$1\r\nb\r\n:0\r\n";
        let said = format!("{ended}{ended}{other}{ended}+PONG\r\n");
        server.write_all(said.as_bytes()).await.unwrap();
        let channels = names(&["a", "b"]);
        let channels = [&channels[..1], &channels[1..]];
        asking
            .unsubscribe(Messages::Sharded, &channels)
            .await
            .unwrap();
        asking.ping().await.unwrap();
        drop(server);
        assert!(asking.ping().await.is_err());
        drop(hearing);
    }
}
