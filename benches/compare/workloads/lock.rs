//! The lock: one caller that nobody disturbs.

use std::time::Duration;

use crate::Result;
use crate::contestant::Contestant::{self, Lock, LockPlain, RedissonLock};
use crate::report::{Report, metric};
use crate::sample::{Crowd, Sample, measure};
use crate::stage::Stage;

pub(crate) const NAME: &str = "lock-1";

/// Lock and unlock in a loop.
pub(crate) async fn run(stage: &mut Stage, report: &mut Report) -> Result<()> {
    const CONTESTANTS: [Contestant; 3] = [Lock, LockPlain, RedissonLock];
    report.begin(NAME, "lock and unlock, 1 caller");
    let crowd = Crowd {
        callers: 1,
        permits: 1,
        hold: Duration::ZERO,
        semaphores: None,
    };
    for contestant in CONTESTANTS {
        stage.programs(contestant.make(), 1).await?;
    }
    let mut samples = vec![Sample::default(); CONTESTANTS.len()];
    // In many short turns: they are to be compared to within a few percent.
    const TURNS: u32 = 5;
    let time = stage.settings.measure / TURNS;
    for turn in 0..=stage.settings.rounds as u32 * TURNS {
        for (contestant, sample) in CONTESTANTS.iter().zip(&mut samples) {
            let program = stage.programs(contestant.make(), 1).await?.remove(0);
            let entrants = [(*contestant, program)];
            let name = format!("bench:{NAME}:{}", contestant.make().word());
            let seen = measure(stage, &entrants, &name, &crowd, time).await?;
            // The first turn is for practice.
            if turn > 0 {
                sample.add(seen);
            }
        }
    }
    for (contestant, sample) in CONTESTANTS.iter().zip(samples) {
        report.add(contestant.to_string(), metric::of_sample(&sample));
    }
    report.end();
    Ok(())
}
