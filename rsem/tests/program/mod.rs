//! `rsem` as a program: started, written to, waited for.
#![allow(dead_code, unreachable_pub)]

pub mod terminal;

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(60);

/// A program that has ended.
#[derive(Debug)]
pub struct Ended {
    pub status: i32,
    pub out: String,
    pub err: String,
}

/// `rsem` under way; killed when dropped.
pub struct Program {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// In front of a program: it hears the signals that are ignored where the tests run in the background.
pub const WITH_SIGNALS: [&str; 2] = ["env", "--default-signal=HUP,INT,QUIT,TERM"];

/// Without a terminal, whatever the tests have, and without settings from the environment.
pub fn command(url: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("setsid");
    command
        .args(WITH_SIGNALS)
        .arg(env!("CARGO_BIN_EXE_rsem"))
        .args(arguments);
    for variable in [
        "REDIS_USER",
        "REDIS_PASSWORD",
        "REDISCLI_AUTH",
        "RSEM_PREFIX",
    ] {
        command.env_remove(variable);
    }
    command.env("REDIS_URL", url);
    command.kill_on_drop(true);
    command
}

impl Program {
    pub fn start(url: &str, arguments: &[&str]) -> Program {
        Program::of(command(url, arguments))
    }

    pub fn of(mut command: Command) -> Program {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("rsem starts");
        Program {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().expect("it is piped")),
            child,
        }
    }

    /// The next line that it, or its command, prints.
    pub async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = timeout(PATIENCE, self.output.read_line(&mut line)).await;
        read.expect("a line comes").expect("it can be read");
        line.trim_end().to_owned()
    }

    pub async fn write(&mut self, text: &str) {
        let input = self.input.as_mut().expect("it is open");
        input
            .write_all(text.as_bytes())
            .await
            .expect("somebody reads");
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.id(), signal).expect("it runs");
    }

    pub fn id(&self) -> Pid {
        let id = self.child.id().expect("it runs");
        Pid::from_raw(id.cast_signed()).expect("a process id")
    }

    /// Its input is closed, and what it and its command still print is read.
    pub async fn ended(mut self) -> Ended {
        drop(self.input.take());
        let mut errors = self.child.stderr.take().expect("it is piped");
        let (mut out, mut err) = (String::new(), String::new());
        let all = async {
            tokio::join!(
                self.output.read_to_string(&mut out),
                errors.read_to_string(&mut err)
            )
        };
        let (first, second) = timeout(PATIENCE, all).await.expect("it ends");
        first.and(second).expect("text");
        let status: ExitStatus = self.child.wait().await.expect("it ends");
        Ended {
            status: status.code().expect("no signal ends rsem itself"),
            out,
            err,
        }
    }
}

/// Runs it to its end.
pub async fn rsem(url: &str, arguments: &[&str]) -> Ended {
    Program::start(url, arguments).ended().await
}
