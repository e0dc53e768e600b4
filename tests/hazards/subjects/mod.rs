//! Every primitive as a [`Subject`](crate::subject::Subject): who adds one adds it to the list here.

mod guards;
mod latch;
mod leased;
mod lock;
mod permits;
mod read_write;
mod semaphore;

pub use guards::{Unwatched, Watched};
pub use latch::Latch;
pub use leased::Leased;
pub use lock::{Fair, Fenced, Lock, StringLock};
pub use permits::Permits;
pub use read_write::ReadWrite;
pub use semaphore::Semaphore;

use std::panic::AssertUnwindSafe;

use futures::future::LocalBoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};

/// Calls `$hazard` with every primitive, each beside the others and on a server of its own; the test fails with the names of
/// those for which it failed.
macro_rules! for_every_subject {
    ($hazard:ident) => {
        $crate::subjects::for_every_subject!($hazard;
            Semaphore, Unwatched, Watched, Permits, Lock, Fenced, Fair, ReadWrite, Latch, StringLock,
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

/// How many are tried at a time by all tests together: two busy cores serve the clients of so many within their time-outs.
static TURNS: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(12);

/// Carries all out side by side; panics with the names of those that panicked.
pub async fn together(all: Vec<(&'static str, LocalBoxFuture<'static, ()>)>) {
    let only = std::env::var("SUBJECT").ok();
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let begun = all.into_iter().filter(|(name, _)| wanted(name));
    // Not `join_all`: it polls a few dozen futures all again when one of them is woken.
    let each = begun.map(async |(name, hazard)| {
        let _turn = TURNS.acquire().await.expect("nobody closes it");
        let ended = AssertUnwindSafe(hazard).catch_unwind().await;
        (name, ended.is_ok())
    });
    let ended: Vec<_> = FuturesUnordered::from_iter(each).collect().await;
    assert!(!ended.is_empty(), "no subject is called so: {only:?}");
    let failed = ended.iter().filter(|(_, well)| !well);
    let failed: Vec<_> = failed.map(|(name, _)| name).collect();
    assert!(failed.is_empty(), "failed: {failed:?}");
}

/// Every method of a client that makes a handle is used by a subject: no primitive is left out.
#[test]
fn no_primitive_is_left_out() {
    let manifest = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(manifest.join(path)).expect("it is there");
    // However they are wrapped.
    let client = read("src/client/mod.rs")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let makes = |part: &&str| part.replace("( ", "(").contains("(&self, name: &str");
    let parts = client.split("pub fn ").skip(1);
    let signatures = parts.filter_map(|part| part.split(" {").next());
    let names = signatures.filter(makes);
    let names: Vec<_> = names.filter_map(|part| part.split('(').next()).collect();
    assert!(names.len() >= 10, "{names:?}");
    let folder = manifest.join("tests/hazards/subjects");
    let mut subjects = read("tests/layouts/mod.rs");
    for file in std::fs::read_dir(folder).expect("it is there") {
        let path = file.expect("it can be read").path();
        subjects += &std::fs::read_to_string(path).expect("it is text");
    }
    for name in names {
        let used = format!(".{name}(name");
        assert!(
            subjects.contains(&used),
            "no subject is made by `Client::{name}`"
        );
    }
}
