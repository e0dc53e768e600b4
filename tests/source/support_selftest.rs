//! The test support itself: servers die with their guards, recorders miss nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::channel::{Channel, Message};
use crate::support::keeper::test_name;
use crate::support::monitor::{self, Monitor};
use crate::support::peer::{JavaPeer, NEWEST};
use crate::support::server::RedisServer;
use crate::support::snapshot::{Snapshot, snapshot, snapshot_all};
use crate::support::waiters::{until, until_linked, until_subscribers};
use redis::AsyncCommands;
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(20);

fn listens(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

#[tokio::test]
async fn a_server_dies_with_its_guard() {
    let server = RedisServer::start().await;
    let (port, dir) = (server.port(), server.directory().to_owned());
    assert!(listens(port) && dir.exists());
    drop(server);
    assert!(!listens(port) && !dir.exists());
}

#[tokio::test]
async fn a_restart_keeps_port_and_an_append_only_file() {
    let mut server = RedisServer::options().appendonly().start().await;
    let port = server.port();
    let _: () = server.connection().await.set("key", 1).await.unwrap();
    server.restart().await;
    let _: i64 = server.connection().await.incr("key", 1).await.unwrap();
    server.kill().await;
    assert!(!listens(port));
    server.restart().await;
    let value: i64 = server.connection().await.get("key").await.unwrap();
    assert_eq!((value, server.port()), (2, port));
}

#[tokio::test]
async fn without_persistence_a_restart_forgets() {
    let mut server = RedisServer::start().await;
    let _: () = server.connection().await.set("key", 1).await.unwrap();
    server.restart().await;
    assert!(
        !server
            .connection()
            .await
            .exists::<_, bool>("key")
            .await
            .unwrap()
    );
}

#[tokio::test]
async fn passwords_and_users_are_asked_for() {
    let server = RedisServer::options()
        .password("secret")
        .user("reader on >pw ~* +get +ping")
        .start()
        .await;
    let open = |url: String| redis::Client::open(url).unwrap();
    let anonymous = open(format!("redis://127.0.0.1:{}", server.port()));
    let mut connection = anonymous.get_multiplexed_async_connection().await.unwrap();
    let refused = connection
        .get::<_, Option<String>>("key")
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Some("NOAUTH"));

    let mut connection = open(server.url())
        .get_multiplexed_async_connection()
        .await
        .unwrap();
    let _: () = connection.set("key", "value").await.unwrap();

    let mut reader = open(server.url_as("reader", "pw"))
        .get_multiplexed_async_connection()
        .await
        .unwrap();
    assert_eq!(reader.get::<_, String>("key").await.unwrap(), "value");
    let refused = reader.set::<_, _, ()>("key", 1).await.unwrap_err();
    assert_eq!(refused.code(), Some("NOPERM"));

    assert_eq!(server.disconnect("reader").await, 1);
    assert!(reader.get::<_, String>("key").await.is_err());
    assert_eq!(connection.get::<_, String>("key").await.unwrap(), "value");
}

#[tokio::test]
async fn a_replica_follows() {
    let primary = RedisServer::options().password("secret").start().await;
    let replica = RedisServer::options().replica_of(&primary).start().await;
    let mut reading = replica.connection().await;
    until_linked(&mut reading).await;
    let _: () = primary
        .connection()
        .await
        .set("key", "value")
        .await
        .unwrap();
    until("the value arrives", PATIENCE, async || {
        reading
            .get::<_, Option<String>>("key")
            .await
            .unwrap()
            .is_some()
    })
    .await;
}

#[tokio::test]
async fn a_frozen_server_answers_after_the_thaw() {
    let mut server = RedisServer::start().await;
    server.freeze();
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    let mut answer = [0; 7];
    stream
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    assert!(stream.read_exact(&mut answer).is_err());
    server.thaw();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
    server.freeze();
    drop(server);
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

#[test]
fn monitor_lines_are_read_with_their_escapes() {
    let line = r#"1700000000.123456 [0 127.0.0.1:5000] "set" "a]b \\ \x41" "" "\t\"""#;
    let command = monitor::Command {
        client: "127.0.0.1:5000".into(),
        name: "SET".into(),
        args: vec!["a]b \\ A".into(), String::new(), "\t\"".into()],
    };
    assert_eq!(monitor::Command::parse(line), Some(command));
    // As Valkey 8.1 writes them.
    for (written, words) in [
        (r#""a"b" "\x" """#, ["a\"b", "\\x", ""]),
        (r#""F\x04\x" "\" """"#, ["F\x04\\x", "\\", "\""]),
    ] {
        let line = format!("1.2 [0 lua] \"get\" {written}");
        let command = monitor::Command::parse(&line).expect(&line);
        assert_eq!(command.args, words, "{line}");
    }
    assert_eq!(monitor::Command::parse("OK"), None);
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

#[tokio::test]
async fn a_java_peer_answers_waits_and_cancels() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let peer = JavaPeer::start(NEWEST, &server.url()).await;
    let set = peer.call("trySetPermits", json!({"name": "s", "permits": 1}));
    let set = set.await.unwrap();
    assert_eq!(set.value, json!(true));
    assert!(set.began > 0 && set.began <= set.ended);

    let two = |name: &str| json!({"name": name, "permits": 2, "mode": "async"});
    let mut pending = peer.begin("acquire", two("s"));
    until_subscribers(&mut connection, "redisson_sc:{s}", 1).await;
    assert!(!pending.is_finished());
    assert_eq!(peer.cancel(pending.id()).await.unwrap().value, json!(true));
    assert_eq!(pending.await.unwrap_err().class, "CancellationException");

    // Another semaphore: Redisson's cancelled waiter takes the next message for itself.
    let mut pending = peer.begin("acquire", two("t"));
    until_subscribers(&mut connection, "redisson_sc:{t}", 1).await;
    peer.call("release", two("t")).await.unwrap();
    until("the acquire has ended", PATIENCE, async || {
        pending.is_finished()
    })
    .await;
    pending.await.unwrap();

    let unknown = peer.call("nonsense", json!({})).await.unwrap_err();
    assert!(!unknown.class.is_empty());
    peer.shutdown().await;
}

#[tokio::test]
async fn calls_of_a_killed_peer_end_with_an_error() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let peer = JavaPeer::start(NEWEST, &server.url()).await;
    let pending = peer.begin("acquire", json!({"name": "s"}));
    until_subscribers(&mut connection, "redisson_sc:{s}", 1).await;
    peer.kill().await;
    assert_eq!(pending.await.unwrap_err().class, "");
    until_subscribers(&mut connection, "redisson_sc:{s}", 0).await;
}
