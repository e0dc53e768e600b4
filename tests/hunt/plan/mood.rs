//! The mood of a history: how often each fault happens, and what callers do.

use std::time::Duration;

use fastrand::Rng;

use super::calls::{Admin, AdminCall, Ask, Call, Give};
use super::chance::{chance, millis, pick, up_to};
use super::faults::{Life, LinkFault, ServerFault, stop};
use super::meddling::Meddling;
use super::recipes::Peer;
use super::settings::{LockKind, Settings};
use super::{Event, What};
use crate::judge::Object;
use crate::jvm;

pub(super) struct Mood {
    rounds: u32,
    longest_hold: u64,
    most_permits: i64,
    /// Of a hundred callers, this many want a lock, or a permit of a recipe.
    locks: u32,
    recipes: u32,
    long_locks: bool,
    /// Of a hundred callers, this many are dropped, or left unpolled.
    drops: u32,
    pub(super) stalls: u32,
}

impl Mood {
    pub(super) fn random(rng: &mut Rng, settings: &Settings) -> Mood {
        Mood {
            rounds: pick(rng, &[1, 1, 5, 30]),
            longest_hold: pick(rng, &[3, 30, 300, 1500]),
            most_permits: pick(rng, &[1, 2, 6]),
            locks: if settings.locks == 0 { 0 } else { 30 },
            recipes: if settings.recipes.is_empty() { 0 } else { 40 },
            long_locks: chance(rng, 20),
            drops: pick(rng, &[0, 20, 60]),
            stalls: pick(rng, &[0, 0, 15]),
        }
    }

    /// Draws everything that happens before the healing.
    pub(super) fn events(&self, rng: &mut Rng, settings: &mut Settings) -> Vec<Event> {
        let calm = chance(rng, 20);
        let some = |rng: &mut Rng, most: usize| if calm { 0 } else { rng.usize(..=most) };
        let clients = settings.clients;
        let mut all = Vec::new();
        for _ in 0..pick(rng, &[8, 15, 40, 80]) {
            all.push(What::Call(rng.usize(..clients), self.call(rng, settings)));
        }
        let kinds: Vec<u32> = (0..rng.usize(2..5)).map(|_| rng.u32(..10)).collect();
        for _ in 0..some(rng, 12) {
            let kind = pick(rng, &kinds);
            all.push(What::Link(
                rng.usize(..clients),
                LinkFault::random(rng, kind),
            ));
        }
        let nodes = settings.masters.max(1);
        for _ in 0..some(rng, 4) {
            all.push(What::Server(rng.usize(..nodes), ServerFault::random(rng)));
        }
        for _ in 0..some(rng, 4) {
            let life = Life::random(rng, self.stalls > 0);
            all.push(What::Life(rng.usize(..clients), life));
        }
        if chance(rng, 40) {
            for _ in 0..some(rng, 3) {
                let time = stop(rng);
                settings.stops += time;
                all.push(What::Stop(rng.usize(..clients), time));
            }
        }
        let mut admins = Vec::new();
        if chance(rng, 33) {
            admins.extend((0..20).map(|number| AdminCall::Release(1 << number)));
        }
        if settings.latch {
            admins.extend([AdminCall::Close; 6]);
            admins.extend([AdminCall::CountDown; 20]);
        }
        for what in admins {
            let patience = chance(rng, self.drops).then(|| up_to(rng, &[2, 20, 500]));
            all.push(What::Admin(rng.usize(..clients), Admin { what, patience }));
        }
        for _ in 0..pick(rng, &[0, 0, 0, 0, 3]) {
            all.push(What::Meddle(Meddling::random(rng, settings)));
        }
        if settings.jvms > 0 {
            for _ in 0..pick(rng, &[10, 40]) {
                let jvm = rng.usize(..settings.jvms);
                all.push(self.jvm(rng, jvm, settings));
                if chance(rng, 5) {
                    all.push(What::JvmDeaf(jvm, millis(rng, 10..9000)));
                }
            }
        }
        let peered = settings.with_peers();
        if !peered.is_empty() {
            for _ in 0..pick(rng, &[0, 0, 5, 30]) {
                all.push(What::Peer(Peer::random(rng, &peered)));
            }
        }
        let until = settings.healing.as_millis() as u64;
        let all = all.into_iter().map(|what| Event {
            at: millis(rng, 0..until),
            what,
        });
        all.collect()
    }

    fn jvm(&self, rng: &mut Rng, jvm: usize, settings: &Settings) -> What {
        let number = rng.usize(..settings.permits.len());
        let most = settings.permits[number].min(self.most_permits);
        let caller = jvm::Caller {
            permits: rng.i64(1..=most),
            hold: millis(rng, 0..self.longest_hold),
            blocks: rng.bool(),
        };
        What::Jvm(jvm, number, caller)
    }

    fn call(&self, rng: &mut Rng, settings: &Settings) -> Call {
        let (object, most) = if chance(rng, self.recipes) {
            (Object::Recipe(rng.usize(..settings.recipes.len())), 1)
        } else if settings.latch && chance(rng, 15) {
            (Object::Latch, 1)
        } else if chance(rng, self.locks) {
            (Object::Lock(rng.usize(..settings.locks)), 1)
        } else {
            let number = rng.usize(..settings.permits.len());
            let most = settings.permits[number].min(self.most_permits);
            (Object::Semaphore(number), most)
        };
        let is_semaphore = matches!(object, Object::Semaphore(_));
        let is_long = !is_semaphore && (self.long_locks || chance(rng, 3));
        Call {
            object,
            permits: u32::try_from(rng.i64(1..=most)).expect("a few"),
            ask: match rng.u32(..10) {
                0..5 => Ask::Wait,
                5..6 => Ask::Try,
                _ => Ask::For(up_to(rng, &[20, 1000, 8000])),
            },
            guard: chance(rng, 60),
            hold: millis(rng, 0..if is_long { 15_000 } else { self.longest_hold }),
            give: match rng.u32(..60) {
                0..30 => Give::Call,
                30 => Give::Keep,
                _ => Give::Drop,
            },
            patience: chance(rng, self.drops).then(|| up_to(rng, &[1, 10, 100, 3000])),
            stall: chance(rng, self.stalls)
                .then(|| (up_to(rng, &[1, 10, 200]), millis(rng, 1..4000))),
            lease: chance(rng, 30).then(|| Duration::from_millis(30) + up_to(rng, &[100, 3000])),
            nested: chance(rng, 15).then(|| {
                let lease = chance(rng, 70).then(|| millis(rng, 100..20_000));
                (lease, rng.bool())
            }),
            one_owner: chance(rng, 50),
            reads: settings.lock_kind == LockKind::ReadWrite && chance(rng, 67),
            several: chance(rng, 50),
            rounds: rng.u32(1..=self.rounds),
            pause: up_to(rng, &[1, 5, 100]),
        }
    }
}
