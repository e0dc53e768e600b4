//! One process, many callers in a loop of acquire and release.

use std::time::Duration;

use crate::Result;
use crate::contestant::Contestant::{
    self, Guards, Leased, LeasedPlain, Ours, OursViaRedis, Plain, RedissonAsync,
    RedissonLeasedAsync, RedissonLeasedSync, RedissonSync,
};
use crate::report::{Report, metric};
use crate::sample::{Crowd, Sample, measure};
use crate::stage::Stage;

const AMPLE: u64 = 1_000_000;
const SCARCE: u64 = 8;

pub(crate) struct Throughput {
    pub(crate) name: &'static str,
    title: &'static str,
    callers: u64,
    permits: u64,
    semaphores: Option<u64>,
    contestants: &'static [Contestant],
}

const ALONE: &[Contestant] = &[Ours, Guards, Plain, RedissonSync];
/// For callers that have a semaphore each.
const APART: &[Contestant] = &[Ours, Plain, RedissonAsync];
/// For permits with ids.
const LEASED_ALONE: &[Contestant] = &[Leased, LeasedPlain, RedissonLeasedSync];
const LEASED: &[Contestant] = &[Leased, LeasedPlain, RedissonLeasedSync, RedissonLeasedAsync];
/// Without a thread for each caller of a JVM.
const FUTURES: &[Contestant] = &[Ours, OursViaRedis, Guards, Plain, RedissonAsync];
#[rustfmt::skip]
const ALL: &[Contestant] = &[Ours, OursViaRedis, Guards, Plain, RedissonSync, RedissonAsync];

const fn workload(
    name: &'static str,
    title: &'static str,
    callers: u64,
    permits: u64,
    contestants: &'static [Contestant],
) -> Throughput {
    Throughput {
        name,
        title,
        callers,
        permits,
        semaphores: None,
        contestants,
    }
}

const ON_ONE_CORE: &str = "ample permits, 1 caller, server and process on one core";
/// For a pinned stage. Where an idle core may have to be woken, the figures of a single caller have two values.
pub(crate) const PINNED: Throughput = workload("ample-1-pinned", ON_ONE_CORE, 1, AMPLE, ALONE);

pub(crate) fn all() -> Vec<Throughput> {
    vec![
        workload("ample-1", "ample permits, 1 caller", 1, AMPLE, ALONE),
        workload("ample-16", "ample permits, 16 callers", 16, AMPLE, ALL),
        workload("ample-256", "ample permits, 256 callers", 256, AMPLE, ALL),
        workload(
            "ample-1024",
            "ample permits, 1,024 callers",
            1024,
            AMPLE,
            FUTURES,
        ),
        workload(
            "leased-1",
            "permits with ids, 1 caller",
            1,
            AMPLE,
            LEASED_ALONE,
        ),
        workload(
            "leased-256",
            "permits with ids, 256 callers",
            256,
            AMPLE,
            LEASED,
        ),
        workload(
            "scarce-1024",
            "8 permits, 1,024 callers",
            1024,
            SCARCE,
            FUTURES,
        ),
        Throughput {
            semaphores: Some(1000),
            ..workload(
                "many-1000",
                "1,000 semaphores, 1 caller each",
                1000,
                1,
                APART,
            )
        },
    ]
}

impl Throughput {
    pub(crate) async fn run(&self, stage: &mut Stage, report: &mut Report) -> Result<()> {
        report.begin(self.name, self.title);
        let crowd = Crowd {
            permits: 1,
            callers: self.callers,
            hold: Duration::ZERO,
            semaphores: self.semaphores,
        };
        // All programs start first, so that the start of a JVM disturbs no measurement.
        for contestant in self.contestants {
            stage.programs(contestant.make(), 1).await?;
        }
        let mut samples = vec![Sample::default(); self.contestants.len()];
        for round in 0..stage.settings.rounds {
            for (contestant, sample) in self.contestants.iter().zip(&mut samples) {
                let program = stage.programs(contestant.make(), 1).await?.remove(0);
                let entrants = [(*contestant, program)];
                let name = format!("bench:{}:{}", self.name, contestant.make().word());
                self.create(stage, &name).await?;
                let warm_up = match round {
                    0 => stage.settings.warm_up,
                    _ => stage.settings.warm_up_again,
                };
                measure(stage, &entrants, &name, &crowd, warm_up).await?;
                let time = stage.settings.measure;
                sample.add(measure(stage, &entrants, &name, &crowd, time).await?);
            }
        }
        for (contestant, sample) in self.contestants.iter().zip(samples) {
            report.add(contestant.to_string(), metric::of_sample(&sample));
        }
        report.end();
        Ok(())
    }

    async fn create(&self, stage: &mut Stage, name: &str) -> Result<()> {
        let Some(semaphores) = self.semaphores else {
            return stage.set(name, self.permits).await;
        };
        for number in 0..semaphores {
            stage.set(&format!("{name}:{number}"), self.permits).await?;
        }
        Ok(())
    }
}
