//! Wake-ups that can't be missed.
//!
//! One connection (one to each master of a cluster) hears the channels of all objects that have waiters. A message means "check again",
//! and so does everything after which one may have been missed: each confirmed subscription, first or
//! after a reconnection. Behind that stands a slow, jittered check of every channel with waiters, as
//! pub/sub delivers at most once.

mod session;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::outside;
use crate::sync::{Followed, Follower, Mutex, MutexGuard};
use crate::transport::{Layout, Refusal, jittered};
use session::listen;

/// The slow check looks after so many channels a second at the most: each costs a script.
const MOST_CHECKED: u32 = 200;
/// Channels are looked at so often, whether their check is due.
const PACE: Duration = Duration::from_secs(1);

/// An event for a listener.
#[derive(Debug)]
pub(crate) enum Wake {
    /// The subscription is confirmed: messages sent from now on will be heard, and earlier ones may have been missed.
    Confirmed,
    /// Somebody has sent this.
    Message(Vec<u8>),
    /// There was no message for a while.
    Check,
    /// The connection is gone; the subscription is being made again.
    Lost,
    /// The server forbids the subscription.
    Refused(Refusal),
}

/// A listener of a channel.
pub(crate) trait Listener: Send + Sync {
    /// It is about `channel`. Must not block.
    fn wake(&self, channel: &str, wake: &Wake);
}

/// The subscriptions of one client.
pub(crate) struct Wakeups {
    registry: Arc<Registry>,
    tasks: Mutex<Vec<AbortHandle>>,
}

struct Registry {
    channels: Mutex<BTreeMap<String, Channel>>,
    /// How many have been wanted so far.
    count: AtomicU64,
    /// The set of wanted channels has changed, or of those that are heard.
    changed: Followed<()>,
    safety_interval: Duration,
}

struct Channel {
    /// Mostly one; the objects `a` and `{a}` share a channel.
    listeners: Vec<Weak<dyn Listener>>,
    /// Messages are heard. Its subscriptions see it, too.
    confirmed: Arc<AtomicBool>,
    next_check: Instant,
    /// How many were wanted before it.
    number: u64,
}

impl Channel {
    fn alive(&self) -> impl Iterator<Item = Arc<dyn Listener>> {
        self.listeners.iter().filter_map(Weak::upgrade)
    }
}

/// Keeps a channel subscribed for its listener.
pub(crate) struct Subscription {
    registry: Arc<Registry>,
    channel: String,
    listener: Weak<dyn Listener>,
    confirmed: Arc<AtomicBool>,
}

impl Subscription {
    /// Whether messages are heard.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.confirmed.load(Ordering::Relaxed)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut channels = self.registry.lock();
        if let Some(known) = channels.get_mut(&self.channel)
            // It may have been refused, and asked for anew.
            && Arc::ptr_eq(&known.confirmed, &self.confirmed)
        {
            known.listeners.retain(|one| !one.ptr_eq(&self.listener));
            if known.listeners.is_empty() {
                channels.remove(&self.channel);
                drop(channels);
                self.registry.changed.set(());
            }
        }
    }
}

impl Wakeups {
    /// Nothing is connected before the first waiter comes.
    pub(crate) fn new(layout: Follower<Layout>, safety_interval: Duration) -> Self {
        let registry = Arc::new(Registry {
            channels: Mutex::default(),
            count: AtomicU64::new(0),
            changed: Followed::new(()),
            safety_interval,
        });
        let tasks = vec![
            outside::spawn(listen(Arc::clone(&registry), layout)).abort_handle(),
            outside::spawn(check(Arc::clone(&registry))).abort_handle(),
        ];
        Wakeups {
            registry,
            tasks: Mutex::new(tasks),
        }
    }

    /// Subscribes `listener` to `channel`. If it is not heard yet, [`Wake::Confirmed`] follows. Also returns whether messages may have
    /// been missed, as it has been heard without this listener.
    pub(crate) fn subscribe(
        &self,
        channel: &str,
        listener: &Weak<dyn Listener>,
    ) -> (Subscription, bool) {
        let registry = &self.registry;
        let mut channels = registry.lock();
        let is_known = channels.contains_key(channel);
        let next_check = Instant::now() + registry.check_pause(channels.len());
        let channel = channel.to_owned();
        let known = channels.entry(channel.clone()).or_insert_with(|| Channel {
            listeners: Vec::new(),
            confirmed: Arc::default(),
            next_check,
            number: registry.count.fetch_add(1, Ordering::Relaxed),
        });
        known.listeners.push(Weak::clone(listener));
        known.next_check = next_check;
        let subscription = Subscription {
            registry: Arc::clone(registry),
            channel,
            listener: Weak::clone(listener),
            confirmed: Arc::clone(&known.confirmed),
        };
        drop(channels);
        if !is_known {
            registry.changed.set(());
        }
        let missed = subscription.is_confirmed();
        (subscription, missed)
    }

    /// How many channels are wanted.
    pub(super) fn count(&self) -> usize {
        self.registry.lock().len()
    }

    /// Ends all subscriptions.
    pub(crate) fn close(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock());
        for task in tasks {
            task.abort();
        }
    }
}

impl Drop for Wakeups {
    fn drop(&mut self) {
        self.close();
    }
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Channel>> {
        self.channels.lock()
    }

    /// How long until one of so many channels is looked after.
    fn check_pause(&self, channels: usize) -> Duration {
        let crowded =
            Duration::from_secs(1) * u32::try_from(channels).unwrap_or(u32::MAX) / MOST_CHECKED;
        jittered(self.safety_interval.max(crowded), 0.75, 1.25)
    }

    /// Wakes the listeners of `channel`, outside of the lock.
    fn wake(&self, channel: &str, wake: &Wake) {
        let known = self
            .lock()
            .get(channel)
            .map(|known| known.alive().collect());
        tell(channel, known, wake);
    }

    /// The channels to subscribe and to unsubscribe on a server, given its subscriptions; `here` are the channels that belong there.
    /// Channels come in the order in which they were asked for. They go in that of their names: of those that belong together
    /// `redisson_sc:` goes first, as a client with that subscription alone is taken for a JVM.
    fn difference(
        &self,
        subscribed: &BTreeSet<String>,
        here: impl Fn(&str) -> bool,
    ) -> (Vec<String>, Vec<String>) {
        let channels = self.lock();
        // One that was dropped and is wanted again is subscribed once more, for the confirmation's sake.
        let missing = channels
            .iter()
            .filter(|(name, known)| !known.confirmed.load(Ordering::Relaxed) && here(name));
        let mut missing: Vec<(&String, &Channel)> = missing.collect();
        missing.sort_unstable_by_key(|(_, known)| known.number);
        let wanted = missing.into_iter().map(|(name, _)| name.clone()).collect();
        let gone = subscribed
            .iter()
            .filter(|name| !channels.contains_key(*name) || !here(name));
        (wanted, gone.cloned().collect())
    }

    fn confirm(&self, name: &str) {
        if let Some(known) = self.lock().get_mut(name) {
            known.confirmed.store(true, Ordering::Relaxed);
        }
        self.wake(name, &Wake::Confirmed);
    }

    fn refuse(&self, name: &str, refusal: Refusal) {
        let known = self.lock().remove(name);
        let known = known.map(|known| known.alive().collect());
        tell(name, known, &Wake::Refused(refusal));
    }

    fn lose(&self, names: &BTreeSet<String>) {
        for name in names {
            if let Some(known) = self.lock().get_mut(name) {
                known.confirmed.store(false, Ordering::Relaxed);
            }
            self.wake(name, &Wake::Lost);
        }
        if !names.is_empty() {
            self.changed.set(());
        }
    }

    /// The listeners whose turn it is to look without a message.
    fn due(&self, now: Instant) -> Vec<(String, Listeners)> {
        let mut due = Vec::new();
        let mut channels = self.lock();
        let count = channels.len();
        for (name, known) in channels.iter_mut() {
            if known.next_check <= now {
                known.next_check = now + self.check_pause(count);
                due.push((name.clone(), known.alive().collect()));
            }
        }
        due
    }

    /// Whether any of the channels is wanted that are `here`.
    fn wants_any(&self, here: impl Fn(&str) -> bool) -> bool {
        self.lock().keys().any(|channel| here(channel))
    }
}

type Listeners = Vec<Arc<dyn Listener>>;

/// Each on its own: a fault in one object must not make all others deaf.
fn tell(channel: &str, listeners: Option<Listeners>, wake: &Wake) {
    for listener in listeners.into_iter().flatten() {
        let reported = catch_unwind(AssertUnwindSafe(|| listener.wake(channel, wake)));
        if reported.is_err() {
            tracing::error!(?wake, "a listener panicked; the others are reported");
        }
    }
}

/// The slow check.
async fn check(registry: Arc<Registry>) {
    let pace = PACE
        .min(registry.safety_interval / 4)
        .max(Duration::from_millis(1));
    loop {
        tokio::time::sleep(pace).await;
        for (name, known) in registry.due(Instant::now()) {
            tell(&name, Some(known), &Wake::Check);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::transport::{Connection, Endpoint};

    /// Counts its events, or panics.
    struct Ear {
        heard: AtomicUsize,
        panics: bool,
    }

    impl Listener for Ear {
        fn wake(&self, _: &str, _: &Wake) {
            assert!(!self.panics, "a fault");
            self.heard.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Ear {
        fn new(panics: bool) -> Arc<Self> {
            let heard = AtomicUsize::new(0);
            Arc::new(Ear { heard, panics })
        }
    }

    /// Of a client that never connects.
    fn wakeups() -> Wakeups {
        let config = crate::config::Config::new("redis://127.0.0.1:1");
        let endpoint = Endpoint::new(&config).expect("a valid URL");
        let connection = Connection::lazy(endpoint, config.sharded_pubsub);
        Wakeups::new(connection.layout(), Duration::from_secs(5))
    }

    #[tokio::test(start_paused = true)]
    async fn a_listener_that_panics_makes_nobody_deaf() {
        let wakeups = wakeups();
        let ears = [true, false].map(Ear::new);
        let mut kept = Vec::new();
        for (number, ear) in ears.iter().enumerate() {
            let ear: Weak<dyn Listener> = Arc::downgrade(ear) as _;
            kept.push(wakeups.subscribe("shared", &ear));
            kept.push(wakeups.subscribe(&format!("own-{number}"), &ear));
        }
        wakeups.registry.wake("shared", &Wake::Message(Vec::new()));
        assert_eq!(ears[1].heard.load(Ordering::SeqCst), 1);
        // The slow check goes on, too.
        for _ in 0..3 {
            let before = ears[1].heard.load(Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(8)).await;
            assert!(ears[1].heard.load(Ordering::SeqCst) >= before + 2);
        }
    }

    /// The second listener may have missed what the first one has heard.
    #[tokio::test]
    async fn a_listener_at_a_channel_that_is_heard_is_told_so() {
        let (wakeups, ear) = (wakeups(), Ear::new(false));
        let ear: Weak<dyn Listener> = Arc::downgrade(&ear) as _;
        let (_first, missed) = wakeups.subscribe("shared", &ear);
        assert!(!missed);
        wakeups.registry.confirm("shared");
        let (_second, missed) = wakeups.subscribe("shared", &ear);
        assert!(missed);
    }

    /// Five thousand channels are looked after as often as a thousand are in five seconds.
    #[tokio::test(start_paused = true)]
    async fn many_channels_are_looked_after_less_often() {
        let (wakeups, ear) = (wakeups(), Ear::new(false));
        let listener: Weak<dyn Listener> = Arc::downgrade(&ear) as _;
        let subscribe = |number| wakeups.subscribe(&format!("channel-{number}"), &listener);
        let _kept: Vec<_> = (0..5000).map(subscribe).collect();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let before = ear.heard.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(100)).await;
        let heard = ear.heard.load(Ordering::SeqCst) - before;
        assert!((16_000..=24_000).contains(&heard), "{heard} in 100 s");
    }
}
