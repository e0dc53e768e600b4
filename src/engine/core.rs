//! What all objects of one client share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::coalesce::Coalescer;
use super::holds::Holds;
use super::registry::Registry;
use super::wakeups::Wakeups;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::transport::{Connection, Endpoint};

/// The shared part of a client: its connections, its identity, its objects.
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) connection: Connection,
    pub(crate) wakeups: Wakeups,
    pub(crate) runtime: Handle,
    id: String,
    sequence: AtomicU64,
    owners: AtomicU64,
    pub(crate) objects: Registry,
    pub(crate) holds: Holds,
    pub(crate) coalescer: Coalescer,
    /// How many objects have calls that are not answered yet.
    busy: AtomicUsize,
    /// Shut down, and the connection closed.
    finished: AtomicBool,
    /// The last of them has become idle.
    idle: Notify,
}

/// Lower numbers are left to users who pick one.
const FIRST_OWNER: u64 = 1 << 32;

impl Core {
    pub(crate) async fn connect(config: Config) -> Result<Arc<Self>> {
        let endpoint = Endpoint::new(&config)?;
        let connection = Connection::open(endpoint.clone()).await?;
        let wakeups = Wakeups::new(endpoint, config.safety_interval);
        Ok(Arc::new(Core {
            config,
            connection,
            wakeups,
            runtime: Handle::current(),
            id: uuid::Uuid::new_v4().to_string(),
            sequence: AtomicU64::new(0),
            owners: AtomicU64::new(FIRST_OWNER),
            objects: Registry::default(),
            holds: Holds::default(),
            coalescer: Coalescer::default(),
            busy: AtomicUsize::new(0),
            finished: AtomicBool::new(false),
            idle: Notify::new(),
        }))
    }

    /// The client's id: a random UUID, as Redisson's is.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The number of the next call or batch: rises within the client, whatever the object.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The number of the next owner of a lock.
    pub(crate) fn next_owner(&self) -> u64 {
        self.owners.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::SeqCst)
    }

    /// An object has calls to answer; whether it is counted already is `busy`.
    pub(crate) fn note_busy(&self, busy: &mut bool) {
        if !std::mem::replace(busy, true) {
            self.busy.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// It has none any more.
    pub(crate) fn note_idle(&self, busy: &mut bool) {
        if std::mem::take(busy) && self.busy.fetch_sub(1, Ordering::SeqCst) == 1 {
            // Leaves a permit, so that shutdown can't miss it.
            self.idle.notify_one();
        }
    }

    /// Ends all waiting, refuses new calls, and carries out what has been asked for.
    pub(crate) async fn shutdown(&self) -> Result<()> {
        self.objects.close();
        let limit = self.config.retry_window + Duration::from_secs(1);
        let idle = async {
            while self.busy.load(Ordering::SeqCst) > 0 {
                self.idle.notified().await;
            }
        };
        let done = tokio::time::timeout(limit, idle).await.is_ok();
        self.finished.store(true, Ordering::SeqCst);
        self.wakeups.close();
        self.connection.close();
        if done {
            return Ok(());
        }
        Err(Error::Unavailable {
            name: "shutdown".to_owned(),
            waited: limit,
            detail: "some of what was owed could not be carried out, or its outcome is not known"
                .to_owned(),
        })
    }
}
