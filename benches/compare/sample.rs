//! The work of the callers in one measurement, and its cost.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::Result;
use crate::contestant::Contestant;
use crate::meter::{self, ServerUse};
use crate::program::Program;
use crate::stage::{Stage, crowd_fields};
use crate::waits::Waits;

/// A process and how its callers call.
pub(crate) type Entrant = (Contestant, Arc<Program>);

/// The orders of each process.
#[derive(Debug, Clone)]
pub(crate) struct Crowd {
    pub(crate) callers: u64,
    /// How many permits each caller takes at a time.
    pub(crate) permits: u64,
    pub(crate) hold: Duration,
    /// How many semaphores the callers are spread over, if more than one.
    pub(crate) semaphores: Option<u64>,
}

/// One measurement, or the sum of several.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample {
    time: Duration,
    pairs: u64,
    redis_micros: u64,
    scripts: u64,
    /// By process.
    pub(crate) sides: Vec<SideSample>,
}

/// One process's part.
#[derive(Debug, Clone, Default)]
pub(crate) struct SideSample {
    /// Pairs of acquire and release within the time. A turn that ends after that time counts in part: where callers wait
    /// for long, whole turns would distort the process's share.
    turns: f64,
    /// The turns of the caller with the fewest turns, in one round.
    least_turns: Option<f64>,
    /// How many permits each caller takes.
    permits: u64,
    /// The sum of all holds within the time.
    held: Duration,
    cpu_micros: u64,
    pub(crate) waits: Waits,
}

/// Lets all `entrants` work on the semaphore `name` at the same time.
pub(crate) async fn measure(
    stage: &mut Stage,
    entrants: &[Entrant],
    name: &str,
    crowd: &Crowd,
    time: Duration,
) -> Result<Sample> {
    let crowds: Vec<_> = entrants
        .iter()
        .map(|entrant| (entrant.clone(), crowd.clone()))
        .collect();
    measure_each(stage, &crowds, name, time).await
}

/// As [`measure`], with callers of its own for each entrant. A process may occur several times.
pub(crate) async fn measure_each(
    stage: &mut Stage,
    crowds: &[(Entrant, Crowd)],
    name: &str,
    time: Duration,
) -> Result<Sample> {
    let processors = || -> Result<Vec<u64>> {
        let cpu = |((_, program), _): &(Entrant, Crowd)| meter::cpu_micros(program.pid());
        crowds.iter().map(cpu).collect()
    };
    let server_before = ServerUse::read(&mut stage.redis).await?;
    let before = processors()?;
    let calls = crowds.iter().map(|((contestant, program), crowd)| {
        let mut fields = crowd_fields(*contestant, name, crowd.callers, time);
        fields["holdMicros"] = json!(crowd.hold.as_micros() as u64);
        fields["permits"] = json!(crowd.permits);
        if let Some(semaphores) = crowd.semaphores {
            fields["semaphores"] = json!(semaphores);
        }
        // All sides use this lease for permits that have one.
        fields["leaseMs"] = json!(60_000);
        program.call("crowd", fields)
    });
    let answers = futures::future::try_join_all(calls).await?;
    let after = processors()?;
    let server_after = ServerUse::read(&mut stage.redis).await?;
    let mut sample = Sample {
        time,
        redis_micros: server_after.cpu_micros - server_before.cpu_micros,
        scripts: server_after.scripts - server_before.scripts,
        ..Sample::default()
    };
    let answers = answers.iter().zip(crowds);
    for ((answer, (_, crowd)), (before, after)) in answers.zip(before.iter().zip(after)) {
        sample.take(&answer["ok"], after - before, crowd.permits)?;
    }
    Ok(sample)
}

impl Sample {
    fn take(&mut self, answer: &Value, cpu_micros: u64, permits: u64) -> Result<()> {
        let number = |field: &str| answer[field].as_u64().ok_or("not a crowd's answer");
        self.pairs += number("acquisitions")?;
        self.sides.push(SideSample {
            turns: answer["inTime"].as_f64().ok_or("not a crowd's answer")?,
            least_turns: answer["leastInTime"].as_f64(),
            permits,
            held: Duration::from_micros(number("heldMicros")?),
            cpu_micros,
            waits: Waits::from_json(&answer["waits"]).ok_or("no waits in a crowd's answer")?,
        });
        Ok(())
    }

    /// Adds a further round of the same processes.
    pub(crate) fn add(&mut self, other: Sample) {
        if self.sides.is_empty() {
            *self = other;
            return;
        }
        self.time += other.time;
        self.pairs += other.pairs;
        self.redis_micros += other.redis_micros;
        self.scripts += other.scripts;
        for (mine, its) in self.sides.iter_mut().zip(other.sides) {
            mine.turns += its.turns;
            mine.held += its.held;
            mine.cpu_micros += its.cpu_micros;
            mine.waits.merge(&its.waits);
        }
    }

    pub(crate) fn pairs_per_second(&self) -> f64 {
        self.shares().iter().sum()
    }

    /// Pairs a second, by process.
    pub(crate) fn shares(&self) -> Vec<f64> {
        let rate = |side: &SideSample| side.turns / self.time.as_secs_f64();
        self.sides.iter().map(rate).collect()
    }

    /// Pairs a second of the slowest caller of a process; unknown for a JVM.
    pub(crate) fn least_caller(&self, side: usize) -> Option<f64> {
        let turns = self.sides.get(side)?.least_turns?;
        Some(turns / self.time.as_secs_f64())
    }

    /// The smallest share of a process, relative to the mean.
    pub(crate) fn least_share(&self) -> f64 {
        let shares = self.shares();
        let mean = self.pairs_per_second() / shares.len().max(1) as f64;
        shares.into_iter().fold(f64::INFINITY, f64::min) / mean
    }

    pub(crate) fn waits(&self) -> Waits {
        let mut all = Waits::default();
        for side in &self.sides {
            all.merge(&side.waits);
        }
        all
    }

    pub(crate) fn redis_micros_per_pair(&self) -> f64 {
        self.per_pair(self.redis_micros)
    }

    pub(crate) fn scripts_per_pair(&self) -> f64 {
        self.per_pair(self.scripts)
    }

    pub(crate) fn client_micros_per_pair(&self) -> f64 {
        self.per_pair(self.sides.iter().map(|side| side.cpu_micros).sum())
    }

    /// The fraction of the time during which the `permits` permits were held.
    pub(crate) fn use_of(&self, permits: u64) -> f64 {
        let held = |side: &SideSample| side.held.as_secs_f64() * side.permits as f64;
        let held: f64 = self.sides.iter().map(held).sum();
        held / (self.time.as_secs_f64() * permits as f64)
    }

    fn per_pair(&self, amount: u64) -> f64 {
        amount as f64 / self.pairs.max(1) as f64
    }
}
