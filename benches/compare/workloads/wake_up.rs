//! How long it takes until a caller in one process goes on after a release in another.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::Result;
use crate::contestant::Contestant::{self, Ours, Plain, RedissonAsync, RedissonSync};
use crate::program::Program;
use crate::report::{Report, metric};
use crate::stage::Stage;
use crate::support::waiters::subscribers;
use crate::waits::Waits;

pub(crate) const NAME: &str = "wake-up";

const CONTESTANTS: [Contestant; 4] = [Ours, Plain, RedissonSync, RedissonAsync];
/// The contestants take turns this often.
const TURNS: usize = 4;
/// From the subscription to the release: the waiter has looked once more by then, and sleeps.
const PAUSE: Duration = Duration::from_millis(5);

pub(crate) async fn run(stage: &mut Stage, report: &mut Report) -> Result<()> {
    report.begin(
        NAME,
        "wake-up of a caller by another process, from release to acquired",
    );
    for contestant in CONTESTANTS {
        stage.programs(contestant.make(), 2).await?;
    }
    let mut waits = vec![Waits::default(); CONTESTANTS.len()];
    for turn in 0..=TURNS {
        for (contestant, waits) in CONTESTANTS.iter().zip(&mut waits) {
            // The first turn is for practice.
            let wake_ups = match turn {
                0 => stage.settings.wake_ups_before,
                _ => stage.settings.wake_ups / TURNS,
            };
            let seen = wake(stage, *contestant, wake_ups).await?;
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

async fn wake(stage: &mut Stage, contestant: Contestant, times: usize) -> Result<Waits> {
    let name = format!("bench:{NAME}:{}", contestant.make().word());
    stage.set(&name, 0).await?;
    let programs = stage.programs(contestant.make(), 2).await?;
    let fields = json!({ "name": name, "mode": contestant.mode() });
    let mut waits = Waits::default();
    for time in 0..times {
        let (waiter, releaser) = (&programs[time % 2], &programs[1 - time % 2]);
        let acquired = waiter.call("acquire", fields.clone());
        let released = release(stage, releaser, &name, fields.clone());
        let (acquired, released) = tokio::try_join!(acquired, released)?;
        let moment = |answer: &Value, field: &str| answer[field].as_u64().ok_or("no time");
        let micros = moment(&acquired, "ended")?.saturating_sub(moment(&released, "began")?);
        waits.add(micros);
    }
    Ok(waits)
}

/// Releases as soon as the other one sleeps.
async fn release(
    stage: &mut Stage,
    releaser: &Program,
    name: &str,
    fields: Value,
) -> Result<Value> {
    let channel = format!("redisson_sc:{{{name}}}");
    while subscribers(&mut stage.redis, &channel).await == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    sleep(PAUSE).await;
    releaser.call("release", fields).await
}
