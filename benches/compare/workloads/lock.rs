//! Locks and unlocks in a loop: one caller that nothing disturbs, and readers beside a writer.

use std::time::Duration;

use crate::Result;
use crate::contestant::Contestant::{
    self, FairLock, Lock, LockPlain, ReadLock, RedissonFairLock, RedissonLock, RedissonReadLock,
    RedissonWriteLock, WriteLock,
};
use crate::report::{Report, metric};
use crate::sample::{Crowd, Sample, measure_each};
use crate::stage::Stage;

pub(crate) struct Loops {
    pub(crate) name: &'static str,
    title: &'static str,
    /// The processes that call at the same time, and how many callers each has.
    sides: &'static [&'static [(Contestant, u64)]],
}

pub(crate) const ALL: [Loops; 5] = [
    Loops {
        name: "lock-1",
        title: "lock and unlock, 1 caller",
        sides: &[&[(Lock, 1)], &[(LockPlain, 1)], &[(RedissonLock, 1)]],
    },
    Loops {
        name: "fair-lock-1",
        title: "lock and unlock of a fair lock, 1 caller",
        sides: &[&[(FairLock, 1)], &[(RedissonFairLock, 1)]],
    },
    Loops {
        name: "read-lock-1",
        title: "lock and unlock of a read-write lock, 1 reader",
        sides: &[&[(ReadLock, 1)], &[(RedissonReadLock, 1)]],
    },
    Loops {
        name: "write-lock-1",
        title: "lock and unlock of a read-write lock, 1 writer",
        sides: &[&[(WriteLock, 1)], &[(RedissonWriteLock, 1)]],
    },
    Loops {
        name: "read-write-lock",
        title: "a read-write lock, 16 readers in one process and a writer in another",
        sides: &[
            &[(ReadLock, 16), (WriteLock, 1)],
            &[(RedissonReadLock, 16), (RedissonWriteLock, 1)],
        ],
    },
];

impl Loops {
    pub(crate) async fn run(&self, stage: &mut Stage, report: &mut Report) -> Result<()> {
        report.begin(self.name, self.title);
        let mut samples = vec![Sample::default(); self.sides.len()];
        // In many short turns: they are to be compared to within a few percent.
        const TURNS: u32 = 5;
        let time = stage.settings.measure / TURNS;
        for turn in 0..=stage.settings.rounds as u32 * TURNS {
            for (side, sample) in self.sides.iter().zip(&mut samples) {
                let mut crowds = Vec::new();
                for (place, (contestant, callers)) in side.iter().enumerate() {
                    // Of a JVM there is one program for each of them.
                    let make = contestant.make();
                    let earlier = side[..place]
                        .iter()
                        .filter(|(other, _)| other.make() == make);
                    let place = earlier.count();
                    let program = stage.programs(make, place + 1).await?.remove(place);
                    let crowd = Crowd {
                        callers: *callers,
                        permits: 1,
                        hold: Duration::ZERO,
                        semaphores: None,
                    };
                    crowds.push(((*contestant, program), crowd));
                }
                let name = format!("bench:{}:{}", self.name, side[0].0.make().word());
                let seen = measure_each(stage, &crowds, &name, time).await?;
                // The first turn is for practice.
                if turn > 0 {
                    sample.add(seen);
                }
            }
        }
        for (side, sample) in self.sides.iter().zip(samples) {
            let shares = if side.len() > 1 {
                sample.shares()
            } else {
                Vec::new()
            };
            report.add_shared(side[0].0.to_string(), metric::of_sample(&sample), shares);
        }
        report.end();
        Ok(())
    }
}
