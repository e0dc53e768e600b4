//! [`LeasedSemaphore`]: permits with ids inside this process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::faults::fault_switch;
use super::queue::{Rules, Shared};
use crate::api::{self, Held, Holder, MAX_PERMITS};
use crate::error::{Error, Result};
use crate::lease::{Change, Lease};

/// A semaphore with ids and leases inside this process. Its operations are those of [`LeasedSemaphore`](crate::LeasedSemaphore).
///
/// A permit with a guard does not expire; without one it does, and waiters need a tokio runtime with its timer.
/// [`slot`](crate::LeasedPermit::slot) is the lowest number that was free, as in [`SlotSemaphore`](crate::recipes::SlotSemaphore).
///
/// Every operation returns [`Error::InvalidLimit`] for a limit of 0 or above [`MAX_PERMITS`], and [`Error::InvalidDuration`] for a lease
/// below a millisecond or above 2^53 of them. All but `acquire` and `try_acquire_for` take effect on the first poll.
///
/// ```
/// use redisson_semaphore::{LeasedSemaphore, memory};
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> redisson_semaphore::Result<()> {
/// let jobs = memory::LeasedSemaphore::new("jobs", 2, Some(Duration::from_secs(10)));
/// let job = jobs.permit().await?;
/// assert_eq!(jobs.holders().await?.len(), 1);
/// assert!(job.release().await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LeasedSemaphore {
    shared: Arc<Shared<Leases>>,
}

/// The holders of the permits, by slot.
struct Leases {
    limit: u32,
    lease: Option<Duration>,
    holders: BTreeMap<u32, Entry>,
}

struct Entry {
    id: Arc<str>,
    until: Option<Instant>,
    /// It has a guard, and does not expire.
    kept: Option<Lease>,
}

impl Rules for Leases {
    type Want = ();
    type Grant = Held;

    fn expire(&mut self, now: Instant) {
        let lasts = |entry: &Entry| entry.until.is_none_or(|until| until > now);
        self.holders.retain(|_, entry| lasts(entry));
    }

    fn fits(&self, (): &(), _behind: bool) -> bool {
        self.holders.len() < self.limit as usize
    }

    fn take(&mut self, (): &()) -> Held {
        let id: Arc<str> = crate::outside::uuid().to_string().into();
        let until = self.end();
        let slot = (1..).find(|slot| !self.holders.contains_key(slot));
        let slot = slot.expect("the limit is a number, too");
        let entry = Entry {
            id: Arc::clone(&id),
            until,
            kept: None,
        };
        self.holders.insert(slot, entry);
        Held {
            id,
            slot: Some(slot),
            until: until.map(Into::into),
        }
    }

    fn take_back(&mut self, (): &(), held: Held) {
        self.release(&held.id);
    }

    fn next_end(&self) -> Option<Instant> {
        self.holders.values().filter_map(|entry| entry.until).min()
    }
}

impl Leases {
    /// When a lease that begins now ends.
    fn end(&self) -> Option<Instant> {
        Instant::now().checked_add(self.lease?)
    }

    fn entry(&mut self, id: &str) -> Option<&mut Entry> {
        self.holders.values_mut().find(|entry| *entry.id == *id)
    }

    /// Frees the permits that are meant, and returns how many they were. Guards become lost; a release would have ended the keeping first.
    fn end_all(&mut self, are_meant: impl Fn(&Entry) -> bool) -> u64 {
        let before = self.holders.len();
        self.holders.retain(|_, entry| {
            let ends = are_meant(entry);
            entry.kept.iter().filter(|_| ends).for_each(Lease::lose);
            !ends
        });
        (before - self.holders.len()) as u64
    }

    fn release(&mut self, id: &str) -> bool {
        self.end_all(|entry| *entry.id == *id) > 0
    }

    fn unkeep(&mut self, id: &str) {
        let until = self.end();
        if let Some(entry) = self.entry(id)
            && let Some(lease) = entry.kept.take()
        {
            entry.until = until;
            lease.set(Change::Until(until.map(Into::into)));
        }
    }
}

impl LeasedSemaphore {
    /// A semaphore of `limit` permits, which last for `lease` without a refresh; for ever with `None`.
    pub fn new(name: impl Into<String>, limit: u32, lease: Option<Duration>) -> Self {
        let name = name.into();
        let valid = match lease {
            _ if limit == 0 || limit > MAX_PERMITS => Err(Error::InvalidLimit {
                name: name.clone(),
                limit,
                most: MAX_PERMITS,
            }),
            Some(lease) => api::check_millis(&name, "lease", lease).map(drop),
            None => Ok(()),
        };
        let leases = Leases {
            limit,
            lease,
            holders: BTreeMap::new(),
        };
        let shared = Shared::new(name, valid, leases);
        LeasedSemaphore { shared }
    }

    /// Takes all permits away from their holders, whose guards become lost, as where a server has lost its data or
    /// a lease could not be refreshed in time.
    pub fn lose(&self) {
        self.shared.change(|leases| leases.end_all(|_| true));
    }
}

fault_switch!(LeasedSemaphore);

#[async_trait]
impl api::LeasedSemaphore for LeasedSemaphore {
    fn name(&self) -> &str {
        &self.shared.name
    }

    fn limit(&self) -> Option<u32> {
        Some(self.shared.queue.lock().rules.limit)
    }

    fn lease(&self) -> Option<Duration> {
        self.shared.queue.lock().rules.lease
    }

    fn clone_handle(&self) -> Arc<dyn api::LeasedSemaphore> {
        Arc::new(self.clone())
    }

    async fn take(&self, wait: Option<Duration>) -> Result<Option<Held>> {
        self.shared.acquire((), wait).await
    }

    async fn release(&self, id: &str) -> Result<bool> {
        self.shared.valid.clone()?;
        api::check_id(id)?;
        let id = id.to_owned();
        let release = move |leases: &mut Leases| leases.release(&id);
        self.shared.carry_out("release", release).await
    }

    async fn refresh(&self, id: &str) -> Result<bool> {
        api::check_id(id)?;
        let refresh = |leases: &mut Leases| {
            let until = leases.end();
            let entry = leases.entry(id);
            let held = entry.is_some();
            if let Some(entry) = entry.filter(|entry| entry.kept.is_none()) {
                entry.until = until;
            }
            held
        };
        self.shared.call(refresh).await
    }

    async fn holders(&self) -> Result<Vec<Holder>> {
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        let holders = |leases: &mut Leases| {
            let holder = |(slot, entry): (&u32, &Entry)| Holder {
                id: entry.id.to_string(),
                // One that is kept lasts for its full time.
                remaining: entry.until.map(left).or(leases.lease),
                slot: Some(*slot),
            };
            leases.holders.iter().map(holder).collect()
        };
        self.shared.call(holders).await
    }

    async fn release_all(&self) -> Result<u64> {
        self.shared.call(|leases| leases.end_all(|_| true)).await
    }

    fn release_detached(&self, id: &str) {
        let id = id.to_owned();
        self.shared.defer(move |leases| {
            leases.unkeep(&id);
            leases.release(&id);
        });
    }

    fn keep(&self, held: &Held) -> Lease {
        self.shared.change(|leases| {
            let forever = || Lease::until(None::<Instant>);
            let lease = leases.lease.map_or_else(forever, Lease::kept);
            let Some(entry) = leases.entry(&held.id) else {
                lease.lose();
                return lease;
            };
            entry.until = None;
            entry.kept.get_or_insert(lease).clone()
        })
    }

    fn unkeep(&self, id: &str) {
        self.shared.change(|leases| leases.unkeep(id));
    }
}
