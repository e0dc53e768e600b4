//! A process that takes one JSON command a line: this program as a contestant, or a JVM.
//!
//! It ends at the end of its input, so it cannot outlive the benchmark.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};
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
    // The process ends when this value is dropped.
    _process: Child,
    commands: mpsc::UnboundedSender<String>,
    waiting: Waiting,
    last_id: AtomicU64,
}

type Output = Lines<BufReader<ChildStdout>>;
/// The calls without an answer, by number; `None` once the process is gone.
type Waiting = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<Value>>>>>;

impl Program {
    /// Starts the `number`-th process of a make and returns when it is connected to Redis at `url`.
    ///
    /// The process has `clients` clients; a JVM always has one. It is pinned to `core`.
    pub(crate) async fn start(
        make: Make,
        number: usize,
        url: &str,
        clients: u64,
        core: Option<usize>,
    ) -> Result<Program> {
        let log = directory().join(format!("{}-{number}.log", make.word()));
        let mut process = command(make, url, clients, core)?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{} does not start: {error}", make.word()))?;
        let mut input = process.stdin.take().ok_or("not piped")?;
        let mut output = BufReader::new(process.stdout.take().ok_or("not piped")?).lines();
        let ready = match timeout(DEADLINE, output.next_line()).await {
            Ok(Ok(Some(line))) => serde_json::from_str::<Value>(&line)?,
            _ => Value::Null,
        };
        if ready["event"] != "ready" {
            return Err(format!("not ready: {ready}: see {}", log.display()).into());
        }
        let (commands, mut to_write) = mpsc::unbounded_channel::<String>();
        tokio::spawn(async move {
            while let Some(line) = to_write.recv().await {
                if input.write_all(line.as_bytes()).await.is_err() {
                    return;
                }
            }
        });
        let waiting = Waiting::new(Mutex::new(Some(HashMap::new())));
        tokio::spawn(deliver(output, Arc::clone(&waiting)));
        Ok(Program {
            pid: process.id().ok_or("ended at once")?,
            log,
            _process: process,
            commands,
            waiting,
            last_id: AtomicU64::new(0),
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends the process a signal: `STOP`, `CONT`, `KILL`.
    pub(crate) fn signal(&self, name: &str) -> Result<()> {
        let mut kill = std::process::Command::new("kill");
        kill.args(["-s", name, &self.pid.to_string()]).status()?;
        Ok(())
    }

    /// Sends a command and waits for its answer, beside other calls; `fields` is a JSON object.
    pub(crate) async fn call(&self, op: &str, mut fields: Value) -> Result<Value> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        fields["id"] = json!(id);
        fields["op"] = json!(op);
        let (sender, answer) = oneshot::channel();
        if let Some(waiting) = self.waiting.lock().expect("never poisoned").as_mut() {
            waiting.insert(id, sender);
        }
        // If the process has ended, the sender is dropped, and the answer says so.
        let _ = self.commands.send(format!("{fields}\n"));
        let answer = match timeout(DEADLINE, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => {
                return Err(format!("a process has ended: see {}", self.log.display()).into());
            }
            Err(_) => return Err("no answer for a long time".into()),
        };
        match answer["error"].as_str() {
            Some(error) => Err(format!("{op}: {error}").into()),
            None => Ok(answer),
        }
    }
}

/// Delivers answers to the waiting callers until the process ends.
async fn deliver(mut output: Output, waiting: Waiting) {
    while let Ok(Some(line)) = output.next_line().await {
        let answer: Value = serde_json::from_str(&line).unwrap_or_default();
        let waiter = answer["id"].as_u64().and_then(|id| {
            let mut waiting = waiting.lock().expect("never poisoned");
            waiting.as_mut()?.remove(&id)
        });
        if let Some(waiter) = waiter {
            let _ = waiter.send(answer);
        }
    }
    *waiting.lock().expect("never poisoned") = None;
}

fn command(make: Make, url: &str, clients: u64, core: Option<usize>) -> Result<Command> {
    let program = match make {
        Make::Redisson => "java".into(),
        _ => std::env::current_exe()?,
    };
    let mut command = match core {
        Some(core) => {
            let mut pinned = Command::new("taskset");
            pinned.args(["-c", &core.to_string()]).arg(program);
            pinned
        }
        None => Command::new(program),
    };
    match make {
        Make::Redisson => command.args(["-cp", &classpath()?, "compat.Peer", "--redis", url]),
        _ => command.args([side::ARGUMENT, make.word(), url, &clients.to_string()]),
    };
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
