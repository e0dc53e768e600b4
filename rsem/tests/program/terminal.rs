//! `rsem` in a pseudo-terminal that is its controlling one, as in a terminal window.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::process::{Child, Command};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(60);

/// A program in a terminal; killed when dropped.
pub struct Terminal {
    child: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    pub fn start(mut command: Command) -> Terminal {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&master).expect("it is ours");
        unlockpt(&master).expect("it is ours");
        let size = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&master, size).expect("it is ours");
        let name = ptsname(&master, Vec::new()).expect("it has a name");
        let slave = File::options()
            .read(true)
            .write(true)
            .open(name.to_str().expect("a plain path"))
            .expect("it can be opened");
        let end = || Stdio::from(OwnedFd::from(slave.try_clone().expect("a file")));
        let child = command
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .kill_on_drop(true)
            .spawn()
            .expect("it starts");
        let keyboard = File::from(master);
        let mut output = keyboard.try_clone().expect("a file");
        let (sender, screen) = mpsc::channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            // An error says that no process has the terminal open any more.
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Terminal {
            child,
            keyboard,
            screen,
            seen: String::new(),
        }
    }

    pub fn press(&mut self, keys: &str) {
        self.keyboard
            .write_all(keys.as_bytes())
            .expect("somebody has the terminal");
    }

    /// Reads until `text` has been printed; returns everything up to there since the last call.
    pub fn until(&mut self, text: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.seen.find(text) {
                return self.seen.drain(..at + text.len()).collect();
            }
            let left = end.saturating_duration_since(Instant::now());
            match self.screen.recv_timeout(left) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("{text:?} does not come: {:?}", tail(&self.seen)),
            }
        }
    }

    /// Waits for the end of the program. Returns its status, and all that it printed since the last call.
    pub async fn ended(mut self) -> (i32, String) {
        let status = timeout(PATIENCE, self.child.wait()).await;
        let status = status.expect("it ends").expect("it can be waited for");
        while let Ok(bytes) = self.screen.recv_timeout(Duration::from_millis(200)) {
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
        (status.code().expect("no signal ends it"), self.seen)
    }
}

fn tail(text: &str) -> String {
    let skipped = text.chars().count().saturating_sub(1_000);
    text.chars().skip(skipped).collect()
}
