//! The demo's stage: a server, a Rust client and a JVM, and the names of its keys.

use std::env::consts::{ARCH, OS};
use std::thread::available_parallelism;
use std::time::Duration;

use redisson_semaphore::Client;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::control::Control;
use crate::server::Server;
use crate::support::peer::JavaPeer;
use crate::{Result, java};

/// Should the demo be killed before it can delete its keys, they vanish by themselves.
pub(crate) const KEYS_LIVE: Duration = Duration::from_secs(600);

const CLEARING: Duration = Duration::from_secs(10);

pub(crate) struct Stage {
    pub(crate) client: Client,
    pub(crate) java: JavaPeer,
    /// For what the demo itself looks up.
    pub(crate) control: Control,
    pub(crate) names: Names,
    /// The Rust side's workers; each returns the number of its turns.
    pub(crate) workers: JoinSet<Result<u64>>,
    redis_version: String,
    jdk_version: String,
    /// The last field: a private server ends when all others have gone.
    server: Server,
}

/// Names that no other run uses.
pub(crate) struct Names {
    pub(crate) wakeups: String,
    pub(crate) crowd: String,
    pub(crate) gauge: String,
}

impl Stage {
    pub(crate) async fn set_up() -> Result<Stage> {
        let jdk_version = java::jdk_version()?;
        let server = Server::of_user_or_private().await?;
        let client = server.client().await?;
        let control = server.control().await?;
        let redis_version = control.version().await?;
        let java = java::start(&server).await?;
        let run = format!("redisson-semaphore-demo:{}", client.id());
        let wakeups = control.name(&format!("{run}:wakeups")).await?;
        let crowd = control.name(&format!("{run}:crowd")).await?;
        Ok(Stage {
            java,
            control,
            names: Names {
                // Read together with the semaphore.
                gauge: format!("redisson-semaphore-demo:gauge:{{{crowd}}}"),
                wakeups,
                crowd,
            },
            client,
            workers: JoinSet::new(),
            redis_version,
            jdk_version,
            server,
        })
    }

    /// The machine and what runs on it.
    pub(crate) fn versions(&self) -> String {
        format!(
            "{OS} {ARCH}, {} cores; redis-server {}{}; Redisson {}; JDK {}",
            available_parallelism().map_or(1, usize::from),
            self.redis_version,
            if self.server.is_private() {
                ""
            } else {
                " (REDIS_URL)"
            },
            java::REDISSON,
            self.jdk_version,
        )
    }

    /// Ends the JVM and a private server; deletes the keys in the user's server.
    pub(crate) async fn clear(mut self) -> Result<()> {
        self.java.kill().await;
        self.workers.shutdown().await;
        if self.server.is_private() {
            return Ok(());
        }
        // After the JVM and the client, neither of which can make a key again.
        let Names {
            wakeups,
            crowd,
            gauge,
        } = &self.names;
        let id = self.client.id();
        let mut keys = vec![wakeups.clone(), crowd.clone(), gauge.clone()];
        for name in [wakeups, crowd] {
            keys.extend([
                format!("redisson_sc_once:{{{name}}}:{id}"),
                format!("redisson_sc_queue:{{{name}}}"),
                format!("redisson_sc_grants:{{{name}}}"),
                format!("redisson_sc_notes:{{{name}}}"),
            ]);
        }
        let deleted = timeout(CLEARING, async {
            let _ = self.client.shutdown().await;
            // One by one: a cluster has them in several slots.
            for key in keys {
                self.control.ask(&["DEL", &key]).await?;
            }
            Ok::<_, crate::Error>(())
        });
        match deleted.await {
            Ok(Ok(())) => Ok(()),
            _ => Err(format!(
                "the keys {}* could not be deleted; they vanish in {} minutes",
                self.names.crowd.trim_end_matches("crowd"),
                KEYS_LIVE.as_secs() / 60,
            )
            .into()),
        }
    }
}
