//! `rsem run`: statuses, signals, and what is held while the command runs.

mod program;
#[path = "../../tests/support/mod.rs"]
mod support;

use program::{Program, rsem};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use rustix::process::Signal;
use support::clients::LIMIT;
use support::monitor::Monitor;
use support::server::RedisServer;
use support::waiters::{channel, until, until_subscribers};

async fn available(connection: &mut MultiplexedConnection, name: &str) -> Option<i64> {
    connection.get(name).await.expect("a number")
}

#[tokio::test]
async fn the_permits_are_held_while_the_command_runs_and_its_status_is_handed_on() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let script = "echo $RSEM_NAME $RSEM_PERMITS; read line; echo got $line; exit 41";
    let arguments = [
        "run", "-s", "seats", "-p", "2", "--create", "3", "--", "sh", "-c", script,
    ];
    let mut running = Program::start(&server.url(), &arguments);
    assert_eq!(running.line().await, "seats 2");
    assert_eq!(available(&mut connection, "seats").await, Some(1));
    running.write("this\n").await;
    let ended = running.ended().await;
    assert_eq!(
        (ended.status, ended.out.as_str(), ended.err.as_str()),
        (41, "got this\n", "")
    );
    assert_eq!(available(&mut connection, "seats").await, Some(3));
}

#[tokio::test]
async fn a_lock_is_held_by_one_command_at_a_time() {
    let server = RedisServer::start().await;
    let url = server.url();
    let counter = server.directory().join("counter");
    std::fs::write(&counter, "0").unwrap();
    let script = format!(
        "n=$(cat {0}); sleep 0.05; echo $((n + 1)) > {0}",
        counter.display()
    );
    let programs: Vec<_> = (0..8)
        .map(|_| Program::start(&url, &["run", "--lock", "door", "sh", "-c", &script]))
        .collect();
    for program in programs {
        let ended = program.ended().await;
        assert_eq!((ended.status, ended.err.as_str()), (0, ""));
    }
    assert_eq!(std::fs::read_to_string(counter).unwrap().trim(), "8");
    let locked: bool = server.connection().await.exists("door").await.unwrap();
    assert!(!locked);
}

#[tokio::test]
async fn a_fenced_lock_gives_the_command_a_token() {
    let server = RedisServer::start().await;
    for token in ["1\n", "2\n"] {
        let arguments = [
            "run",
            "--lock",
            "ledger",
            "--fenced",
            "--",
            "sh",
            "-c",
            "echo $RSEM_TOKEN",
        ];
        assert_eq!(rsem(&server.url(), &arguments).await.out, token);
    }
    // A command in a command has no token of the outer one.
    let outer = ["run", "--lock", "ledger", "--fenced", "--"];
    let inner = ["run", "--lock", "door", "--", "sh", "-c"];
    let script = ["echo $RSEM_NAME $RSEM_TOKEN"];
    let program = [env!("CARGO_BIN_EXE_rsem"), "--url", &server.url()];
    let arguments = [&outer[..], &program, &inner, &script].concat();
    assert_eq!(rsem(&server.url(), &arguments).await.out, "door\n");
}

#[tokio::test]
async fn what_goes_wrong_has_a_status_of_its_own() {
    let server = RedisServer::options()
        .user("poor on >p ~seats &* +ping")
        .start()
        .await;
    let url = server.url();
    let mut connection = server.connection().await;
    let _: () = connection.set("seats", 0).await.unwrap();
    let _: () = connection.lpush("list", 0).await.unwrap();
    let nobody = "redis://127.0.0.1:1";
    let poor = server.url_as("poor", "p");
    let stranger = server.url_as("poor", "wrong");
    let cases: [(&str, &[&str], i32, &str); 14] = [
        (&url, &["-s", "seats", "-w", "10ms", "true"], 75, "in time"),
        (&url, &["-s", "seats", "-n", "true"], 75, "in time"),
        (
            &url,
            &["-s", "seats", "-n", "-E", "9", "true"],
            9,
            "in time",
        ),
        (
            &url,
            &["-s", "new", "--create", "1", "-p", "2", "-n", "true"],
            75,
            "in time",
        ),
        (
            nobody,
            &["-l", "door", "--connect-timeout", "100ms", "true"],
            69,
            "could not be reached",
        ),
        (&poor, &["-s", "seats", "true"], 77, "permission denied"),
        (
            &stranger,
            &["-s", "seats", "true"],
            77,
            "authentication failed",
        ),
        (&url, &["-s", "list", "true"], 65, "another type"),
        (
            &url,
            &["-s", "seats", "-l", "door", "true"],
            64,
            "cannot be used with",
        ),
        (&url, &["-s", "seats"], 64, "COMMAND"),
        (
            &url,
            &["-s", "seats", "-w", "soon", "true"],
            64,
            "expected a time",
        ),
        ("http://h", &["-s", "seats", "true"], 64, "configuration"),
        (
            &url,
            &["-l", "door", "/no/such/program"],
            127,
            "/no/such/program",
        ),
        (&url, &["-l", "door", "/etc/passwd"], 126, "/etc/passwd"),
    ];
    for (url, arguments, status, words) in cases {
        let ended = rsem(url, &[&["run"], arguments].concat()).await;
        assert_eq!(ended.status, status, "{arguments:?}: {}", ended.err);
        assert!(ended.err.contains(words), "{arguments:?}: {}", ended.err);
    }
    let locked: bool = connection.exists("door").await.unwrap();
    assert!(!locked, "nothing ran, and nothing stays taken");
}

/// A waiter knows that it has got nothing.
#[tokio::test]
async fn a_server_that_falls_silent_does_not_prolong_the_wait() {
    let cases = [
        ("-s", channel("seats")),
        ("-l", "redisson_lock__channel:{seats}".to_owned()),
    ];
    for (target, channel) in cases {
        let mut server = RedisServer::start().await;
        let url = server.url();
        let mut connection = server.connection().await;
        let _: () = match target {
            "-s" => connection.set("seats", 0).await.unwrap(),
            _ => connection.hset("seats", "an-owner:1", 1).await.unwrap(),
        };
        let arguments = ["run", target, "seats", "-w", "500ms"];
        let options = ["--response-timeout", "200ms", "--retry-window", "3s"];
        let arguments = [&arguments[..], &options, &["true"]].concat();
        let mut monitor = Monitor::start(&server).await;
        let waiting = Program::start(&url, &arguments);
        until_subscribers(&mut connection, &channel, 1).await;
        // It queues, by a script that is sent twice, and has asked once more behind its subscription.
        let mut scripts = 0;
        until("it has nothing to ask", LIMIT, async || {
            scripts += monitor.scripts().await;
            scripts >= 3
        })
        .await;
        server.freeze();
        let ended = waiting.ended().await;
        assert_eq!(ended.status, 75, "{target}: {}", ended.err);
        let words = "was not to be had in time";
        assert!(ended.err.contains(words), "{target}: {}", ended.err);
        server.thaw();
    }
}

#[tokio::test]
async fn signals_reach_the_command_and_all_that_it_has_started() {
    let server = RedisServer::start().await;
    let script = "trap 'echo usr1' USR1; trap 'exit 7' TERM; \
                  sh -c 'trap \"\" USR1; trap \"echo inner; exit\" TERM; echo up; while :; do sleep 0.05; done' & \
                  while :; do sleep 0.05; done";
    let arguments = [
        "run", "-s", "seats", "--create", "1", "--", "sh", "-c", script,
    ];
    let mut running = Program::start(&server.url(), &arguments);
    assert_eq!(running.line().await, "up");
    running.signal(Signal::USR1);
    assert_eq!(running.line().await, "usr1");
    running.signal(Signal::TERM);
    let ended = running.ended().await;
    assert_eq!((ended.status, ended.out.as_str()), (7, "inner\n"));
    assert_eq!(
        available(&mut server.connection().await, "seats").await,
        Some(1)
    );
}

#[tokio::test]
async fn a_signal_that_ends_the_command_is_told_as_shells_do() {
    let server = RedisServer::start().await;
    for (signal, status) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let arguments = [
            "run",
            "--lock",
            "door",
            "--",
            "sh",
            "-c",
            "echo up; exec sleep 600",
        ];
        let mut running = Program::start(&server.url(), &arguments);
        assert_eq!(running.line().await, "up");
        running.signal(signal);
        assert_eq!(running.ended().await.status, status);
        let locked: bool = server.connection().await.exists("door").await.unwrap();
        assert!(!locked);
    }
}

#[tokio::test]
async fn a_signal_ends_the_waiting() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let _: () = connection.set("seats", 0).await.unwrap();
    let waiting = Program::start(&server.url(), &["run", "-s", "seats", "true"]);
    until_subscribers(&mut connection, &channel("seats"), 1).await;
    waiting.signal(Signal::TERM);
    let ended = waiting.ended().await;
    assert_eq!((ended.status, ended.err.as_str()), (143, ""));
    assert_eq!(available(&mut connection, "seats").await, Some(0));
}

#[tokio::test]
async fn what_is_ignored_stays_ignored() {
    let server = RedisServer::start().await;
    let script = "kill -HUP $PPID; kill -HUP $$; echo still here";
    let words = [
        "-c",
        "trap '' HUP; exec \"$@\"",
        "sh",
        env!("CARGO_BIN_EXE_rsem"),
    ];
    let mut shell = tokio::process::Command::new("sh");
    shell
        .args(words)
        .args(["run", "--lock", "door", "sh", "-c", script]);
    shell.env("REDIS_URL", server.url());
    let ended = Program::of(shell).ended().await;
    assert_eq!(
        (ended.status, ended.out.as_str()),
        (0, "still here\n"),
        "{}",
        ended.err
    );
}

/// By a signal, and for good after the grace.
#[tokio::test]
async fn a_command_whose_lock_is_lost_is_ended() {
    let server = RedisServer::start().await;
    let lock = ["run", "-l", "door", "--lock-timeout", "3s"];
    for (grace, then, told) in [
        (&[][..], "; exit 0", "lock \"door\" was lost"),
        (&["--grace", "400ms"], "", "killing it"),
    ] {
        let script = format!("trap 'echo asked{then}' TERM; echo up; while :; do sleep 0.05; done");
        let command = ["--", "sh", "-c", &script];
        let arguments = [&lock[..], grace, &command].concat();
        let mut running = Program::start(&server.url(), &arguments);
        assert_eq!(running.line().await, "up");
        let _: () = server.connection().await.del("door").await.unwrap();
        let ended = running.ended().await;
        assert_eq!((ended.status, ended.out.as_str()), (76, "asked\n"));
        assert!(ended.err.contains(told), "{}", ended.err);
    }
}

/// The command ended by itself, but not under the lock.
#[tokio::test]
async fn a_loss_that_shows_at_the_end_is_told_too() {
    let server = RedisServer::start().await;
    let mut running = Program::start(
        &server.url(),
        &["run", "-l", "door", "sh", "-c", "echo up; read line"],
    );
    assert_eq!(running.line().await, "up");
    let _: () = server.connection().await.del("door").await.unwrap();
    running.write("\n").await;
    let ended = running.ended().await;
    assert_eq!(ended.status, 76);
    assert!(
        ended.err.contains("lost before the command had ended"),
        "{}",
        ended.err
    );
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_command_does_not_outlive_its_rsem() {
    let server = RedisServer::start().await;
    let script = "trap 'echo asked; exit' TERM; echo up; while :; do sleep 0.05; done";
    let mut killed = Program::start(&server.url(), &["run", "-l", "door", "sh", "-c", script]);
    assert_eq!(killed.line().await, "up");
    killed.signal(Signal::KILL);
    assert_eq!(killed.line().await, "asked");
}

/// Nobody gives them back by hand.
#[tokio::test]
async fn permits_of_a_killed_rsem_come_back() {
    let server = RedisServer::start().await;
    let run = ["run", "-s", "seats", "--create", "1"];
    let holds = ["--lock-timeout", "1s", "sh", "-c", "echo up; read line"];
    let mut killed = Program::start(&server.url(), &[&run[..], &holds].concat());
    assert_eq!(killed.line().await, "up");
    killed.signal(Signal::KILL);
    let waits = [&run[..], &["--wait", "20s", "true"]].concat();
    let ended = rsem(&server.url(), &waits).await;
    assert_eq!((ended.status, ended.err.as_str()), (0, ""));
}
