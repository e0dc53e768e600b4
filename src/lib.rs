#![doc = include_str!("../README.md")]

mod api;
mod client;
mod config;
mod engine;
mod error;
mod guard;
pub mod memory;
pub mod redisson;
mod transport;

pub use api::{MAX_PERMITS, Semaphore};
pub use client::{Client, ClientBuilder};
pub use config::NameMapper;
pub use error::{Effect, Error, Result};
pub use guard::Permit;
pub use redisson::RSemaphore;
