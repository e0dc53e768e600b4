//! Four processes that share few permits, and hold them for a while.

use std::time::Duration;

use crate::Result;
use crate::contestant::Contestant::{self, Ours, Plain, RedissonSync};
use crate::report::{Report, metric};
use crate::sample::{Crowd, Entrant, measure};
use crate::stage::Stage;
use crate::waits::Waits;

pub(crate) const NAME: &str = "shared";

const PERMITS: u64 = 8;
const CROWD: Crowd = Crowd {
    callers: 64,
    permits: 1,
    hold: Duration::from_millis(5),
    semaphores: None,
};

const COMPOSITIONS: [(&str, [Contestant; 4]); 4] = [
    ("ours", [Ours; 4]),
    ("plain", [Plain; 4]),
    ("Redisson sync", [RedissonSync; 4]),
    ("two of each", [Ours, Ours, RedissonSync, RedissonSync]),
];

pub(crate) async fn run(stage: &mut Stage, report: &mut Report) -> Result<()> {
    report.begin(NAME, "4 processes of 64 callers, 8 permits held 5 ms");
    for contestant in [Ours, Plain, RedissonSync] {
        stage.programs(contestant.make(), 4).await?;
    }
    for (number, (title, contestants)) in COMPOSITIONS.iter().enumerate() {
        let mut entrants: Vec<Entrant> = Vec::new();
        for (index, contestant) in contestants.iter().enumerate() {
            let program = stage.programs(contestant.make(), 4).await?.remove(index);
            entrants.push((*contestant, program));
        }
        let name = format!("bench:{NAME}:{number}");
        stage.set(&name, PERMITS).await?;
        measure(stage, &entrants, &name, &CROWD, stage.settings.warm_up).await?;
        let time = stage.settings.measure_shared;
        let sample = measure(stage, &entrants, &name, &CROWD, time).await?;
        let mut numbers = metric::of_sample(&sample);
        numbers.push((&metric::PERMIT_USE, sample.use_of(PERMITS)));
        let shares = sample.shares();
        report.add_shared(title.to_string(), numbers, shares.clone());
        if contestants[0] == contestants[3] {
            continue;
        }
        for (half, contestant) in [(0..2, contestants[0]), (2..4, contestants[3])] {
            let mut waits = Waits::default();
            for side in &sample.sides[half.clone()] {
                waits.merge(&side.waits);
            }
            let mut numbers = vec![(
                &metric::PAIRS_PER_SECOND,
                shares[half.clone()].iter().sum::<f64>(),
            )];
            numbers.extend(metric::of_waits(&waits));
            report.add_shared(format!("- {contestant}"), numbers, shares[half].to_vec());
        }
    }
    report.end();
    Ok(())
}
