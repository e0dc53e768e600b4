#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(test)]
mod any_value;
mod api;
mod client;
mod clock;
mod config;
mod credentials;
mod engine;
mod error;
mod lease;
pub mod memory;
#[doc(hidden)]
pub mod outside;
pub mod recipes;
mod redisson;
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
    Answer, CountDownLatch, Held, Hold, Holder, LeasedPermit, LeasedSemaphore, Lock, LockGuard,
    MAX_PERMITS, Permit, PermitHolder, RemainingTtl, Semaphore,
};
pub use client::{Client, ClientBuilder};
pub use config::NameMapper;
pub use credentials::{Credentials, CredentialsProvider};
pub use error::{Effect, Error, Result};
pub use lease::Lease;
pub use redisson::{ExpireCondition, ExpireTime, RCountDownLatch, RFencedLock, RLock, RSemaphore};
pub use state::ConnectionState;
pub use stats::Stats;
#[cfg(feature = "tls-rustls")]
#[cfg_attr(docsrs, doc(cfg(feature = "tls-rustls")))]
pub use tls::Tls;
