//! The faults that the run causes on purpose.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::sleep;

use crate::Result;
use crate::books::{Books, now};
use crate::crew::Crew;
use crate::support::clients::KINDS;
use crate::support::proxy::{Fate, LOST_REPLIES, Proxy};
use crate::support::server::RedisServer;

/// The user that the processes log in as.
pub(crate) const USER: &str = "rust";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    KillCommands,
    KillSubscriptions,
    KillBoth,
    Restart,
    Crash,
    Pause,
    Freeze,
    Cut,
    Mute,
    Blackhole,
    LoseReplies,
    DelayRequests,
    DelayReplies,
    KillProcess,
    FlushScripts,
}

/// The longest pause after a restart, in which all processes are to get something before the next fault.
const RECOVERY: Duration = Duration::from_secs(10);

/// How often each fault happens in a round.
const ROUND: [(Fault, usize); 15] = [
    (Fault::KillCommands, 3),
    (Fault::KillSubscriptions, 3),
    (Fault::KillBoth, 4),
    (Fault::Restart, 1),
    (Fault::Crash, 1),
    (Fault::Pause, 1),
    (Fault::Freeze, 1),
    (Fault::Cut, 1),
    (Fault::Mute, 1),
    (Fault::Blackhole, 1),
    (Fault::LoseReplies, 2),
    (Fault::DelayRequests, 1),
    (Fault::DelayReplies, 1),
    (Fault::KillProcess, 1),
    (Fault::FlushScripts, 1),
];

impl Fault {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Fault::KillCommands => "command connections killed",
            Fault::KillSubscriptions => "subscriptions killed",
            Fault::KillBoth => "all connections killed",
            Fault::Restart => "server restarted",
            Fault::Crash => "server killed -9 and started",
            Fault::Pause => "CLIENT PAUSE",
            Fault::Freeze => "server stopped by SIGSTOP for a while",
            Fault::Cut => "connections cut on the way",
            Fault::Mute => "all replies lost for a while",
            Fault::Blackhole => "everything lost for a while",
            Fault::LoseReplies => "single replies lost",
            Fault::DelayRequests => "requests delayed",
            Fault::DelayReplies => "replies delayed",
            Fault::KillProcess => "Rust process killed -9",
            Fault::FlushScripts => "SCRIPT FLUSH",
        }
    }
}

/// Faults in random order, each as often as [`ROUND`] says.
#[derive(Default)]
pub(crate) struct Deck(Vec<Fault>);

impl Deck {
    pub(crate) fn next(&mut self) -> Fault {
        if self.0.is_empty() {
            for (fault, times) in ROUND {
                self.0.extend(std::iter::repeat_n(fault, times));
            }
            fastrand::shuffle(&mut self.0);
        }
        self.0.pop().expect("just filled")
    }
}

/// The targets of faults, and the faults so far.
pub(crate) struct Victims {
    pub(crate) server: RedisServer,
    pub(crate) proxy: Proxy,
    pub(crate) crew: Crew,
    pub(crate) done: BTreeMap<Fault, u64>,
    /// How many connections were killed.
    pub(crate) connections: u64,
}

impl Victims {
    pub(crate) fn new(server: RedisServer, proxy: Proxy, crew: Crew) -> Victims {
        Victims {
            server,
            proxy,
            crew,
            done: BTreeMap::new(),
            connections: 0,
        }
    }

    pub(crate) async fn suffer(&mut self, fault: Fault, books: &Books) -> Result<()> {
        match fault {
            Fault::KillCommands => self.kill(KINDS[0]).await?,
            Fault::KillSubscriptions => self.kill(KINDS[1]).await?,
            Fault::KillBoth => self.kill(KINDS[2]).await?,
            Fault::Restart | Fault::Crash => {
                match fault {
                    Fault::Crash => self.server.kill().await,
                    _ => self.server.stop().await,
                }
                a_while(0..1500).await;
                self.server.restart().await;
                // The next fault would be mistaken for a slow recovery.
                books.until_served(now(), RECOVERY).await;
            }
            Fault::Pause => {
                let pause = fastrand::u32(50..1500).to_string();
                self.command(&["CLIENT", "PAUSE", &pause, "ALL"]).await?;
            }
            Fault::Freeze => {
                self.server.freeze();
                a_while(50..2000).await;
                self.server.thaw();
            }
            Fault::Cut => self.proxy.cut(),
            Fault::Mute => {
                self.proxy.mute();
                a_while(50..1500).await;
                self.proxy.clear();
            }
            Fault::Blackhole => {
                self.proxy.blackhole();
                a_while(50..1500).await;
                self.proxy.clear();
            }
            Fault::LoseReplies => {
                for n in 1..4 {
                    let fate = LOST_REPLIES[fastrand::usize(..2)];
                    self.proxy.at_script(n * fastrand::u64(1..20), fate);
                }
            }
            Fault::DelayRequests => self.delay(Fate::HoldRequest).await,
            Fault::DelayReplies => self.delay(Fate::HoldReply).await,
            Fault::KillProcess => self.crew.kill_one().await?,
            Fault::FlushScripts => self.command(&["SCRIPT", "FLUSH"]).await?,
        }
        *self.done.entry(fault).or_default() += 1;
        Ok(())
    }

    /// The delay may be longer than the response timeout: the client then sends the same calls again.
    async fn delay(&self, fate: Fate) {
        for n in 1..4 {
            self.proxy.at_script(n * fastrand::u64(1..5), fate);
        }
        a_while(50..1500).await;
        self.proxy.clear_fates();
        self.proxy.let_go();
    }

    async fn kill(&mut self, kinds: &[&str]) -> Result<()> {
        let mut connection = self.server.connection().await;
        for kind in kinds {
            let killed: u64 = redis::cmd("CLIENT")
                .arg(&["KILL", "USER", USER, "TYPE", kind])
                .query_async(&mut connection)
                .await?;
            self.connections += killed;
        }
        Ok(())
    }

    async fn command(&self, words: &[&str]) -> Result<()> {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        let mut connection = self.server.connection().await;
        let () = command.query_async(&mut connection).await?;
        Ok(())
    }
}

async fn a_while(millis: std::ops::Range<u64>) {
    sleep(Duration::from_millis(fastrand::u64(millis))).await;
}
