//! A Rust service and a Java service on one semaphore: `make demo`
//!
//! | File | What it shows |
//! |---|---|
//! | `wakeups.rs` | how fast a release on one side wakes a caller on the other |
//! | `crowd.rs` | tasks and threads that compete for the same permits, live |
//! | `report.rs` | what was measured, and whether it is what was promised |
//!
//! | File | What stands around that |
//! |---|---|
//! | `stage.rs` | the server (`server.rs`), the Rust client and the JVM (`java.rs`, `peer.rs`), and clearing them away |
//! | `control.rs` | what the demo itself looks up |
//! | `gauge.rs` | the number of permits held, counted in Redis by both sides |
//! | `ledger.rs`, `board.rs` | the activity of each worker at a moment, and the picture of it |
//! | `view.rs`, `signals.rs` | the terminal, and Ctrl-C |
//!
//! Without `REDIS_URL` the demo starts a private redis-server and stops it at the end. With `REDIS_URL` it works in that server, cluster
//! (`redis+cluster://`), or replicated set (`redis+replicated://`; or the master's name, and `REDIS_SENTINELS`). `rediss` stands for TLS.
//! The demo uses key names of its own and deletes them at the end. With TLS both sides trust the authorities of the system:
//! `SSL_CERT_FILE` and `JAVA_TOOL_OPTIONS` name others.

mod board;
mod control;
mod crowd;
mod gauge;
mod java;
mod ledger;
mod peer;
mod report;
mod server;
mod signals;
mod stage;
mod view;
mod wakeups;

/// The tests' private servers, and their driver of the Java peer.
#[path = "../../../tests/support/mod.rs"]
mod support;

use std::io::Write;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use futures::FutureExt;

use crate::report::Report;
use crate::signals::{Signal, Signals};
use crate::stage::Stage;
use crate::view::View;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

/// How a part of the demo ended.
enum Ending<T> {
    Done(T),
    Failed(Error),
    /// The panic message has given the reason.
    Panicked,
    Interrupted(Signal),
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut signals = Signals::watch();
    // Nothing is written to the server before the stage is set up, so dropping the unfinished stage clears everything.
    let mut stage = match unless_interrupted(&mut signals, Stage::set_up()).await {
        Ending::Done(stage) => stage,
        ending => return exit_code(&ending),
    };
    let ending = unless_interrupted(&mut signals, show(&mut stage)).await;
    let code = exit_code(&ending);
    if let Err(error) = stage.clear().await {
        complain(&error.to_string());
        if code == ExitCode::SUCCESS {
            return ExitCode::FAILURE;
        }
    }
    code
}

async fn show(stage: &mut Stage) -> Result<()> {
    let mut view = View::new();
    view.line(&format!(
        "One semaphore for Rust (redisson-semaphore {}) and Java (Redisson {})",
        env!("CARGO_PKG_VERSION"),
        java::REDISSON,
    ))?;
    view.line(&stage.versions())?;
    view.line("")?;
    let wakeups = wakeups::measure(stage, &mut view).await?;
    view.line("")?;
    let crowd = crowd::compete(stage, &mut view).await?;
    view.line("")?;
    let report = Report { wakeups, crowd };
    for line in report.table() {
        view.line(&line)?;
    }
    report.verdict()
}

async fn unless_interrupted<T>(
    signals: &mut Signals,
    part: impl Future<Output = Result<T>>,
) -> Ending<T> {
    let ended = tokio::select! {
        biased;
        signal = signals.next() => return Ending::Interrupted(signal),
        ended = AssertUnwindSafe(part).catch_unwind() => ended,
    };
    if let Ok(Ok(done)) = ended {
        return Ending::Done(done);
    }
    // Ctrl-C reaches the JVM and the server as well, and their end may be noticed first.
    match (signals.just_now().await, ended) {
        (Some(signal), _) => Ending::Interrupted(signal),
        (None, Ok(Err(error))) => Ending::Failed(error),
        (None, _) => Ending::Panicked,
    }
}

fn exit_code<T>(ending: &Ending<T>) -> ExitCode {
    match ending {
        Ending::Done(_) => return ExitCode::SUCCESS,
        Ending::Failed(error) => complain(&error.to_string()),
        Ending::Panicked => complain("ended by a panic"),
        Ending::Interrupted(signal) => {
            complain(&format!("interrupted by {}", signal.name));
            return ExitCode::from(signal.exit_code());
        }
    }
    ExitCode::FAILURE
}

/// As `eprintln!`, but without a panic when the reader of standard error has gone.
fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "demo: {text}");
}

/// The wall clock, which both sides share, in microseconds since 1970.
fn now_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}
