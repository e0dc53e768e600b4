//! What a handle is told about its semaphore: layout, limit, times, keys.

use std::sync::Arc;
use std::time::Duration;

use crate::config::NameMapper;
use crate::engine::keys::{MOST_NAME_BYTES, TOO_LONG, shortened};
use crate::error::{Error, Result};
use crate::units::Units;

/// How long a holder lasts without a refresh, where nothing else is said: as in the originals.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often waiting callers look without having been woken.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The longest time that a double counts exactly.
const LONGEST: Duration = Duration::from_millis(1 << 53);
/// As many keys travel with each script call of slot strings.
const MOST_SLOTS: u32 = 1024;
/// The most permits that a semaphore can have.
const MOST_PERMITS: u32 = i32::MAX as u32;

/// Where a semaphore keeps its holders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    Timestamp,
    Fair,
    Set,
    Slots,
    Lock,
}

/// Everything that a handle knows. Two handles with the same settings share a line.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) layout: Layout,
    pub(super) name: String,
    pub(super) limit: u32,
    pub(super) timeout: Duration,
    pub(super) units: Units,
    /// The name of the lock that peers take.
    pub(super) lock: Option<String>,
    pub(super) lock_timeout: Duration,
    pub(super) check_interval: Duration,
    /// Names of keys that are not derived from the semaphore's.
    pub(super) owners: Option<String>,
    pub(super) counter: Option<String>,
    pub(super) tokens: Option<String>,
}

impl Settings {
    pub(super) fn new(layout: Layout, name: &str, limit: u32) -> Self {
        Settings {
            layout,
            name: name.to_owned(),
            limit,
            timeout: TIMEOUT,
            units: Units::default(),
            lock: None,
            lock_timeout: TIMEOUT,
            check_interval: CHECK_INTERVAL,
            owners: None,
            counter: None,
            tokens: None,
        }
    }

    /// How long a permit lasts without a refresh; `None`: for ever.
    pub(super) fn lease(&self) -> Option<Duration> {
        (self.layout != Layout::Set).then_some(self.timeout)
    }

    /// How long what was granted or refreshed is sure to last in Redis, counted from before it was asked for. A time in
    /// a zset of milliseconds is rounded down, as peers write it.
    pub(super) fn sure_lease(&self) -> Option<Duration> {
        let rounded = match (self.layout, self.units) {
            (Layout::Timestamp | Layout::Fair, Units::Millis) => Duration::from_millis(1),
            _ => Duration::ZERO,
        };
        Some(self.lease()?.saturating_sub(rounded))
    }

    /// Refuses what no semaphore can have.
    pub(super) fn check(&self) -> Result<()> {
        let names = [
            Some(&self.name),
            self.lock.as_ref(),
            self.owners.as_ref(),
            self.counter.as_ref(),
            self.tokens.as_ref(),
        ];
        if names.into_iter().flatten().any(String::is_empty) {
            return Err(Error::InvalidName {
                name: self.name.clone(),
                reason: "it, or the name of one of its keys, is empty",
            });
        }
        let too_long = |name: &&String| name.len() > MOST_NAME_BYTES;
        if let Some(name) = names.into_iter().flatten().find(too_long) {
            return Err(Error::InvalidName {
                name: shortened(name),
                reason: TOO_LONG,
            });
        }
        let most = match self.layout {
            Layout::Slots => MOST_SLOTS,
            _ => MOST_PERMITS,
        };
        if self.limit == 0 || self.limit > most {
            return Err(Error::InvalidLimit {
                name: self.name.clone(),
                limit: self.limit,
                most,
            });
        }
        let times = [
            ("timeout", self.timeout),
            ("lock's timeout", self.lock_timeout),
            ("check interval", self.check_interval),
        ];
        for (what, value) in times {
            let reason = if value < Duration::from_millis(1) {
                "it is below a millisecond"
            } else if value > LONGEST {
                "it is above 2^53 ms"
            } else {
                continue;
            };
            return Err(Error::InvalidDuration {
                name: self.name.clone(),
                what,
                value,
                reason,
            });
        }
        Ok(())
    }

    /// The names in Redis.
    pub(super) fn keys(&self, mapper: &NameMapper) -> Vec<Arc<str>> {
        let name = mapper.map(&self.name);
        let other = |given: &Option<String>, suffix: &str| match given {
            Some(given) => mapper.map(given),
            None => format!("{name}:{suffix}"),
        };
        let keys = match self.layout {
            Layout::Timestamp | Layout::Set => vec![name],
            Layout::Fair => {
                let mut keys = vec![
                    name.clone(),
                    other(&self.owners, "owner"),
                    other(&self.counter, "counter"),
                ];
                keys.extend(self.tokens.iter().map(|tokens| mapper.map(tokens)));
                keys
            }
            Layout::Slots => (1..=self.limit).map(|n| format!("{name}:{n}")).collect(),
            Layout::Lock => vec![format!("lock:{name}")],
        };
        keys.into_iter().map(Arc::from).collect()
    }

    /// What all that stands beside it is named after: for slots the semaphore's name, which is no key; for the lock its
    /// key, so that a lock and a semaphore of one name are two.
    pub(super) fn base(&self, mapper: &NameMapper) -> String {
        let name = mapper.map(&self.name);
        match self.layout {
            Layout::Lock => format!("lock:{name}"),
            _ => name,
        }
    }

    /// The key of the lock that peers take.
    pub(super) fn lock_key(&self, mapper: &NameMapper) -> Option<Arc<str>> {
        let lock = self.lock.as_ref()?;
        Some(format!("lock:{}", mapper.map(lock)).into())
    }
}
