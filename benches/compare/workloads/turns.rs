//! Processes that are not alike on one semaphore, held 5 ms: does each caller get its turn?

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::Result;
use crate::contestant::Contestant::{self, Ours, RedissonSync};
use crate::program::Program;
use crate::report::{Report, metric};
use crate::sample::{Crowd, Entrant, Sample, measure, measure_each};
use crate::stage::{Stage, crowd_fields};
use crate::waits::Waits;

const HOLD: Duration = Duration::from_millis(5);

/// Crowds on one semaphore.
pub(crate) struct Load {
    pub(crate) name: &'static str,
    title: &'static str,
    permits: u64,
    /// Measured one after the other.
    compositions: &'static [(&'static str, &'static [Part])],
}

/// Callers of one process that take the same amount.
struct Part {
    contestant: Contestant,
    /// Parts of the same make and number are one process.
    process: usize,
    callers: u64,
    permits: u64,
    /// Parts of the same kind are shown together.
    kind: &'static str,
}

const fn part(
    contestant: Contestant,
    process: usize,
    callers: u64,
    permits: u64,
    kind: &'static str,
) -> Part {
    Part {
        contestant,
        process,
        callers,
        permits,
        kind,
    }
}

const fn sizes(make: Contestant) -> [Part; 4] {
    [
        part(make, 0, 16, 1, "16 callers"),
        part(make, 1, 112, 1, "112 callers"),
        part(make, 2, 16, 1, "16 callers"),
        part(make, 3, 112, 1, "112 callers"),
    ]
}

const fn one_permit(make: Contestant) -> [Part; 4] {
    [
        part(make, 0, 16, 1, ""),
        part(make, 1, 16, 1, ""),
        part(make, 2, 16, 1, ""),
        part(make, 3, 16, 1, ""),
    ]
}

const fn amounts(make: Contestant) -> [Part; 8] {
    [
        part(make, 0, 12, 1, "amount 1"),
        part(make, 0, 4, 5, "amount 5"),
        part(make, 1, 12, 1, "amount 1"),
        part(make, 1, 4, 5, "amount 5"),
        part(make, 2, 12, 1, "amount 1"),
        part(make, 2, 4, 5, "amount 5"),
        part(make, 3, 12, 1, "amount 1"),
        part(make, 3, 4, 5, "amount 5"),
    ]
}

const MIXED: [Part; 4] = [
    part(Ours, 0, 64, 1, "ours"),
    part(Ours, 1, 64, 1, "ours"),
    part(RedissonSync, 0, 64, 1, "Redisson sync"),
    part(RedissonSync, 1, 64, 1, "Redisson sync"),
];
const BESIDE_JAVA: [Part; 4] = [
    part(RedissonSync, 0, 64, 1, "beside"),
    part(RedissonSync, 1, 64, 1, "beside"),
    part(RedissonSync, 2, 64, 1, "beside"),
    part(RedissonSync, 3, 64, 1, "beside"),
];
const CROWD: [Part; 2] = [
    part(Ours, 0, 1000, 1, "ours"),
    part(RedissonSync, 0, 4, 1, "4 Java threads"),
];
const JAVA_CROWD: [Part; 2] = [
    part(RedissonSync, 1, 1000, 1, "1,000 Java threads"),
    part(RedissonSync, 0, 4, 1, "4 Java threads"),
];

pub(crate) const LOADS: &[Load] = &[
    Load {
        name: "turns-sizes",
        title: "16, 112, 16 and 112 callers, 8 permits held 5 ms",
        permits: 8,
        compositions: &[
            ("ours", &sizes(Ours)),
            ("Redisson sync", &sizes(RedissonSync)),
        ],
    },
    Load {
        name: "turns-one-permit",
        title: "4 processes of 16 callers, 1 permit held 5 ms",
        permits: 1,
        compositions: &[
            ("ours", &one_permit(Ours)),
            ("Redisson sync", &one_permit(RedissonSync)),
        ],
    },
    Load {
        name: "turns-amounts",
        title: "4 processes, each 12 callers of 1 and 4 callers of 5, 8 permits held 5 ms",
        permits: 8,
        compositions: &[
            ("ours", &amounts(Ours)),
            ("Redisson sync", &amounts(RedissonSync)),
        ],
    },
    Load {
        name: "turns-mixed",
        title: "2 processes of ours and 2 JVMs, 64 callers each, 8 permits held 5 ms",
        permits: 8,
        compositions: &[("two of each", &MIXED), ("Redisson sync", &BESIDE_JAVA)],
    },
    Load {
        name: "turns-crowd",
        title: "1,000 callers and 4 Java threads, 8 permits held 5 ms",
        permits: 8,
        compositions: &[
            ("ours and 4 threads", &CROWD),
            ("Redisson sync", &JAVA_CROWD),
        ],
    },
];

/// One of four freezes, one is killed.
pub(crate) const FROZEN: &str = "turns-frozen";

pub(crate) async fn run_frozen(stage: &mut Stage, report: &mut Report) -> Result<()> {
    report.begin(
        FROZEN,
        "4 processes of 64 callers, 8 permits held 5 ms: one frozen, one killed; the other two and what is left",
    );
    for contestant in [Ours, RedissonSync] {
        let name = format!("bench:{FROZEN}:{}", contestant.make().word());
        let crowd = Crowd {
            callers: 64,
            permits: 1,
            hold: HOLD,
            semaphores: None,
        };
        // These two are not used again.
        let mut others = Vec::new();
        for _ in 0..2 {
            others.push((contestant, stage.start(contestant.make()).await?));
        }
        let alive: Vec<Entrant> = stage
            .programs(contestant.make(), 2)
            .await?
            .into_iter()
            .map(|program| (contestant, program))
            .collect();
        stage.set(&name, 8).await?;
        let time = stage.settings.measure_shared;
        let endless = crowd_fields(contestant, &name, crowd.callers, time * 10);
        let endless = |program: Arc<Program>| {
            let mut fields = endless.clone();
            fields["holdMicros"] = json!(HOLD.as_micros() as u64);
            tokio::spawn(async move { program.call("crowd", fields).await.is_ok() })
        };
        let endless: Vec<_> = others
            .iter()
            .map(|(_, program)| endless(program.clone()))
            .collect();
        measure(
            stage,
            &alive,
            &name,
            &crowd,
            stage.settings.warm_up.max(time / 4),
        )
        .await?;
        others[0].1.signal("STOP")?;
        others[1].1.signal("KILL")?;
        let sample = measure(stage, &alive, &name, &crowd, time).await?;
        let left: u64 = redis::cmd("GET")
            .arg(&name)
            .query_async(&mut stage.redis)
            .await?;
        others[0].1.signal("KILL")?;
        for call in endless {
            call.await?;
        }
        let mut numbers = metric::of_sample(&sample);
        numbers.push((&metric::PERMIT_USE, sample.use_of(left)));
        report.add_shared(contestant.to_string(), numbers, sample.shares());
    }
    report.end();
    Ok(())
}

pub(crate) async fn run(load: &Load, stage: &mut Stage, report: &mut Report) -> Result<()> {
    report.begin(load.name, load.title);
    for (number, (title, parts)) in load.compositions.iter().enumerate() {
        let mut crowds: Vec<(Entrant, Crowd)> = Vec::new();
        for part in *parts {
            let make = part.contestant.make();
            let program = stage
                .programs(make, part.process + 1)
                .await?
                .remove(part.process);
            let crowd = Crowd {
                callers: part.callers,
                permits: part.permits,
                hold: HOLD,
                semaphores: None,
            };
            crowds.push(((part.contestant, program), crowd));
        }
        let name = format!("bench:{}:{number}", load.name);
        stage.set(&name, load.permits).await?;
        measure_each(stage, &crowds, &name, stage.settings.warm_up).await?;
        let time = stage.settings.measure_shared;
        let sample = measure_each(stage, &crowds, &name, time).await?;
        show(load, title, parts, &sample, report);
    }
    report.end();
    Ok(())
}

fn show(load: &Load, title: &str, parts: &[Part], sample: &Sample, report: &mut Report) {
    let mut numbers = metric::of_sample(sample);
    numbers.push((&metric::PERMIT_USE, sample.use_of(load.permits)));
    let shares = sample.shares();
    report.add_shared(title.to_owned(), numbers, shares.clone());
    let mut kinds: Vec<&str> = parts.iter().map(|part| part.kind).collect();
    kinds.dedup();
    kinds.sort_unstable();
    kinds.dedup();
    if kinds.len() < 2 {
        return;
    }
    for kind in kinds {
        let mut waits = Waits::default();
        let mut its_shares = Vec::new();
        for (index, _) in parts
            .iter()
            .enumerate()
            .filter(|(_, part)| part.kind == kind)
        {
            waits.merge(&sample.sides[index].waits);
            its_shares.push(shares[index]);
        }
        let mut numbers = vec![(&metric::PAIRS_PER_SECOND, its_shares.iter().sum())];
        numbers.extend(metric::of_waits(&waits));
        report.add_shared(format!("- {kind}"), numbers, its_shares);
    }
}
