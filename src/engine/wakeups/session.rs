//! The subscription connection, as long as any channel is wanted: what is subscribed is what is wanted, before long.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Registry, Wake};
use crate::clock::Moment;
use crate::transport::{Backoff, Endpoint, Failure, Message, Subscriber, Subscriptions};

/// One SUBSCRIBE names this many channels at the most.
const MOST_CHANNELS: usize = 512;
/// How often the connection is asked whether it is still there.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// How long it is at the least between two connections that were made because the server has become a replica.
const PACE: Duration = Duration::from_millis(500);

/// Keeps one subscription connection as long as any channel is wanted.
pub(super) async fn listen(registry: Arc<Registry>, endpoint: Endpoint) {
    let mut backoff = Backoff::new();
    let mut lost = false;
    loop {
        while registry.is_empty() {
            registry.changed.notified().await;
        }
        match Subscriber::connect(&endpoint).await {
            Ok((subscriptions, subscriber)) => {
                let mut session = Session {
                    registry: &registry,
                    subscriptions,
                    subscriber,
                    subscribed: BTreeSet::new(),
                };
                let began = Instant::now();
                let ended = session.run(&endpoint, &mut lost).await;
                registry.lose(&session.subscribed);
                match ended {
                    Ended::Moved => {
                        tracing::debug!(server = endpoint.address(), "subscribing again");
                        // It may be said of each call.
                        tokio::time::sleep_until(began + PACE).await;
                    }
                    Ended::Lost(failure) => {
                        lost = true;
                        tracing::warn!(
                            server = endpoint.address(),
                            %failure,
                            "subscription connection lost"
                        );
                    }
                }
                backoff.note_end(began.elapsed());
            }
            Err(refusal) => {
                tracing::debug!(server = endpoint.address(), detail = %refusal.detail, "not subscribed");
            }
        }
        tokio::time::sleep(backoff.next()).await;
    }
}

/// Why a subscription connection has ended.
enum Ended {
    Lost(Failure),
    /// The address may lead to another server.
    Moved,
}

/// One subscription connection, from its beginning to its end.
struct Session<'a> {
    registry: &'a Registry,
    subscriptions: Subscriptions,
    subscriber: Subscriber,
    subscribed: BTreeSet<String>,
}

impl Session<'_> {
    async fn run(&mut self, endpoint: &Endpoint, lost: &mut bool) -> Ended {
        let mut ping = tokio::time::interval(PING_INTERVAL);
        ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ping.tick().await;
        if let Err(failure) = self.bring_up_to_date().await {
            return Ended::Lost(failure);
        }
        if std::mem::take(lost) {
            tracing::info!(server = endpoint.address(), "subscribed again");
        }
        loop {
            tokio::select! {
                biased;
                () = self.registry.changed.notified() => {
                    if let Err(failure) = self.bring_up_to_date().await {
                        return Ended::Lost(failure);
                    }
                }
                () = self.registry.moved.notified() => {
                    return Ended::Moved;
                }
                _ = ping.tick() => {
                    if let Err(failure) = self.subscriptions.ping().await {
                        return Ended::Lost(failure);
                    }
                }
                // Last, as there may always be one more.
                message = self.subscriber.next() => match message {
                    Some(Message { channel, payload }) => {
                        self.registry.wake(&channel, &Wake::Message(payload));
                    }
                    None => {
                        let detail = "the server has closed the connection";
                        return Ended::Lost(Failure::unanswered(detail, Moment::now()));
                    }
                },
            }
        }
    }

    async fn bring_up_to_date(&mut self) -> Result<(), Failure> {
        let (wanted, gone) = self.registry.difference(&self.subscribed);
        for names in gone.chunks(MOST_CHANNELS) {
            self.subscriptions.unsubscribe(names).await?;
            for name in names {
                self.subscribed.remove(name);
            }
        }
        for names in wanted.chunks(MOST_CHANNELS) {
            match self.subscriptions.subscribe(names).await {
                Ok(()) => self.confirmed(names),
                Err(Failure::Refused(_)) => self.subscribe_one_by_one(names).await?,
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// One channel that is forbidden must not stand in the way of the others.
    async fn subscribe_one_by_one(&mut self, names: &[String]) -> Result<(), Failure> {
        for name in names {
            let name = std::slice::from_ref(name);
            match self.subscriptions.subscribe(name).await {
                Ok(()) => self.confirmed(name),
                Err(Failure::Refused(refusal)) if !refusal.may_pass() => {
                    self.registry.refuse(&name[0], refusal);
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    fn confirmed(&mut self, names: &[String]) {
        self.subscribed.extend(names.iter().cloned());
        self.registry.confirm(names);
    }
}
