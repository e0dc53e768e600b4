//! Random values, drawn from a seed.

use std::time::Duration;

use fastrand::Rng;

pub(super) fn millis(rng: &mut Rng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(rng.u64(range))
}

pub(super) fn pick<T: Clone>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.usize(..all.len())].clone()
}

pub(super) fn up_to(rng: &mut Rng, all: &[u64]) -> Duration {
    let most = pick(rng, all);
    millis(rng, 0..most)
}

pub(super) fn chance(rng: &mut Rng, of_hundred: u32) -> bool {
    rng.u32(..100) < of_hundred
}
