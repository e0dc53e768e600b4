//! The traits inside one process, without Redis: for services that run alone, and for tests of code that takes `Arc<dyn Semaphore>`,
//! `Arc<dyn Lock>` and so on. The [guide](crate::guide::examples) has an example.
//!
//! Calls behave as those in Redis, to the error. A clone is another handle to the same object. There is no registry: two objects of the
//! same name that were made apart have nothing to do with each other. Every call returns [`InvalidName`](crate::Error::InvalidName) for
//! a name that is empty or longer than 64 KiB.
//!
//! # Failures on demand
//!
//! Each object has a switch for tests of trouble with Redis: `fail_with` lets calls fail, `stall` leaves them without an answer,
//! `recover` ends that, and `lose` takes away what is held or counted. All waiting goes by tokio's clock. A test with a paused clock
//! (`#[tokio::test(start_paused = true)]`) waits for no time.
//!
//! ```
//! use redisson_semaphore::{Error, Semaphore, memory};
//! use std::{sync::Arc, time::Duration};
//!
//! /// Admits a request, without a limit while Redis is away.
//! async fn is_let_in(seats: Arc<dyn Semaphore>) -> Result<bool, Error> {
//!     match seats.permit_for(1, Duration::from_millis(300)).await {
//!         Ok(seat) => Ok(seat.is_some()),
//!         Err(error) if error.is_unavailable() => Ok(true),
//!         Err(error) => Err(error),
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Error> {
//! let seats = Arc::new(memory::Semaphore::with_permits("seats", 0));
//! assert!(!is_let_in(seats.clone()).await?);
//! seats.fail_with(Error::unavailable("seats", "it is away"));
//! assert!(is_let_in(seats.clone()).await?);
//! seats.recover();
//! assert!(!is_let_in(seats).await?);
//! # Ok(())
//! # }
//! ```

mod faults;
mod holds;
mod latch;
mod leased;
mod lock;
mod queue;
mod semaphore;

#[cfg(test)]
mod tests;

pub use latch::CountDownLatch;
pub use leased::LeasedSemaphore;
pub use lock::{Lock, ReadWriteLock};
pub use semaphore::Semaphore;
