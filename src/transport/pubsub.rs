//! A connection for subscriptions, by RESP2 or RESP3, with both kinds of messages. The redis crate's own does not know
//! those of a cluster. It never carries commands, so that no reply can go astray.
//!
//! One request is made at a time, and a task reads all messages, so none is lost while no caller waits for it.

use std::time::Duration;

use redis::Value;
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::messages::{Heard, Messages};
use super::{Failure, Reason, Refusal};
use crate::clock::Moment;
use crate::outside::{self, Stream};

/// The connection; it ends with this.
pub(crate) struct Subscriber {
    writer: WriteHalf<Box<dyn Stream>>,
    replies: UnboundedReceiver<Reply>,
    heard: UnboundedReceiver<Heard>,
    reader: AbortHandle,
    kind: Messages,
    /// How long a request may take.
    limit: Duration,
}

/// The possible answers to a request.
enum Reply {
    Subscribed,
    Unsubscribed,
    Pong,
    Refused(Refusal),
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Subscriber {
    /// Takes over a stream on which the handshake is over.
    pub(crate) fn new(stream: Box<dyn Stream>, kind: Messages, limit: Duration) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        let (sender, replies) = mpsc::unbounded_channel();
        let (messages, heard) = mpsc::unbounded_channel();
        Subscriber {
            writer,
            replies,
            heard,
            reader: outside::spawn(read(reader, sender, messages)).abort_handle(),
            kind,
            limit,
        }
    }

    /// The next message or event; `None` at the connection's end.
    pub(crate) async fn next(&mut self) -> Option<Heard> {
        self.heard.recv().await
    }

    /// So many of them have come already.
    pub(crate) fn queued(&self) -> usize {
        self.heard.len()
    }

    /// Subscribes `channels`, with a command each, all at once; which of them the server refuses.
    pub(crate) async fn subscribe(
        &mut self,
        channels: &[String],
    ) -> Result<Vec<Result<(), Refusal>>, Failure> {
        limited(self.limit, async {
            self.send(&commands(self.kind.subscribe(), channels))
                .await?;
            let mut answers = Vec::with_capacity(channels.len());
            for channel in channels {
                answers.push(loop {
                    match self.reply().await? {
                        Reply::Subscribed => break Ok(()),
                        Reply::Refused(refusal) => {
                            break Err(refusal.naming(|| vec![channel.clone()]));
                        }
                        Reply::Unsubscribed | Reply::Pong => {}
                    }
                });
            }
            Ok(answers)
        })
        .await
    }

    /// Unsubscribes `channels`. Where a slot has gone to another server, the subscriptions here have ended with that.
    ///
    /// The server may have ended some by itself just before, in the words of an answer: a PING marks the end of the answers.
    pub(crate) async fn unsubscribe(&mut self, channels: &[String]) -> Result<(), Failure> {
        limited(self.limit, async {
            let mut packed = commands(self.kind.unsubscribe(), channels);
            packed.extend(ping());
            self.send(&packed).await?;
            let mut awaited = channels.len();
            loop {
                match self.reply().await? {
                    Reply::Pong => return Ok(()),
                    // An ACL may forbid the PING.
                    Reply::Refused(refusal)
                        if awaited == 0 && refusal.reason == Reason::Permission =>
                    {
                        return Ok(());
                    }
                    Reply::Refused(refusal) if refusal.reason != Reason::Elsewhere => {
                        return Err(Failure::Refused(refusal));
                    }
                    _ => awaited = awaited.saturating_sub(1),
                }
            }
        })
        .await
    }

    /// Asks whether the server is still there.
    pub(crate) async fn ping(&mut self) -> Result<(), Failure> {
        limited(self.limit, async {
            self.send(&ping()).await?;
            loop {
                match self.reply().await? {
                    // An ACL may forbid it, and a busy server refuses it; that it answers is all that matters.
                    Reply::Pong | Reply::Refused(_) => return Ok(()),
                    Reply::Subscribed | Reply::Unsubscribed => {}
                }
            }
        })
        .await
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

async fn limited<T>(
    limit: Duration,
    asking: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let answered = timeout(limit, asking).await;
    answered.unwrap_or_else(|_| Err(unanswered(&format!("no answer within {limit:?}"))))
}

fn commands(name: &str, channels: &[String]) -> Vec<u8> {
    let command = |channel| redis::cmd(name).arg(channel).get_packed_command();
    channels.iter().flat_map(command).collect()
}

fn ping() -> Vec<u8> {
    redis::cmd("PING").get_packed_command()
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
        let (event, reply) = match value.extract_error() {
            Err(error) => (None, Some(Reply::Refused(Refusal::at_connect(&error)))),
            Ok(value) => match sort(value) {
                Some(sorted) => sorted,
                None => return,
            },
        };
        // The task ends with the connection.
        event.map(|event| heard.send(event));
        reply.map(|reply| replies.send(reply));
    }
}

/// An event, and the answer to a request, which the server may send by itself.
fn sort(value: Value) -> Option<(Option<Heard>, Option<Reply>)> {
    let (kind, items) = match value {
        Value::SimpleString(word) if word == "PONG" => return Some((None, Some(Reply::Pong))),
        Value::Array(mut items) if !items.is_empty() => (text(items.remove(0))?, items),
        // By RESP3.
        Value::Push { kind, data } => (kind.to_string(), data),
        _ => return None,
    };
    let mut items = items.into_iter();
    let mut next = || items.next();
    let reply = match &*kind {
        "message" | "smessage" => {
            let channel = text(next()?)?;
            let payload = bytes(next()?)?;
            return Some((Some(Heard::Message { channel, payload }), None));
        }
        "subscribe" | "ssubscribe" => Reply::Subscribed,
        "unsubscribe" => Reply::Unsubscribed,
        "sunsubscribe" => {
            let ended = Heard::Ended(text(next()?)?);
            return Some((Some(ended), Some(Reply::Unsubscribed)));
        }
        "pong" => Reply::Pong,
        _ => return None,
    };
    Some((None, Some(reply)))
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

    fn connection() -> (Subscriber, DuplexStream) {
        let (ours, server) = tokio::io::duplex(4096);
        let limit = Duration::from_secs(5);
        let subscriber = Subscriber::new(Box::new(ours), Messages::Sharded, limit);
        (subscriber, server)
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[tokio::test]
    async fn each_channel_has_an_answer_of_its_own() {
        // By RESP2 and by RESP3.
        for mark in ["*", ">"] {
            let (mut subscriber, mut server) = connection();
            let said = "@3\r\n$10\r\nssubscribe\r\n$1\r\na\r\n:1\r\n-MOVED 1 h:2\r\n\
                        @3\r\n$8\r\nsmessage\r\n$1\r\na\r\n$2\r\nhi\r\n\
                        @3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:0\r\n\
                        @3\r\n$10\r\nssubscribe\r\n$1\r\nc\r\n:1\r\n";
            let said = said.replace('@', mark);
            server.write_all(said.as_bytes()).await.unwrap();
            let answers = subscriber
                .subscribe(&names(&["a", "b", "c"]))
                .await
                .unwrap();
            let refused: Vec<_> = answers
                .iter()
                .map(|answer| answer.as_ref().err().map(|refusal| &*refusal.detail))
                .collect();
            assert_eq!(refused, [None, Some("MOVED 1 h:2"), None]);
            let Some(Heard::Message { channel, payload }) = subscriber.next().await else {
                panic!("a message comes first");
            };
            assert_eq!((&*channel, &*payload), ("a", &b"hi"[..]));
            assert!(matches!(subscriber.next().await, Some(Heard::Ended(a)) if a == "a"));
            let mut asked = vec![0; 1024];
            let count = server.read(&mut asked).await.unwrap();
            let asked = String::from_utf8_lossy(&asked[..count]).into_owned();
            assert_eq!(asked.matches("SSUBSCRIBE").count(), 3);
        }
    }

    #[tokio::test]
    async fn who_leaves_what_has_gone_elsewhere_has_left() {
        let (mut subscriber, mut server) = connection();
        let left = "*3\r\n$12\r\nsunsubscribe\r\n$1\r\nc\r\n:0\r\n";
        let said = format!("-MOVED 1 h:2\r\n{left}+PONG\r\n-ERR no\r\n");
        server.write_all(said.as_bytes()).await.unwrap();
        subscriber.unsubscribe(&names(&["a", "c"])).await.unwrap();
        let left = subscriber.unsubscribe(&names(&["d"])).await;
        assert!(matches!(left, Err(Failure::Refused(_))));
    }

    #[tokio::test]
    async fn what_the_server_ended_by_itself_is_no_answer_to_the_next_request() {
        let (mut subscriber, mut server) = connection();
        let ended = "*3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:0\r\n";
        let other = "*3\r\n$12\r\nsunsubscribe\r\n$1\r\nb\r\n:0\r\n";
        let said = format!("{ended}{ended}{other}+PONG\r\n{ended}+PONG\r\n");
        server.write_all(said.as_bytes()).await.unwrap();
        subscriber.unsubscribe(&names(&["a", "b"])).await.unwrap();
        subscriber.ping().await.unwrap();
        drop(server);
        assert!(subscriber.ping().await.is_err());
    }

    /// The slot of `a` has gone just before the request. The server may forbid the PING at its end.
    #[tokio::test]
    async fn no_answer_to_leaving_is_left_for_the_next_request() {
        for end in ["+PONG", "-NOPERM no permissions to run the 'ping' command"] {
            let (mut subscriber, mut server) = connection();
            let ended = "*3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:0\r\n";
            let said = format!("{ended}-MOVED 1 h:2\r\n{end}\r\n");
            server.write_all(said.as_bytes()).await.unwrap();
            subscriber.unsubscribe(&names(&["a"])).await.unwrap();
            let subscribed = "*3\r\n$10\r\nssubscribe\r\n$1\r\nb\r\n:1\r\n";
            server.write_all(subscribed.as_bytes()).await.unwrap();
            let answers = subscriber.subscribe(&names(&["b"])).await.unwrap();
            assert!(answers[0].is_ok(), "{answers:?}");
        }
    }
}
