//! How many permits are held by all processes together.

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

/// The permits held by all processes together, counted in a Redis hash as the Java peer does: `now`, and
/// `max`, the most that there ever were.
#[derive(Clone)]
pub struct Gauge {
    key: &'static str,
    redis: MultiplexedConnection,
}

const ADD: &str = r"
local now = redis.call('HINCRBY', KEYS[1], 'now', ARGV[1])
if now > tonumber(redis.call('HGET', KEYS[1], 'max') or 0) then
  redis.call('HSET', KEYS[1], 'max', now)
end";

impl Gauge {
    pub fn new(redis: &MultiplexedConnection, key: &'static str) -> Gauge {
        let redis = redis.clone();
        Gauge { key, redis }
    }

    /// After permits were got; with a negative number before they are given back.
    pub async fn add(&mut self, permits: i64) {
        let () = redis::cmd("EVAL")
            .arg(ADD)
            .arg(1)
            .arg(self.key)
            .arg(permits)
            .query_async(&mut self.redis)
            .await
            .expect("the server runs");
    }

    /// `now` and `max`.
    pub async fn read(&mut self) -> (i64, i64) {
        let read: (Option<i64>, Option<i64>) = self
            .redis
            .hmget(self.key, &["now", "max"])
            .await
            .expect("the server runs");
        (read.0.unwrap_or(0), read.1.unwrap_or(0))
    }
}
