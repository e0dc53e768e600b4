//! `rsem watch`, with and without a terminal.

mod program;
#[path = "../../tests/support/mod.rs"]
mod support;

use program::terminal::Terminal;
use program::{Program, command};
use redis::AsyncCommands;
use redisson_semaphore::Client;
use rustix::process::Signal;
use support::server::RedisServer;

/// The line without the time.
fn words(line: &str) -> &str {
    line.split_once(' ').map_or("", |(_, words)| words)
}

async fn until_words(watching: &mut Program, expected: &str) {
    for _ in 0..1_000 {
        if words(&watching.line().await) == expected {
            return;
        }
    }
    panic!("not seen: {expected}");
}

#[tokio::test]
async fn without_a_terminal_each_look_is_a_line() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let _: () = connection.set("seats", 3).await.unwrap();
    let arguments = ["watch", "seats", "door", "--interval", "50ms"];
    let mut watching = Program::start(&server.url(), &arguments);
    let line = watching.line().await;
    assert_eq!(words(&line), "seats kind=semaphore available=3 listening=0");
    assert_eq!(
        words(&watching.line().await),
        "door kind=missing listening=0"
    );
    let _: () = connection.set("seats", 1).await.unwrap();
    until_words(
        &mut watching,
        "seats kind=semaphore available=1 listening=0",
    )
    .await;
    watching.signal(Signal::TERM);
    assert_eq!(watching.ended().await.status, 143);
}

#[tokio::test]
async fn it_ends_after_so_many_looks_or_when_nobody_reads() {
    let server = RedisServer::start().await;
    let url = server.url();
    let ended = program::rsem(&url, &["watch", "seats", "-i", "50ms", "-c", "3"]).await;
    assert_eq!((ended.status, ended.out.lines().count()), (0, 3));
    let mut piped = tokio::process::Command::new("sh");
    let script = "\"$@\"; echo $? >&2";
    piped.args(["-c", &format!("{{ {script}; }} | head -n 1")]);
    piped.args([
        "sh",
        env!("CARGO_BIN_EXE_rsem"),
        "watch",
        "seats",
        "-i",
        "50ms",
    ]);
    piped.env("REDIS_URL", &url);
    let ended = Program::of(piped).ended().await;
    assert_eq!((ended.status, ended.err.as_str()), (0, "0\n"));
}

#[tokio::test]
async fn it_goes_on_when_redis_comes_back() {
    let mut server = RedisServer::start().await;
    let arguments = [
        "watch",
        "seats",
        "--interval",
        "50ms",
        "--connect-timeout",
        "1s",
    ];
    let mut watching = Program::start(&server.url(), &arguments);
    assert_eq!(
        words(&watching.line().await),
        "seats kind=missing listening=0"
    );
    server.restart().await;
    let _: () = server.connection().await.set("seats", 7).await.unwrap();
    until_words(
        &mut watching,
        "seats kind=semaphore available=7 listening=0",
    )
    .await;
}

/// A watcher that listens would be counted as a waiter.
#[tokio::test]
async fn it_does_not_listen() {
    let server = RedisServer::start().await;
    let client = Client::connect(server.url()).await.unwrap();
    let seats = client.semaphore("seats");
    let mut connection = server.connection().await;
    let mut watching = Program::start(&server.url(), &["watch", "seats", "-i", "50ms"]);
    watching.line().await;
    let waiter = support::waiters::waiter(&mut connection, &seats, 1).await;
    until_words(&mut watching, "seats kind=missing listening=1").await;
    seats.release(1).await.unwrap();
    waiter.await.unwrap().unwrap();
}

#[tokio::test]
async fn in_a_terminal_it_draws_and_gives_the_terminal_back() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let _: () = connection.set("seats", 3).await.unwrap();
    for keys in ["q", "\x03"] {
        let mut watching = command(&server.url(), &["watch", "seats", "-i", "50ms"]);
        watching.env("TERM", "xterm");
        let mut terminal = Terminal::start(watching);
        let (enter, leave) = ("\x1b[?1049h", "\x1b[?1049l");
        terminal.until(enter);
        // Blank cells are not written.
        for word in ["seats:", "semaphore", "available", "listening"] {
            terminal.until(word);
        }
        terminal.press(keys);
        let (status, printed) = terminal.ended().await;
        assert_eq!(status, 0);
        assert!(printed.contains(leave), "{printed:?}");
    }
}
