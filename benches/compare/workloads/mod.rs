//! What the contestants are made to do.

mod clients;
mod held;
mod large;
mod line;
mod lock;
mod lock_turns;
mod recipes;
mod shared;
mod throughput;
mod turns;
mod wake_up;

use crate::Result;
use crate::report::Report;
use crate::stage::Stage;

/// Runs everything, one after the other.
pub(crate) async fn run(stage: &mut Stage, report: &mut Report) -> Result<()> {
    let only = stage.settings.only.clone().unwrap_or_default();
    let wanted = |name: &str| name.contains(&only);
    for workload in throughput::all() {
        if wanted(workload.name) {
            workload.run(stage, report).await?;
        }
    }
    for workload in recipes::all() {
        if wanted(workload.name) {
            workload.run(stage, report).await?;
        }
    }
    if wanted(wake_up::NAME) {
        wake_up::run(stage, report).await?;
    }
    if wanted(shared::NAME) {
        shared::run(stage, report).await?;
    }
    for load in turns::LOADS {
        if wanted(load.name) {
            turns::run(load, stage, report).await?;
        }
    }
    if wanted(turns::FROZEN) {
        turns::run_frozen(stage, report).await?;
    }
    if wanted(clients::SEMAPHORE) {
        clients::semaphore(stage, report).await?;
    }
    if wanted(clients::FAIR) {
        clients::fair(stage, report).await?;
    }
    if wanted(clients::BESIDE_JVM) {
        clients::beside_jvm(stage, report).await?;
    }
    if wanted(large::NAME) {
        large::run(stage, report).await?;
    }
    if wanted(lock_turns::NAME) {
        lock_turns::run(stage, report).await?;
    }
    if wanted(lock::ALONE) {
        lock::alone(stage, report).await?;
    }
    if wanted(lock::HAND_OVER) {
        lock::hand_over(stage, report).await?;
    }
    if wanted(held::NAME) {
        held::run(stage, report).await?;
    }
    if wanted(line::NAME) {
        line::run(stage, report).await?;
    }
    Ok(())
}
