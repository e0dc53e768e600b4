//! A handler, tested without Redis: the third of the guide's examples.

use redisson_semaphore::{Semaphore, memory};
use std::{sync::Arc, time::Duration};

/// The tested function takes the trait, so it works with permits in Redis and in memory.
async fn handle(seats: Arc<dyn Semaphore>) -> redisson_semaphore::Result<&'static str> {
    match seats.permit_for(1, Duration::from_millis(300)).await? {
        Some(_seat) => Ok("served"), // released at the end of this arm
        None => Ok("come again"),
    }
}

#[tokio::test(start_paused = true)] // skips the 300 ms; tokio's feature test-util
async fn caller_without_a_seat_is_sent_away() -> redisson_semaphore::Result<()> {
    let seats = Arc::new(memory::Semaphore::with_permits("seats", 1));
    let last = seats.permit(1).await?;
    assert_eq!(handle(seats.clone()).await?, "come again");
    last.release().await?;
    assert_eq!(handle(seats.clone()).await?, "served");
    assert_eq!(seats.available_permits().await?, 1);
    Ok(())
}
