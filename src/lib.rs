// Links of the README: these are the first with their names, so they count here, and those at its end elsewhere.
//! [`RSemaphore`]: RSemaphore
//! [`RPermitExpirableSemaphore`]: RPermitExpirableSemaphore
//! [`RLock`]: RLock
//! [`RFencedLock`]: RFencedLock
//! [`RFairLock`]: RFairLock
//! [`RReadWriteLock`]: RReadWriteLock
//! [`RCountDownLatch`]: RCountDownLatch
//! [`FairSemaphore`]: recipes::FairSemaphore
//! [`TimestampSemaphore`]: recipes::TimestampSemaphore
//! [`SetSemaphore`]: recipes::SetSemaphore
//! [`SlotSemaphore`]: recipes::SlotSemaphore
//! [`StringLock`]: recipes::StringLock
//! [`LimitLayer`]: tower::LimitLayer
//! [`blocking`]: blocking
//! [`memory`]: memory
//! [`guide::examples`]: guide::examples
//! [`guide::promises`]: guide::promises
//! [`guide::queue`]: guide::queue
//! [`guide::locks`]: guide::locks
//! [`guide::recipes`]: guide::recipes
//! [`guide::operations`]: guide::operations
//! [`guide::from_redisson`]: guide::from_redisson
//! [`guide::figures`]: guide::figures
//! [`guide::internals`]: guide::internals
//!
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
// Links to the items of a feature resolve only with the feature.
#![cfg_attr(
    not(all(
        feature = "blocking",
        feature = "redisson-yaml",
        feature = "tls-rustls",
        feature = "tower"
    )),
    allow(rustdoc::broken_intra_doc_links)
)]

mod api;
#[cfg(feature = "blocking")]
#[cfg_attr(docsrs, doc(cfg(feature = "blocking")))]
pub mod blocking;
mod client;
mod clock;
mod config;
mod credentials;
mod engine;
mod error;
pub mod guide;
mod lease;
mod lua;
pub mod memory;
#[doc(hidden)]
pub mod outside;
mod queue;
pub mod recipes;
#[cfg(feature = "redis-rs")]
mod redis_rs;
mod redisson;
#[cfg(feature = "redisson-yaml")]
mod redisson_yaml;
mod state;
mod stats;
mod sync;
mod tls;
#[cfg(feature = "tower")]
#[cfg_attr(docsrs, doc(cfg(feature = "tower")))]
pub mod tower;
mod transport;
mod units;

pub use api::{
    CountDownLatch, Held, Hold, Holder, LeasedPermit, LeasedSemaphore, Lock, LockGuard,
    MAX_PERMITS, Permit, PermitHolder, RemainingTtl, Semaphore,
};
pub use client::{Client, ClientBuilder};
pub use config::{NameMapper, Protocol, ShardedPubSub};
pub use credentials::{Credentials, CredentialsProvider};
pub use error::{Effect, Error, Result};
pub use lease::Lease;
pub use redisson::{
    ExpireCondition, ExpireTime, FencedGuard, RCountDownLatch, RFairLock, RFencedLock, RLock,
    RObject, RPermitExpirableSemaphore, RReadWriteLock, RSemaphore,
};
#[cfg(feature = "redisson-yaml")]
#[cfg_attr(docsrs, doc(cfg(feature = "redisson-yaml")))]
pub use redisson_yaml::{Ignored, RedissonYaml};
pub use state::ConnectionState;
pub use stats::Stats;
#[cfg(feature = "tls-rustls")]
#[cfg_attr(docsrs, doc(cfg(feature = "tls-rustls")))]
pub use tls::Tls;
#[doc(hidden)]
pub use transport::Value as Answer;
