//! The classic recipes, and the semaphore whose permits have leases: their settings, and their peers.

use std::time::Duration;

use fastrand::Rng;

use super::chance::{chance, millis, pick};

/// How a permit is stored in the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    FairUnderLock,
    Set,
    Slots,
    /// `RPermitExpirableSemaphore`. It has no peers here, as each step of theirs is one script.
    Expirable,
}

/// A semaphore of a recipe.
#[derive(Debug, Clone)]
pub struct Recipe {
    pub layout: Layout,
    pub limit: u32,
    pub timeout: Duration,
    pub check: Duration,
    /// Permits of our clients have no lease, whatever the timeout.
    pub endless: bool,
}

/// A client of another program, which does each step of the published recipe.
#[derive(Debug, Clone)]
pub struct Peer {
    pub recipe: usize,
    pub hold: Duration,
    /// How often it tries, and how long it pauses in between.
    pub tries: u32,
    pub pause: Duration,
    /// The pause between two steps of a try.
    pub step: Duration,
    /// How often it comes.
    pub rounds: u32,
    /// When it dies in its last round, if it does.
    pub dies: Option<Death>,
}

/// The state in which a peer dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// While it holds a permit, where that comes back by itself.
    Holding,
    /// While it holds the lock, if there is one, which has no expiry yet.
    WithTheLock,
}

impl Recipe {
    pub(super) fn random(rng: &mut Rng) -> Recipe {
        use Layout::{Expirable, FairUnderLock, Set, Slots};
        let layout = pick(
            rng,
            &[
                FairUnderLock,
                FairUnderLock,
                Set,
                Slots,
                Expirable,
                Expirable,
            ],
        );
        Recipe {
            layout,
            limit: pick(rng, &[1, 1, 2, 4]),
            timeout: Duration::from_millis(pick(rng, &[1000, 3000, 10_000])),
            check: Duration::from_millis(pick(rng, &[20, 100, 100])),
            endless: layout == Layout::Expirable && chance(rng, 20),
        }
    }

    /// How long a permit lasts if it is not refreshed.
    pub fn lasts(&self) -> Option<Duration> {
        let endless = self.layout == Layout::Set || self.endless;
        (!endless).then_some(self.timeout)
    }

    /// Whether waiters check again and again.
    pub fn is_polled(&self) -> bool {
        self.layout != Layout::Expirable
    }

    /// Whether peers come to this recipe.
    pub fn has_peers(&self) -> bool {
        self.layout == Layout::FairUnderLock
    }

    /// Returns the key of the peers' lock, if there is one.
    pub fn peers_lock(&self, key: &str) -> Option<String> {
        (self.layout == Layout::FairUnderLock).then(|| format!("lock:{key}"))
    }
}

impl Peer {
    /// Draws a peer at one of these recipes.
    pub(super) fn random(rng: &mut Rng, recipes: &[usize]) -> Peer {
        let longest = pick(rng, &[40, 40, 900]);
        Peer {
            recipe: pick(rng, recipes),
            hold: millis(rng, 0..longest),
            tries: rng.u32(1..20),
            pause: millis(rng, 1..50),
            step: Duration::from_micros(rng.u64(100..3000)),
            rounds: pick(rng, &[1, 3, 20]),
            dies: chance(rng, 20).then(|| pick(rng, &[Death::Holding, Death::WithTheLock])),
        }
    }
}
