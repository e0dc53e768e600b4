//! The fair semaphore of the classic recipes: this crate's beside the original's steps, one process each.

use std::time::Duration;

use crate::Result;
use crate::contestant::Contestant::{self, Fair, FairInTransactions, FairOriginal};
use crate::report::Report;
use crate::report::metric;
use crate::sample::{Crowd, Sample, measure};
use crate::stage::Stage;

pub(crate) struct Recipe {
    pub(crate) name: &'static str,
    title: &'static str,
    callers: u64,
    /// So many hold permits all the time.
    holders: usize,
    contestants: &'static [Contestant],
}

const ALL: &[Contestant] = &[Fair, FairOriginal, FairInTransactions];

pub(crate) fn all() -> Vec<Recipe> {
    let workload = |name, title, callers, holders| Recipe {
        name,
        title,
        callers,
        holders,
        contestants: ALL,
    };
    vec![
        workload("fair-1", "fair semaphore, 1 caller", 1, 0),
        workload("fair-256", "fair semaphore, 256 callers", 256, 0),
        workload(
            "fair-scarce",
            "fair semaphore, 256 callers on 8 permits",
            256,
            0,
        ),
        workload(
            "fair-held",
            "fair semaphore, 1 caller beside 10,000 holders",
            1,
            10_000,
        ),
    ]
}

impl Recipe {
    pub(crate) async fn run(&self, stage: &mut Stage, report: &mut Report) -> Result<()> {
        report.begin(self.name, self.title);
        let crowd = Crowd {
            callers: self.callers,
            permits: 1,
            hold: Duration::ZERO,
            semaphores: None,
        };
        let mut samples = vec![Sample::default(); self.contestants.len()];
        for round in 0..stage.settings.rounds {
            for (contestant, sample) in self.contestants.iter().zip(&mut samples) {
                let program = stage.programs(contestant.make(), 1).await?.remove(0);
                let entrants = [(*contestant, program)];
                let name = format!("bench:{}:{}", self.name, contestant.make().word());
                self.fill(stage, &name).await?;
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
            let mut numbers = metric::of_sample(&sample);
            if *contestant == Fair {
                let micros = sample.redis_micros_per_pair() / sample.scripts_per_pair();
                numbers.push((&metric::REDIS_PER_SCRIPT, micros));
            }
            report.add(contestant.to_string(), numbers);
        }
        report.end();
        Ok(())
    }

    /// The holders that are there all the time: their permits end in a year.
    async fn fill(&self, stage: &mut Stage, name: &str) -> Result<()> {
        let owners = format!("{name}:owner");
        let counter = format!("{name}:counter");
        let (seconds, _): (u64, u64) = redis::cmd("TIME").query_async(&mut stage.redis).await?;
        let in_a_year = (seconds + 365 * 24 * 60 * 60) * 1000;
        let mut fill = redis::pipe();
        fill.del(&[name, &owners, &counter]).ignore();
        fill.set(&counter, self.holders).ignore();
        for number in 0..self.holders {
            let id = format!("holder-{number}");
            fill.zadd(name, &id, in_a_year).ignore();
            fill.zadd(&owners, &id, number).ignore();
        }
        let () = fill.query_async(&mut stage.redis).await?;
        Ok(())
    }
}
