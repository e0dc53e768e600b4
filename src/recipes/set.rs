//! [`SetSemaphore`].

use super::handle::Handle;

/// The set semaphore of the classic recipes. Its operations are those of
/// [`LeasedSemaphore`](crate::LeasedSemaphore).
///
/// Redis: the set `name` of ids; see [the module](super) for what stands beside it. Recipe: `SADD`, and `SREM` again if
/// `SCARD` is above the limit. DIFFERENCE: one atomic step.
///
/// **Permits last for ever**: that is the nature of this layout. The permits of a process that was killed stay taken
/// until a caller releases them: [`holders`](crate::LeasedSemaphore::holders) lists the ids,
/// [`release_all`](crate::LeasedSemaphore::release_all) frees all. A grant that such a process has not confirmed is freed by the next call
/// of this crate. A guard is not refreshed, and does not notice when its
/// permit is taken away; [`refresh`](crate::LeasedSemaphore::refresh) asks.
///
/// ```no_run
/// # async fn example(client: redisson_semaphore::Client) -> redisson_semaphore::Result<()> {
/// use redisson_semaphore::LeasedSemaphore;
///
/// let workers = client.set_semaphore("workers", 5);
/// let worker = workers.permit().await?; // released when dropped
/// println!("{:?} hold permits", workers.holders().await?);
/// worker.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SetSemaphore {
    pub(super) handle: Handle,
}
