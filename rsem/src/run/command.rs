//! The command: its start, the signals it gets, and its end.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::Child;

use super::hold::Hold;
use crate::exit::{self, Failure};
use crate::signals::Received;

/// How `rsem` is called by itself, in the process that becomes the command.
const LAUNCHER: &str = "__launch";

/// A command under way.
pub(crate) struct Command {
    child: Child,
    /// All of its process group gets signals. Not with a terminal: a group of its own would be in the background there.
    group: bool,
}

impl Command {
    pub(crate) fn start(words: &[OsString], hold: &Hold) -> Result<Command, Failure> {
        let group = File::open("/dev/tty").is_err();
        let mut command = std::process::Command::new(own_program());
        command
            .arg(LAUNCHER)
            .arg(std::process::id().to_string())
            .args(words);
        // The variables of an outer command are about another lock.
        for variable in ["RSEM_NAME", "RSEM_PERMITS", "RSEM_TOKEN"] {
            command.env_remove(variable);
        }
        command.envs(hold.environment());
        if group {
            command.process_group(0);
        }
        let child = tokio::process::Command::from(command)
            .spawn()
            .map_err(|error| {
                Failure::new(exit::NOT_RUNNABLE, format!("{:?}: {error}", words[0]))
            })?;
        Ok(Command { child, group })
    }

    /// The exit status as a shell counts it. The future may be dropped and called again.
    pub(crate) async fn ended(&mut self) -> Result<u8, Failure> {
        let status = self.child.wait().await;
        status.map(shell_status).map_err(|error| {
            Failure::new(exit::FAILED, format!("waiting for the command: {error}"))
        })
    }

    /// Passes on a signal that `rsem` got.
    pub(crate) fn hand_on(&self, received: Received) {
        // The terminal has sent the signal to the command, too, as it is in the same group.
        if (self.group || received.sent)
            && let Some(signal) = Signal::from_named_raw(received.signal)
        {
            self.signal(signal);
        }
    }

    pub(crate) fn end(&self) {
        self.signal(Signal::TERM);
        // A stopped process handles TERM only after CONT.
        self.signal(Signal::CONT);
    }

    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // The command has no id any more once its end has been seen.
        let Some(id) = self
            .child
            .id()
            .and_then(|id| Pid::from_raw(id.cast_signed()))
        else {
            return;
        };
        // The command may end at any moment, so a failure means nothing.
        let _ = if self.group {
            kill_process_group(id, signal)
        } else {
            kill_process(id, signal)
        };
    }
}

fn shell_status(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(u8::MAX),
        (None, Some(signal)) => exit::of_signal(signal),
        (None, None) => exit::FAILED,
    }
}

/// The file may have been replaced since the start; this is what runs.
fn own_program() -> OsString {
    if cfg!(target_os = "linux") {
        return "/proc/self/exe".into();
    }
    std::env::current_exe().map_or_else(|_| "rsem".into(), OsString::from)
}

/// Becomes the command, if that is what this process was started for; returns the status if it can't.
///
/// Only the process itself can ask the kernel for a signal at the death of its parent.
pub(crate) fn launcher() -> Option<u8> {
    let mut words = std::env::args_os().skip(1);
    if words.next()? != LAUNCHER {
        return None;
    }
    let parent = words.next()?;
    let program = words.next()?;
    #[cfg(target_os = "linux")]
    if !die_with(&parent) {
        return Some(exit::of_signal(Signal::TERM.as_raw()));
    }
    let error = std::process::Command::new(&program).args(words).exec();
    eprintln!("rsem: {}: {error}", program.display());
    Some(match error.kind() {
        std::io::ErrorKind::NotFound => exit::NOT_FOUND,
        _ => exit::NOT_RUNNABLE,
    })
}

/// `false` if the parent has died already.
#[cfg(target_os = "linux")]
fn die_with(parent: &std::ffi::OsStr) -> bool {
    // Refused by some sandboxes: then the command may outlive `rsem`.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
    let now = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().to_string());
    // A parent of another namespace has no number here.
    now.is_none_or(|now| parent == now.as_str())
}
