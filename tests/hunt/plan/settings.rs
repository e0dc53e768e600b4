//! The members of a history, and their settings.

use std::time::Duration;

use fastrand::Rng;

use super::chance::{chance, millis, pick};
use super::recipes::Recipe;
use crate::judge::Object;

#[derive(Debug, Clone)]
pub struct Settings {
    pub clients: usize,
    /// How many masters the cluster has; 0: a single server.
    pub masters: usize,
    /// Messages stay at the node that has the channel's slot.
    pub sharded: bool,
    /// The server has a replica that all clients wait for: how long a write takes to get there, and its confirmation to come back.
    pub replication: Option<Duration>,
    /// How many permits each semaphore has.
    pub permits: Vec<i64>,
    /// Whether the callers of each semaphore take guards with a watchdog.
    pub watched: Vec<bool>,
    pub locks: usize,
    pub lock_kind: LockKind,
    pub recipes: Vec<Recipe>,
    /// The object that serves its waiters in order of arrival. Nothing goes wrong in such a history.
    pub orderly: Option<Object>,
    /// There is a latch.
    pub latch: bool,
    pub jvms: usize,
    /// The latency of each client, one way.
    pub latency: Vec<Duration>,
    /// Up to this many times the latency is added to it.
    pub jitter: f64,
    pub retry_window: Duration,
    pub response_timeout: Duration,
    /// A call is given up after this time, which is added to its own wait.
    pub call_timeout: Option<Duration>,
    pub connect_timeout: Duration,
    pub safety_interval: Duration,
    pub local_hand_off: Duration,
    pub watchdog: Duration,
    /// How long all stops of processes last together.
    pub stops: Duration,
    /// Clients have several threads: another task of theirs runs in between at one of this many unlocks.
    pub threads: Option<u32>,
    /// When everything heals.
    pub healing: Duration,
}

/// The locks of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    Plain,
    /// With fencing tokens.
    Fenced,
    /// With Redisson's queue.
    Fair,
    /// Some callers read.
    ReadWrite,
}

impl Settings {
    /// Returns the command that publishes messages.
    pub fn publish(&self) -> &'static str {
        if self.sharded { "SPUBLISH" } else { "PUBLISH" }
    }

    /// How long it takes at the most until a write is confirmed.
    pub fn confirming(&self) -> Duration {
        self.replication.unwrap_or_default() * 2
    }

    /// By how much any call may take longer than it should.
    pub fn slack(&self) -> Duration {
        Duration::from_secs(2) + self.stops
    }

    /// How long a request and its reply take at most, for the client with the highest latency.
    pub fn round_trip(&self) -> Duration {
        let farthest = self.latency.iter().max().copied().unwrap_or_default();
        farthest.mul_f64(2.0 * (1.0 + self.jitter))
    }

    /// Whether a waiter at this object checks again and again.
    pub fn is_polled(&self, object: Object) -> bool {
        matches!(object, Object::Recipe(number) if self.recipes[number].is_polled())
    }

    /// Returns the recipes to which peers come.
    pub(super) fn with_peers(&self) -> Vec<usize> {
        let all = 0..self.recipes.len();
        all.filter(|number| self.recipes[*number].has_peers())
            .collect()
    }

    pub(super) fn objects(&self) -> Vec<Object> {
        let mut all: Vec<Object> = (0..self.permits.len()).map(Object::Semaphore).collect();
        all.extend((0..self.locks).map(Object::Lock));
        all.extend((0..self.recipes.len()).map(Object::Recipe));
        all.extend(self.latch.then_some(Object::Latch));
        all
    }

    /// Adds a semaphore that no other part of the plan uses.
    pub(super) fn one_more_semaphore(&mut self, permits: i64) -> Object {
        let object = Object::Semaphore(self.permits.len());
        self.permits.push(permits);
        self.watched.push(false);
        object
    }

    /// Returns settings of clients near the server, with a semaphore of this many permits, and without other programs.
    pub fn plain(clients: usize, permits: i64) -> Settings {
        Settings {
            clients,
            masters: 0,
            sharded: false,
            replication: None,
            permits: vec![permits],
            watched: vec![false],
            locks: 1,
            lock_kind: LockKind::Plain,
            recipes: Vec::new(),
            orderly: None,
            latch: false,
            jvms: 0,
            latency: vec![Duration::from_millis(1); clients],
            jitter: 0.0,
            retry_window: Duration::from_secs(3),
            response_timeout: Duration::from_secs(1),
            call_timeout: None,
            connect_timeout: Duration::from_secs(1),
            safety_interval: Duration::from_secs(5),
            local_hand_off: Duration::from_millis(5),
            watchdog: Duration::from_secs(3),
            stops: Duration::ZERO,
            threads: None,
            healing: Duration::from_secs(15),
        }
    }

    pub(super) fn random(rng: &mut Rng) -> Settings {
        use LockKind::{Fair, Fenced, Plain, ReadWrite};
        let clients = pick(rng, &[1, 2, 2, 3, 3, 3, 4]);
        let semaphores = pick(rng, &[1, 1, 1, 2, 3]);
        let most = pick(rng, &[1, 2, 3, 6]);
        let recipes = pick(rng, &[0, 0, 1, 1, 2]);
        let response_timeout = Duration::from_millis(pick(rng, &[300, 1000, 3000]));
        let mut settings = Settings {
            permits: (0..semaphores).map(|_| rng.i64(1..=most)).collect(),
            watched: (0..semaphores).map(|_| chance(rng, 30)).collect(),
            locks: pick(rng, &[0, 0, 1, 1, 2]),
            lock_kind: pick(
                rng,
                &[
                    Plain, Plain, Plain, Fenced, Fair, Fair, ReadWrite, ReadWrite,
                ],
            ),
            recipes: (0..recipes).map(|_| Recipe::random(rng)).collect(),
            latch: chance(rng, 25),
            latency: (0..clients)
                .map(|_| millis(rng, 0..4) + Duration::from_micros(100))
                .collect(),
            jitter: pick(rng, &[0.0, 0.5, 2.0, 20.0]),
            retry_window: Duration::from_millis(pick(rng, &[1000, 3000, 10_000, 30_000])),
            response_timeout,
            call_timeout: chance(rng, 20).then(|| response_timeout * pick(rng, &[1, 3])),
            connect_timeout: Duration::from_millis(pick(rng, &[1000, 3000])),
            safety_interval: Duration::from_secs(pick(rng, &[5, 5, 600])),
            local_hand_off: Duration::from_millis(pick(rng, &[0, 5, 5])),
            watchdog: Duration::from_millis(pick(rng, &[1000, 3000, 30_000])),
            threads: pick(rng, &[None, None, None, Some(2), Some(8), Some(50)]),
            healing: millis(rng, 12_000..18_000),
            ..Settings::plain(clients, 1)
        };
        match rng.u32(..100) {
            0..25 => {
                settings.masters = pick(rng, &[1, 2, 3, 3]);
                settings.sharded = rng.bool();
            }
            25..45 => {
                let lag = pick(rng, &[50, 400, 2000, 10_000, 40_000]);
                settings.replication = Some(Duration::from_micros(lag));
            }
            _ => settings.jvms = pick(rng, &[0, 1, 2]),
        }
        settings
    }
}
