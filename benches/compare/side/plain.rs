//! Code as one writes it without this crate: the `redis` crate, one script per call, pub/sub for waiting.
//!
//! The code is written with care. All calls of the process share one multiplexed connection (without Nagle's delay), all
//! waiters one subscription connection. A message says how many permits are free, and wakes that many waiters, the longest
//! waiting first, so that a single permit does not wake all waiters. Key, channel and payload are Redisson's.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use futures::{Stream, StreamExt};
use redis::aio::{MultiplexedConnection, PubSubSink};
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, IntoConnectionInfo, Msg, Script};
use tokio::sync::{Notify, OnceCell};
use tokio::time::timeout;

use super::{Semaphore, Side};
use crate::Result;

static ACQUIRE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local free = redis.call('get', KEYS[1])
         if free and tonumber(free) >= tonumber(ARGV[1]) then
             redis.call('decrby', KEYS[1], ARGV[1])
             return 1
         end
         return 0",
    )
});

static RELEASE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local free = redis.call('incrby', KEYS[1], ARGV[1])
         redis.call('publish', KEYS[2], free)",
    )
});

/// How often a waiter checks without a message: the same as this crate's default.
const POLL: Duration = Duration::from_secs(5);

/// The crate's default of half a second is too short for thousands of calls at once.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The connection that all calls of a side share.
pub(super) async fn connect(url: &str) -> Result<(redis::Client, MultiplexedConnection)> {
    let tcp = TcpSettings::default().set_nodelay(true);
    let client = redis::Client::open(url.into_connection_info()?.set_tcp_settings(tcp))?;
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(RESPONSE_TIMEOUT));
    let connection = client
        .get_multiplexed_async_connection_with_config(&config)
        .await?;
    Ok((client, connection))
}

pub(crate) struct Plain {
    connection: MultiplexedConnection,
    messages: Arc<Messages>,
}

impl Plain {
    pub(crate) async fn connect(url: &str) -> Result<Plain> {
        let (client, connection) = connect(url).await?;
        let (sink, stream) = client.get_async_pubsub().await?.split();
        let messages = Arc::new(Messages {
            sink: tokio::sync::Mutex::new(sink),
            channels: Mutex::default(),
        });
        tokio::spawn(Arc::clone(&messages).deliver(stream));
        Ok(Plain {
            connection,
            messages,
        })
    }
}

impl Side for Plain {
    type Semaphore = Handle;

    fn semaphore(&self, name: &str) -> Handle {
        let channel = format!("redisson_sc:{{{name}}}");
        Handle {
            connection: self.connection.clone(),
            name: name.into(),
            signal: self.messages.signal(&channel),
            channel: channel.into(),
            messages: Arc::clone(&self.messages),
        }
    }
}

/// The subscriptions of the process.
struct Messages {
    sink: tokio::sync::Mutex<PubSubSink>,
    channels: Mutex<HashMap<String, Arc<Signal>>>,
}

/// Where the waiters of one channel sleep.
#[derive(Default)]
struct Signal {
    subscribed: OnceCell<()>,
    waiters: Notify,
}

impl Messages {
    fn signal(&self, channel: &str) -> Arc<Signal> {
        let mut channels = self.channels.lock().expect("no panic under this lock");
        Arc::clone(channels.entry(channel.to_owned()).or_default())
    }

    async fn deliver(self: Arc<Self>, mut stream: impl Stream<Item = Msg> + Unpin) {
        while let Some(message) = stream.next().await {
            let free: i64 = message.get_payload().unwrap_or(1);
            let signal = self.signal(message.get_channel_name());
            for _ in 0..free {
                signal.waiters.notify_one();
            }
        }
    }
}

#[derive(Clone)]
pub(crate) struct Handle {
    connection: MultiplexedConnection,
    name: Arc<str>,
    channel: Arc<str>,
    signal: Arc<Signal>,
    messages: Arc<Messages>,
}

impl Handle {
    async fn try_acquire(&self, permits: u32) -> Result<bool> {
        let mut connection = self.connection.clone();
        let taken: i64 = ACQUIRE
            .key(&*self.name)
            .arg(permits)
            .invoke_async(&mut connection)
            .await?;
        Ok(taken == 1)
    }

    async fn subscribe(&self) -> Result<()> {
        let subscribe = async || {
            let mut sink = self.messages.sink.lock().await;
            sink.subscribe(&*self.channel).await
        };
        self.signal.subscribed.get_or_try_init(subscribe).await?;
        Ok(())
    }
}

impl Semaphore for Handle {
    async fn acquire(&self, permits: u32) -> Result<()> {
        if self.try_acquire(permits).await? {
            return Ok(());
        }
        self.subscribe().await?;
        loop {
            let mut woken = pin!(self.signal.waiters.notified());
            // The waiter registers before the attempt, so that it misses no message.
            woken.as_mut().enable();
            if self.try_acquire(permits).await? {
                return Ok(());
            }
            let _ = timeout(POLL, woken).await;
        }
    }

    async fn release(&self, permits: u32) -> Result<()> {
        let mut connection = self.connection.clone();
        let () = RELEASE
            .key(&*self.name)
            .key(&*self.channel)
            .arg(permits)
            .invoke_async(&mut connection)
            .await?;
        Ok(())
    }
}
