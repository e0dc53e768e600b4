//! The contestants' work.

mod beside_jvm;
mod clients;
mod fair_waiting;
mod hand_over;
mod held;
mod large;
mod line;
mod lock;
mod lock_shared;
mod lost_waiter;
mod recipes;
mod shared;
mod throughput;
mod too_large;
mod uneven;

use std::cell::RefCell;

use crate::Result;
use crate::report::Report;
use crate::stage::Stage;

/// Runs the workloads that are asked for, one after the other.
pub(crate) async fn run(stage: &mut Stage, report: &mut Report) -> Result<()> {
    let only = stage.settings.only.clone();
    let names = RefCell::new(Vec::new());
    let wanted = |name: &'static str| {
        names.borrow_mut().push(name);
        let matches = |word: &str| match word.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == word,
        };
        only.as_ref()
            .is_none_or(|words| words.split(',').any(matches))
    };
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
    for workload in hand_over::ALL {
        if wanted(workload.name) {
            workload.run(stage, report).await?;
        }
    }
    for workload in [shared::HELD, shared::NOT_HELD, shared::ONE_PERMIT] {
        if wanted(workload.name) {
            workload.run(stage, report).await?;
        }
    }
    for load in uneven::LOADS {
        if wanted(load.name) {
            load.run(stage, report).await?;
        }
    }
    if wanted(clients::NAME) {
        clients::run(stage, report).await?;
    }
    if wanted(beside_jvm::NAME) {
        beside_jvm::run(stage, report).await?;
    }
    if wanted(large::NAME) {
        large::run(stage, report).await?;
    }
    if wanted(too_large::NAME) {
        too_large::run(stage, report).await?;
    }
    if wanted(lost_waiter::NAME) {
        lost_waiter::run(stage, report).await?;
    }
    if wanted(fair_waiting::NAME) {
        fair_waiting::run(stage, report).await?;
    }
    if wanted(lock_shared::NAME) {
        lock_shared::run(stage, report).await?;
    }
    for workload in lock::ALL {
        if wanted(workload.name) {
            workload.run(stage, report).await?;
        }
    }
    if wanted(held::NAME) {
        held::run(stage, report).await?;
    }
    if wanted(line::NAME) {
        line::run(stage, report).await?;
    }
    let pinned = [
        wanted(throughput::PINNED.name),
        wanted(hand_over::WAKE_UP_PINNED.name),
    ];
    if pinned.contains(&true) {
        let mut stage = Stage::open_pinned(stage.settings.clone()).await?;
        if pinned[0] {
            throughput::PINNED.run(&mut stage, report).await?;
        }
        if pinned[1] {
            hand_over::WAKE_UP_PINNED.run(&mut stage, report).await?;
        }
        stage.close().await;
    }
    match report.workloads.is_empty() {
        true => Err(format!("no such workload; there are {}", names.borrow().join(", ")).into()),
        false => Ok(()),
    }
}
