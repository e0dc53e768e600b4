//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::change::Change;
use crate::connect::Connect;
use crate::doctor::Doctor;
use crate::exit;
use crate::look::show::Show;
use crate::look::watch::Watch;
use crate::run::Run;

/// Semaphores and locks that are shared through Redis with services in Rust and Java (Redisson): run commands under
/// them, look at them, change them.
#[derive(Debug, Parser)]
#[command(name = "rsem", version, after_help = exit::TABLE, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) connect: Connect,

    #[command(subcommand)]
    pub(crate) action: Action,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    Run(Run),
    Show(Show),
    Watch(Watch),
    #[command(flatten)]
    Change(Change),
    Doctor(Doctor),
    /// Print the completions of a shell
    ///
    /// bash: rsem completions bash > /etc/bash_completion.d/rsem
    Completions {
        shell: Shell,
    },
    /// Write the manual pages, one for each command
    Man {
        /// Where to: rsem.1, rsem-run.1, ...
        directory: PathBuf,
    },
}
