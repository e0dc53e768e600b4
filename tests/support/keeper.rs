//! A child process that cannot outlive the test.
//!
//! Between the test and the program stands a small shell. It holds the reading end of a pipe whose writing
//! end only the test process has. When that closes, by [`Drop`], a panic or `kill -9` of the test process,
//! the shell kills the program and removes its directory. (The kernel's parent-death signal would not do:
//! it fires when the *thread* that started the child ends, and test threads end early.)
//!
//! While the pipe is open, each line written to it is the name of a signal to send.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

/// `$1` is the directory, the rest is the program with its arguments. The shell ends with the program,
/// and with its exit status.
const SCRIPT: &str = r#"
dir=$1; shift
trap '' INT TERM HUP
exec 3<&0
"$@" </dev/null 3<&- >>"$dir/log" 2>&1 &
program=$!
{
    while read -r signal; do kill -s "$signal" "$program"; echo sent; done
    rm -rf "$dir"
    kill -s KILL "$program"
} <&3 &
watch=$!
wait "$program"; status=$?
kill -s KILL "$watch"; wait "$watch"
exit "$status"
"#;

/// A running program; dropping it kills the program and removes the directory.
#[derive(Debug)]
pub struct Keeper {
    shell: Child,
    /// `None` once closed, which is the order to kill.
    orders: Option<ChildStdin>,
    acknowledgements: BufReader<ChildStdout>,
}

impl Keeper {
    /// Starts `program`; what it prints goes to the file `log` in `dir`.
    pub fn spawn(dir: &Path, program: &str, arguments: &[&str]) -> Keeper {
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT, "keeper"])
            .arg(dir)
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh starts");
        let orders = shell.stdin.take();
        let acknowledgements = BufReader::new(shell.stdout.take().expect("stdout is piped"));
        Keeper {
            shell,
            orders,
            acknowledgements,
        }
    }

    /// Sends a signal (`TERM`, `KILL`, `STOP`, `CONT`) and returns when it has been sent.
    pub fn signal(&mut self, name: &str) {
        let orders = self.orders.as_mut().expect("open until dropped");
        writeln!(orders, "{name}").expect("the program runs");
        let mut line = String::new();
        self.acknowledgements
            .read_line(&mut line)
            .expect("the keeper answers");
    }

    /// The program's exit status, `None` while it runs.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.shell.try_wait().expect("the shell is our child")
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.shell.wait();
    }
}

/// The name by which the harness knows the test `name` of a module: `test_name(module_path!(), "peer")`.
pub fn test_name(module: &str, name: &str) -> String {
    match module.split_once("::") {
        Some((_, module)) => format!("{module}::{name}"),
        None => name.to_owned(),
    }
}
