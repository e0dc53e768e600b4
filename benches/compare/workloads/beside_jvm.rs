//! Clients of one caller each beside a JVM whose threads take again at once: the share of each.

use std::time::Duration;

use crate::Result;
use crate::contestant::Contestant::{Guards, Ours, Plain, RedissonSync};
use crate::report::{Report, metric};
use crate::sample::{Crowd, measure_each};
use crate::stage::Stage;

pub(crate) const NAME: &str = "beside-jvm";

const CLIENTS: u64 = 40;
/// Of the JVM.
const THREADS: u64 = 8;
const HOLD: Duration = Duration::from_millis(5);

pub(crate) async fn run(stage: &mut Stage, report: &mut Report) -> Result<()> {
    report.begin(
        NAME,
        "40 clients of one caller beside a JVM of 8 threads, permits held 5 ms; shares relative to 1/41",
    );
    for permits in [1, 4] {
        for contestant in [Ours, Guards, Plain] {
            let name = format!("bench:{NAME}:{}:{permits}", contestant.make().word());
            stage.set(&name, permits).await?;
            let clients = stage.start_clients(contestant.make(), CLIENTS).await?;
            let jvm = stage.programs(RedissonSync.make(), 1).await?.remove(0);
            let crowd = |callers| Crowd {
                callers,
                permits: 1,
                hold: HOLD,
                semaphores: None,
            };
            let crowds = [
                ((contestant, clients), crowd(CLIENTS)),
                ((RedissonSync, jvm), crowd(THREADS)),
            ];
            measure_each(stage, &crowds, &name, stage.settings.warm_up).await?;
            let sample = measure_each(stage, &crowds, &name, stage.settings.measure_shared).await?;
            let shares = sample.shares();
            let equal = sample.pairs_per_second() / (CLIENTS + 1) as f64;
            let least = sample.least_caller(0).ok_or("no share of a caller")?;
            let mut numbers = metric::of_sample(&sample);
            numbers.extend([
                (&metric::PERMIT_USE, sample.use_of(permits)),
                (&metric::LEAST_SHARE, least / equal),
                (&metric::SHARE_OF_JVM, shares[1] / equal),
            ]);
            let permits = if permits == 1 {
                "1 permit"
            } else {
                "4 permits"
            };
            report.add_shared(format!("{contestant}, {permits}"), numbers, shares);
        }
    }
    report.end();
    Ok(())
}
