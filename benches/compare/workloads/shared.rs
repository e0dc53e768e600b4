//! Four processes that share few permits, held for a while or not at all.

use std::time::Duration;

use crate::Result;
use crate::contestant::Contestant::{self, Guards, Ours, Plain, RedissonSync};
use crate::report::{Report, metric};
use crate::sample::{Crowd, Entrant, Sample, measure};
use crate::stage::Stage;
use crate::waits::Waits;

pub(crate) struct Shared {
    pub(crate) name: &'static str,
    title: &'static str,
    permits: u64,
    callers: u64,
    hold: Duration,
    compositions: &'static [(&'static str, [Contestant; 4])],
}

pub(crate) const HELD: Shared = Shared {
    name: "shared",
    title: "4 processes of 64 callers, 8 permits held 5 ms",
    permits: 8,
    callers: 64,
    hold: Duration::from_millis(5),
    compositions: &[
        ("ours", [Ours; 4]),
        ("guards", [Guards; 4]),
        ("plain", [Plain; 4]),
        ("Redisson sync", [RedissonSync; 4]),
        ("two of each", [Ours, Ours, RedissonSync, RedissonSync]),
    ],
};
pub(crate) const NOT_HELD: Shared = Shared {
    name: "shared-no-hold",
    title: "4 processes of 64 callers, 8 permits released at once",
    permits: 8,
    callers: 64,
    hold: Duration::ZERO,
    compositions: ALIKE,
};
pub(crate) const ONE_PERMIT: Shared = Shared {
    name: "shared-1-permit",
    title: "4 processes of 16 callers, 1 permit held 5 ms",
    permits: 1,
    callers: 16,
    hold: Duration::from_millis(5),
    compositions: ALIKE,
};

const ALIKE: &[(&str, [Contestant; 4])] = &[
    ("ours", [Ours; 4]),
    ("guards", [Guards; 4]),
    ("plain", [Plain; 4]),
    ("Redisson sync", [RedissonSync; 4]),
];

impl Shared {
    pub(crate) async fn run(&self, stage: &mut Stage, report: &mut Report) -> Result<()> {
        report.begin(self.name, self.title);
        for contestant in [Ours, Guards, Plain, RedissonSync] {
            stage.programs(contestant.make(), 4).await?;
        }
        let crowd = Crowd {
            callers: self.callers,
            permits: 1,
            hold: self.hold,
            semaphores: None,
        };
        for (number, (title, contestants)) in self.compositions.iter().enumerate() {
            let mut entrants: Vec<Entrant> = Vec::new();
            for (index, contestant) in contestants.iter().enumerate() {
                let program = stage.programs(contestant.make(), 4).await?.remove(index);
                entrants.push((*contestant, program));
            }
            let name = format!("bench:{}:{number}", self.name);
            stage.set(&name, self.permits).await?;
            measure(stage, &entrants, &name, &crowd, stage.settings.warm_up).await?;
            let time = stage.settings.measure_shared;
            let sample = measure(stage, &entrants, &name, &crowd, time).await?;
            self.show(report, title, contestants, &sample);
        }
        report.end();
        Ok(())
    }

    fn show(
        &self,
        report: &mut Report,
        title: &str,
        contestants: &[Contestant; 4],
        sample: &Sample,
    ) {
        let waits = sample.waits();
        let p50 = waits.percentile(50).max(1) as f64;
        let mut numbers = metric::of_sample(sample);
        numbers.extend([
            (&metric::P99_BY_P50, waits.percentile(99) as f64 / p50),
            (&metric::PERMIT_USE, sample.use_of(self.permits)),
            (&metric::LEAST_SHARE, sample.least_share()),
        ]);
        let shares = sample.shares();
        report.add_shared(title.to_owned(), numbers, shares.clone());
        if contestants[0] == contestants[3] {
            return;
        }
        for (half, contestant) in [(0..2, contestants[0]), (2..4, contestants[3])] {
            let mut waits = Waits::default();
            for side in &sample.sides[half.clone()] {
                waits.merge(&side.waits);
            }
            let pairs = shares[half.clone()].iter().sum::<f64>();
            let mut numbers = vec![(&metric::PAIRS_PER_SECOND, pairs)];
            numbers.extend(metric::of_waits(&waits));
            report.add_shared(format!("- {contestant}"), numbers, shares[half].to_vec());
        }
    }
}
