//! [`SlotSemaphore`].

use std::time::Duration;

use super::handle::{Handle, setting};

/// Slot strings: one key a permit. Its operations are those of [`LeasedSemaphore`](crate::LeasedSemaphore).
///
/// Redis: the strings `name:1` to `name:limit`, each holds the id of its holder and expires; see [the module](super) for
/// what stands beside them. Recipe: `SET NX` with an expiry on one slot after the other. DIFFERENCE: one atomic step takes
/// the lowest slot that is free; a slot is released and refreshed only by its holder. The limit is 1,024 at the most.
///
/// [`slot`](crate::LeasedPermit::slot) is the number of the permit, stable while it is held: good as the number of a shard or
/// a worker. A slot above a lowered limit is not seen any more: it can neither be released nor refreshed by this handle,
/// and expires. Waiting callers know when the first of the first 128 slots expires. That another one has expired is found
/// at the pace of the [`check_interval`](SlotSemaphore::check_interval).
///
/// ```no_run
/// # async fn example(client: redisson_semaphore::Client) -> redisson_semaphore::Result<()> {
/// use redisson_semaphore::LeasedSemaphore;
///
/// let shards = client.slot_semaphore("shards", 16);
/// let shard = shards.permit().await?; // refreshed in the background, released when dropped
/// println!("this is worker {}", shard.slot().expect("slots have numbers"));
/// shard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SlotSemaphore {
    pub(super) handle: Handle,
}

impl SlotSemaphore {
    setting! {
        /// How long a permit lasts without a refresh; 10 s by default.
        timeout: Duration
    }
}
