//! The number of permits held, counted in Redis by both sides: after acquiring and before releasing.
//!
//! The Java peer keeps the same two fields. The gauge counts only permits that are surely held, so a `max` above the
//! limit would prove that permits were granted twice.

use redisson_semaphore::Answer;

use crate::Result;
use crate::control::{Control, number};
use crate::stage::KEYS_LIVE;

const ADD: &str = r"
local now = redis.call('HINCRBY', KEYS[1], 'now', ARGV[1])
if now > tonumber(redis.call('HGET', KEYS[1], 'max') or 0) then
  redis.call('HSET', KEYS[1], 'max', now)
end";

const READ: &str = r"
local held = redis.call('HMGET', KEYS[1], 'now', 'max')
return { held[1], held[2], redis.call('GET', KEYS[2]) }";

#[derive(Clone)]
pub(crate) struct Gauge {
    control: Control,
    key: String,
    semaphore: String,
}

/// The gauge and the semaphore at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) held: i64,
    pub(crate) most: i64,
    /// The value of the semaphore's own key.
    pub(crate) available: i64,
}

impl Gauge {
    /// Makes the hash, with nothing held.
    pub(crate) async fn create(control: &Control, key: &str, semaphore: &str) -> Result<Gauge> {
        let life = KEYS_LIVE.as_secs().to_string();
        control.ask(&["HSET", key, "now", "0", "max", "0"]).await?;
        control.ask(&["EXPIRE", key, &life]).await?;
        Ok(Gauge {
            control: control.clone(),
            key: key.to_owned(),
            semaphore: semaphore.to_owned(),
        })
    }

    pub(crate) async fn add(&mut self, permits: i64) -> Result<()> {
        let permits = permits.to_string();
        let add = ["EVAL", ADD, "1", &self.key, &permits];
        self.control.ask(&add).await.map(drop)
    }

    pub(crate) async fn read(&mut self) -> Result<Reading> {
        let read = ["EVAL", READ, "2", &self.key, &self.semaphore];
        let answer = match self.control.ask(&read).await? {
            Answer::Array(answer) => answer,
            other => return Err(format!("reading {}: {other:?}", self.key).into()),
        };
        let mut numbers = answer.into_iter().map(number);
        let mut next = || numbers.next().unwrap_or(0);
        Ok(Reading {
            held: next(),
            most: next(),
            available: next(),
        })
    }
}
