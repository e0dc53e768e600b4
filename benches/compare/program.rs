//! A process that takes one JSON command a line: this program as a contestant, or a JVM.
//!
//! It ends at the end of its input, so it cannot outlive the benchmark.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::contestant::Make;
use crate::{Result, side};

/// The version of Redisson that is compared.
pub(crate) const REDISSON: &str = "4.7.0";

/// Longer than any command takes.
const DEADLINE: Duration = Duration::from_secs(300);

/// Where the benchmark leaves its files.
pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/bench")
}

pub(crate) struct Program {
    pid: u32,
    log: PathBuf,
    // Ends with the program's owner.
    _process: Child,
    channel: Mutex<Channel>,
}

struct Channel {
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Program {
    /// Starts the `number`-th process of a make and returns when it is connected to Redis at `url`.
    pub(crate) async fn start(make: Make, number: usize, url: &str) -> Result<Program> {
        let log = directory().join(format!("{}-{number}.log", make.word()));
        let mut process = command(make, url)?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{} does not start: {error}", make.word()))?;
        let program = Program {
            pid: process.id().ok_or("ended at once")?,
            log,
            channel: Mutex::new(Channel {
                input: process.stdin.take().ok_or("not piped")?,
                output: BufReader::new(process.stdout.take().ok_or("not piped")?).lines(),
            }),
            _process: process,
        };
        let ready = program.line(&mut *program.channel.lock().await).await?;
        if ready["event"] != "ready" {
            return Err(format!("not ready: {ready}").into());
        }
        Ok(program)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends a command and waits for its answer; `fields` is a JSON object.
    pub(crate) async fn call(&self, op: &str, mut fields: Value) -> Result<Value> {
        fields["id"] = json!(1);
        fields["op"] = json!(op);
        let mut channel = self.channel.lock().await;
        let line = format!("{fields}\n");
        channel.input.write_all(line.as_bytes()).await?;
        let answer = self.line(&mut channel).await?;
        match answer["error"].as_str() {
            Some(error) => Err(format!("{op}: {error}").into()),
            None => Ok(answer),
        }
    }

    async fn line(&self, channel: &mut Channel) -> Result<Value> {
        match timeout(DEADLINE, channel.output.next_line()).await {
            Ok(Ok(Some(line))) => Ok(serde_json::from_str(&line)?),
            Ok(_) => Err(format!("a process has ended: see {}", self.log.display()).into()),
            Err(_) => Err("no answer for a long time".into()),
        }
    }
}

fn command(make: Make, url: &str) -> Result<Command> {
    if make == Make::Redisson {
        let mut command = Command::new("java");
        command.args(["-cp", &classpath()?, "compat.Peer", "--redis", url]);
        return Ok(command);
    }
    let mut command = Command::new(std::env::current_exe()?);
    command.args([side::ARGUMENT, make.word(), url]);
    Ok(command)
}

fn classpath() -> Result<String> {
    let file = format!(
        "{}/compat/target/classpath-{REDISSON}.txt",
        env!("CARGO_MANIFEST_DIR")
    );
    let classpath = std::fs::read_to_string(&file)
        .map_err(|error| format!("{file}: {error}: run `make setup`"))?;
    Ok(classpath.trim().to_owned())
}
