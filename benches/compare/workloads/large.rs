//! A request for all permits beside another process whose callers keep taking one each: how long until it is served?

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::Result;
use crate::contestant::Contestant::Ours;
use crate::report::{Report, metric};
use crate::stage::{Stage, crowd_fields};
use crate::waits::Waits;

pub(crate) const NAME: &str = "large";

const PERMITS: u64 = 8;
const SMALL_ONES: u64 = 64;
/// A request that waits for longer counts as not served.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two requests.
const PAUSE: Duration = Duration::from_millis(500);

pub(crate) async fn run(stage: &mut Stage, report: &mut Report) -> Result<()> {
    report.begin(
        NAME,
        "acquire(8) of 8 beside 64 callers of one each in another process: until it is served",
    );
    for &hold in stage.settings.holds_beside_large {
        let name = format!("bench:{NAME}:{hold}");
        stage.set(&name, PERMITS).await?;
        // Both are killed at the end: the request may wait for ever.
        let crowd = stage.start(Ours.make()).await?;
        let single = stage.start(Ours.make()).await?;
        let requests = stage.settings.large_requests;
        let mut fields = crowd_fields(Ours, &name, 1, PATIENCE * 2 * requests as u32);
        fields["holdMicros"] = json!(hold * 1000);
        let mut at_work = Vec::new();
        for number in 0..SMALL_ONES {
            let (crowd, fields) = (crowd.clone(), fields.clone());
            let caller = async move { crowd.call("crowd", fields).await.is_ok() };
            at_work.push(tokio::spawn(caller));
            // Without this the holders would all release at the same moment.
            if number < PERMITS {
                sleep(Duration::from_millis(hold) / PERMITS as u32).await;
            }
        }
        let fields = json!({ "name": name, "permits": PERMITS });
        let (mut waits, mut served) = (Waits::default(), 0);
        for _ in 0..requests {
            sleep(PAUSE).await;
            let began = Instant::now();
            let acquired = timeout(PATIENCE, single.call("acquire", fields.clone())).await;
            waits.add(began.elapsed().as_micros() as u64);
            let Ok(acquired) = acquired else { break };
            acquired?;
            served += 1;
            single.call("release", fields.clone()).await?;
        }
        crowd.signal("KILL")?;
        single.signal("KILL")?;
        futures::future::try_join_all(at_work).await?;
        let mut numbers = metric::of_waits(&waits);
        numbers.push((&metric::SERVED, f64::from(served) / requests as f64));
        report.add(format!("held {hold} ms"), numbers);
    }
    report.end();
    Ok(())
}
