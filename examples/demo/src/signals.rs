//! The signals that end the demo early, after it has cleared its things away.

use std::time::Duration;

use tokio::signal::unix::{self, SignalKind, signal};
use tokio::time::timeout;

/// For how long after a failure a signal may still turn out to be its cause.
const AFTERWARDS: Duration = Duration::from_millis(300);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Signal {
    pub(crate) name: &'static str,
    number: u8,
}

impl Signal {
    /// As a shell says of a program that the signal has ended.
    pub(crate) fn exit_code(self) -> u8 {
        128 + self.number
    }
}

#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hang_up: unix::Signal,
}

impl Signals {
    /// From now on they don't end the process by themselves.
    pub(crate) fn watch() -> Signals {
        let watch = |kind| signal(kind).expect("these signals can be watched");
        Signals {
            interrupt: watch(SignalKind::interrupt()),
            terminate: watch(SignalKind::terminate()),
            hang_up: watch(SignalKind::hangup()),
        }
    }

    pub(crate) async fn next(&mut self) -> Signal {
        let (name, number) = tokio::select! {
            _ = self.interrupt.recv() => ("SIGINT", 2),
            _ = self.terminate.recv() => ("SIGTERM", 15),
            _ = self.hang_up.recv() => ("SIGHUP", 1),
        };
        Signal { name, number }
    }

    /// The signal that has come or comes in a moment, if any.
    pub(crate) async fn just_now(&mut self) -> Option<Signal> {
        timeout(AFTERWARDS, self.next()).await.ok()
    }
}
