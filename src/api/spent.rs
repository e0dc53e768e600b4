//! What becomes of a guard's permits, or lock, that could not be given back for now.

use std::time::Instant;

use crate::error::Result;

/// Carries `release` out, that of a guard, which nobody has any more. Where nothing comes of it for now, it is done
/// `in_background`, as if the guard had been dropped: the caller is told that it may still happen.
pub(super) async fn release<T>(
    release: impl Future<Output = Result<T>>,
    operation: &'static str,
    in_background: impl FnOnce(),
) -> Result<T> {
    let began = Instant::now();
    let released = release.await;
    match released {
        Err(error) if error.is_retryable() => {
            in_background();
            Err(error.may_happen_later(operation, began.elapsed()))
        }
        released => released,
    }
}
