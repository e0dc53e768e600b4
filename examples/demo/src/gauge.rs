//! The number of permits held, counted in Redis by both sides: after acquiring and before releasing.
//!
//! The Java peer keeps the same two fields. What the gauge counts was held for certain, so a `max` above the
//! limit would prove that permits were given out twice.

use redis::aio::MultiplexedConnection;

use crate::Result;
use crate::stage::KEYS_LIVE;

const ADD: &str = r"
local now = redis.call('HINCRBY', KEYS[1], 'now', ARGV[1])
if now > tonumber(redis.call('HGET', KEYS[1], 'max') or 0) then
  redis.call('HSET', KEYS[1], 'max', now)
end";

#[derive(Clone)]
pub(crate) struct Gauge {
    connection: MultiplexedConnection,
    key: String,
    semaphore: String,
}

/// The gauge and the semaphore at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) held: i64,
    pub(crate) most: i64,
    /// What the semaphore's own key says.
    pub(crate) available: i64,
}

impl Gauge {
    /// Makes the hash, with nothing held.
    pub(crate) async fn create(
        connection: &MultiplexedConnection,
        key: &str,
        semaphore: &str,
    ) -> Result<Gauge> {
        let mut gauge = Gauge {
            connection: connection.clone(),
            key: key.to_owned(),
            semaphore: semaphore.to_owned(),
        };
        let () = redis::pipe()
            .atomic()
            .hset_multiple(key, &[("now", 0), ("max", 0)])
            .expire(key, KEYS_LIVE.as_secs() as i64)
            .ignore()
            .query_async(&mut gauge.connection)
            .await?;
        Ok(gauge)
    }

    pub(crate) async fn add(&mut self, permits: i64) -> Result<()> {
        let script = redis::Script::new(ADD);
        let mut call = script.key(&self.key);
        let added = call.arg(permits).invoke_async(&mut self.connection).await;
        added.map_err(|error| format!("counting in {}: {error}", self.key).into())
    }

    pub(crate) async fn read(&mut self) -> Result<Reading> {
        let ((held, most), available): ((i64, i64), Option<i64>) = redis::pipe()
            .atomic()
            .cmd("HMGET")
            .arg(&[&self.key, "now", "max"])
            .get(&self.semaphore)
            .query_async(&mut self.connection)
            .await
            .map_err(|error| format!("reading {}: {error}", self.key))?;
        Ok(Reading {
            held,
            most,
            available: available.unwrap_or(0),
        })
    }
}
