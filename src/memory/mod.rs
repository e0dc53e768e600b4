//! The traits inside one process, without Redis: for tests, and for services that run alone.
//!
//! What takes `Arc<dyn Semaphore>`, `Arc<dyn Lock>` and so on is given one of these in its tests; the [front page](crate)
//! has an example. Time may be paused (`tokio::time::pause`): they go by tokio's clock.
//!
//! [`Semaphore`] behaves as the one in Redis does, to the error: a counter that may be missing or
//! negative and fits signed 32 bits, a time to live, waiting in the order of arrival. Its clones share
//! the permits; nothing outside of the process sees them. [`Lock`] is the reentrant lock.
//!
//! | File | What it holds |
//! |---|---|
//! | `semaphore.rs` | the public type: checks and documentation |
//! | `handle.rs` | the trait for it |
//! | `wait.rs` | one waiting caller as a future, and what its drop gives back |
//! | `state.rs` | the counter and its time to live |
//! | `line.rs` | the order of those who wait, and for how long it may be broken |
//! | `leased.rs`, `leases.rs` | the semaphore whose permits have ids: the public type, and who holds and waits |
//! | `lock.rs` | the lock |
//! | `latch.rs` | the count-down latch |

mod latch;
mod leased;
mod leases;
mod line;
mod lock;
mod semaphore;
mod state;
mod wait;

#[cfg(test)]
mod tests;

pub use latch::CountDownLatch;
pub use leased::LeasedSemaphore;
pub use lock::Lock;
pub use semaphore::Semaphore;
