//! Drives the Java peer: a JVM with the real Redisson that takes one JSON command a line.
//!
//! The peer ends at the end of its input, so it dies with the test process.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// A JVM that starts fast and stays small.
const JVM_FLAGS: [&str; 4] = [
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xshare:auto",
    "-Xmx256m",
];

const DEADLINE: Duration = Duration::from_secs(60);

/// The newest version of Redisson.
pub const NEWEST: &str = "4.7.0";

/// All versions that are tested.
pub const SUPPORTED: [&str; 4] = [NEWEST, "3.52.0", "3.27.2", "3.16.8"];

/// The versions that tests take from these: the newest one, or all of them with `REDISSONS=all`.
pub fn versions<'a>(of: &[&'a str]) -> Vec<&'a str> {
    let all = match std::env::var("REDISSONS").as_deref() {
        Ok("all") => true,
        Ok("newest" | "") | Err(_) => false,
        Ok(other) => panic!("REDISSONS is `all` or `newest`, not {other:?}"),
    };
    let wanted = |version: &&str| all || *version == NEWEST;
    of.iter().copied().filter(wanted).collect()
}

/// The result of a call, with its times.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub value: Value,
    /// When the peer began the call, in microseconds since 1970.
    pub began: u64,
    /// When the call had returned.
    pub ended: u64,
}

/// The error that a call threw, or the loss of the peer (then without a class).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerError {
    /// The exception's class.
    pub class: String,
    pub message: String,
}

impl PeerError {
    fn parse(text: &str) -> PeerError {
        let (class, message) = text.split_once(": ").unwrap_or((text, ""));
        PeerError {
            class: class.to_owned(),
            message: message.to_owned(),
        }
    }

    fn gone(reason: &str) -> PeerError {
        PeerError {
            class: String::new(),
            message: reason.to_owned(),
        }
    }
}

impl fmt::Display for PeerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.class, self.message)
    }
}

impl std::error::Error for PeerError {}

pub type CallResult = Result<Answer, PeerError>;

/// The calls without an answer yet; `None` once the peer has gone.
type Waiting = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<CallResult>>>>>;

/// A running peer. Dropping it kills the JVM.
#[derive(Debug)]
pub struct JavaPeer {
    process: Child,
    commands: mpsc::UnboundedSender<String>,
    events: mpsc::UnboundedReceiver<Value>,
    errors: JoinHandle<String>,
    waiting: Waiting,
    last_id: AtomicU64,
}

impl JavaPeer {
    /// Starts a peer with one version of Redisson and returns when it is connected.
    pub async fn start(version: &str, url: &str) -> JavaPeer {
        JavaPeer::start_with(version, url, &[]).await
    }

    /// As [`start`](JavaPeer::start), with more arguments for the peer (`--prefix P`).
    pub async fn start_with(version: &str, url: &str, arguments: &[&str]) -> JavaPeer {
        let mut command = Command::new("java");
        command
            .args(JVM_FLAGS)
            .args(["-cp", &classpath(version), "compat.Peer", "--redis", url])
            .args(arguments);
        JavaPeer::launch(command).await
    }

    /// Starts a peer that carries out the classic recipes with Jedis.
    pub async fn jedis(url: &str) -> JavaPeer {
        let mut command = Command::new("java");
        let class = "compat.recipes.RecipePeer";
        command
            .args(JVM_FLAGS)
            .args(["-cp", &classpath(NEWEST), class, "--redis", url]);
        JavaPeer::launch(command).await
    }

    /// Starts a peer of the same kind, though no JVM: Python with redis-py.
    pub async fn python(url: &str) -> JavaPeer {
        let mut command = Command::new(compat("target/python/bin/python"));
        let program = compat("python/peer.py");
        command.arg("-B").arg(&program).args(["--redis", url]);
        JavaPeer::launch(command).await
    }

    async fn launch(mut command: Command) -> JavaPeer {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("the peer does not start ({error}): run `make setup`"));
        let (commands, commands_to_write) = mpsc::unbounded_channel();
        let (events_read, events) = mpsc::unbounded_channel();
        let waiting = Waiting::new(Mutex::new(Some(HashMap::new())));
        tokio::spawn(write(
            process.stdin.take().expect("piped"),
            commands_to_write,
        ));
        tokio::spawn(read(
            process.stdout.take().expect("piped"),
            events_read,
            waiting.clone(),
        ));
        let errors = tokio::spawn(collect(process.stderr.take().expect("piped")));
        let mut peer = JavaPeer {
            process,
            commands,
            events,
            errors,
            waiting,
            last_id: AtomicU64::new(0),
        };
        let ready = timeout(DEADLINE, peer.event())
            .await
            .expect("the peer is ready in time");
        match ready {
            Some(event) if event["event"] == "ready" => peer,
            other => panic!(
                "the peer is not ready, but says {other:?}:\n{}",
                peer.into_errors().await
            ),
        }
    }

    /// Sends a command. The call goes on whether the caller waits for its result or not.
    /// `args` is a JSON object; `id` and `op` are added to it.
    pub fn begin(&self, op: &str, args: Value) -> PendingCall {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let mut command = args;
        command["id"] = json!(id);
        command["op"] = json!(op);
        let (sender, receiver) = oneshot::channel();
        if let Some(waiting) = self.waiting.lock().expect("never poisoned").as_mut() {
            waiting.insert(id, sender);
        }
        // If the peer has gone, the sender is dropped, and the result says so.
        let _ = self.commands.send(command.to_string());
        PendingCall {
            id,
            receiver,
            result: None,
        }
    }

    /// Sends a command and waits for its result.
    pub async fn call(&self, op: &str, args: Value) -> CallResult {
        self.begin(op, args).await
    }

    /// Cancels a call that has begun. The call's own result says how it ended.
    pub async fn cancel(&self, id: u64) -> CallResult {
        self.call("cancel", json!({ "target": id })).await
    }

    /// The next line that is no answer to a call; `None` when the peer has gone.
    pub async fn event(&mut self) -> Option<Value> {
        self.events.recv().await
    }

    /// Ends the peer by `kill -9`: none of its locks or permits is released.
    pub async fn kill(mut self) {
        self.process.kill().await.expect("the peer is our child");
    }

    /// Ends the peer in an orderly way.
    pub async fn shutdown(mut self) {
        let _ = self.call("shutdown", json!({})).await;
        timeout(DEADLINE, self.process.wait())
            .await
            .expect("the peer ends in time")
            .expect("the peer is our child");
    }

    async fn into_errors(mut self) -> String {
        let _ = self.process.kill().await;
        (&mut self.errors).await.unwrap_or_default()
    }
}

/// A call under way.
#[derive(Debug)]
pub struct PendingCall {
    id: u64,
    receiver: oneshot::Receiver<CallResult>,
    /// The result that [`is_finished`](PendingCall::is_finished) has seen already.
    result: Option<CallResult>,
}

impl PendingCall {
    /// The call's number, for [`JavaPeer::cancel`].
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether the result is there.
    pub fn is_finished(&mut self) -> bool {
        if self.result.is_none() {
            self.result = match self.receiver.try_recv() {
                Ok(result) => Some(result),
                Err(oneshot::error::TryRecvError::Empty) => None,
                Err(oneshot::error::TryRecvError::Closed) => Some(Err(gone())),
            };
        }
        self.result.is_some()
    }
}

impl Future for PendingCall {
    type Output = CallResult;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<CallResult> {
        if let Some(result) = self.result.take() {
            return Poll::Ready(result);
        }
        Pin::new(&mut self.receiver)
            .poll(context)
            .map(|received| received.unwrap_or_else(|_| Err(gone())))
    }
}

fn gone() -> PeerError {
    PeerError::gone("the peer has ended without an answer")
}

/// The path of a file in `compat`, at the root of the repository. The demo's package is further down.
pub fn compat(file: &str) -> PathBuf {
    let mut places = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let compat = places.find_map(|place| Some(place.join("compat")).filter(|dir| dir.is_dir()));
    compat.expect("a checkout has it").join(file)
}

/// The classpath that `compat/build.sh` has written for a version.
fn classpath(version: &str) -> String {
    let file = compat(&format!("target/classpath-{version}.txt"));
    match std::fs::read_to_string(&file) {
        Ok(classpath) => classpath.trim().to_owned(),
        Err(error) => panic!("{}: {error}: run `make setup`", file.display()),
    }
}

async fn write(mut input: ChildStdin, mut commands: mpsc::UnboundedReceiver<String>) {
    while let Some(mut command) = commands.recv().await {
        command.push('\n');
        if input.write_all(command.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn read(output: ChildStdout, events: mpsc::UnboundedSender<Value>, waiting: Waiting) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str::<Value>(&line) {
            Ok(answer) if answer["id"].is_u64() => deliver(&answer, &waiting),
            Ok(event) => drop(events.send(event)),
            Err(_) => drop(events.send(json!({ "event": "text", "text": line }))),
        }
    }
    *waiting.lock().expect("never poisoned") = None;
}

fn deliver(answer: &Value, waiting: &Waiting) {
    let id = answer["id"].as_u64().expect("looked at before");
    let caller = waiting
        .lock()
        .expect("never poisoned")
        .as_mut()
        .and_then(|waiting| waiting.remove(&id));
    let result = match answer["error"].as_str() {
        Some(error) => Err(PeerError::parse(error)),
        None => Ok(Answer {
            value: answer["ok"].clone(),
            began: answer["began"].as_u64().unwrap_or_default(),
            ended: answer["ended"].as_u64().unwrap_or_default(),
        }),
    };
    if let Some(caller) = caller {
        let _ = caller.send(result);
    }
}

async fn collect(mut errors: ChildStderr) -> String {
    let mut bytes = Vec::new();
    let _ = errors.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}
