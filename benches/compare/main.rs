//! This crate, a plain client of Redis and the real Redisson, measured side by side: `make bench`.
//!
//! Everything runs in this one command on this one machine: a private Redis, and processes for each contestant. The processes
//! read their commands from standard input (the protocol of `compat/README.md`). For this crate and the plain client they run
//! this same program. The contestants of a workload are measured back to back, in turns, so that their ratios come from the
//! same time.
//!
//! `make figures` measures all, keeps the report as `benches/figures.json`, and fills the guide's chapter of figures from it;
//! `cargo bench --bench compare -- figures` fills it from a report that is there already.
//!
//! `BENCH=quick` measures for a short time. `ONLY=wake-up,line` runs these workloads only, and `ONLY=shared*` all whose names begin
//! with `shared`. An unknown name lists all workloads.
//!
//! - [`side`]: the code that is measured, inside the processes
//! - [`program`], [`stage`], [`meter`], [`sample`], [`watch`], [`waits`]: the processes from outside, and their cost
//! - [`workloads`]: the loads that the processes run
//! - [`report`]: table, JSON and chart
//! - [`figures`], [`publish`]: the guide's tables and pictures

mod contestant;
mod figures;
mod meter;
mod pinger;
mod program;
mod publish;
mod report;
mod sample;
mod settings;
mod side;
mod stage;
#[path = "../../tests/support/mod.rs"]
mod support;
mod waits;
mod watch;
mod workloads;

use std::process::ExitCode;

use report::Report;
use settings::Settings;
use stage::Stage;

/// The result of a step. Every error ends the run and is shown.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [peer, side, url, clients] = arguments.as_slice()
        && peer == side::ARGUMENT
        && let Ok(clients) = clients.parse()
    {
        return finish(side::serve(side, url, clients).await);
    }
    if arguments.first().is_some_and(|word| word == "figures") {
        return finish(publish::publish());
    }
    // Servers and processes end when their owners are dropped, and so when this future is dropped.
    tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => {
            eprintln!("stopped");
            ExitCode::FAILURE
        }
        outcome = measure() => finish(outcome),
    }
}

fn finish(outcome: Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn measure() -> Result<()> {
    let settings = Settings::from_environment();
    let mut stage = Stage::open(settings).await?;
    let mut report = Report::new(stage.machine().await?);
    workloads::run(&mut stage, &mut report).await?;
    stage.close().await;
    report.finish()
}
