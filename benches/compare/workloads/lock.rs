//! The lock: one caller that nobody disturbs, the way from one process to another, and many that are renewed.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::Result;
use crate::contestant::Contestant::{self, Lock, LockPlain, RedissonLock};
use crate::report::{Report, metric};
use crate::sample::{Crowd, Sample, measure};
use crate::stage::Stage;
use crate::support::waiters::subscribers;
use crate::waits::Waits;

pub(crate) const ALONE: &str = "lock-1";
pub(crate) const HAND_OVER: &str = "lock-hand-over";

/// From the subscription to the unlock: the waiter has looked once more by then, and sleeps.
const PAUSE: Duration = Duration::from_millis(5);

/// Lock and unlock in a loop.
pub(crate) async fn alone(stage: &mut Stage, report: &mut Report) -> Result<()> {
    const CONTESTANTS: [Contestant; 3] = [Lock, LockPlain, RedissonLock];
    report.begin(ALONE, "lock and unlock, 1 caller");
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
            let name = format!("bench:{ALONE}:{}", contestant.make().word());
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

/// How long it takes until a caller in one process holds the lock after the unlock in another.
pub(crate) async fn hand_over(stage: &mut Stage, report: &mut Report) -> Result<()> {
    const CONTESTANTS: [Contestant; 2] = [Lock, RedissonLock];
    const TURNS: usize = 4;
    report.begin(
        HAND_OVER,
        "a lock from one process to another, from unlock to locked",
    );
    for contestant in CONTESTANTS {
        stage.programs(contestant.make(), 2).await?;
    }
    let mut waits = vec![Waits::default(); CONTESTANTS.len()];
    for turn in 0..=TURNS {
        for (contestant, waits) in CONTESTANTS.iter().zip(&mut waits) {
            // The first turn is for practice.
            let times = match turn {
                0 => stage.settings.wake_ups_before,
                _ => stage.settings.wake_ups / TURNS,
            };
            let seen = pass_on(stage, *contestant, times).await?;
            if turn > 0 {
                waits.merge(&seen);
            }
        }
    }
    for (contestant, waits) in CONTESTANTS.iter().zip(&waits) {
        report.add(contestant.to_string(), metric::of_waits(waits));
    }
    report.end();
    Ok(())
}

async fn pass_on(stage: &mut Stage, contestant: Contestant, times: usize) -> Result<Waits> {
    let (lock, unlock) = match contestant {
        RedissonLock => ("lock", "unlock"),
        _ => ("acquire", "release"),
    };
    let name = format!("bench:{HAND_OVER}:{}", contestant.make().word());
    let channel = format!("redisson_lock__channel:{{{name}}}");
    let fields = json!({ "name": name, "thread": "caller" });
    let programs = stage.programs(contestant.make(), 2).await?;
    let mut waits = Waits::default();
    programs[0].call(lock, fields.clone()).await?;
    for time in 0..times {
        let (holder, waiter) = (&programs[time % 2], &programs[1 - time % 2]);
        let locked = waiter.call(lock, fields.clone());
        let unlocked = async {
            while subscribers(&mut stage.redis, &channel).await == 0 {
                sleep(Duration::from_millis(1)).await;
            }
            sleep(PAUSE).await;
            holder.call(unlock, fields.clone()).await
        };
        let (locked, unlocked) = tokio::try_join!(locked, unlocked)?;
        let ended = locked["ended"].as_u64().ok_or("no time")?;
        let began = unlocked["began"].as_u64().ok_or("no time")?;
        waits.add(ended.saturating_sub(began));
    }
    programs[times % 2].call(unlock, fields).await?;
    Ok(waits)
}
