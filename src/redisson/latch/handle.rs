//! The trait, by the methods of the same names.

use std::sync::Arc;
use std::time::Duration;

use super::RCountDownLatch;
use crate::api::{CountDownLatch, by_methods};
use crate::error::Result;

by_methods! {
    CountDownLatch for RCountDownLatch, |latch| latch;
    now {
        name() -> &str;
    }
    waits {
        try_set_count(count: u32) -> Result<bool>;
        count_down() -> Result<()>;
        count() -> Result<i64>;
        wait() -> Result<()>;
        wait_for(wait: Duration) -> Result<bool>;
    }

    fn clone_handle(&self) -> Arc<dyn CountDownLatch> {
        Arc::new(self.clone())
    }
}
