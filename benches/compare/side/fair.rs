//! The fair semaphore of the classic recipes: this crate's, and the original's steps over the `redis` crate, one round
//! trip each or in the two transactions of the book. All callers share one multiplexed connection.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncCommands, AsyncConnectionConfig, IntoConnectionInfo};
use redisson_semaphore::recipes::FairSemaphore;
use redisson_semaphore::{Client, LeasedSemaphore as _};

use super::{Semaphore, Side};
use crate::Result;

/// More than there are callers; where the semaphore is called scarce, fewer.
fn limit_of(name: &str) -> u32 {
    if name.contains("scarce") {
        8
    } else {
        1_000_000
    }
}

const TIMEOUT: Duration = Duration::from_secs(60);
/// A refused caller of the original asks again so soon.
const PAUSE: Duration = Duration::from_millis(10);

/// The ids that are held. Any caller may release any of them.
type Ids = Arc<Mutex<Vec<String>>>;

fn keep(ids: &Ids, id: &str) {
    ids.lock()
        .expect("no panic under this lock")
        .push(id.to_owned());
}

fn take(ids: &Ids) -> Result<String> {
    let id = ids.lock().expect("no panic under this lock").pop();
    id.ok_or_else(|| "nothing is held".into())
}

/// This crate.
pub(crate) struct Fair(Client);

impl Fair {
    pub(crate) async fn connect(url: &str) -> Result<Fair> {
        Ok(Fair(Client::connect(url).await?))
    }
}

impl Side for Fair {
    type Semaphore = (FairSemaphore, Ids);

    fn semaphore(&self, name: &str) -> Self::Semaphore {
        let semaphore = self.0.fair_semaphore(name, limit_of(name)).timeout(TIMEOUT);
        (semaphore, Ids::default())
    }
}

impl Semaphore for (FairSemaphore, Ids) {
    async fn acquire(&self, _permits: u32) -> Result<()> {
        keep(&self.1, self.0.acquire().await?.id());
        Ok(())
    }

    async fn release(&self, _: u32) -> Result<()> {
        let id = take(&self.1)?;
        self.0.release(&id).await?;
        Ok(())
    }
}

/// The original.
pub(crate) struct Original {
    connection: MultiplexedConnection,
    in_transactions: bool,
}

impl Original {
    pub(crate) async fn connect(url: &str, in_transactions: bool) -> Result<Original> {
        let tcp = TcpSettings::default().set_nodelay(true);
        let client = redis::Client::open(url.into_connection_info()?.set_tcp_settings(tcp))?;
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(TIMEOUT));
        let connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        Ok(Original {
            connection,
            in_transactions,
        })
    }
}

impl Side for Original {
    type Semaphore = Steps;

    fn semaphore(&self, name: &str) -> Steps {
        Steps {
            connection: self.connection.clone(),
            in_transactions: self.in_transactions,
            limit: limit_of(name).into(),
            name: name.into(),
            owners: format!("{name}:owner").into(),
            counter: format!("{name}:counter").into(),
            ids: Ids::default(),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Steps {
    connection: MultiplexedConnection,
    in_transactions: bool,
    limit: u64,
    name: Arc<str>,
    owners: Arc<str>,
    counter: Arc<str>,
    ids: Ids,
}

impl Steps {
    async fn try_acquire(&self) -> Result<bool> {
        let (name, owners) = (&*self.name, &*self.owners);
        let id = random_id();
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
        let expired = now - TIMEOUT.as_millis() as u64;
        let weights = [(owners, 1), (name, 0)];
        let mut redis = self.connection.clone();
        let rank: u64 = if self.in_transactions {
            let (number,): (u64,) = redis::pipe()
                .atomic()
                .zrembyscore(name, "-inf", expired)
                .ignore()
                .zinterstore_weights(owners, &weights)
                .ignore()
                .incr(&*self.counter, 1)
                .query_async(&mut redis)
                .await?;
            let (rank,): (u64,) = redis::pipe()
                .atomic()
                .zadd(name, &id, now)
                .ignore()
                .zadd(owners, &id, number)
                .ignore()
                .zrank(owners, &id)
                .query_async(&mut redis)
                .await?;
            rank
        } else {
            let () = redis.zrembyscore(name, "-inf", expired).await?;
            let () = redis.zinterstore_weights(owners, &weights).await?;
            let number: u64 = redis.incr(&*self.counter, 1).await?;
            let () = redis.zadd(name, &id, now).await?;
            let () = redis.zadd(owners, &id, number).await?;
            redis.zrank(owners, &id).await?
        };
        if rank < self.limit {
            keep(&self.ids, &id);
            return Ok(true);
        }
        self.remove(&id).await?;
        Ok(false)
    }
}

impl Semaphore for Steps {
    async fn acquire(&self, _permits: u32) -> Result<()> {
        while !self.try_acquire().await? {
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    async fn release(&self, _: u32) -> Result<()> {
        let id = take(&self.ids)?;
        self.remove(&id).await
    }
}

impl Steps {
    async fn remove(&self, id: &str) -> Result<()> {
        let mut redis = self.connection.clone();
        if self.in_transactions {
            let () = redis::pipe()
                .atomic()
                .zrem(&*self.name, id)
                .ignore()
                .zrem(&*self.owners, id)
                .ignore()
                .query_async(&mut redis)
                .await?;
        } else {
            let () = redis.zrem(&*self.name, id).await?;
            let () = redis.zrem(&*self.owners, id).await?;
        }
        Ok(())
    }
}

/// As good as a UUID for this.
fn random_id() -> String {
    let half = || RandomState::new().hash_one(());
    format!("{:016x}{:016x}", half(), half())
}
