//! The test support itself: servers die with their guards, recorders miss nothing.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::channel::{Channel, Message};
use crate::support::keeper::test_name;
use crate::support::monitor::Monitor;
use crate::support::server::RedisServer;
use crate::support::snapshot::{Snapshot, snapshot, snapshot_all};
use crate::support::waiters::{until, until_subscribers};
use redis::AsyncCommands;

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

#[tokio::test]
async fn the_monitor_sees_commands_and_scripts_in_order() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let mut monitor = Monitor::start(&server).await;
    let _: () = connection.set("key", "a \"b\"\n").await.unwrap();
    let script = "return redis.call('get', KEYS[1])";
    let _: String = redis::cmd("EVAL")
        .arg(&[script, "1", "key"])
        .query_async(&mut connection)
        .await
        .unwrap();

    let seen = monitor.until_marker().await;
    let described: Vec<_> = seen
        .iter()
        .map(|seen| {
            (
                seen.is_lua(),
                seen.name.as_str(),
                seen.args.last().unwrap().as_str(),
            )
        })
        .collect();
    assert_eq!(
        described,
        [
            (false, "SET", "a \"b\"\n"),
            (false, "EVAL", "key"),
            (true, "GET", "key"),
        ]
    );
    assert_eq!(monitor.until_marker().await, []);
}

#[tokio::test]
async fn channels_are_recorded_up_to_the_marker() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let mut one = Channel::subscribe(&server, "a:1").await;
    let mut all = Channel::pattern(&server, "*").await;
    until_subscribers(&mut connection, "a:1", 1).await;
    for (channel, payload) in [("a:1", "x"), ("b", "y"), ("a:1", "z")] {
        let _: u64 = connection.publish(channel, payload).await.unwrap();
    }
    let message = |channel: &str, payload: &str| Message {
        channel: channel.into(),
        payload: payload.into(),
    };
    assert_eq!(one.next().await, message("a:1", "x"));
    assert_eq!(one.until_marker().await, [message("a:1", "z")]);
    assert_eq!(one.until_marker().await, []);
    let (x, y, z) = (message("a:1", "x"), message("b", "y"), message("a:1", "z"));
    // The other record's markers are messages like any other.
    let mut seen = all.until_marker().await;
    seen.retain(|seen| !seen.channel.starts_with("channel-marker"));
    assert_eq!(seen, [x, y, z]);
}

#[tokio::test]
async fn snapshots_hold_type_value_and_ttl() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let _: () = redis::pipe()
        .cmd("SET")
        .arg(&["text", "1", "PX", "100000"])
        .cmd("HSET")
        .arg(&["hash", "b", "2", "a", "1"])
        .cmd("ZADD")
        .arg(&["zset", "2", "x", "1", "y"])
        .cmd("RPUSH")
        .arg(&["list", "q", "p"])
        .query_async(&mut connection)
        .await
        .unwrap();
    let text = snapshot(&mut connection, "text").await;
    let same = Snapshot {
        kind: "string".into(),
        value: vec!["1".into()],
        ttl: Some(Duration::from_secs(100)),
    };
    assert!(text.matches(&same, Duration::from_secs(30)));
    assert!(!text.matches(&Snapshot { ttl: None, ..same }, Duration::from_secs(30)));

    let all = snapshot_all(&mut connection).await;
    let values: Vec<_> = all
        .iter()
        .map(|(key, seen)| (key.as_str(), seen.value.join(" ")))
        .collect();
    assert_eq!(
        values,
        [
            ("hash", "a=1 b=2".to_owned()),
            ("list", "q p".to_owned()),
            ("text", "1".to_owned()),
            ("zset", "y=1 x=2".to_owned()),
        ]
    );
    assert_eq!(snapshot(&mut connection, "missing").await.kind, "none");
}
