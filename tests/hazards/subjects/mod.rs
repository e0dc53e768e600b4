//! Every primitive as a [`Subject`](crate::subject::Subject): who adds one adds it to the list here.

mod guards;
mod latch;
mod leased;
mod lock;
mod permits;
mod semaphore;
mod string_lock;

pub use guards::{Unwatched, Watched};
pub use latch::Latch;
pub use leased::Leased;
pub use lock::{Fenced, Lock};
pub use permits::Permits;
pub use semaphore::Semaphore;
pub use string_lock::StringLock;

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use futures::future::{LocalBoxFuture, join_all};

/// Calls `$hazard` with every primitive, each beside the others and on a server of its own; the test fails with the names of
/// those for which it failed.
macro_rules! for_every_subject {
    ($hazard:ident) => {
        $crate::subjects::for_every_subject!($hazard;
            Semaphore, Unwatched, Watched, Permits, Lock, Fenced, Latch, StringLock,
            Leased<0>, Leased<1>, Leased<2>, Leased<3>, Leased<4>, Leased<5>, Leased<6>,
        )
    };
    ($hazard:ident; $($subject:ty),+ $(,)?) => {{
        #[allow(unused_imports)]
        use $crate::subjects::*;
        $crate::subjects::together(vec![
            $((<$subject as $crate::subject::Subject>::NAME, Box::pin($hazard::<$subject>())),)+
        ])
        .await;
    }};
}
pub(crate) use for_every_subject;

/// Carries all out at once; panics with the names of those that panicked.
pub async fn together(all: Vec<(&'static str, LocalBoxFuture<'static, ()>)>) {
    let only = std::env::var("SUBJECT").ok();
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let begun = all.into_iter().filter(|(name, _)| wanted(name));
    let ended = join_all(begun.map(async |(name, hazard)| {
        let ended = AssertUnwindSafe(hazard).catch_unwind().await;
        (name, ended.is_ok())
    }))
    .await;
    assert!(!ended.is_empty(), "no subject is called so: {only:?}");
    let failed = ended.iter().filter(|(_, well)| !well);
    let failed: Vec<_> = failed.map(|(name, _)| name).collect();
    assert!(failed.is_empty(), "failed: {failed:?}");
}
