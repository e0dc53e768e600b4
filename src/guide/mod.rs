//! The guide, in chapters.
//!
//! | Chapter | Contents |
//! |---|---|
//! | [`examples`] | a web service with a limit, a worker with a lock, a test without Redis |
//! | [`promises`] | the guarantees and their limits; errors, time limits, the end of a process |
//! | [`queue`] | the order of waiters in all processes, and a glossary |
//! | [`locks`] | owners, renewal, losses |
//! | [`recipes`] | the classic recipes, beside Python and Java services that write them by hand |
//! | [`operations`] | versions, settings, permissions, keys, TLS, sentinels, clusters, metrics, logs, the tool `rsem` |
//! | [`from_redisson`] | methods of Redisson and of this crate, and the differences |
//! | [`figures`] | throughput and waiting times |
//! | [`internals`] | the parts of the crate, and their places in the source |

#[doc = include_str!("examples.md")]
pub mod examples {}

#[doc = include_str!("promises.md")]
pub mod promises {}

#[doc = include_str!("queue.md")]
pub mod queue {}

#[doc = include_str!("locks.md")]
pub mod locks {}

#[doc = include_str!("recipes.md")]
pub mod recipes {}

#[doc = include_str!("operations.md")]
pub mod operations {}

#[doc = include_str!("from_redisson.md")]
pub mod from_redisson {}

/// Throughput and waiting times.
///
#[doc = include_str!("waits.svg")]
///
#[doc = include_str!("throughput.svg")]
///
#[doc = include_str!("figures.md")]
///
/// # The demo
///
/// The output of `make demo` without a terminal:
///
#[doc = include_str!("demo.svg")]
pub mod figures {}

#[doc = include_str!("internals.md")]
pub mod internals {}
