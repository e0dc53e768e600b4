//! What the handles of all recipes share: settings, the line that belongs to them, and the calls.

use std::collections::HashSet;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

use super::batch::Operation;
use super::line::Line;
use super::line::waiting::Done;
use super::settings::{Layout, Settings};
use crate::api::{Held, Holder};
use crate::engine::Core;
use crate::engine::call::{Call, Dropped, Wait};
use crate::engine::keys::check_id;
use crate::error::Result;
use crate::lease::Lease;
use crate::stats::{Holding, What};

/// A handle: cheap to clone; finds its line at the first call.
#[derive(Clone)]
pub(super) struct Handle {
    core: Arc<Core>,
    settings: Arc<Settings>,
    line: OnceLock<Arc<Line>>,
}

impl Handle {
    pub(super) fn new(core: &Arc<Core>, layout: Layout, name: &str, limit: u32) -> Self {
        Handle {
            core: Arc::clone(core),
            settings: Arc::new(Settings::new(layout, name, limit)),
            line: OnceLock::new(),
        }
    }

    /// The same with other settings.
    pub(super) fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self.line = OnceLock::new();
        self
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    fn lasts(&self) -> Duration {
        self.settings.timeout
    }

    fn line(&self) -> Result<&Arc<Line>> {
        if let Some(line) = self.line.get() {
            return Ok(line);
        }
        self.settings.check()?;
        let line = Line::find(&self.core, &self.settings);
        Ok(self.line.get_or_init(|| line))
    }

    pub(super) async fn acquire(&self) -> Result<Held> {
        let waiting = async {
            let done = self.line()?.join(self.lasts())?.served().await?;
            Ok(granted(done))
        };
        let held = self.take(Wait::Forever, pin!(waiting)).await?;
        Ok(held.expect("those who wait are granted or told an error"))
    }

    pub(super) async fn try_acquire(&self) -> Result<Option<Held>> {
        let trying = async {
            let attempt = Operation::Try(self.lasts());
            let done = self.line()?.call(attempt).await?;
            Ok(granted(done))
        };
        self.take(Wait::No, pin!(trying)).await
    }

    pub(super) async fn try_acquire_for(&self, wait: Duration) -> Result<Option<Held>> {
        if wait.is_zero() {
            return self.try_acquire().await;
        }
        let Some(deadline) = Instant::now().checked_add(wait) else {
            return self.acquire().await.map(Some);
        };
        let waiting = async {
            let seat = self.line()?.join(self.lasts());
            let done = seat?.served_until(deadline).await?;
            Ok(granted(done))
        };
        self.take(Wait::For(wait), pin!(waiting)).await
    }

    async fn take(
        &self,
        wait: Wait,
        taking: Pin<&mut (impl Future<Output = Result<Option<Held>>> + Send)>,
    ) -> Result<Option<Held>> {
        let call = self.calling("acquire", wait, Dropped::Withdrawn);
        let what = match self.settings.layout {
            Layout::Lock => What::Lock,
            _ => What::Permits,
        };
        self.core.take(call, what, 1, taking).await
    }

    async fn run<T>(
        &self,
        operation: &'static str,
        dropped: Dropped,
        running: Pin<&mut (impl Future<Output = Result<T>> + Send)>,
    ) -> Result<T> {
        let call = self.calling(operation, Wait::No, dropped);
        self.core.call(call, running).await
    }

    fn calling(&self, operation: &'static str, wait: Wait, dropped: Dropped) -> Call<'_> {
        Call {
            name: &self.settings.name,
            operation,
            wait,
            dropped,
        }
    }

    pub(super) fn holding(&self, what: What) -> Holding {
        Holding::new(&self.core.stats, what, &self.settings.name, 1)
    }

    pub(super) async fn release(&self, id: &str) -> Result<bool> {
        check_id(id)?;
        let releasing = async {
            let done = self.line()?.call(Operation::Release(id.into())).await?;
            Ok(matches!(done, Done::Was(true)))
        };
        self.run("release", Dropped::CarriedOut, pin!(releasing))
            .await
    }

    pub(super) async fn refresh(&self, id: &str) -> Result<bool> {
        check_id(id)?;
        let refreshing = async {
            let refresh = Operation::Refresh(id.into(), self.lasts(), None);
            Ok(matches!(self.line()?.call(refresh).await?, Done::Was(true)))
        };
        self.run("refresh", Dropped::Withdrawn, pin!(refreshing))
            .await
    }

    /// Page by page, so that no script is a long one. Who holds all the time is listed once.
    pub(super) async fn holders(&self) -> Result<Vec<Holder>> {
        let listing = self.pages();
        self.run("holders", Dropped::Harmless, pin!(listing)).await
    }

    async fn pages(&self) -> Result<Vec<Holder>> {
        let mut holders = Vec::new();
        let mut seen = HashSet::new();
        let mut from: Arc<str> = "".into();
        loop {
            let Done::Holders(page) = self.line()?.call(Operation::List(from)).await? else {
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
        let clearing = async {
            match self.line()?.call(Operation::Clear).await? {
                Done::Count(count) => Ok(count),
                _ => Ok(0),
            }
        };
        self.run("release_all", Dropped::Withdrawn, pin!(clearing))
            .await
    }

    pub(super) fn release_detached(&self, id: &str) {
        match self.line() {
            Ok(line) => line.release_detached(id),
            Err(error) => tracing::error!(%error, id, "not released"),
        }
    }

    pub(super) fn keep(&self, held: &Held) -> Lease {
        match self.line() {
            Ok(line) => line.keep(held, self.lasts()),
            Err(_) => Lease::until(held.until),
        }
    }

    pub(super) fn unkeep(&self, id: &str) {
        if let Some(line) = self.line.get() {
            line.unkeep(id);
        }
    }
}

fn granted(done: Done) -> Option<Held> {
    match done {
        Done::Held(held) => held,
        _ => None,
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

            fn limit(&self) -> u32 {
                self.handle.settings().limit
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
