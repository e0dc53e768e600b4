//! Looks for callers that wait while enough permits are free for any caller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::books::{Books, HUNG, now};
use crate::{GROUPS, MOST_PERMITS, RING, Result};

const PAUSE: Duration = Duration::from_millis(15);
/// A server that does not answer within this time counts as having no free permits.
const PATIENCE: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
struct Seen {
    longest: Duration,
    /// The semaphore of each hung caller, and since when it waits.
    hung: BTreeSet<(&'static str, u64)>,
}

/// The result of the watch.
pub(crate) struct Outcome {
    pub(crate) longest: Duration,
    /// How many callers have waited for too long.
    pub(crate) hung: usize,
}

pub(crate) struct Watch {
    seen: Arc<Mutex<Seen>>,
    looking: JoinHandle<()>,
}

impl Watch {
    pub(crate) fn start(client: redis::Client, books: &Arc<Books>) -> Watch {
        let (seen, books) = (Arc::<Mutex<Seen>>::default(), Arc::clone(books));
        let looking = tokio::spawn(look(client, books, Arc::clone(&seen)));
        Watch { seen, looking }
    }

    pub(crate) fn end(self) -> Outcome {
        self.looking.abort();
        let seen = self.seen.lock().expect("no panic under this lock");
        Outcome {
            longest: seen.longest,
            hung: seen.hung.len(),
        }
    }
}

async fn look(client: redis::Client, books: Arc<Books>, seen: Arc<Mutex<Seen>>) {
    let mut connection = None;
    // Since when each semaphore has had enough permits for any caller.
    let mut free_since: BTreeMap<&str, u64> = BTreeMap::new();
    loop {
        sleep(PAUSE).await;
        let asked = now();
        match counters(&client, &mut connection).await {
            Ok(counters) => {
                for (name, counter) in counters {
                    let most = if RING.contains(&name) {
                        1
                    } else {
                        MOST_PERMITS
                    };
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
        let mut seen = seen.lock().expect("no panic under this lock");
        for (name, since) in books.open().waiting() {
            if let Some(free) = free_since.get(name) {
                let waited = Duration::from_micros(asked.saturating_sub(since.max(*free)));
                seen.longest = seen.longest.max(waited);
                if waited > HUNG {
                    seen.hung.insert((name, since));
                }
            }
        }
    }
}

async fn counters(
    client: &redis::Client,
    connection: &mut Option<MultiplexedConnection>,
) -> Result<Vec<(&'static str, i64)>> {
    if connection.is_none() {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        let opened = client.get_multiplexed_async_connection_with_config(&config);
        *connection = Some(opened.await?);
    }
    let connection = connection.as_mut().expect("just opened");
    let names: Vec<&str> = GROUPS
        .iter()
        .flat_map(|(names, _)| *names)
        .copied()
        .collect();
    let counters: Vec<Option<i64>> = redis::cmd("MGET")
        .arg(&names)
        .query_async(connection)
        .await?;
    let counters = counters.into_iter().map(|counter| counter.unwrap_or(0));
    Ok(names.into_iter().zip(counters).collect())
}
