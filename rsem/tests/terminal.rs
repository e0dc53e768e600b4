//! `rsem` in a real terminal: keys reach the command as if `rsem` were not there.

mod program;
#[path = "../../tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use program::WITH_SIGNALS;
use program::terminal::Terminal;
use redis::AsyncCommands;
use support::server::RedisServer;
use tokio::process::Command;

/// The words, as the first program of a new terminal.
fn in_terminal(url: &str, words: &[&str]) -> Terminal {
    let mut command = Command::new("setsid");
    command.arg("--ctty").args(WITH_SIGNALS).args(words);
    command.env("REDIS_URL", url);
    Terminal::start(command)
}

const RSEM: &str = env!("CARGO_BIN_EXE_rsem");

#[tokio::test]
async fn a_key_press_reaches_the_command_once() {
    let server = RedisServer::start().await;
    let script =
        "trap 'echo interrupted' INT; echo up; until read a; do :; done; echo got $a; exit 5";
    let words = [RSEM, "run", "--lock", "door", "--", "sh", "-c", script];
    let mut terminal = in_terminal(&server.url(), &words);
    terminal.until("up");
    terminal.press("\x03");
    terminal.until("interrupted");
    // The command can read from the terminal: it is in the foreground.
    terminal.press("one\n");
    let (status, printed) = terminal.ended().await;
    assert_eq!(status, 5, "{printed}");
    assert!(printed.contains("got one"), "{printed}");
    assert!(!printed.contains("interrupted"), "{printed}");
}

#[tokio::test]
async fn the_interrupt_key_ends_the_command_and_gives_the_lock_back() {
    let server = RedisServer::start().await;
    let script = "echo up; exec sleep 600";
    let words = [RSEM, "run", "--lock", "door", "--", "sh", "-c", script];
    let mut terminal = in_terminal(&server.url(), &words);
    terminal.until("up");
    terminal.press("\x03");
    assert_eq!(terminal.ended().await.0, 130);
    let locked: bool = server.connection().await.exists("door").await.unwrap();
    assert!(!locked);
}

/// Waits until the process with this id is stopped.
fn until_stopped(id: &str) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let status = std::fs::read_to_string(format!("/proc/{id}/stat")).expect("it is there");
        if status.contains(") T ") {
            return;
        }
        assert!(Instant::now() < end, "{status}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Ctrl-Z stops both, the shell has the terminal back, and `fg` goes on with both.
#[tokio::test]
async fn a_shell_stops_the_command_and_goes_on_with_it() {
    let server = RedisServer::start().await;
    let words = ["bash", "--norc", "--noprofile", "-i"];
    let mut terminal = in_terminal(&server.url(), &words);
    let script = "echo up $$.; read a; echo got $a";
    // At its prompt the shell reads.
    terminal.until("bash-");
    terminal.press(&format!("{RSEM} run --lock door -- sh -c '{script}'\n"));
    terminal.until("\rup ");
    let command = terminal.until(".");
    terminal.press("\x1a");
    terminal.until("Stopped");
    terminal.until("bash-");
    // The shell waits for its own child only; until the command has been stopped, too, it reads what is typed.
    until_stopped(command.trim_end_matches('.'));
    terminal.press("echo $((40 + 2))\n");
    terminal.until("42");
    terminal.until("bash-");
    terminal.press("fg\n");
    // The shell says what goes on, and does not read any more.
    terminal.until("rsem run");
    terminal.press("on\n");
    terminal.until("got on");
    terminal.until("bash-");
    terminal.press("exit 0\n");
    assert_eq!(terminal.ended().await.0, 0);
}
