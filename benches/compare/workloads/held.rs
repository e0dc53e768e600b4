//! Very many permits with ids are held by guards of one process, which renews them.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::Result;
use crate::contestant::Make;
use crate::figures::numbers::grouped;
use crate::meter::{self, ServerUse};
use crate::report::{Report, metric};
use crate::side::leased::RENEWED_LEASE;
use crate::stage::Stage;

pub(crate) const NAME: &str = "leased-held";

/// The measurement. Renewals come three times in a lease.
const PERIODS: u32 = 4;

pub(crate) async fn run(stage: &mut Stage, report: &mut Report) -> Result<()> {
    let permits = stage.settings.held;
    let title = format!(
        "{} permits with ids held by guards, which are renewed",
        grouped(permits as f64)
    );
    report.begin(NAME, &title);
    let name = format!("bench:{NAME}");
    stage.set(&name, permits).await?;
    let holder = stage.start(Make::LeasedGuards).await?;
    let fields = json!({ "name": name, "callers": permits });
    holder.call("park", fields).await?;
    let held = async || -> Result<u64> {
        let answer = holder.call("parked", json!({ "name": name })).await?;
        Ok(answer["ok"]["served"].as_u64().ok_or("not a number")?)
    };
    while held().await? < permits {
        sleep(Duration::from_millis(10)).await;
    }
    let period = RENEWED_LEASE / 3;
    // The first renewal of those that came last is one period later.
    sleep(period).await;
    meter::watch_long_scripts(&mut stage.redis).await?;
    let before = ServerUse::read(&mut stage.redis).await?;
    sleep(period * PERIODS).await;
    let after = ServerUse::read(&mut stage.redis).await?;
    let scripts = (after.scripts - before.scripts) as f64;
    let script_micros = (after.script_micros - before.script_micros) as f64;
    let long = meter::long_scripts(&mut stage.redis).await?;
    // A lost one was not renewed in time.
    let mut count = redis::cmd("ZCARD");
    let members: f64 = count
        .arg(format!("{{{name}}}:timeout"))
        .query_async(&mut stage.redis)
        .await?;
    let periods = f64::from(PERIODS);
    let mut numbers = vec![
        (&metric::SCRIPTS_PER_PERIOD, scripts / periods),
        (&metric::SCRIPT_TIME_PER_PERIOD, script_micros / periods),
    ];
    numbers.extend(metric::of_long_scripts(&long, scripts));
    numbers.push((&metric::STILL_HELD, members / permits as f64));
    report.add("ours".to_owned(), numbers);
    holder.signal("KILL")?;
    report.end();
    Ok(())
}
