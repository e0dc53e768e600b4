//! What all objects of one client share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::line::Line;
use super::wakeups::Wakeups;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::redisson::names::Keys;
use crate::transport::{Connection, Endpoint};

/// The shared part of a client: its connections, its identity, its lines.
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) connection: Connection,
    pub(crate) wakeups: Wakeups,
    pub(crate) runtime: Handle,
    id: String,
    sequence: AtomicU64,
    lines: Mutex<Lines>,
    /// How many lines have calls that are not answered yet.
    busy: AtomicUsize,
    /// Shut down, and the connection closed.
    finished: AtomicBool,
    /// The last of them has become idle.
    idle: Notify,
}

#[derive(Default)]
struct Lines {
    by_key: HashMap<String, Weak<Line>>,
    closed: bool,
}

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
            lines: Mutex::default(),
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

    /// The one line of the object called `name`.
    pub(crate) fn line(self: &Arc<Self>, name: &str) -> Arc<Line> {
        let keys = Keys::of_semaphore(name, &self.config.name_mapper, &self.id);
        let mut lines = self.lines.lock().expect("no panic under this lock");
        if let Some(line) = lines.by_key.get(&**keys.object()).and_then(Weak::upgrade) {
            return line;
        }
        let line = Line::new(Arc::clone(self), keys, lines.closed);
        let weak = Arc::downgrade(&line);
        lines.by_key.insert(line.keys().object().to_string(), weak);
        line
    }

    /// Forgets a line that is no longer used.
    pub(crate) fn forget(&self, key: &str) {
        let mut lines = self.lines.lock().expect("no panic under this lock");
        // A successor of the same name may be in its place already.
        if lines
            .by_key
            .get(key)
            .is_some_and(|line| line.strong_count() == 0)
        {
            lines.by_key.remove(key);
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::SeqCst)
    }

    pub(crate) fn became_busy(&self) {
        self.busy.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn became_idle(&self) {
        if self.busy.fetch_sub(1, Ordering::SeqCst) == 1 {
            // Leaves a permit, so that shutdown can't miss it.
            self.idle.notify_one();
        }
    }

    /// Ends all waiting, refuses new calls, and carries out what has been asked for.
    pub(crate) async fn shutdown(&self) -> Result<()> {
        let lines: Vec<_> = {
            let mut lines = self.lines.lock().expect("no panic under this lock");
            lines.closed = true;
            lines.by_key.values().filter_map(Weak::upgrade).collect()
        };
        for line in lines {
            line.close();
        }
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
