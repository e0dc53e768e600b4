//! The settings of a handle: layout, limit, times, keys.

use std::sync::Arc;
use std::time::Duration;

use super::call::{Kind, Want};
use crate::api::{MAX_PERMITS, check_millis, flaw_of_name, refuse, whole_millis};
use crate::config::NameMapper;
use crate::error::{Error, Result};
use crate::units::Units;

/// How long a holder lasts without a refresh, where nothing else is said: as in the originals.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often waiting callers look without having been woken.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// As many keys travel with each script call of slot strings.
const MOST_SLOTS: u32 = 1024;

/// Where a semaphore keeps its holders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    Timestamp,
    Fair,
    Set,
    Slots,
    Lock,
}

impl Layout {
    /// In the names of what stands beside it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Layout::Timestamp => "timestamp",
            Layout::Fair => "fair",
            Layout::Set => "set",
            Layout::Slots => "slots",
            Layout::Lock => "lock",
        }
    }

    /// Whether each permit has a time of its own, which no other handle goes by.
    pub(super) fn has_own_times(self) -> bool {
        matches!(self, Layout::Slots | Layout::Lock)
    }
}

/// Everything that a handle knows. Two handles with the same settings wait together; see [`Settings::shared`].
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) layout: Layout,
    pub(super) name: String,
    pub(super) limit: u32,
    pub(super) timeout: Duration,
    pub(super) units: Units,
    /// The name of the lock that peers take.
    pub(super) lock: Option<String>,
    /// The expiry for a lock of a peer that has none; `None`: it is left as it is.
    pub(super) lock_timeout: Option<Duration>,
    pub(super) check_interval: Duration,
    /// Names of keys that are not derived from the semaphore's.
    pub(super) owners: Option<String>,
    pub(super) counter: Option<String>,
    pub(super) tokens: Option<String>,
    /// The key of a string lock, where that is not `lock:name`.
    pub(super) key: Option<String>,
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
            lock_timeout: Some(TIMEOUT),
            check_interval: CHECK_INTERVAL,
            owners: None,
            counter: None,
            tokens: None,
            key: None,
        }
    }

    /// All but what travels with each call.
    pub(super) fn shared(&self) -> Self {
        let timeout = match self.layout.has_own_times() {
            true => TIMEOUT,
            false => self.timeout,
        };
        Settings {
            timeout,
            ..self.clone()
        }
    }

    /// How long a permit lasts without a refresh; `None`: for ever.
    pub(super) fn lease(&self) -> Option<Duration> {
        (self.layout != Layout::Set).then_some(self.timeout)
    }

    /// How long what was granted or refreshed for `lasts` is sure to last in Redis, counted from before it was asked for.
    /// A time in a zset of milliseconds is rounded down, as peers write it.
    pub(super) fn sure_lease(&self, lasts: Duration) -> Duration {
        let rounded = match (self.layout, self.units) {
            (Layout::Timestamp | Layout::Fair, Units::Millis) => Duration::from_millis(1),
            _ => Duration::ZERO,
        };
        lasts.saturating_sub(rounded)
    }

    /// The want of the queue for one permit.
    pub(super) fn want(&self) -> Want {
        let lasts = u64::try_from(whole_millis(self.timeout)).unwrap_or(u64::MAX);
        let (kind, lasts) = match self.layout {
            Layout::Set => (Kind::Endless, 0),
            Layout::Slots => (Kind::Slot, lasts),
            Layout::Timestamp | Layout::Fair | Layout::Lock => (Kind::Timed, lasts),
        };
        Want {
            kind,
            limit: self.limit,
            lasts,
        }
    }

    /// Their form in the scripts' arguments; see `lua/recipes/setting.lua`.
    pub(super) fn header(&self) -> String {
        let flags = [
            ('-', true),
            ('s', self.units == Units::Seconds),
            ('f', self.layout == Layout::Fair),
            ('t', self.tokens.is_some()),
            ('l', self.lock.is_some()),
            ('r', self.layout == Layout::Lock),
        ];
        let flags: String = flags
            .iter()
            .filter(|(_, set)| *set)
            .map(|(flag, _)| flag)
            .collect();
        let [timeout, lock] =
            [self.timeout, self.lock_timeout.unwrap_or_default()].map(whole_millis);
        format!("{} {timeout} {flags} {lock}", self.limit)
    }

    /// The error of a call, where a script says in its own words why it cannot be carried out; of these names are the keys.
    pub(super) fn explain(&self, error: Error, mapper: &NameMapper) -> Error {
        let (name, text) = match error {
            Error::NotANumber { ref found, .. } => (&self.name, found),
            Error::Server { ref detail, .. } => (&self.name, detail),
            error => return error,
        };
        let name = name.clone();
        let said = |word| {
            text.strip_prefix("unreadable ")
                .unwrap_or(text)
                .strip_prefix(word)
        };
        if let Some(found) = said("units ") {
            let (units, found) = (self.units, found.to_owned());
            return Error::WrongUnits { name, units, found };
        }
        if let Some(found) = said("counter ") {
            let counter = self.keys(mapper).get(2).map(ToString::to_string);
            let (name, found) = (counter.unwrap_or(name), found.to_owned());
            return Error::NotANumber { name, found };
        }
        error
    }

    /// Refuses what no semaphore can have.
    pub(super) fn check(&self) -> Result<()> {
        let names = [
            Some(&self.name),
            self.lock.as_ref(),
            self.owners.as_ref(),
            self.counter.as_ref(),
            self.tokens.as_ref(),
            self.key.as_ref(),
        ];
        for name in names.into_iter().flatten() {
            let flaw = flaw_of_name(name);
            let reason = "it, or the name of one of its keys, is empty or longer than 65536 bytes";
            refuse(&self.name, flaw.map(|_| reason))?;
        }
        let most = match self.layout {
            Layout::Slots => MOST_SLOTS,
            _ => MAX_PERMITS,
        };
        if self.limit == 0 || self.limit > most {
            return Err(Error::InvalidLimit {
                name: self.name.clone(),
                limit: self.limit,
                most,
            });
        }
        check_millis(&self.name, "timeout", self.timeout)?;
        check_millis(&self.name, "check interval", self.check_interval)?;
        if let Some(timeout) = self.lock_timeout {
            check_millis(&self.name, "lock's timeout", timeout)?;
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
            Layout::Lock => vec![self.string_key(mapper)],
        };
        keys.into_iter().map(Arc::from).collect()
    }

    /// The part that all additional keys have in their names: the layout, as two layouts of one name are two objects, and the name (the lock's
    /// key), in braces unless it has some of its own.
    pub(super) fn base(&self, mapper: &NameMapper) -> String {
        let word = self.layout.word();
        let name = match self.layout {
            Layout::Lock => self.string_key(mapper),
            _ => mapper.map(&self.name),
        };
        match name.contains('{') {
            true => format!("{word}::{name}"),
            false => format!("{word}:{{{name}}}"),
        }
    }

    /// The key of a string lock.
    fn string_key(&self, mapper: &NameMapper) -> String {
        match &self.key {
            Some(key) => mapper.map(key),
            None => format!("lock:{}", mapper.map(&self.name)),
        }
    }

    /// The key of the lock that peers take.
    pub(super) fn lock_key(&self, mapper: &NameMapper) -> Option<Arc<str>> {
        let lock = self.lock.as_ref()?;
        Some(format!("lock:{}", mapper.map(lock)).into())
    }
}
