//! The subscription connections, one to each server that wanted channels are at home on: what is subscribed is what is
//! wanted, before long.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::time::Instant;

use super::{Registry, Wake};
use crate::clock::Moment;
use crate::sync::Follower;
use crate::transport::{Backoff, Failure, Heard, Layout, Node, Reason, Subscriber};

/// So many channels are subscribed at once.
const AT_ONCE: usize = 4096;
/// How often the connection is asked whether it is still there.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// A channel that is not at home where it should be is tried there again after this.
const AGAIN: Duration = Duration::from_millis(100);

/// Keeps a session for each server, for as long as there is that server.
pub(super) async fn listen(registry: Arc<Registry>, mut layout: Follower<Layout>) {
    let mut sessions = FuturesUnordered::new();
    let mut known: Vec<Node> = Vec::new();
    loop {
        for node in layout.look().nodes() {
            if !known.iter().any(|other| other.is(node)) {
                known.push(node.clone());
                sessions.push(keep(Arc::clone(&registry), node.clone(), layout.clone()));
            }
        }
        tokio::select! {
            biased;
            Some(gone) = sessions.next() => known.retain(|node| !node.is(&gone)),
            () = layout.changed() => {}
        }
    }
}

async fn until_gone(mut layout: Follower<Layout>, node: &Node) {
    while layout.look().has(node) {
        layout.changed().await;
    }
}

/// Keeps one subscription connection to `node` as long as any channel is wanted there; ends when it is gone.
async fn keep(registry: Arc<Registry>, node: Node, mut layout: Follower<Layout>) -> Node {
    let mut wanted = registry.changed.follow();
    let mut backoff = Backoff::new();
    let mut lost = false;
    loop {
        loop {
            let now = layout.look();
            if !now.has(&node) {
                return node;
            }
            if registry.wants_any(|channel| now.is_at(channel, &node)) {
                break;
            }
            tokio::select! {
                biased;
                () = wanted.changed() => {}
                () = layout.changed() => {}
            }
        }
        let connected = tokio::select! {
            biased;
            () = until_gone(layout.clone(), &node) => return node,
            connected = node.connect() => connected,
        };
        match connected {
            Ok((subscriber, moved)) => {
                let gone = until_gone(layout.clone(), &node);
                let mut session = Session {
                    registry: &registry,
                    node: &node,
                    layout: &mut layout,
                    wanted: &mut wanted,
                    subscriber,
                    subscribed: BTreeSet::new(),
                    again: None,
                };
                let began = Instant::now();
                let ended = tokio::select! {
                    biased;
                    // These end the session whatever it waits for: the server may be one that does not answer.
                    () = moved => Ok(()),
                    () = gone => Ok(()),
                    end = session.run(&mut lost) => end,
                };
                registry.lose(&session.subscribed);
                match ended {
                    Ok(()) => {
                        tracing::debug!(server = node.name(), "subscribing again");
                    }
                    Err(failure) => {
                        lost = true;
                        node.recheck();
                        tracing::warn!(
                            server = node.name(),
                            %failure,
                            "subscription connection lost"
                        );
                    }
                }
                backoff.note_end(began.elapsed());
            }
            Err(refusal) => {
                node.recheck();
                let (server, why) = (node.name(), refusal.detail);
                if std::mem::replace(&mut lost, true) {
                    tracing::debug!(server, why, "not subscribed");
                } else {
                    tracing::warn!(server, why, "no subscription connection");
                }
            }
        }
        tokio::time::sleep(backoff.next()).await;
    }
}

/// One subscription connection, from its beginning to its end.
struct Session<'a> {
    registry: &'a Registry,
    node: &'a Node,
    layout: &'a mut Follower<Layout>,
    wanted: &'a mut Follower<()>,
    subscriber: Subscriber,
    subscribed: BTreeSet<String>,
    /// Some channel was not at home here, and is to be tried again then.
    again: Option<Instant>,
}

impl Session<'_> {
    /// Ends with the connection.
    async fn run(&mut self, lost: &mut bool) -> Result<(), Failure> {
        let mut ping = tokio::time::interval(PING_INTERVAL);
        ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ping.tick().await;
        self.bring_up_to_date().await?;
        if std::mem::take(lost) {
            tracing::info!(server = self.node.name(), "subscribed again");
        }
        loop {
            // Channels may come and go all the time: messages do not wait for more than one of these.
            for _ in 0..self.subscriber.queued() {
                let heard = self.subscriber.next().await;
                self.hear(heard)?;
            }
            tokio::select! {
                biased;
                () = self.wanted.changed() => self.bring_up_to_date().await?,
                () = self.layout.changed() => self.bring_up_to_date().await?,
                _ = ping.tick() => self.subscriber.ping().await?,
                () = due(self.again) => self.bring_up_to_date().await?,
                // Last, as there may always be one more.
                heard = self.subscriber.next() => self.hear(heard)?,
            }
        }
    }

    fn hear(&mut self, heard: Option<Heard>) -> Result<(), Failure> {
        match heard {
            Some(Heard::Message { channel, payload }) => {
                self.registry.wake(&channel, &Wake::Message(payload));
            }
            Some(Heard::Ended(channel)) => self.ended(channel),
            None => {
                let detail = "the server has closed the connection";
                return Err(Failure::unanswered(detail, Moment::now()));
            }
        }
        Ok(())
    }

    async fn bring_up_to_date(&mut self) -> Result<(), Failure> {
        self.again = None;
        let (wanted, gone, moved) = self.difference();
        for name in &gone {
            self.subscribed.remove(name);
        }
        // Before long they are heard where they are now.
        self.registry.lose(&moved);
        for some in gone.chunks(AT_ONCE) {
            self.subscriber.unsubscribe(some).await?;
        }
        self.subscribe(wanted).await
    }

    /// The channels to subscribe, and to unsubscribe; of the latter, those that belong to another server now.
    fn difference(&self) -> (Vec<String>, Vec<String>, BTreeSet<String>) {
        let layout = self.layout.peek();
        let here = |channel: &str| layout.is_at(channel, self.node);
        let (wanted, gone) = self.registry.difference(&self.subscribed, here);
        let moved = gone.iter().filter(|name| !here(name)).cloned().collect();
        (wanted, gone, moved)
    }

    async fn subscribe(&mut self, names: Vec<String>) -> Result<(), Failure> {
        for some in names.chunks(AT_ONCE) {
            let answers = self.subscriber.subscribe(some).await?;
            for (name, answer) in some.iter().zip(answers) {
                match answer {
                    Ok(()) => {
                        self.registry.confirm(name);
                        self.subscribed.insert(name.clone());
                    }
                    Err(refusal) if refusal.reason == Reason::Elsewhere => {
                        self.node.recheck();
                        self.again = Some(Instant::now() + AGAIN);
                    }
                    Err(refusal) if refusal.may_pass() => return Err(Failure::Refused(refusal)),
                    Err(refusal) => self.registry.refuse(name, refusal),
                }
            }
        }
        Ok(())
    }

    /// The server has ended a subscription. Its slot is somewhere else now, unless we have asked for it.
    fn ended(&mut self, channel: String) {
        if self.subscribed.remove(&channel) {
            self.node.recheck();
            self.registry.lose(&BTreeSet::from([channel]));
        }
    }
}

async fn due(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Weak};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::engine::wakeups::{Listener, Wakeups};
    use crate::transport::{Connection, Endpoint, Messages};

    /// Counts messages.
    struct Ear(AtomicUsize);

    impl Listener for Ear {
        fn wake(&self, _: &str, wake: &Wake) {
            if matches!(wake, Wake::Message(_)) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    const ROUNDS: usize = 50;
    const MESSAGES: usize = 10;

    /// While the server answers, the next channel is wanted already.
    #[tokio::test]
    async fn messages_are_handled_while_channels_come_all_the_time() {
        let config = crate::config::Config::new("redis://127.0.0.1:1");
        let endpoint = Endpoint::new(&config).expect("a valid URL");
        let connection = Connection::lazy(endpoint, config.sharded_pubsub);
        let mut layout = connection.layout();
        let node = layout.look().nodes()[0].clone();
        let wakeups = Wakeups::new(layout.clone(), Duration::from_secs(60));
        let registry = Arc::clone(&wakeups.registry);
        let mut wanted = registry.changed.follow();
        let (ours, mut server) = tokio::io::duplex(1 << 16);
        let mut session = Session {
            registry: &registry,
            node: &node,
            layout: &mut layout,
            wanted: &mut wanted,
            subscriber: Subscriber::new(Box::new(ours), Messages::Plain, Duration::from_secs(5)),
            subscribed: BTreeSet::new(),
            again: None,
        };
        let ear = Arc::new(Ear(AtomicUsize::new(0)));
        let listener: Weak<dyn Listener> = Arc::downgrade(&ear) as _;
        let subscribe = |number: usize| wakeups.subscribe(&format!("c{number}"), &listener);
        let mut kept = vec![subscribe(0)];
        let serving = async {
            let message = "*3\r\n$7\r\nmessage\r\n$2\r\nc0\r\n$1\r\n1\r\n".repeat(MESSAGES);
            let mut asked = [0; 1024];
            for round in 1..=ROUNDS {
                assert_ne!(server.read(&mut asked).await.unwrap(), 0);
                kept.push(subscribe(round));
                let answer = "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
                let said = format!("{message}{answer}");
                server.write_all(said.as_bytes()).await.unwrap();
            }
        };
        let mut lost = false;
        tokio::select! {
            end = session.run(&mut lost) => panic!("{end:?}"),
            () = serving => {}
        }
        let heard = ear.0.load(Ordering::SeqCst);
        assert!(heard >= (ROUNDS - 2) * MESSAGES, "{heard} messages");
    }
}
