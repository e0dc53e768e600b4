//! Processes or requests that are not alike on one semaphore, held 5 ms: does each caller get its share?

use std::time::Duration;

use crate::Result;
use crate::contestant::Contestant::{self, Ours, RedissonSync};
use crate::report::{Report, metric};
use crate::sample::{Crowd, Entrant, Sample, measure_each};
use crate::stage::Stage;
use crate::waits::Waits;

const HOLD: Duration = Duration::from_millis(5);

/// Several groups of callers on one semaphore, measured with this crate's processes and with JVMs.
pub(crate) struct Load {
    pub(crate) name: &'static str,
    title: &'static str,
    permits: u64,
    parts: &'static [Part],
}

/// Callers of one process that take the same number of permits.
struct Part {
    /// The number of the process. In the second measurement the process is a JVM.
    process: usize,
    /// A JVM in both measurements.
    java: bool,
    callers: u64,
    permits: u64,
    /// Parts of the same kind are shown together.
    kind: &'static str,
}

const fn part(process: usize, callers: u64, permits: u64, kind: &'static str) -> Part {
    Part {
        process,
        java: false,
        callers,
        permits,
        kind,
    }
}

pub(crate) const LOADS: &[Load] = &[
    Load {
        name: "uneven-sizes",
        title: "16, 112, 16 and 112 callers, 8 permits held 5 ms",
        permits: 8,
        parts: &[
            part(0, 16, 1, "16 callers"),
            part(1, 112, 1, "112 callers"),
            part(2, 16, 1, "16 callers"),
            part(3, 112, 1, "112 callers"),
        ],
    },
    Load {
        name: "uneven-amounts",
        title: "4 processes, each 12 callers of 1 and 4 callers of 5, 8 permits held 5 ms",
        permits: 8,
        parts: &[
            part(0, 12, 1, "amount 1"),
            part(0, 4, 5, "amount 5"),
            part(1, 12, 1, "amount 1"),
            part(1, 4, 5, "amount 5"),
            part(2, 12, 1, "amount 1"),
            part(2, 4, 5, "amount 5"),
            part(3, 12, 1, "amount 1"),
            part(3, 4, 5, "amount 5"),
        ],
    },
    Load {
        name: "uneven-crowd",
        title: "1,000 callers and 4 Java threads, 8 permits held 5 ms",
        permits: 8,
        parts: &[
            part(1, 1000, 1, "1,000 callers"),
            Part {
                java: true,
                ..part(0, 4, 1, "4 Java threads")
            },
        ],
    },
];

impl Load {
    pub(crate) async fn run(&self, stage: &mut Stage, report: &mut Report) -> Result<()> {
        report.begin(self.name, self.title);
        for contestant in [Ours, RedissonSync] {
            let mut crowds: Vec<(Entrant, Crowd)> = Vec::new();
            for part in self.parts {
                let contestant = if part.java { RedissonSync } else { contestant };
                let make = contestant.make();
                let mut programs = stage.programs(make, part.process + 1).await?;
                let crowd = Crowd {
                    callers: part.callers,
                    permits: part.permits,
                    hold: HOLD,
                    semaphores: None,
                };
                crowds.push(((contestant, programs.remove(part.process)), crowd));
            }
            let name = format!("bench:{}:{contestant}", self.name);
            stage.set(&name, self.permits).await?;
            measure_each(stage, &crowds, &name, stage.settings.warm_up).await?;
            let time = stage.settings.measure_shared;
            let sample = measure_each(stage, &crowds, &name, time).await?;
            self.show(contestant, &sample, report);
        }
        report.end();
        Ok(())
    }

    fn show(&self, contestant: Contestant, sample: &Sample, report: &mut Report) {
        let mut numbers = metric::of_sample(sample);
        numbers.push((&metric::PERMIT_USE, sample.use_of(self.permits)));
        let shares = sample.shares();
        report.add_shared(contestant.to_string(), numbers, shares.clone());
        // The first two parts are of different kinds.
        for kind in [self.parts[0].kind, self.parts[1].kind] {
            let mut waits = Waits::default();
            let mut its_shares = Vec::new();
            for (index, part) in self.parts.iter().enumerate() {
                if part.kind == kind {
                    waits.merge(&sample.sides[index].waits);
                    its_shares.push(shares[index]);
                }
            }
            let mut numbers = vec![(&metric::PAIRS_PER_SECOND, its_shares.iter().sum())];
            numbers.extend(metric::of_waits(&waits));
            report.add_shared(format!("- {contestant}: {kind}"), numbers, its_shares);
        }
    }
}
