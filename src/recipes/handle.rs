//! What the handles of all recipes share: settings, the line that belongs to them, and the calls.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::calls::{Call, Page, Reply, Want};
use super::keeping::Keeping;
use super::recipe::Recipe;
use super::refresh::Refreshing;
use super::settings::{Layout, Settings};
use crate::api::{Held, Holder, check_id};
use crate::engine::call::{Dropped, Wait};
use crate::engine::command::Commands;
use crate::engine::primitive::Line;
use crate::engine::{self, Core};
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::stats::{Holding, What};

/// What all handles of a client with the same settings have together.
#[derive(Clone)]
struct Shared {
    line: Arc<Line<Recipe>>,
    keeping: Arc<Keeping>,
}

/// A handle: cheap to clone; finds its line at the first call.
#[derive(Clone)]
pub(super) struct Handle {
    core: Arc<Core>,
    settings: Arc<Settings>,
    shared: OnceLock<Shared>,
}

impl Handle {
    pub(super) fn new(core: &Arc<Core>, layout: Layout, name: &str, limit: u32) -> Self {
        Handle {
            core: Arc::clone(core),
            settings: Arc::new(Settings::new(layout, name, limit)),
            shared: OnceLock::new(),
        }
    }

    /// The same with other settings.
    pub(super) fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self.shared = OnceLock::new();
        self
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    fn lasts(&self) -> Duration {
        self.settings.timeout
    }

    fn shared(&self) -> Result<&Shared> {
        if let Some(shared) = self.shared.get() {
            return Ok(shared);
        }
        self.settings.check()?;
        let line = Recipe::line(&self.core, &self.settings);
        let keeping = line.primitive(|recipe| Arc::clone(&recipe.keeping));
        Ok(self.shared.get_or_init(|| Shared { line, keeping }))
    }

    fn calling(
        &self,
        operation: &'static str,
        wait: Wait,
        dropped: Dropped,
    ) -> engine::call::Call<'_> {
        let call = engine::call::Call::new(&self.settings.name, operation, wait, dropped);
        match self.shared() {
            // It stands among the keys of each request.
            Ok(shared) => call.about(shared.line.keys().record()),
            Err(_) => call,
        }
    }

    async fn take(
        &self,
        tries: bool,
        within: Wait,
        wait: Option<Duration>,
    ) -> Result<Option<Held>> {
        let lasts = self.lasts();
        let waiting = async { self.shared()?.line.wait(Want { lasts, tries }, wait).await };
        let calling = self.calling("acquire", within, Dropped::Withdrawn);
        let what = match self.settings.layout {
            Layout::Lock => What::Lock,
            _ => What::Permits,
        };
        self.core.take(calling, what, 1, pin!(Some(waiting))).await
    }

    async fn run(&self, call: Call) -> Result<Reply> {
        let dropped = match call {
            Call::Release(_) | Call::Tend => Dropped::CarriedOut,
            Call::Clear => Dropped::Withdrawn,
            Call::List(_) => Dropped::Harmless,
        };
        let calling = self.calling(call.name(), Wait::No, dropped);
        let running = async { self.shared()?.line.call(call).await };
        self.core.call(calling, pin!(Some(running))).await
    }

    /// An error that a caller is told, whose call was answered.
    pub(super) fn failed(&self, error: Error) -> Error {
        self.core.stats.failed(error)
    }

    pub(super) fn holding(&self, what: What) -> Holding {
        Holding::new(&self.core.stats, what, &self.settings.name, 1)
    }

    pub(super) async fn acquire(&self) -> Result<Held> {
        let held = self.take(false, Wait::Forever, None).await?;
        Ok(held.expect("those who wait are granted or told an error"))
    }

    pub(super) async fn try_acquire(&self) -> Result<Option<Held>> {
        // It is not refused for the sake of a lock that peers hold for moments only.
        let wait = match (&self.settings.lock, self.core.config.call_timeout) {
            (None, _) => Duration::ZERO,
            (Some(_), None) => self.settings.check_interval,
            // Refused then, and not given up.
            (Some(_), Some(limit)) => self.settings.check_interval.min(limit / 2),
        };
        self.take(true, Wait::No, Some(wait)).await
    }

    pub(super) async fn try_acquire_for(&self, wait: Duration) -> Result<Option<Held>> {
        if wait.is_zero() {
            return self.try_acquire().await;
        }
        self.take(false, Wait::For(wait), Some(wait)).await
    }

    pub(super) async fn release(&self, id: &str) -> Result<bool> {
        check_id(id)?;
        let released = self.run(Call::Release(id.into())).await?;
        let keeping = &self.shared()?.keeping;
        keeping.is_gone(id, "released while it was kept");
        Ok(released == Reply::Released(true))
    }

    pub(super) async fn refresh(&self, id: &str) -> Result<bool> {
        check_id(id)?;
        let ids = [Arc::from(id)];
        let calling = self.calling("refresh", Wait::No, Dropped::Withdrawn);
        let running = async {
            let keys = self.shared()?.line.keys();
            let refreshing = Refreshing::new(&self.core, keys, &self.settings);
            refreshing.for_caller(&ids, self.lasts()).await
        };
        let refreshed = self.core.call(calling, pin!(Some(running))).await?;
        let held = refreshed.held == [true];
        let keeping = &self.shared()?.keeping;
        keeping.refreshed(&ids[0], held, refreshed.until);
        Ok(held)
    }

    pub(super) async fn holders(&self) -> Result<Vec<Holder>> {
        let calling = self.calling("holders", Wait::No, Dropped::Harmless);
        self.core.call(calling, pin!(Some(self.pages()))).await
    }

    /// Page by page, so that no script is a long one. Who holds all the time is listed once.
    async fn pages(&self) -> Result<Vec<Holder>> {
        let mut holders = Vec::new();
        let mut seen = HashSet::new();
        let mut from = Page::start();
        loop {
            let Reply::Holders(page) = self.shared()?.line.call(Call::List(from)).await? else {
                return Ok(holders);
            };
            let new = page.holders.into_iter();
            holders.extend(new.filter(|one| seen.insert(one.id().to_owned())));
            match page.next {
                Some(next) => from = next,
                None => return Ok(holders),
            }
        }
    }

    pub(super) async fn release_all(&self) -> Result<u64> {
        let keeping = &self.shared()?.keeping;
        let kept = keeping.kept_now();
        let cleared = self.run(Call::Clear).await?;
        keeping.all_are_gone(&kept);
        match cleared {
            Reply::Count(count) => Ok(count),
            _ => Ok(0),
        }
    }

    pub(super) fn release_detached(&self, id: &str) {
        match self.shared() {
            Ok(shared) => {
                shared.keeping.unkeep(id);
                shared.line.owe(Call::Release(id.into()));
            }
            Err(error) => tracing::error!(%error, id, "not released"),
        }
    }

    pub(super) fn keep(&self, held: &Held) -> Lease {
        match self.shared() {
            Ok(Shared { line, keeping }) if self.settings.lease().is_some() => {
                keeping.keep(line, held, self.lasts())
            }
            _ => Lease::until(held.until),
        }
    }

    pub(super) fn unkeep(&self, id: &str) {
        if let Some(shared) = self.shared.get() {
            shared.keeping.unkeep(id);
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

/// The trait for a type that has a `handle`, and what is the same in all of them.
macro_rules! leased {
    ($name:ident) => {
        $crate::api::inherent_leased_semaphore!($name);

        impl $crate::api::Sealed for $name {}

        #[async_trait::async_trait]
        impl $crate::api::LeasedSemaphore for $name {
            fn name(&self) -> &str {
                &self.handle.settings().name
            }

            fn limit(&self) -> Option<u32> {
                Some(self.handle.settings().limit)
            }

            fn lease(&self) -> Option<std::time::Duration> {
                self.handle.settings().lease()
            }

            fn clone_handle(&self) -> std::sync::Arc<dyn $crate::api::LeasedSemaphore> {
                std::sync::Arc::new(self.clone())
            }

            async fn acquire(&self) -> $crate::Result<$crate::api::Held> {
                self.handle.acquire().await
            }

            async fn try_acquire(&self) -> $crate::Result<Option<$crate::api::Held>> {
                self.handle.try_acquire().await
            }

            async fn try_acquire_for(
                &self,
                wait: std::time::Duration,
            ) -> $crate::Result<Option<$crate::api::Held>> {
                self.handle.try_acquire_for(wait).await
            }

            async fn release(&self, id: &str) -> $crate::Result<bool> {
                self.handle.release(id).await
            }

            async fn refresh(&self, id: &str) -> $crate::Result<bool> {
                self.handle.refresh(id).await
            }

            async fn holders(&self) -> $crate::Result<Vec<$crate::api::Holder>> {
                self.handle.holders().await
            }

            async fn release_all(&self) -> $crate::Result<u64> {
                self.handle.release_all().await
            }

            fn release_detached(&self, id: &str) {
                self.handle.release_detached(id);
            }

            fn holding(&self) -> $crate::stats::Holding {
                self.handle.holding($crate::stats::What::Permits)
            }

            fn keep(&self, held: &$crate::api::Held) -> $crate::Lease {
                self.handle.keep(held)
            }

            fn unkeep(&self, id: &str) {
                self.handle.unkeep(id);
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($name))
                    .field(self.handle.settings())
                    .finish()
            }
        }
    };
}
pub(super) use leased;
