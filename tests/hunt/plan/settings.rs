//! Who takes part, and with which settings.

use std::time::Duration;

use fastrand::Rng;

use super::Event;
use super::chance::{chance, millis, pick};
use super::recipes::{Layout, Recipe};
use super::replication::Replication;
use crate::judge::Object;
use crate::sim::scripts;

/// Without a limit that anybody would notice.
pub const MOST_UNDER_WAY: usize = 1 << 20;

#[derive(Debug, Clone)]
pub struct Settings {
    pub clients: usize,
    /// Of a cluster; a server alone without.
    pub masters: usize,
    /// Messages stay at the node that has the channel's slot.
    pub sharded: bool,
    /// Each server has a replica.
    pub replication: Option<Replication>,
    /// How many permits each semaphore has.
    pub permits: Vec<i64>,
    /// Those whose callers take guards with a watchdog.
    pub watched: Vec<bool>,
    /// Some callers of these take no guard.
    pub mixed: bool,
    pub locks: usize,
    pub lock_kind: LockKind,
    pub recipes: Vec<Recipe>,
    /// All want the same, and nothing goes wrong.
    pub crowd: bool,
    /// Whoever comes first is served first, here, and nothing goes wrong.
    pub orderly: Option<Object>,
    /// There is a latch.
    pub latch: bool,
    pub jvms: usize,
    /// Of each client, one way.
    pub latency: Vec<Duration>,
    /// Up to so many times the latency is added.
    pub jitter: f64,
    /// How many bytes may be under way.
    pub window: usize,
    pub retry_window: Duration,
    pub response_timeout: Duration,
    /// After which a call is given up, besides the time that it was told to wait.
    pub call_timeout: Option<Duration>,
    pub connect_timeout: Duration,
    pub safety_interval: Duration,
    pub local_hand_off: Duration,
    pub watchdog: Duration,
    /// How long processes stop, one stop and the next together.
    pub stops: Duration,
    /// Clients have several threads: another task of theirs runs in between at one unlocking of so many.
    pub threads: Option<u32>,
    /// When everything heals.
    pub healing: Duration,
}

/// The locks of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    Plain,
    /// With tokens.
    Fenced,
    /// In Redisson's queue.
    Fair,
    /// Some callers read.
    ReadWrite,
}

impl Settings {
    /// The commands for messages.
    pub fn publish(&self) -> &'static str {
        if self.sharded { "SPUBLISH" } else { "PUBLISH" }
    }

    pub fn subscribe(&self) -> &'static str {
        if self.sharded {
            "SSUBSCRIBE"
        } else {
            "SUBSCRIBE"
        }
    }

    pub fn unsubscribe(&self) -> &'static str {
        if self.sharded {
            "SUNSUBSCRIBE"
        } else {
            "UNSUBSCRIBE"
        }
    }

    /// Whether the client in this place waits for replicas.
    pub fn waits_for_replicas(&self, place: usize) -> bool {
        let replication = self.replication.as_ref();
        replication.is_some_and(|replication| replication.waits[place])
    }

    /// Nothing that anybody is told of is lost with a server that a replica takes over from.
    pub fn all_wait_for_replicas(&self) -> bool {
        let all = |replication: &Replication| !replication.waits.contains(&false);
        self.jvms == 0 && self.replication.as_ref().is_some_and(all)
    }

    /// How long it takes at the most until a write is confirmed.
    pub fn confirming(&self) -> Duration {
        (self.replication.as_ref()).map_or(Duration::ZERO, |replication| replication.lag * 2)
    }

    /// By how much anything may take longer than it should.
    pub fn slack(&self) -> Duration {
        Duration::from_secs(2) + self.stops
    }

    /// How long a question and its answer take, from so far away.
    pub fn round_trip(&self, latency: Duration) -> Duration {
        latency.mul_f64(2.0 * (1.0 + self.jitter))
    }

    /// How long the longest script takes on its way, of which only so much may be under way at once, and its answer.
    pub fn crossing(&self, latency: Duration) -> Duration {
        let longest = scripts::ALL.iter().map(|(_, source)| source.len()).max();
        let windows = longest.unwrap_or_default() / self.window + 1;
        self.round_trip(latency) * u32::try_from(windows).expect("a few")
    }

    /// Farther than that, answers would come when nobody waits for them any more, and nothing could be served; or no connection
    /// would be made in time, for which two questions are asked.
    pub fn near_enough(&self, latency: Duration) -> Duration {
        let second = Duration::from_secs(1);
        let farthest = |most: Duration, takes: Duration| {
            Duration::from_secs_f64(most.as_secs_f64() / 2.0 / takes.as_secs_f64())
        };
        latency
            .min(farthest(self.response_timeout, self.crossing(second)))
            .min(farthest(self.connect_timeout, self.round_trip(second) * 2))
    }

    /// Whoever waits there looks again and again.
    pub fn is_polled(&self, object: Object) -> bool {
        matches!(object, Object::Recipe(number) if self.recipes[number].is_polled())
    }

    /// All clients, where the seed chooses so at that rate: several, beside no JVMs, and no replicas.
    pub(super) fn clients_alone(&self, rng: &mut Rng, percent: u32) -> Option<Vec<usize>> {
        let others = self.jvms > 0 || self.replication.is_some();
        let chosen = chance(rng, percent) && self.clients > 1 && !others;
        chosen.then(|| (0..self.clients).collect())
    }

    /// From now on nothing goes wrong: everybody is as near, and what was to happen does not.
    pub(super) fn is_calm(&mut self, latency: Duration, events: &mut Vec<Event>) {
        (self.jitter, self.stops) = (0.0, Duration::ZERO);
        self.latency.fill(latency);
        events.clear();
    }

    /// A semaphore of so many permits that nothing else is about.
    pub(super) fn one_more_semaphore(&mut self, permits: i64) -> Object {
        let object = Object::Semaphore(self.permits.len());
        self.permits.push(permits);
        self.watched.push(false);
        object
    }

    /// So many clients with a semaphore of so many permits, near the server, and nobody else.
    pub fn plain(clients: usize, permits: i64) -> Settings {
        Settings {
            clients,
            masters: 0,
            sharded: false,
            replication: None,
            permits: vec![permits],
            watched: vec![false],
            mixed: false,
            locks: 1,
            lock_kind: LockKind::Plain,
            recipes: Vec::new(),
            crowd: false,
            orderly: None,
            latch: false,
            jvms: 0,
            latency: vec![Duration::from_millis(1); clients],
            jitter: 0.0,
            window: MOST_UNDER_WAY,
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

    /// What else is so in some histories. Drawn apart, so that all else stays as it was.
    pub(super) fn have_more(&mut self, seed: u64) {
        let rng = &mut Rng::with_seed(seed ^ 0x006d_6f72_6521_2121);
        self.mixed = chance(rng, 25);
        for recipe in &mut self.recipes {
            recipe.endless = recipe.layout == Layout::Expirable && chance(rng, 20);
        }
        match rng.u32(..100) {
            0..25 => self.lock_kind = LockKind::Fair,
            25..50 => self.lock_kind = LockKind::ReadWrite,
            _ => {}
        }
    }

    /// In half of all histories clients have threads. Drawn apart, so that all else stays as it was.
    pub(super) fn have_threads(&mut self, seed: u64) {
        let rng = &mut Rng::with_seed(seed ^ 0x0074_6872_6561_6473);
        self.threads = pick(rng, &[None, None, None, Some(2), Some(8), Some(50)]);
    }

    pub(super) fn random(rng: &mut Rng) -> Settings {
        let clients = pick(rng, &[1, 2, 2, 3, 3, 3, 4]);
        let semaphores = pick(rng, &[1, 1, 1, 2, 3]);
        let most = pick(rng, &[1, 2, 3, 6]);
        let response_timeout = pick(rng, &[300, 1000, 3000]);
        let mut settings = Settings {
            clients,
            masters: 0,
            sharded: false,
            replication: None,
            permits: (0..semaphores).map(|_| rng.i64(1..=most)).collect(),
            watched: (0..semaphores).map(|_| chance(rng, 30)).collect(),
            mixed: false,
            locks: pick(rng, &[0, 0, 1, 1, 2]),
            lock_kind: match chance(rng, 30) {
                true => LockKind::Fenced,
                false => LockKind::Plain,
            },
            recipes: (0..pick(rng, &[0, 0, 1, 1, 2]))
                .map(|_| Recipe::random(rng))
                .collect(),
            crowd: false,
            orderly: None,
            latch: chance(rng, 25),
            jvms: pick(rng, &[0, 0, 1, 2]),
            latency: (0..clients)
                .map(|_| millis(rng, 0..4) + Duration::from_micros(100))
                .collect(),
            jitter: pick(rng, &[0.0, 0.5, 2.0, 20.0]),
            window: pick(rng, &[MOST_UNDER_WAY, MOST_UNDER_WAY, 16_384, 2048]),
            retry_window: Duration::from_millis(pick(rng, &[1000, 3000, 10_000, 30_000])),
            response_timeout: Duration::from_millis(response_timeout),
            call_timeout: chance(rng, 20).then(|| {
                let times = pick(rng, &[1, 3]);
                Duration::from_millis(times * response_timeout)
            }),
            connect_timeout: Duration::from_millis(pick(rng, &[1000, 3000])),
            safety_interval: Duration::from_secs(pick(rng, &[5, 5, 600])),
            local_hand_off: Duration::from_millis(pick(rng, &[0, 5, 5])),
            watchdog: Duration::from_millis(pick(rng, &[1000, 3000, 30_000])),
            stops: Duration::ZERO,
            threads: None,
            healing: millis(rng, 12_000..18_000),
        };
        let farthest = settings.latency.iter().max().copied().unwrap_or_default();
        while settings.near_enough(farthest) < farthest && settings.window < MOST_UNDER_WAY {
            settings.window *= 2;
        }
        settings
    }
}
