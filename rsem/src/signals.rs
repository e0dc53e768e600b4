//! The signals that `rsem` gets: from now on they don't end it by themselves.

use std::thread;

use signal_hook::consts::{
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH,
};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::exit::{self, Failure};

const WATCHED: [i32; 9] = [
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH,
];

#[derive(Debug, Clone, Copy)]
pub(crate) struct Received {
    pub(crate) signal: i32,
    /// Whether a process sent the signal to `rsem`. The terminal sends its signals to all processes in the foreground.
    pub(crate) sent: bool,
}

#[derive(Debug)]
pub(crate) struct Signals {
    received: UnboundedReceiver<Received>,
}

impl Signals {
    pub(crate) fn watch() -> Result<Signals, Failure> {
        // An ignored signal stays so, here and in the command: `nohup rsem run ...`.
        let ignored = ignored();
        let watched = WATCHED
            .iter()
            .filter(|signal| ignored >> (**signal - 1) & 1 == 0);
        let mut signals = SignalsInfo::<WithOrigin>::new(watched)
            .map_err(|error| Failure::new(exit::FAILED, format!("signals: {error}")))?;
        let (sender, received) = mpsc::unbounded_channel();
        thread::spawn(move || {
            for origin in signals.forever() {
                let received = Received {
                    signal: origin.signal,
                    sent: origin.process.is_some(),
                };
                if sender.send(received).is_err() {
                    break;
                }
            }
        });
        Ok(Signals { received })
    }

    #[cfg(test)]
    pub(crate) fn by_hand() -> (mpsc::UnboundedSender<Received>, Signals) {
        let (sender, received) = mpsc::unbounded_channel();
        (sender, Signals { received })
    }

    /// The next signal. The future may be dropped and called again.
    pub(crate) async fn next(&mut self) -> Received {
        self.received.recv().await.expect("the thread goes on")
    }

    /// Drops the signals that have come until now.
    pub(crate) fn forget(&mut self) {
        while self.received.try_recv().is_ok() {}
    }

    /// The next signal that ends a process by default.
    pub(crate) async fn ending(&mut self) -> i32 {
        loop {
            let signal = self.next().await.signal;
            if ![SIGCONT, SIGWINCH].contains(&signal) {
                return signal;
            }
        }
    }
}

/// The signals that the parent process made this one ignore, a bit each. Without unsafe code there is no other source; where this file
/// does not exist, the result is 0.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
