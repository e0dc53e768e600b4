//! Many clients, one caller each, want the same thing: what a grant or a look costs the server.
//!
//! The server is measured while all of them are at it, neither while they come nor while they go. On a machine with nothing else
//! to do its processor sleeps between scripts; what they cost one that is awake is measured beside a pinger.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;

use crate::Result;
use crate::contestant::Contestant::{self, Fair, Ours, RedissonSync};
use crate::figures::numbers::grouped;
use crate::meter::{self, ServerUse};
use crate::pinger::Pinger;
use crate::report::Report;
use crate::report::metric::{self, Numbers};
use crate::sample::{Crowd, measure_each};
use crate::stage::{Stage, crowd_fields};

pub(crate) const SEMAPHORE: &str = "turns-clients";
pub(crate) const FAIR: &str = "turns-fair-waiting";
pub(crate) const BESIDE_JVM: &str = "turns-beside-jvm";

const HOLD: Duration = Duration::from_millis(10);
const HOLD_BESIDE_JVM: Duration = Duration::from_millis(5);
/// Of the JVM.
const THREADS: u64 = 4;
/// Nobody releases anything.
const FOR_GOOD: Duration = Duration::from_secs(45);
/// Until all have asked.
const ARRIVAL: Duration = Duration::from_secs(2);

/// What the server did in a while.
struct Use {
    seconds: f64,
    grants: f64,
    scripts: f64,
    script_micros: f64,
    commands: f64,
    cpu_micros: f64,
    /// The long ones, the longest first.
    long_scripts: Vec<u64>,
}

pub(crate) async fn semaphore(stage: &mut Stage, report: &mut Report) -> Result<()> {
    report.begin(
        SEMAPHORE,
        "many clients, one caller each, 1 permit held 10 ms",
    );
    let all = stage.settings.clients.iter();
    for (&clients, busy) in all.flat_map(|clients| [(clients, false), (clients, true)]) {
        let name = format!("bench:{SEMAPHORE}:{clients}:{busy}");
        stage.set(&name, 1).await?;
        let seen = watch(stage, Ours, &name, clients, HOLD, busy).await?;
        let per_grant = |amount: f64| amount / seen.grants.max(1.0);
        let mut numbers = vec![
            (&metric::PAIRS_PER_SECOND, seen.grants / seen.seconds),
            (&metric::SCRIPTS_PER_PAIR, per_grant(seen.scripts)),
            (&metric::SCRIPT_TIME_PER_PAIR, per_grant(seen.script_micros)),
        ];
        // Else those are mostly the pinger's.
        if !busy {
            numbers.extend([
                (&metric::COMMANDS_PER_PAIR, per_grant(seen.commands)),
                (&metric::REDIS_PER_PAIR, per_grant(seen.cpu_micros)),
            ]);
        }
        numbers.extend(seen.of_scripts());
        report.add(title(clients, busy), numbers);
    }
    report.end();
    Ok(())
}

pub(crate) async fn fair(stage: &mut Stage, report: &mut Report) -> Result<()> {
    let clients = stage.settings.waiting_clients;
    report.begin(
        FAIR,
        "many clients wait for one fair semaphore, and nobody releases",
    );
    for busy in [false, true] {
        // The name says that there are eight permits.
        let name = format!("bench:{FAIR}:{busy}:scarce");
        let seen = watch(stage, Fair, &name, clients, FOR_GOOD, busy).await?;
        let mut numbers = vec![
            (&metric::SCRIPTS_PER_SECOND, seen.scripts / seen.seconds),
            (
                &metric::REDIS_PER_SCRIPT,
                // Of its other work, a server with few looks has more to do.
                seen.script_micros / seen.scripts.max(1.0),
            ),
        ];
        numbers.extend(seen.of_scripts());
        report.add(title(clients, busy), numbers);
    }
    report.end();
    Ok(())
}

/// A JVM whose threads take again at once what they have released, and keep no record.
pub(crate) async fn beside_jvm(stage: &mut Stage, report: &mut Report) -> Result<()> {
    let clients = stage.settings.clients_beside_jvm;
    report.begin(
        BESIDE_JVM,
        "clients of one caller each beside a JVM of 4 threads, permits held 5 ms",
    );
    for permits in [1, 4] {
        let name = format!("bench:{BESIDE_JVM}:{permits}");
        stage.set(&name, permits).await?;
        let ours = stage.start_clients(Ours.make(), clients).await?;
        let java = stage.programs(RedissonSync.make(), 1).await?.remove(0);
        let crowd = |callers| Crowd {
            callers,
            permits: 1,
            hold: HOLD_BESIDE_JVM,
            semaphores: None,
        };
        let crowds = [
            ((Ours, ours), crowd(clients)),
            ((RedissonSync, java), crowd(THREADS)),
        ];
        measure_each(stage, &crowds, &name, stage.settings.warm_up).await?;
        let sample = measure_each(stage, &crowds, &name, stage.settings.measure_shared).await?;
        let shares = sample.shares();
        let equal = sample.pairs_per_second() / (clients + THREADS) as f64;
        let mut numbers = metric::of_sample(&sample);
        numbers.extend([
            (&metric::PERMIT_USE, sample.use_of(permits)),
            (&metric::LEAST_SHARE, shares[0] / clients as f64 / equal),
        ]);
        let title = format!("{} clients, {permits} permits", grouped(clients as f64));
        report.add_shared(title, numbers, shares);
    }
    report.end();
    Ok(())
}

fn title(clients: u64, busy: bool) -> String {
    let server = if busy { ", a busy server" } else { "" };
    format!("{} clients{server}", grouped(clients as f64))
}

/// Measures the server while so many clients are at work, in a process that is ended then; it may be `busy` with something else.
async fn watch(
    stage: &mut Stage,
    contestant: Contestant,
    name: &str,
    clients: u64,
    hold: Duration,
    busy: bool,
) -> Result<Use> {
    let _pinger = busy.then(|| Pinger::start(&stage.redis));
    let program = stage.start_clients(contestant.make(), clients).await?;
    let mut crowd = crowd_fields(contestant, name, clients, FOR_GOOD);
    crowd["holdMicros"] = json!(hold.as_micros() as u64);
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
    let (before, had, began) = (
        ServerUse::read(&mut stage.redis).await?,
        grants().await?,
        Instant::now(),
    );
    sleep(stage.settings.measure_shared).await;
    let (after, have, seconds) = (
        ServerUse::read(&mut stage.redis).await?,
        grants().await?,
        began.elapsed().as_secs_f64(),
    );
    let long_scripts = meter::long_scripts(&mut stage.redis).await?;
    if at_work.is_finished() {
        return Err(format!("{clients} clients did not go on").into());
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
    /// How long the longest scripts took; nothing where none was long enough to be known.
    fn of_scripts(&self) -> Numbers {
        metric::of_long_scripts(&self.long_scripts, self.scripts)
    }
}
