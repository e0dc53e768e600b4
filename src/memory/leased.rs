//! [`LeasedSemaphore`]: permits with ids inside this process.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::faults::fault_switch;
use super::queue::{Rules, Shared};
use crate::api::{self, Held, Holder, MAX_PERMITS, check_name};
use crate::error::{Error, Result};
use crate::lease::{Change, Lease};

/// A semaphore with ids and leases inside this process: for tests, and for services that run alone.
///
/// Its operations are those of [`LeasedSemaphore`](crate::LeasedSemaphore). Cloning it is cheap and gives another
/// handle to the same permits. There is no registry: two semaphores of the same name that were made apart have
/// nothing to do with each other. A permit with a guard does not expire; without one it does, and waiters of
/// that need a tokio runtime with its timer.
///
/// Its permits have numbers: [`slot`](crate::LeasedPermit::slot) is the lowest number that was free, as in
/// [`SlotSemaphore`](crate::recipes::SlotSemaphore).
///
/// Every operation returns [`Error::InvalidName`] if the name is empty, [`Error::InvalidLimit`] for a limit of 0 or above
/// [`MAX_PERMITS`], and [`Error::InvalidDuration`] for a lease below a millisecond or above 2^53 of them. All but `acquire` and `try_acquire_for` take
/// effect on the first poll.
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
#[derive(Clone)]
pub struct LeasedSemaphore {
    shared: Arc<Shared<Leases>>,
    limit: u32,
    lease: Option<Duration>,
}

/// The holders of the permits.
struct Leases {
    limit: usize,
    lease: Option<Duration>,
    holders: HashMap<Arc<str>, Entry>,
    /// Of the holders, in the order of their coming.
    next: u64,
    /// Slots that have fallen free, below the first one that was never used.
    free_slots: BTreeSet<u32>,
    fresh_slot: u32,
    changed: Vec<Lease>,
}

struct Entry {
    number: u64,
    slot: u32,
    until: Option<Instant>,
    /// It has a guard, and does not expire.
    kept: Option<Lease>,
}

impl Rules for Leases {
    type Want = ();
    type Grant = Held;
    const BLOCKS: bool = false;

    fn expire(&mut self, now: Instant) {
        let expired = |entry: &mut Entry| entry.until.is_some_and(|until| until <= now);
        for (_, entry) in self.holders.extract_if(|_, entry| expired(entry)) {
            self.free_slots.insert(entry.slot);
        }
    }

    fn fits(&self, (): &()) -> bool {
        self.holders.len() < self.limit
    }

    fn take(&mut self, (): &()) -> Held {
        let id: Arc<str> = crate::outside::uuid().to_string().into();
        let until = self.end();
        let slot = self.free_slots.pop_first().unwrap_or_else(|| {
            self.fresh_slot += 1;
            self.fresh_slot
        });
        self.next += 1;
        let entry = Entry {
            number: self.next,
            slot,
            until,
            kept: None,
        };
        self.holders.insert(Arc::clone(&id), entry);
        Held {
            id,
            slot: Some(slot),
            until: until.map(Into::into),
        }
    }

    fn take_back(&mut self, held: Held) {
        self.release(&held.id);
    }

    fn next_end(&self) -> Option<Instant> {
        self.holders.values().filter_map(|entry| entry.until).min()
    }

    fn changed(&mut self) -> Vec<Lease> {
        std::mem::take(&mut self.changed)
    }
}

impl Leases {
    /// When a lease that begins now ends.
    fn end(&self) -> Option<Instant> {
        Instant::now().checked_add(self.lease?)
    }

    fn release(&mut self, id: &str) -> bool {
        let entry = self.holders.remove(id);
        let held = entry.is_some();
        entry.into_iter().for_each(|entry| self.ended(entry));
        held
    }

    /// One holds no more. Its guard becomes lost; a release would have ended the keeping first.
    fn ended(&mut self, entry: Entry) {
        self.free_slots.insert(entry.slot);
        if let Some(lease) = entry.kept {
            lease.change(Change::Lost);
            self.changed.push(lease);
        }
    }

    fn refresh(&mut self, id: &str) -> bool {
        let until = self.end();
        let entry = self.holders.get_mut(id);
        let held = entry.is_some();
        if let Some(entry) = entry.filter(|entry| entry.kept.is_none()) {
            entry.until = until;
        }
        held
    }

    fn keep(&mut self, id: &str) -> Lease {
        let lease = match self.lease {
            Some(lasts) => Lease::kept(lasts),
            None => Lease::until(None::<Instant>),
        };
        match self.holders.get_mut(id) {
            Some(entry) => {
                entry.until = None;
                entry.kept.get_or_insert(lease).clone()
            }
            None => {
                // Nobody has seen it yet.
                lease.change(Change::Lost);
                lease
            }
        }
    }

    fn unkeep(&mut self, id: &str) {
        let until = self.end();
        if let Some(entry) = self.holders.get_mut(id)
            && let Some(lease) = entry.kept.take()
        {
            entry.until = until;
            lease.change(Change::Until(until.map(Into::into)));
            self.changed.push(lease);
        }
    }

    fn holders(&mut self) -> Vec<Holder> {
        let now = Instant::now();
        let mut entries: Vec<_> = self.holders.iter().collect();
        entries.sort_by_key(|(_, entry)| entry.number);
        let left = |until: Instant| until.saturating_duration_since(now);
        let holder = |(id, entry): (&Arc<str>, &Entry)| Holder {
            id: id.to_string(),
            remaining: match &entry.kept {
                Some(_) => self.lease,
                None => entry.until.map(left),
            },
            slot: Some(entry.slot),
        };
        entries.into_iter().map(holder).collect()
    }

    fn release_all(&mut self) -> u64 {
        let entries = std::mem::take(&mut self.holders);
        let count = entries.len() as u64;
        entries.into_values().for_each(|entry| self.ended(entry));
        count
    }
}

impl LeasedSemaphore {
    /// A semaphore of `limit` permits, which last for `lease` without a refresh; for ever with `None`.
    pub fn new(name: impl Into<String>, limit: u32, lease: Option<Duration>) -> Self {
        let leases = Leases {
            limit: limit as usize,
            lease,
            holders: HashMap::new(),
            next: 0,
            free_slots: BTreeSet::new(),
            fresh_slot: 0,
            changed: Vec::new(),
        };
        LeasedSemaphore {
            shared: Arc::new(Shared::new(name.into(), leases)),
            limit,
            lease,
        }
    }

    fn check(&self) -> Result<()> {
        let name = &self.shared.name;
        check_name(name)?;
        if self.limit == 0 || self.limit > MAX_PERMITS {
            return Err(Error::InvalidLimit {
                name: name.clone(),
                limit: self.limit,
                most: MAX_PERMITS,
            });
        }
        match self.lease {
            Some(lease) => api::check_millis(name, "lease", lease).map(drop),
            None => Ok(()),
        }
    }

    /// Takes all permits away from their holders, whose guards become lost, as where a server has lost its data or
    /// a lease could not be refreshed in time.
    pub fn lose(&self) {
        self.shared.change(Leases::release_all);
    }

    /// Unless something is wrong with it, or on purpose.
    async fn pass(&self, wait: Option<Duration>) -> Result<()> {
        self.check()?;
        self.shared.pass(wait).await
    }
}

fault_switch!(LeasedSemaphore: shared.faults);

impl api::Sealed for LeasedSemaphore {}

#[async_trait]
impl api::LeasedSemaphore for LeasedSemaphore {
    fn name(&self) -> &str {
        &self.shared.name
    }

    fn limit(&self) -> Option<u32> {
        Some(self.limit)
    }

    fn lease(&self) -> Option<Duration> {
        self.lease
    }

    fn clone_handle(&self) -> Arc<dyn api::LeasedSemaphore> {
        Arc::new(self.clone())
    }

    async fn acquire(&self) -> Result<Held> {
        self.pass(None).await?;
        let held = self.shared.wait((), None).await;
        Ok(held.expect("it waits until there is one"))
    }

    async fn try_acquire(&self) -> Result<Option<Held>> {
        self.pass(None).await?;
        Ok(self.shared.take(&()))
    }

    async fn try_acquire_for(&self, wait: Duration) -> Result<Option<Held>> {
        if wait.is_zero() {
            return self.try_acquire().await;
        }
        self.pass(Some(wait)).await?;
        Ok(self.shared.wait((), Some(wait)).await)
    }

    async fn release(&self, id: &str) -> Result<bool> {
        self.check()?;
        api::check_id(id)?;
        let (semaphore, id) = (self.clone(), id.to_owned());
        let release = move || semaphore.shared.change(|leases| leases.release(&id));
        self.shared.carry_out("release", release).await
    }

    async fn refresh(&self, id: &str) -> Result<bool> {
        api::check_id(id)?;
        self.pass(None).await?;
        Ok(self.shared.change(|leases| leases.refresh(id)))
    }

    async fn holders(&self) -> Result<Vec<Holder>> {
        self.pass(None).await?;
        Ok(self.shared.change(Leases::holders))
    }

    async fn release_all(&self) -> Result<u64> {
        self.pass(None).await?;
        Ok(self.shared.change(Leases::release_all))
    }

    fn release_detached(&self, id: &str) {
        let (semaphore, id) = (self.clone(), id.to_owned());
        self.shared.faults.owe(move || {
            semaphore.shared.change(|leases| {
                leases.unkeep(&id);
                leases.release(&id);
            });
        });
    }

    fn keep(&self, held: &Held) -> Lease {
        self.shared.change(|leases| leases.keep(&held.id))
    }

    fn unkeep(&self, id: &str) {
        self.shared.change(|leases| leases.unkeep(id));
    }
}

impl fmt::Debug for LeasedSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeasedSemaphore")
            .field("name", &self.shared.name)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
