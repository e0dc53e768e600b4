//! Looks for callers that wait while enough permits are free for anybody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use tokio::time::sleep;

use crate::books::{Books, HUNG, Standing};
use crate::journal::now;
use crate::{BUSY, LEASED, MOST_PERMITS, RING, Result, WATCHED, name_for};

const PAUSE: Duration = Duration::from_millis(15);
/// A server that does not answer within this has nothing free for anybody.
const PATIENCE: Duration = Duration::from_millis(100);

/// What has been seen.
#[derive(Debug, Default, Clone)]
pub(crate) struct Seen {
    /// In microseconds.
    pub(crate) longest: u64,
    pub(crate) hung: BTreeSet<(usize, u64)>,
    pub(crate) available: BTreeMap<&'static str, i64>,
}

pub(crate) struct Watch {
    client: redis::Client,
    books: Arc<Books>,
    seen: Arc<Mutex<Seen>>,
}

impl Watch {
    pub(crate) fn new(client: redis::Client, books: &Arc<Books>) -> (Watch, Arc<Mutex<Seen>>) {
        let seen = Arc::<Mutex<Seen>>::default();
        let watch = Watch {
            client,
            books: Arc::clone(books),
            seen: Arc::clone(&seen),
        };
        (watch, seen)
    }

    /// Looks until it is dropped.
    pub(crate) async fn look(self) {
        let mut connection = None;
        // Since when there has been enough for anybody.
        let mut free_since: BTreeMap<&str, u64> = BTreeMap::new();
        loop {
            sleep(PAUSE).await;
            let asked = now();
            match self.counters(&mut connection).await {
                Ok(counters) => {
                    for (name, counter) in counters {
                        let most = if RING.contains(&name) {
                            1
                        } else {
                            MOST_PERMITS
                        };
                        self.lock().available.insert(name, counter);
                        if counter >= i64::from(most) {
                            free_since.entry(name).or_insert(asked);
                        } else {
                            free_since.remove(name);
                        }
                    }
                }
                Err(_) => {
                    connection = None;
                    free_since.clear();
                }
            }
            self.note_waiting(asked, &free_since);
        }
    }

    fn note_waiting(&self, at: u64, free_since: &BTreeMap<&str, u64>) {
        let entries = self.books.open();
        let mut seen = self.lock();
        for (number, process) in entries.processes.iter().enumerate() {
            if process.standing != Standing::Works {
                continue;
            }
            for (caller, since) in process.ledger.waiting() {
                let name = name_for(caller, process.place);
                let Some(free_since) = free_since.get(name) else {
                    continue;
                };
                let waited = at.saturating_sub(since.max(*free_since));
                seen.longest = seen.longest.max(waited);
                if Duration::from_micros(waited) > HUNG {
                    seen.hung.insert((number, since));
                }
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().expect("no panic under this lock")
    }

    async fn counters(
        &self,
        connection: &mut Option<MultiplexedConnection>,
    ) -> Result<Vec<(&'static str, i64)>> {
        if connection.is_none() {
            let config = AsyncConnectionConfig::new()
                .set_connection_timeout(Some(PATIENCE))
                .set_response_timeout(Some(PATIENCE));
            let opened = self
                .client
                .get_multiplexed_async_connection_with_config(&config);
            *connection = Some(opened.await?);
        }
        let connection = connection.as_mut().expect("just opened");
        let names: Vec<&str> = RING.into_iter().chain([BUSY, WATCHED, LEASED]).collect();
        let counters: Vec<Option<i64>> = redis::cmd("MGET")
            .arg(&names)
            .query_async(connection)
            .await?;
        let counters = counters.into_iter().map(|counter| counter.unwrap_or(0));
        Ok(names.into_iter().zip(counters).collect())
    }
}
