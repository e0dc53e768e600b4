//! A waiting client is killed, stopped, or its machine vanishes: how long does the next waiter wait?

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::Result;
use crate::contestant::Contestant::{self, Guards, Ours, Plain, RedissonSync};
use crate::program::Program;
use crate::report::{Report, metric};
use crate::stage::Stage;
use crate::support::proxy::Proxy;
use crate::waits::Waits;

pub(crate) const NAME: &str = "lost-waiter";

/// Until a call waits, or what has happened to a client is known.
const PAUSE: Duration = Duration::from_millis(100);
/// A permit that is not back by then is lost.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Killed,
    Stopped,
    Vanished,
}

/// The waits of the others.
#[derive(Default)]
struct Seen {
    /// Of the waiter behind the lost one, from the release.
    first: Waits,
    /// Of the next one, while the lost one is still away.
    next: Waits,
    permits_lost: i64,
}

pub(crate) async fn run(stage: &mut Stage, report: &mut Report) -> Result<()> {
    report.begin(
        NAME,
        "a waiting client is lost: waits of the others, longest",
    );
    for contestant in [Ours, Guards, Plain, RedissonSync] {
        for (fate, word) in [
            (Fate::Killed, "killed"),
            (Fate::Stopped, "stopped"),
            (Fate::Vanished, "vanished"),
        ] {
            let mut seen = Seen::default();
            for round in 0..stage.settings.lost_waiters {
                let name = format!("bench:{NAME}:{contestant}:{word}:{round}");
                lose(stage, contestant, fate, &name, &mut seen).await?;
            }
            let numbers = vec![
                (&metric::FIRST_WAIT, seen.first.max() as f64),
                (&metric::NEXT_WAIT, seen.next.max() as f64),
                (&metric::PERMITS_LOST, seen.permits_lost as f64),
            ];
            report.add(format!("{contestant}, {word}"), numbers);
        }
    }
    report.end();
    Ok(())
}

async fn lose(
    stage: &mut Stage,
    contestant: Contestant,
    fate: Fate,
    name: &str,
    seen: &mut Seen,
) -> Result<()> {
    let fields = json!({ "name": name, "mode": contestant.mode() });
    let programs = stage.programs(contestant.make(), 2).await?;
    let (holder, other) = (&programs[0], &programs[1]);
    let (victim, proxy) = match fate {
        Fate::Vanished => stage.start_behind_proxy(contestant.make()).await?,
        _ => (stage.start(contestant.make()).await?, None),
    };
    stage.set(name, 1).await?;
    let acquire = |program: &Arc<Program>| {
        let (program, fields) = (Arc::clone(program), fields.clone());
        tokio::spawn(async move { program.call("acquire", fields).await })
    };
    holder.call("acquire", fields.clone()).await?;
    let lost = acquire(&victim);
    sleep(PAUSE).await;
    let behind = acquire(other);
    sleep(PAUSE).await;
    match fate {
        Fate::Killed => victim.signal("KILL")?,
        Fate::Stopped => victim.signal("STOP")?,
        Fate::Vanished => proxy.iter().for_each(Proxy::blackhole),
    }
    sleep(PAUSE).await;
    let released = holder.call("release", fields.clone()).await?;
    seen.first.add(between(&released, &behind.await??)?);
    let next = acquire(holder);
    sleep(PAUSE).await;
    let released = other.call("release", fields.clone()).await?;
    seen.next.add(between(&released, &next.await??)?);
    holder.call("release", fields.clone()).await?;
    if fate == Fate::Stopped {
        victim.signal("CONT")?;
        lost.await??;
        victim.call("release", fields).await?;
    }
    let end = Instant::now() + PATIENCE;
    let left = loop {
        let mut get = redis::cmd("GET");
        let left: i64 = get.arg(name).query_async(&mut stage.redis).await?;
        if left == 1 || Instant::now() > end {
            break left;
        }
        sleep(PAUSE).await;
    };
    seen.permits_lost += 1 - left;
    victim.signal("KILL")?;
    Ok(())
}

/// From the release until the call ended, in microseconds.
fn between(released: &Value, acquired: &Value) -> Result<u64> {
    let began = released["began"].as_u64().ok_or("no time")?;
    let ended = acquired["ended"].as_u64().ok_or("no time")?;
    Ok(ended.saturating_sub(began))
}
