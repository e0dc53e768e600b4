//! One lock for processes of this crate and JVMs that want it all the time, beside a fleet of JVMs alone.

use std::time::Duration;

use crate::Result;
use crate::contestant::Contestant::{self, Lock, RedissonLock};
use crate::report::{Report, metric};
use crate::sample::{Crowd, Entrant, Sample, measure_each};
use crate::stage::Stage;
use crate::waits::Waits;

pub(crate) const NAME: &str = "lock-shared";

/// Processes and how many callers each has.
type Fleet = [(Contestant, u64)];

const MIXED: &Fleet = &[(Lock, 4), (Lock, 4), (RedissonLock, 4), (RedissonLock, 4)];
const JAVA: &Fleet = &[(RedissonLock, 4); 4];
const HOLD_OF_FEW: Duration = Duration::from_micros(1500);
const FEW_MIXED: &Fleet = &[(Lock, 1), (RedissonLock, 2), (RedissonLock, 2)];
const FEW_JAVA: &Fleet = &[(RedissonLock, 1), (RedissonLock, 2), (RedissonLock, 2)];

pub(crate) async fn run(stage: &mut Stage, report: &mut Report) -> Result<()> {
    report.begin(
        NAME,
        "a lock, 4 processes of 4 callers (held 1.5 ms: 1 caller and 2 JVMs of 2)",
    );
    let few = (HOLD_OF_FEW, [FEW_MIXED, FEW_JAVA]);
    let holds = stage.settings.lock_holds.iter();
    let many = holds.map(|hold| (Duration::from_millis(*hold), [MIXED, JAVA]));
    for (hold, fleets) in many.chain([few]) {
        let millis = hold.as_secs_f64() * 1e3;
        for fleet in fleets {
            let title = match fleet[0].0 {
                Lock => format!("held {millis} ms"),
                _ => format!("held {millis} ms, JVMs only"),
            };
            let sample = work(stage, &format!("bench:{NAME}:{title}"), fleet, hold).await?;
            show(report, title, fleet, &sample);
        }
    }
    report.end();
    Ok(())
}

async fn work(stage: &mut Stage, name: &str, fleet: &Fleet, hold: Duration) -> Result<Sample> {
    let mut crowds: Vec<(Entrant, Crowd)> = Vec::new();
    for (index, &(contestant, callers)) in fleet.iter().enumerate() {
        let alike = |other: &&(Contestant, u64)| other.0 == contestant;
        let number = fleet[..index].iter().filter(alike).count();
        let programs = stage.programs(contestant.make(), number + 1).await?;
        let crowd = Crowd {
            callers,
            permits: 1,
            hold,
            semaphores: None,
        };
        crowds.push(((contestant, programs[number].clone()), crowd));
    }
    measure_each(stage, &crowds, name, stage.settings.warm_up).await?;
    measure_each(stage, &crowds, name, stage.settings.measure_shared).await
}

fn show(report: &mut Report, title: String, fleet: &Fleet, sample: &Sample) {
    let shares = sample.shares();
    let callers: u64 = fleet.iter().map(|(_, callers)| callers).sum();
    let equal = sample.pairs_per_second() / callers as f64;
    let of_a_caller = |(share, (_, callers)): (&f64, &(Contestant, u64))| share / *callers as f64;
    let least = shares.iter().zip(fleet).map(of_a_caller).reduce(f64::min);
    let mut numbers = metric::of_sample(sample);
    numbers.push((&metric::PERMIT_USE, sample.use_of(1)));
    numbers.extend(least.map(|least| (&metric::LEAST_SHARE, least / equal)));
    report.add_shared(title.clone(), numbers, shares.clone());
    let kinds = [(Lock, "ours"), (RedissonLock, "Java")];
    if !kinds
        .iter()
        .all(|(kind, _)| fleet.iter().any(|(one, _)| one == kind))
    {
        return;
    }
    for (kind, whose) in kinds {
        let mut waits = Waits::default();
        let mut its_shares = Vec::new();
        for (index, _) in fleet.iter().enumerate().filter(|(_, one)| one.0 == kind) {
            waits.merge(&sample.sides[index].waits);
            its_shares.push(shares[index]);
        }
        let mut numbers = vec![(&metric::PAIRS_PER_SECOND, its_shares.iter().sum())];
        numbers.extend(metric::of_waits(&waits));
        report.add_shared(format!("- {title}: {whose}"), numbers, its_shares);
    }
}
