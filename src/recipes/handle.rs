//! The common part of the handles of all recipes: settings, their queue, the calls, and the refreshed permits.

use std::collections::HashSet;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::call::Call;
use super::holders::{Holders, Page, Recipes, script};
use super::names;
use super::settings::{Layout, Settings};
use super::{FairSemaphore, SetSemaphore, SlotSemaphore, TimestampSemaphore};
use crate::api::{Held, Holder, LeasedSemaphore, by_methods, check_id};
use crate::clock::Moment;
use crate::engine::Core;
use crate::engine::holds::Renewing;
use crate::engine::request::Arg;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::queue::{Object, Outcome};
use crate::stats::{Holding, What};

/// One script call refreshes so many at the most: it bounds the script's time.
const MOST_REFRESHED: usize = 250;

/// A handle: cheap to clone; finds what it shares with others at the first call.
#[derive(Clone)]
pub(super) struct Handle {
    pub(super) core: Arc<Core>,
    settings: Arc<Settings>,
    queue: OnceLock<Arc<Object<Recipes>>>,
}

impl Handle {
    pub(super) fn new(core: &Arc<Core>, layout: Layout, name: &str, limit: u32) -> Self {
        Handle {
            core: Arc::clone(core),
            settings: Arc::new(Settings::new(layout, name, limit)),
            queue: OnceLock::new(),
        }
    }

    /// The same with other settings.
    pub(super) fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self.queue = OnceLock::new();
        self
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn queue(&self) -> Result<&Arc<Object<Recipes>>> {
        if let Some(queue) = self.queue.get() {
            return Ok(queue);
        }
        self.settings.check()?;
        let settings = self.settings.shared();
        let place = format!("{settings:?}").into();
        // The mapper is the user's code: not under the registry's lock.
        let names = names::of(&settings, &self.core.config.name_mapper, self.core.id());
        let script = script(settings.layout);
        let queue = Object::at(&self.core, place, names, script, |_, _, _| {
            Holders::new(settings)
        });
        Ok(self.queue.get_or_init(|| queue))
    }

    fn explain(&self, error: Error) -> Error {
        self.settings.explain(error, &self.core.config.name_mapper)
    }

    pub(super) async fn take(&self, wait: Option<Duration>) -> Result<Option<Held>> {
        let want = self.settings.want();
        let asking = async {
            let queue = self.queue()?;
            let mut outcome = match wait {
                Some(Duration::ZERO) => queue.call(Call::Try(want)).await,
                _ => queue.wait(want, wait).await,
            };
            if let Ok(Outcome::Text(_)) = outcome {
                outcome = queue.wait(want, Some(self.wait_for_lock())).await;
            }
            Ok(match outcome.map_err(|error| self.explain(error))? {
                Outcome::Granted(grant) => Some(Held {
                    id: names::permit_id(self.core.id(), grant.ticket).into(),
                    slot: u32::try_from(grant.taken.token)
                        .ok()
                        .filter(|slot| *slot > 0),
                    until: grant.until.filter(|_| self.settings.lease().is_some()),
                }),
                _ => None,
            })
        };
        let what = match self.settings.layout {
            Layout::Lock => What::Lock,
            _ => What::Permits,
        };
        let name = &self.settings.name;
        self.core.take(name, (what, 1), pin!(asking)).await
    }

    /// A try is not refused for the sake of a lock that peers hold for moments only.
    fn wait_for_lock(&self) -> Duration {
        let check = self.settings.check_interval;
        // Refused then, and not given up.
        (self.core.config.call_timeout).map_or(check, |limit| check.min(limit / 2))
    }

    async fn run(&self, call: Call) -> Result<Outcome<super::call::Want>> {
        let running = async {
            let outcome = self.queue()?.call(call).await;
            outcome.map_err(|error| self.explain(error))
        };
        self.core.call(pin!(running)).await
    }

    pub(super) fn holding(&self, what: What) -> Holding {
        Holding::new(&self.core.stats, what, &self.settings.name, 1)
    }

    pub(super) async fn release(&self, id: &str) -> Result<bool> {
        check_id(id)?;
        let released = self.run(Call::Release(id.into())).await?;
        self.is_gone(id);
        Ok(released == Outcome::Number(1))
    }

    pub(super) async fn refresh(&self, id: &str) -> Result<bool> {
        check_id(id)?;
        let lasts = self.settings.timeout;
        let until = Moment::now().checked_add(self.settings.sure_lease(lasts));
        // One more than the slot.
        let slot = match self.run(Call::Refresh(id.into(), lasts)).await? {
            Outcome::Number(slot @ 1..) => u32::try_from(slot - 1).ok(),
            _ => {
                self.is_gone(id);
                return Ok(false);
            }
        };
        if let Some((key, until)) = self.key_of(id, slot).zip(until) {
            self.lasts(&key, &id.into(), until);
        }
        Ok(true)
    }

    pub(super) async fn holders(&self) -> Result<Vec<Holder>> {
        self.core.call(pin!(self.pages())).await
    }

    /// Page by page, so that no script is a long one. An id that holds all the time is listed once.
    async fn pages(&self) -> Result<Vec<Holder>> {
        let (mut holders, mut seen) = (Vec::new(), HashSet::new());
        let mut from = Arc::from(Page::START);
        loop {
            let page = self.queue()?.call(Call::List(from)).await;
            let Outcome::Text(text) = page.map_err(|error| self.explain(error))? else {
                return Ok(holders);
            };
            let page = Page::read(&text).ok_or_else(|| Error::Server {
                name: self.settings.name.clone(),
                detail: format!("unexpected answer {text}"),
            })?;
            let new = page.holders.into_iter();
            holders.extend(new.filter(|one| seen.insert(one.id().to_owned())));
            match page.next {
                Some(next) => from = next,
                None => return Ok(holders),
            }
        }
    }

    pub(super) async fn release_all(&self) -> Result<u64> {
        let kept = self.core.holds.kept();
        let cleared = self.run(Call::Clear).await?;
        for key in self.own_keys() {
            self.core.holds.all_lost(&key, kept, |_| false);
        }
        match cleared {
            Outcome::Number(count) => Ok(u64::try_from(count).unwrap_or(0)),
            _ => Ok(0),
        }
    }

    pub(super) fn release_detached(&self, id: &str) {
        match self.queue() {
            Ok(queue) => {
                if let Some(key) = self.key_of(id, None) {
                    self.core.holds.end(&key, id);
                }
                queue.defer(Call::Release(id.into()));
            }
            Err(error) => tracing::error!(%error, id, "not released"),
        }
    }

    // ---- what is refreshed in the background ----

    /// The keys by one of which a permit is refreshed: the zset of times, or its slot.
    fn own_keys(&self) -> impl Iterator<Item = Arc<str>> {
        let all = self.settings.keys(&self.core.config.name_mapper);
        let slots = match self.settings.layout {
            Layout::Slots => all.len(),
            _ => 1,
        };
        all.into_iter().take(slots)
    }

    /// The one of `id`, which has this slot, or is known.
    fn key_of(&self, id: &str, slot: Option<u32>) -> Option<Arc<str>> {
        let holds = &self.core.holds;
        match (self.settings.layout, slot) {
            (Layout::Set, _) => None,
            (Layout::Slots, Some(slot)) => self.own_keys().nth((slot as usize).checked_sub(1)?),
            (Layout::Slots, None) => self.own_keys().find(|key| holds.lease(key, id).is_some()),
            _ => self.own_keys().next(),
        }
    }

    fn renewing(&self) -> Renewing {
        let times = matches!(self.settings.layout, Layout::Timestamp | Layout::Fair);
        Renewing {
            kind: if times { "times" } else { "slots" },
            id: |id| Arg::Text(Arc::clone(id)),
            others: Renewing::nothing_else,
            most: MOST_REFRESHED,
            lease: self.settings.timeout,
        }
    }

    /// It lasts until then at the least: another handle's time may be a shorter one, which takes nothing away.
    fn lasts(&self, key: &Arc<str>, id: &Arc<str>, until: Moment) {
        let holds = &self.core.holds;
        let known = holds.lease(key, id).and_then(|lease| lease.remaining());
        if known.is_none_or(|known| known < until.remaining()) {
            holds.ends(key, id, until, self.renewing());
        }
    }

    /// `id` is not held any more. Its keeper becomes lost: a guard that releases it has ended that before.
    fn is_gone(&self, id: &str) {
        if let Some(key) = self.key_of(id, None) {
            self.core.holds.lost(&key, id);
        }
    }

    /// Refreshes what is held from now on, until it is released.
    pub(super) fn keep(&self, held: &Held) -> Lease {
        let key = self.key_of(&held.id, held.slot);
        let (Some(key), Some(until)) = (key, held.until) else {
            return Lease::until(held.until);
        };
        self.lasts(&key, &held.id, until);
        self.core.holds.keep(&key, &held.id, until, self.renewing())
    }

    /// Refreshes it no more.
    pub(super) fn unkeep(&self, id: &str) {
        if let Some(key) = self.key_of(id, None) {
            self.core.holds.keep_no_more(&key, id);
        }
    }
}

/// A setting that is given as it is to the type's `handle`.
macro_rules! setting {
    ($(#[$doc:meta])* $name:ident: $of:ty) => {
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $name: $of) -> Self {
            self.handle = self.handle.with(|settings| settings.$name = $name);
            self
        }
    };
}
pub(super) use setting;

/// Makes a type of its `handle`: the trait, and what is the same in all of them.
macro_rules! leased {
    ($name:ident, $layout:expr) => {
        impl $name {
            pub(crate) fn new(core: &Arc<Core>, name: &str, limit: u32) -> Self {
                let handle = Handle::new(core, $layout, name, limit);
                $name { handle }
            }

            setting! {
                /// How often the first two clients that wait look for what other programs have released; 100 ms by default.
                check_interval: Duration
            }
        }

        by_methods! {
            LeasedSemaphore for $name, |semaphore| semaphore.handle;
            now {
                release_detached(id: &str);
                keep(held: &Held) -> Lease;
                unkeep(id: &str);
            }
            waits {
                take(wait: Option<Duration>) -> Result<Option<Held>>;
                release(id: &str) -> Result<bool>;
                refresh(id: &str) -> Result<bool>;
                holders() -> Result<Vec<Holder>>;
                release_all() -> Result<u64>;
            }

            fn name(&self) -> &str {
                &self.handle.settings().name
            }

            fn limit(&self) -> Option<u32> {
                Some(self.handle.settings().limit)
            }

            fn lease(&self) -> Option<Duration> {
                self.handle.settings().lease()
            }

            fn clone_handle(&self) -> Arc<dyn LeasedSemaphore> {
                Arc::new(self.clone())
            }

            fn holding(&self) -> Holding {
                self.handle.holding(What::Permits)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($name))
                    .field(self.handle.settings())
                    .finish()
            }
        }
    };
}

leased!(TimestampSemaphore, Layout::Timestamp);
leased!(FairSemaphore, Layout::Fair);
leased!(SetSemaphore, Layout::Set);
leased!(SlotSemaphore, Layout::Slots);
