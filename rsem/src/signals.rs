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
    /// By a process, for `rsem`. The terminal's own signals go to everybody who is in the foreground.
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

    /// The next one. May be dropped and asked again.
    pub(crate) async fn next(&mut self) -> Received {
        self.received.recv().await.expect("the thread goes on")
    }

    /// Leaves out those that have come until now.
    pub(crate) fn forget(&mut self) {
        while self.received.try_recv().is_ok() {}
    }

    /// The next one that ends a process that does not care for it.
    pub(crate) async fn ending(&mut self) -> i32 {
        loop {
            let signal = self.next().await.signal;
            if ![SIGCONT, SIGWINCH].contains(&signal) {
                return signal;
            }
        }
    }
}

/// The signals that this process was told to ignore by who started it, a bit each. Nothing else tells without unsafe code;
/// where there is no such file, it is none.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
