//! How long callers waited: times in microseconds, from 1,000 on rounded up to three digits.

use serde_json::{Value, json};

/// Times below this are exact.
const EXACT: u64 = 1000;
/// From there on, each power of ten has so many different times.
const STEPS: u64 = 900;

/// Counts by time; small enough to travel between processes as JSON.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waits {
    /// `counts[slot(time)]`
    counts: Vec<u64>,
}

impl Waits {
    pub(crate) fn add(&mut self, micros: u64) {
        self.add_many(micros, 1);
    }

    fn add_many(&mut self, micros: u64, count: u64) {
        let slot = slot(micros);
        if slot >= self.counts.len() {
            self.counts.resize(slot + 1, 0);
        }
        self.counts[slot] += count;
    }

    pub(crate) fn merge(&mut self, other: &Waits) {
        for (micros, count) in other.iter() {
            self.add_many(micros, count);
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The smallest time that at least `percent` of all times do not exceed.
    pub(crate) fn percentile(&self, percent: u64) -> u64 {
        let rank = (self.count() * percent).div_ceil(100);
        let mut seen = 0;
        for (micros, count) in self.iter() {
            seen += count;
            if seen >= rank {
                return micros;
            }
        }
        0
    }

    pub(crate) fn mean(&self) -> f64 {
        let sum: u64 = self.iter().map(|(micros, count)| micros * count).sum();
        sum as f64 / self.count().max(1) as f64
    }

    pub(crate) fn max(&self) -> u64 {
        self.iter().last().map_or(0, |(micros, _)| micros)
    }

    /// Times with their counts, rising.
    fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let counts = self.counts.iter().enumerate();
        counts
            .filter(|(_, count)| **count > 0)
            .map(|(slot, count)| (time(slot as u64), *count))
    }

    /// `[[micros, count], ...]`
    pub(crate) fn to_json(&self) -> Value {
        self.iter()
            .map(|(micros, count)| json!([micros, count]))
            .collect()
    }

    pub(crate) fn from_json(value: &Value) -> Option<Waits> {
        let mut waits = Waits::default();
        for pair in value.as_array()? {
            waits.add_many(pair[0].as_u64()?, pair[1].as_u64()?);
        }
        Some(waits)
    }
}

fn slot(micros: u64) -> usize {
    let (mut digits, mut power) = (micros, 0);
    while digits >= EXACT {
        digits = digits.div_ceil(10);
        power += 1;
    }
    // 1,000 is also 100 of the next power.
    (digits + power * STEPS) as usize
}

fn time(slot: u64) -> u64 {
    if slot < EXACT {
        return slot;
    }
    let power = (slot - EXACT / 10) / STEPS;
    let digits = slot - power * STEPS;
    digits * 10_u64.pow(power as u32)
}
