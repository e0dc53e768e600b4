//! The server while the clients of one process are at work: neither while they connect nor while they end.
//!
//! The processor of a server with nothing else to do sleeps between scripts and takes longer for each. A [`Pinger`] keeps it awake.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;

use crate::Result;
use crate::contestant::Contestant;
use crate::meter::{self, ServerUse};
use crate::pinger::Pinger;
use crate::report::metric::{self, Numbers};
use crate::stage::{Stage, crowd_fields};

/// Longer than anybody is watched.
const FOR_GOOD: Duration = Duration::from_secs(45);
/// Until all clients have asked.
const ARRIVAL: Duration = Duration::from_secs(2);

/// The load by clients: each has one caller, which takes one permit again and again.
pub(crate) struct Load<'a> {
    pub(crate) contestant: Contestant,
    pub(crate) name: &'a str,
    pub(crate) clients: u64,
    /// `None`: they never release.
    pub(crate) hold: Option<Duration>,
    /// Whether the server has something else to do.
    pub(crate) busy: bool,
}

/// The work of the server in a while.
pub(crate) struct Use {
    pub(crate) seconds: f64,
    pub(crate) grants: f64,
    pub(crate) scripts: f64,
    pub(crate) script_micros: f64,
    pub(crate) commands: f64,
    pub(crate) cpu_micros: f64,
    /// The long ones, the longest first.
    long_scripts: Vec<u64>,
}

/// Measures the server under a load; the process with the clients is killed then.
pub(crate) async fn watch(stage: &mut Stage, load: &Load<'_>) -> Result<Use> {
    let _pinger = load.busy.then(|| Pinger::start(&stage.redis));
    let make = load.contestant.make();
    let program = stage.start_clients(make, load.clients).await?;
    let mut crowd = crowd_fields(load.contestant, load.name, load.clients, FOR_GOOD);
    crowd["holdMicros"] = json!(load.hold.unwrap_or(FOR_GOOD).as_micros() as u64);
    let at_work = tokio::spawn({
        let program = program.clone();
        async move { program.call("crowd", crowd).await.is_ok() }
    });
    sleep(ARRIVAL).await;
    meter::watch_long_scripts(&mut stage.redis).await?;
    let grants = async || -> Result<f64> {
        let answer = program.call("grants", json!({})).await?;
        Ok(answer["ok"].as_f64().ok_or("not a number of grants")?)
    };
    let before = ServerUse::read(&mut stage.redis).await?;
    let (had, began) = (grants().await?, Instant::now());
    sleep(stage.settings.measure_shared).await;
    let after = ServerUse::read(&mut stage.redis).await?;
    let (have, seconds) = (grants().await?, began.elapsed().as_secs_f64());
    let long_scripts = meter::long_scripts(&mut stage.redis).await?;
    if at_work.is_finished() {
        return Err(format!("{} clients did not go on", load.clients).into());
    }
    program.signal("KILL")?;
    at_work.await?;
    Ok(Use {
        seconds,
        grants: have - had,
        scripts: (after.scripts - before.scripts) as f64,
        script_micros: (after.script_micros - before.script_micros) as f64,
        commands: (after.commands - before.commands) as f64,
        cpu_micros: (after.cpu_micros - before.cpu_micros) as f64,
        long_scripts,
    })
}

impl Use {
    /// How long the longest scripts took. Empty if none was long enough for the server's list.
    pub(crate) fn of_long_scripts(&self) -> Numbers {
        metric::of_long_scripts(&self.long_scripts, self.scripts)
    }
}
