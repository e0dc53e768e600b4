//! `rsem run`: runs a command while it holds a permit or a lock.
//!
//! | File | What it holds |
//! |---|---|
//! | `mod.rs` | the order of things: wait, run, give back |
//! | `hold.rs` | what is held: permits, or a lock |
//! | `command.rs` | the command: its start, the signals it gets, and its end |

mod command;
mod hold;

use std::future::Future;
use std::time::Duration;

use clap::Args;
use redisson_semaphore::{Client, Error};
use tokio::time::{Instant, sleep, sleep_until};

use crate::connect::Connect;
use crate::exit::{self, Failure};
use crate::span;

use crate::signals::Signals;
use command::Command;
pub(crate) use command::launcher;
use hold::Hold;

/// A terminal or a supervisor signals all processes at once, but not all get the signal at the same time.
const SAME_SIGNAL: Duration = Duration::from_secs(1);

/// Run a command while a permit or a lock is held
///
/// Waits, runs COMMAND, gives back, and ends with the status of COMMAND.
///
/// Signals (HUP, INT, QUIT, TERM, USR1, USR2, ALRM, CONT, WINCH) are handed on to COMMAND. Without a terminal COMMAND is a
/// process group of its own, and all of it gets them; with one it shares the group of `rsem`, so that Ctrl-C, Ctrl-Z and
/// reading from the terminal work as if it had been started without `rsem`. When `rsem` itself is killed COMMAND is sent
/// TERM (on Linux).
///
/// A lock can be lost: Redis is away for longer than --lock-timeout, or somebody forces it open. Permits can be lost, too: Redis
/// is away for longer than --lock-timeout. Then COMMAND is sent TERM, after --grace KILL, and the status is 76. When `rsem`
/// itself is killed by KILL, the lock or the permits come back after --lock-timeout.
///
/// COMMAND finds RSEM_NAME in its environment, and RSEM_PERMITS or, with --fenced, RSEM_TOKEN.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("target").required(true)))]
pub(crate) struct Run {
    /// The semaphore that the permits are taken from
    #[arg(short, long, value_name = "NAME", group = "target")]
    semaphore: Option<String>,

    /// The lock that is taken
    #[arg(short, long, value_name = "NAME", group = "target")]
    lock: Option<String>,

    /// How many permits
    #[arg(short, long, value_name = "NUMBER", default_value_t = 1, conflicts_with = "lock",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(redisson_semaphore::MAX_PERMITS)))]
    permits: u32,

    /// Set the semaphore to so many permits if it does not exist
    #[arg(long, value_name = "PERMITS", conflicts_with = "lock")]
    create: Option<u32>,

    /// Take a fencing token along with the lock (getFencedLock in Java): RSEM_TOKEN
    #[arg(long, conflicts_with_all = ["semaphore", "permits", "create"])]
    fenced: bool,

    /// How long to wait for it at the most; without it, for as long as it takes
    #[arg(short, long, value_name = "TIME", value_parser = span::parse)]
    wait: Option<Duration>,

    /// Don't wait: --wait 0
    #[arg(short, long, conflicts_with = "wait")]
    nonblock: bool,

    /// The status when it could not be had in time
    #[arg(short = 'E', long, value_name = "STATUS", default_value_t = exit::NOT_IN_TIME)]
    conflict_exit_code: u8,

    /// How long the lock or the permits stay taken when this process is gone. That is renewed every third of this
    #[arg(long, value_name = "TIME", value_parser = span::parse, default_value = "30s")]
    lock_timeout: Duration,

    /// From TERM to KILL, when the lock or the permits are lost
    #[arg(long, value_name = "TIME", value_parser = span::parse, default_value = "10s")]
    grace: Duration,

    /// The command to run, and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<std::ffi::OsString>,
}

impl Run {
    pub(crate) async fn carry_out(mut self, connect: &Connect) -> Result<u8, Failure> {
        if self.nonblock {
            self.wait = Some(Duration::ZERO);
        }
        let mut signals = Signals::watch()?;
        let builder = connect.builder()?.lock_watchdog_timeout(self.lock_timeout);
        let client = match unless_ended(&mut signals, builder.connect()).await {
            Ok(connected) => connected?,
            Err(signal) => return Ok(exit::of_signal(signal)),
        };
        let status = self.with(&client, connect, &mut signals).await;
        // A grant to a caller that has gone is still to be given back.
        match unless_ended_again(&mut signals, client.shutdown()).await {
            Some(Ok(())) => {}
            Some(Err(error)) => eprintln!("rsem: {error}"),
            None => eprintln!("rsem: what was held may stay taken: Redis has not answered yet"),
        }
        status
    }

    async fn with(
        &self,
        client: &Client,
        connect: &Connect,
        signals: &mut Signals,
    ) -> Result<u8, Failure> {
        let taken = match unless_ended(signals, self.take(client, connect.response_timeout)).await {
            Ok(taken) => taken?,
            Err(signal) => return Ok(exit::of_signal(signal)),
        };
        let Some(hold) = taken else {
            eprintln!("rsem: {:?} was not to be had in time", self.name());
            return Ok(self.conflict_exit_code);
        };
        let (status, lost) = match Command::start(&self.command, &hold) {
            Ok(command) => self.watch(command, &hold, signals).await?,
            Err(failure) => {
                give_back(hold, signals).await;
                return Err(failure);
            }
        };
        if lost {
            return Ok(exit::LOST);
        }
        // The command has ended, but without its lock or permits it may have gone wrong all the same.
        Ok(if give_back(hold, signals).await {
            status
        } else {
            exit::LOST
        })
    }

    /// `None` when the time has run out.
    async fn take(
        &self,
        client: &Client,
        response_timeout: Duration,
    ) -> Result<Option<Hold>, Failure> {
        let take = async {
            match (&self.semaphore, &self.lock) {
                (Some(name), _) => {
                    Hold::permits(client, name, self.permits, self.create, self.wait).await
                }
                (_, Some(name)) => Hold::lock(client, name, self.fenced, self.wait).await,
                _ => unreachable!("one of them is required"),
            }
        };
        let Some(wait) = self.wait else {
            return Ok(take.await?);
        };
        // The reply may take that much longer than the wait. The retry window is for callers without a time limit.
        match tokio::time::timeout(wait.saturating_add(response_timeout), take).await {
            Ok(taken) => Ok(taken?),
            Err(_) => Err(Failure::new(
                exit::REDIS_AWAY,
                format!(
                    "{:?}: Redis did not answer within the wait and {response_timeout:?}",
                    self.name()
                ),
            )),
        }
    }

    /// Waits until the command has ended. Returns its status, and whether the hold was lost meanwhile.
    async fn watch(
        &self,
        mut command: Command,
        hold: &Hold,
        signals: &mut Signals,
    ) -> Result<(u8, bool), Failure> {
        let mut kill_at = None;
        loop {
            tokio::select! {
                biased;
                status = command.ended() => return Ok((status?, kill_at.is_some())),
                signal = signals.next() => command.hand_on(signal),
                () = hold.lost(), if kill_at.is_none() => {
                    eprintln!("rsem: {hold} was lost: ending the command");
                    command.end();
                    kill_at = Some(Instant::now() + self.grace);
                }
                () = sleep_until(kill_at.unwrap_or_else(Instant::now)), if kill_at.is_some() => {
                    eprintln!("rsem: the command goes on after {}: killing it", span::show(self.grace));
                    command.kill();
                    return Ok((command.ended().await?, true));
                }
            }
        }
    }

    fn name(&self) -> &str {
        self.semaphore
            .as_ref()
            .or(self.lock.as_ref())
            .map_or("", String::as_str)
    }
}

/// Releases the hold, and returns `false` if it was lost. Any other error is printed and leaves the command's status as it is.
async fn give_back(hold: Hold, signals: &mut Signals) -> bool {
    let what = hold.to_string();
    match unless_ended_again(signals, hold.give_back()).await {
        Some(Ok(())) | None => true,
        Some(Err(error @ Error::NotHeld { .. })) => {
            eprintln!("rsem: {what} was lost before the command had ended: {error}");
            false
        }
        Some(Err(error)) => {
            eprintln!("rsem: {what} may stay taken: {error}");
            true
        }
    }
}

/// The outcome of `future`, or the signal that ends the waiting for it.
async fn unless_ended<T>(signals: &mut Signals, future: impl Future<Output = T>) -> Result<T, i32> {
    tokio::select! {
        biased;
        signal = signals.ending() => Err(signal),
        output = future => Ok(output),
    }
}

/// The same for the final steps. The signal that has just ended the command or the wait does not end them: only a later signal
/// does, and then the result is `None`.
async fn unless_ended_again<T>(
    signals: &mut Signals,
    future: impl Future<Output = T>,
) -> Option<T> {
    let again = async {
        sleep(SAME_SIGNAL).await;
        signals.forget();
        signals.ending().await
    };
    tokio::select! {
        biased;
        output = future => Some(output),
        _ = again => None,
    }
}

#[cfg(test)]
mod tests {
    use signal_hook::consts::SIGINT;

    use super::*;
    use crate::signals::Received;

    #[tokio::test(start_paused = true)]
    async fn what_is_owed_is_not_cut_short_by_the_signal_that_ended_the_command() {
        let (sender, mut signals) = Signals::by_hand();
        let interrupt = Received {
            signal: SIGINT,
            sent: false,
        };
        let press_after = async |wait: Duration| {
            sleep(wait).await;
            sender.send(interrupt).unwrap();
            std::future::pending::<()>().await
        };
        let owed = unless_ended_again(&mut signals, sleep(SAME_SIGNAL * 10));
        let told = tokio::select! {
            told = owed => told,
            () = press_after(SAME_SIGNAL / 2) => unreachable!("it has no end"),
        };
        assert_eq!(told, Some(()), "the same key press");
        let owed = unless_ended_again(&mut signals, sleep(SAME_SIGNAL * 10));
        let told = tokio::select! {
            told = owed => told,
            () = press_after(SAME_SIGNAL * 2) => unreachable!("it has no end"),
        };
        assert_eq!(told, None, "another one");
    }
}
