//! What a history is like.

use std::time::Duration;

use fastrand::Rng;

use super::calls::{Ask, Call, End, Give};
use super::chance::{chance, millis, pick, up_to};
use super::faults::LinkFault;
use super::settings::Settings;
use crate::judge::Object;

/// What a history is like.
pub(super) struct Mood {
    pub(super) calls: usize,
    pub(super) link_faults: usize,
    pub(super) server_faults: usize,
    pub(super) lives: usize,
    pub(super) stops: usize,
    pub(super) admins: usize,
    pub(super) meddlings: usize,
    pub(super) jvm_calls: usize,
    pub(super) peers: usize,
    pub(super) parties: usize,
    pub(super) recipes: u32,
    pub(super) rounds: u32,
    pub(super) longest_hold: u64,
    pub(super) most_permits: i64,
    pub(super) drops: u32,
    pub(super) stalls: u32,
    pub(super) locks: u32,
    pub(super) long_locks: bool,
    pub(super) link_kinds: Vec<u32>,
}

pub(super) const LINK_KINDS: u32 = 10;

impl Mood {
    pub(super) fn random(rng: &mut Rng, settings: &Settings) -> Mood {
        let calm = chance(rng, 20);
        let some = |rng: &mut Rng, most: usize| if calm { 0 } else { rng.usize(..=most) };
        Mood {
            calls: pick(rng, &[8, 15, 40, 80]),
            link_faults: some(rng, 12),
            server_faults: some(rng, 4),
            lives: some(rng, 4),
            stops: if chance(rng, 40) { some(rng, 3) } else { 0 },
            admins: pick(rng, &[0, 0, 20]),
            meddlings: pick(rng, &[0, 0, 0, 0, 3]),
            jvm_calls: if settings.jvms == 0 {
                0
            } else {
                pick(rng, &[10, 40])
            },
            peers: if settings.recipes.is_empty() {
                0
            } else {
                pick(rng, &[0, 0, 5, 30])
            },
            parties: if settings.latch { 25 } else { 0 },
            recipes: if settings.recipes.is_empty() {
                0
            } else {
                pick(rng, &[30, 60])
            },
            rounds: pick(rng, &[1, 1, 5, 30]),
            longest_hold: pick(rng, &[3, 30, 300, 1500]),
            most_permits: pick(rng, &[1, 2, 6]),
            drops: pick(rng, &[0, 20, 60]),
            stalls: pick(rng, &[0, 0, 15]),
            long_locks: chance(rng, 20),
            locks: if settings.locks == 0 {
                0
            } else {
                pick(rng, &[30, 70])
            },
            link_kinds: (0..rng.usize(2..5))
                .map(|_| rng.u32(..LINK_KINDS))
                .collect(),
        }
    }

    /// Nothing goes wrong.
    pub(super) fn is_calm(&mut self) {
        (self.link_faults, self.server_faults) = (0, 0);
        (self.lives, self.stops, self.meddlings) = (0, 0, 0);
    }

    pub(super) fn call(&self, rng: &mut Rng, settings: &Settings) -> Call {
        let lock = chance(rng, self.locks);
        let lock = lock && !chance(rng, self.recipes);
        let (object, most) = if !lock && chance(rng, self.recipes) {
            (Object::Recipe(rng.usize(..settings.recipes.len())), 1)
        } else if settings.latch && chance(rng, 15) {
            (Object::Latch, 1)
        } else if lock {
            (Object::Lock(rng.usize(..settings.locks)), 1)
        } else {
            let number = rng.usize(..settings.permits.len());
            let most = settings.permits[number].min(self.most_permits);
            (Object::Semaphore(number), most)
        };
        let ask = match rng.u32(..10) {
            0..5 => Ask::Wait,
            5..6 => Ask::Try,
            _ => Ask::For(up_to(rng, &[20, 1000, 8000])),
        };
        let give = match rng.u32(..20) {
            0..10 => Give::Call,
            10..19 => Give::Drop,
            _ if chance(rng, 30) => Give::Keep,
            _ => Give::Drop,
        };
        let guard = chance(rng, 60);
        Call {
            object,
            permits: u32::try_from(rng.i64(1..=most)).expect("a few"),
            ask,
            guard,
            hold: if !matches!(object, Object::Semaphore(_)) && (self.long_locks || chance(rng, 3))
            {
                millis(rng, 0..15_000)
            } else {
                millis(rng, 0..self.longest_hold)
            },
            give,
            patience: chance(rng, self.drops).then(|| up_to(rng, &[1, 10, 100, 3000])),
            stall: chance(rng, self.stalls).then(|| {
                let most = pick(rng, &[1, 10, 200]);
                (millis(rng, 0..most), millis(rng, 1..4000))
            }),
            lease: chance(rng, 30).then(|| {
                let most = pick(rng, &[100, 3000]);
                millis(rng, 30..most)
            }),
            nested: chance(rng, 15).then(|| {
                let lease = chance(rng, 70).then(|| millis(rng, 100..20_000));
                (lease, rng.bool())
            }),
            one_owner: chance(rng, 50),
            reads: false,
            split: chance(rng, 50).then(|| pick(rng, &[End::Apart, End::Merged])),
            rounds: rng.u32(1..=self.rounds),
            pause: up_to(rng, &[1, 5, 100]),
        }
    }

    pub(super) fn link_fault(&self, rng: &mut Rng) -> LinkFault {
        let (up, down) = pick(rng, &[(true, false), (false, true), (true, true)]);
        match pick(rng, &self.link_kinds) {
            0 => LinkFault::Reset(chance(rng, 60).then(|| up_to(rng, &[10, 500, 6000]))),
            1 => LinkFault::LoseAnswer(away(rng)),
            9 => LinkFault::LateCopy(up_to(rng, &[20, 200, 2000])),
            2 => LinkFault::CutRequest(away(rng)),
            3 => LinkFault::Silence { up, down },
            4 => {
                let most = pick(rng, &[50, 1000, 6000]);
                LinkFault::Stall {
                    up,
                    down,
                    for_so_long: millis(rng, 1..most),
                }
            }
            5 => LinkFault::Refuse(
                up_to(rng, &[100, 6000, 6000, 400_000]) + Duration::from_millis(1),
            ),
            6 => LinkFault::Close,
            7 => LinkFault::Deaf,
            _ => LinkFault::Far(millis(rng, 1..60)),
        }
    }
}

/// How long nothing can be sent after a request that got lost; mostly that can be at once.
fn away(rng: &mut Rng) -> Duration {
    match chance(rng, 40) {
        true => up_to(rng, &[500, 5000, 40_000]),
        false => Duration::ZERO,
    }
}
