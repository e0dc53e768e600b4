//! `rsem`: the semaphores and locks of `redisson-semaphore`, and of Redisson, from a shell.
//!
//! | File | What it holds |
//! |---|---|
//! | `cli.rs`, `connect.rs`, `span.rs` | the command line: commands, options of the connection, times |
//! | `say.rs` | what goes to the standard output |
//! | `exit.rs` | exit statuses, and which failure has which |
//! | `signals.rs` | the signals that `rsem` gets |
//! | `run/` | runs a command while a permit or a lock is held |
//! | `look/` | what stands in Redis: `show`, `watch` |
//! | `doctor/` | is the server fit for it? |
//! | `change.rs` | `set`, `add`, `drain`, `release`, `reclaim`, `unlock` |

mod change;
mod cli;
mod connect;
mod doctor;
mod exit;
mod look;
mod run;
mod say;
mod signals;
mod span;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use tokio::runtime::Builder;

use cli::{Action, Cli};
use exit::Failure;

fn main() -> ExitCode {
    if let Some(status) = run::launcher() {
        return status.into();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(told) => {
            // Help and version come this way, too.
            let status = if told.use_stderr() { exit::USAGE } else { 0 };
            let _ = told.print();
            return status.into();
        }
    };
    let status = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(exit::FAILED, error.to_string()))
        .and_then(|runtime| runtime.block_on(act(cli)));
    let printed = |status| match say::failure() {
        None => Ok(status),
        Some(error) => Err(Failure::new(
            exit::FAILED,
            format!("the standard output: {error}"),
        )),
    };
    match status.and_then(printed) {
        Ok(status) => status.into(),
        Err(failure) => {
            eprintln!("rsem: {}", failure.reason);
            failure.status.into()
        }
    }
}

async fn act(cli: Cli) -> Result<u8, Failure> {
    match cli.action {
        Action::Run(run) => run.carry_out(&cli.connect).await,
        Action::Show(show) => show.carry_out(&cli.connect).await,
        Action::Watch(watch) => watch.carry_out(&cli.connect).await,
        Action::Change(change) => change.carry_out(&cli.connect).await,
        Action::Doctor(doctor) => doctor.carry_out(&cli.connect).await,
        Action::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "rsem", &mut script);
            say::say(String::from_utf8_lossy(&script).trim_end());
            Ok(0)
        }
        Action::Man { directory } => match clap_mangen::generate_to(Cli::command(), &directory) {
            Ok(()) => Ok(0),
            Err(error) => Err(Failure::usage(format!("{}: {error}", directory.display()))),
        },
    }
}
