//! The test support itself: servers die with their guards.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::keeper::test_name;
use crate::support::server::RedisServer;
use crate::support::waiters::until;

const PATIENCE: Duration = Duration::from_secs(20);

fn listens(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

/// Runs itself a second time, in a process that holds a server and is then killed.
#[tokio::test]
async fn a_server_dies_with_a_killed_test_process() {
    const HOLDER: &str = "SUPPORT_SELFTEST_HOLDS_A_SERVER";
    if std::env::var_os(HOLDER).is_some() {
        let server = RedisServer::start().await;
        println!(
            "\nholding {} {}",
            server.port(),
            server.directory().display()
        );
        return std::future::pending().await;
    }
    let itself = test_name(module_path!(), "a_server_dies_with_a_killed_test_process");
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &itself])
        .arg("--nocapture")
        .env(HOLDER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let held = lines
        .map(|line| line.unwrap())
        .find(|line| line.starts_with("holding"))
        .unwrap();
    let held: Vec<&str> = held.split(' ').collect();
    let (port, dir) = (held[1].parse().unwrap(), Path::new(held[2]));
    assert!(listens(port) && dir.exists());
    holder.kill().unwrap();
    holder.wait().unwrap();
    until("server and directory are gone", PATIENCE, async || {
        !listens(port) && !dir.exists()
    })
    .await;
}
