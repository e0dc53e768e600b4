//! The examples as programs, on a private server: they say what they do, and leave nothing taken.

#[path = "../../../tests/support/mod.rs"]
mod support;

use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use redis::AsyncCommands;
use rustix::process::{Pid, Signal, kill_process};
use support::server::RedisServer;
use support::waiters::until;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(60);

fn command(program: &str, url: &str) -> Command {
    let mut command = Command::new(program);
    command.env("REDIS_URL", url).kill_on_drop(true);
    command
}

/// The output of a program that ends by itself, and well.
async fn output(program: &str, server: &RedisServer) -> String {
    let output = command(program, &server.url()).output();
    let output = timeout(LIMIT, output).await.expect("it ends").unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// A service under way.
struct Service {
    child: Child,
    address: String,
}

impl Service {
    /// Starts the service on a port that was free a moment ago, or on another one if a second program was faster.
    async fn start(program: &str, server: &RedisServer) -> Service {
        loop {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = free.local_addr().unwrap().to_string();
            drop(free);
            let mut command = command(program, &server.url());
            command.env("LISTEN", &address).stderr(Stdio::null());
            let mut child = command.stdout(Stdio::null()).spawn().unwrap();
            let mut gone = false;
            until("it listens, or is gone", LIMIT, async || {
                gone = child.try_wait().unwrap().is_some();
                gone || TcpStream::connect(&address).await.is_ok()
            })
            .await;
            if !gone {
                return Service { child, address };
            }
        }
    }

    /// The status of the answer.
    async fn get(&self, path: &str) -> u16 {
        get(&self.address, path).await
    }

    async fn ends_by(mut self, signal: Signal) {
        let pid = self.child.id().expect("it runs");
        let pid = Pid::from_raw(pid.try_into().unwrap()).expect("not zero");
        kill_process(pid, signal).unwrap();
        let ended = timeout(LIMIT, self.child.wait()).await.expect("it ends");
        assert!(ended.unwrap().success());
    }
}

async fn get(address: &str, path: &str) -> u16 {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    timeout(LIMIT, read).await.expect("an answer").unwrap();
    let status = answer.split(' ').nth(1).expect("a status");
    status.parse().expect("a number")
}

#[tokio::test]
async fn the_limit_of_the_readme_is_shared_by_replicas() {
    let program = env!("CARGO_BIN_EXE_limited");
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let one = Service::start(program, &server).await;
    let other = Service::start(program, &server).await;
    let seats: i64 = control.get("seats").await.unwrap();
    assert_eq!(seats, 8);
    let both = async |status| {
        until(&format!("both answer {status}"), LIMIT, async || {
            (one.get("/").await, other.get("/").await) == (status, status)
        })
        .await;
    };
    both(200).await;
    // All eight are taken, as if by others.
    let _: i64 = control.decr("seats", 8).await.unwrap();
    both(429).await;
    let _: i64 = control.incr("seats", 1).await.unwrap();
    both(200).await;
    one.ends_by(Signal::INT).await;
    other.ends_by(Signal::TERM).await;
    let seats: i64 = control.get("seats").await.unwrap();
    assert_eq!(seats, 1);
}

#[tokio::test]
async fn a_service_starts_without_redis_and_ends_with_its_requests() {
    let mut server = RedisServer::start().await;
    server.stop().await;
    let service = Service::start(env!("CARGO_BIN_EXE_service"), &server).await;
    assert_eq!(service.get("/ready").await, 503);
    server.restart().await;
    until("it is ready", LIMIT, async || {
        service.get("/ready").await == 200
    })
    .await;
    let mut control = server.connection().await;
    let mut reports = async || {
        let free: Option<i64> = control.get("reports").await.unwrap();
        free
    };
    until("the limit is set", LIMIT, async || {
        reports().await == Some(2)
    })
    .await;

    let address = service.address.clone();
    let report = tokio::spawn(async move { get(&address, "/report").await });
    // A machine that is busy may see it only when it is done.
    until("a report is under way", LIMIT, async || {
        reports().await == Some(1) || report.is_finished()
    })
    .await;
    // Its probe does not wait for reports.
    assert_eq!(service.get("/ready").await, 200);
    service.ends_by(Signal::TERM).await;
    assert_eq!(report.await.unwrap(), 200);
    assert_eq!(reports().await, Some(2));
}

#[tokio::test]
async fn a_worker_has_a_higher_token_each_time() {
    let program = env!("CARGO_BIN_EXE_worker");
    let server = RedisServer::start().await;
    for token in 1..=2 {
        let told = output(program, &server).await;
        assert_eq!(told, format!("written with token {token}\n"));
    }
    let mut control = server.connection().await;
    assert!(!control.exists::<_, bool>("ledger").await.unwrap());
}

#[tokio::test]
async fn permits_with_ids_are_given_back() {
    let server = RedisServer::start().await;
    let told = output(env!("CARGO_BIN_EXE_permits"), &server).await;
    let lines = ["the job is done", "1 held for ten minutes"];
    assert_eq!(told.lines().collect::<Vec<_>>(), lines);
    let mut control = server.connection().await;
    let free: i64 = control.get("example:jobs").await.unwrap();
    assert_eq!(free, 2);
}

#[tokio::test]
async fn parties_meet_at_a_latch() {
    let program = env!("CARGO_BIN_EXE_latch");
    let server = RedisServer::start().await;
    for _ in 0..2 {
        let told = output(program, &server).await;
        let mut lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines.pop(), Some("all parts are done"));
        lines.sort_unstable();
        let parts = ["part 1 is done", "part 2 is done", "part 3 is done"];
        assert_eq!(lines, parts);
    }
}

#[tokio::test]
async fn recipes_leave_nobody_holding_anything() {
    let server = RedisServer::start().await;
    let told = output(env!("CARGO_BIN_EXE_recipes"), &server).await;
    let what: Vec<_> = told
        .lines()
        .filter_map(|line| line.split(":").next())
        .collect();
    assert_eq!(what, ["timestamp", "fair", "set", "slot", "lock"]);
    let mut control = server.connection().await;
    let mut keys: Vec<String> = control.keys("*").await.unwrap();
    // The fair semaphore's count of all permits stays, and so do the records of the last calls.
    keys.retain(|key| !key.starts_with("redisson_sc_recipe_once:"));
    assert_eq!(keys, ["example:remote:counter"]);
}

#[tokio::test]
async fn a_trace_tells_how_long_a_job_waited_and_held() {
    let server = RedisServer::start().await;
    let told = output(env!("CARGO_BIN_EXE_traced"), &server).await;
    let jobs = attributes(&told, "import", "SpanId");
    for name in ["wait", "hold"] {
        let mut parents = attributes(&told, name, "ParentSpanId");
        parents.sort_by_key(|id| jobs.iter().position(|job| job == id));
        assert_eq!(parents, jobs, "{told}");
    }
    let seats = told.matches("name: String(Owned(\"imports\"))").count();
    assert_eq!(seats, 4, "{told}");
}

/// This attribute of all spans with this name, as the exporter prints them.
fn attributes<'a>(told: &'a str, span: &str, attribute: &str) -> Vec<&'a str> {
    let mut name = "";
    let told = told.lines().filter_map(|line| line.split_once(": "));
    told.filter_map(|(key, value)| match key.trim() {
        "Name" => {
            name = value;
            None
        }
        key if key == attribute && name == span => Some(value),
        _ => None,
    })
    .collect()
}
