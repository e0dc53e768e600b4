//! The semaphores of the classic recipes, one for each layout.
//! Each test binary uses a part of this module.
#![allow(dead_code, unreachable_pub)]

use std::sync::Arc;
use std::time::Duration;

use redisson_semaphore::recipes::Units;
use redisson_semaphore::{Client, LeasedSemaphore};

pub type Handle = Arc<dyn LeasedSemaphore>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    Timestamp,
    TimestampInSeconds,
    Fair,
    FairUnderLock,
    FairWithTokens,
    Set,
    Slots,
}

use Layout::{Fair, FairUnderLock, FairWithTokens, Set, Slots, Timestamp, TimestampInSeconds};

pub const ALL: [Layout; 7] = [
    Timestamp,
    TimestampInSeconds,
    Fair,
    FairUnderLock,
    FairWithTokens,
    Set,
    Slots,
];

/// The settings of a handle.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub limit: u32,
    pub lease: Duration,
    pub units: Units,
    pub check: Duration,
}

impl Shape {
    pub fn new(limit: u32) -> Shape {
        Shape {
            limit,
            lease: Duration::from_secs(10),
            units: Units::Millis,
            check: Duration::from_secs(3600),
        }
    }

    pub fn lease(self, lease: Duration) -> Shape {
        Shape { lease, ..self }
    }

    pub fn units(self, units: Units) -> Shape {
        Shape { units, ..self }
    }

    pub fn check(self, check: Duration) -> Shape {
        Shape { check, ..self }
    }
}

impl Layout {
    /// Creates a handle. By default the check comes too late to serve a caller: messages and expiries must do so.
    pub fn make(self, client: &Client, name: &str, shape: Shape) -> Handle {
        let Shape {
            limit,
            lease,
            units,
            check,
        } = shape;
        match self {
            Timestamp | TimestampInSeconds => {
                let units = if self == Timestamp {
                    units
                } else {
                    Units::Seconds
                };
                let semaphore = client.timestamp_semaphore(name, limit).timeout(lease);
                Arc::new(semaphore.units(units).check_interval(check))
            }
            Fair | FairUnderLock | FairWithTokens => {
                let semaphore = client.fair_semaphore(name, limit).timeout(lease);
                let semaphore = semaphore.units(units).check_interval(check);
                match self {
                    FairUnderLock => Arc::new(semaphore.under_lock(name)),
                    FairWithTokens => {
                        let [owners, counter, tokens] = others(name);
                        Arc::new(semaphore.keys(&owners, &counter).tokens(&tokens))
                    }
                    _ => Arc::new(semaphore),
                }
            }
            Set => Arc::new(client.set_semaphore(name, limit).check_interval(check)),
            Slots => {
                let semaphore = client.slot_semaphore(name, limit).timeout(lease);
                Arc::new(semaphore.check_interval(check))
            }
        }
    }

    /// The name of the layout in the keys that this crate keeps beside a semaphore.
    pub fn word(self) -> &'static str {
        match self {
            Timestamp | TimestampInSeconds => "timestamp",
            Fair | FairUnderLock | FairWithTokens => "fair",
            Set => "set",
            Slots => "slots",
        }
    }

    /// The name of the layout in the peers.
    pub fn recipe(self) -> &'static str {
        match self {
            Timestamp | TimestampInSeconds => "timestamp",
            Fair => "fair",
            FairUnderLock => "fairUnderLock",
            FairWithTokens => "line",
            Set => "set",
            Slots => "slots",
        }
    }
}

/// The names of the other keys of a fair semaphore with tokens.
pub fn others(name: &str) -> [String; 3] {
    ["owners", "numbers", "tokens"].map(|what| format!("{name}-{what}"))
}
