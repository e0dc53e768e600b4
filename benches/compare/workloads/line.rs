//! Very many callers wait in one process and are served by releases from another.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;

use crate::Result;
use crate::contestant::{Contestant, Make};
use crate::figures::numbers::grouped;
use crate::meter::{self, ServerUse};
use crate::program::Program;
use crate::report::Report;
use crate::report::metric::{self, Metric, Numbers};
use crate::stage::Stage;

pub(crate) const NAME: &str = "line";

/// The sizes of the releases, and how many releases of each size.
const RELEASES: [(u64, u64, &Metric); 4] = [
    (1, 20, &metric::SCRIPTS_PER_RELEASE_OF_1),
    (10, 20, &metric::SCRIPTS_PER_RELEASE_OF_10),
    (100, 10, &metric::SCRIPTS_PER_RELEASE_OF_100),
    (1000, 5, &metric::SCRIPTS_PER_RELEASE_OF_1000),
];
/// With so few scripts in so long, no caller is on the way to sleep any more.
const CALM: (u64, Duration) = (20, Duration::from_millis(200));
/// After the last caller was served, for what still follows.
const AFTERMATH: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(10);

/// A process with waiting callers, and one that releases.
struct Line<'a> {
    stage: &'a mut Stage,
    name: String,
    waiting: &'a Program,
    releasing: &'a Program,
    served: u64,
    in_order: bool,
}

pub(crate) async fn run(stage: &mut Stage, report: &mut Report) -> Result<()> {
    let (long, short) = (stage.settings.line, stage.settings.line_of_redisson);
    let (all, fewer) = (grouped(long as f64), grouped(short as f64));
    report.begin(NAME, &format!("{all} callers wait (Redisson: {fewer})"));
    let entrants = [
        (Contestant::Ours, long),
        (Contestant::Plain, long),
        (Contestant::RedissonAsync, short),
    ];
    for (contestant, callers) in entrants {
        let numbers = measure(stage, contestant, callers).await?;
        report.add(contestant.to_string(), numbers);
    }
    report.end();
    Ok(())
}

async fn measure(stage: &mut Stage, contestant: Contestant, callers: u64) -> Result<Numbers> {
    let make = contestant.make();
    // New, so that no memory of earlier callers is used again.
    let waiting = stage.start(make).await?;
    let releasing = stage.programs(make, 1).await?.remove(0);
    let name = format!("bench:{NAME}:{}", make.word());
    stage.set(&name, 0).await?;
    let mut line = Line {
        stage,
        name,
        waiting: &waiting,
        releasing: &releasing,
        served: 0,
        in_order: true,
    };
    let memory = line.park(callers).await?;
    let mut numbers = vec![(&metric::BYTES_PER_WAITER, memory / callers as f64)];
    for (permits, times, metric) in RELEASES {
        // A message of Redisson's wakes one of its async callers, whatever the number of permits.
        if make == Make::Redisson && permits > 1 {
            break;
        }
        let before = line.scripts().await?;
        for _ in 0..times {
            line.release(permits).await?;
        }
        sleep(AFTERMATH).await;
        let scripts = line.scripts().await? - before;
        numbers.push((metric, scripts as f64 / times as f64));
    }
    let (began, before) = (Instant::now(), line.scripts().await?);
    line.release(callers - line.served).await?;
    numbers.push((&metric::SECONDS_FOR_THE_REST, began.elapsed().as_secs_f64()));
    let scripts = line.scripts().await? - before;
    numbers.push((&metric::SCRIPTS_FOR_THE_REST, scripts as f64));
    numbers.push((&metric::SERVED, line.served as f64 / callers as f64));
    numbers.push((&metric::IN_ORDER, f64::from(u8::from(line.in_order))));
    Ok(numbers)
}

impl Line<'_> {
    async fn scripts(&mut self) -> Result<u64> {
        Ok(ServerUse::read(&mut self.stage.redis).await?.scripts)
    }

    /// Lets them wait; returns the bytes that this took.
    async fn park(&mut self, callers: u64) -> Result<f64> {
        let before = meter::resident_bytes(self.waiting.pid())?;
        let fields = json!({ "name": self.name, "callers": callers });
        self.waiting.call("park", fields).await?;
        let (few, pause) = CALM;
        let mut scripts = self.scripts().await?;
        loop {
            sleep(pause).await;
            let now = self.scripts().await?;
            if now - scripts < few {
                break;
            }
            scripts = now;
        }
        let after = meter::resident_bytes(self.waiting.pid())?;
        Ok(after.saturating_sub(before) as f64)
    }

    /// Releases, and waits until `permits` more callers have been served; gives up after a while.
    async fn release(&mut self, permits: u64) -> Result<()> {
        let expected = self.served + permits;
        let fields = json!({ "name": self.name, "permits": permits });
        self.releasing.call("release", fields).await?;
        let end = Instant::now() + PATIENCE;
        loop {
            let fields = json!({ "name": self.name });
            let answer = self.waiting.call("parked", fields).await?;
            let number = |field: &str| answer["ok"][field].as_u64();
            self.served = number("served").ok_or("no answer of parked callers")?;
            if self.served >= expected {
                // Numbers begin with 0.
                self.in_order &= number("last") == Some(self.served - 1);
                return Ok(());
            }
            if Instant::now() > end {
                return Ok(());
            }
            sleep(Duration::from_millis(1)).await;
        }
    }
}
