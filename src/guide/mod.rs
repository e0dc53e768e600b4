//! What to know before the first permit and after it, in chapters.
//!
//! | Chapter | What it is about |
//! |---|---|
//! | [`promises`] | what holds whatever happens, and where it ends; errors, time limits, the end of a process |
//! | [`locks`] | owners, renewal, losses, turns |
//! | [`recipes`] | the classic recipes beside Python and Java services that write them by hand |
//! | [`turns`] | the order of waiters, between processes, too |
//! | [`operations`] | versions, settings, permissions, keys, TLS, sentinels, clusters, metrics, logs, the tool `rsem` |
//! | [`from_redisson`] | which method is which, and what is different |
//! | [`figures`] | how fast it is, and how long one waits |
//! | [`internals`] | how it works, and where it stands in the source |

#[doc = include_str!("promises.md")]
pub mod promises {}

#[doc = include_str!("locks.md")]
pub mod locks {}

#[doc = include_str!("recipes.md")]
pub mod recipes {}

#[doc = include_str!("turns.md")]
pub mod turns {}

#[doc = include_str!("operations.md")]
pub mod operations {}

#[doc = include_str!("from_redisson.md")]
pub mod from_redisson {}

/// How fast it is, and how long one waits.
///
#[doc = include_str!("waits.svg")]
///
#[doc = include_str!("throughput.svg")]
///
#[doc = include_str!("figures.md")]
///
/// # The demo
///
/// What `make demo` prints, where nobody looks on in a terminal:
///
#[doc = include_str!("demo.svg")]
pub mod figures {}

#[doc = include_str!("internals.md")]
pub mod internals {}
