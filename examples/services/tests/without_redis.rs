//! A handler, tested without Redis: the README's third example.

use redisson_semaphore::{Semaphore, memory};
use std::{sync::Arc, time::Duration};

/// What is tested takes the trait, and does not know where the permits are.
async fn handle(seats: Arc<dyn Semaphore>) -> redisson_semaphore::Result<&'static str> {
    match seats.permit_for(1, Duration::from_millis(300)).await? {
        Some(_seat) => Ok("served"), // given back at the end of this arm
        None => Ok("come again"),
    }
}

#[tokio::test(start_paused = true)] // nobody waits for 300 ms; tokio's feature test-util
async fn who_finds_no_seat_is_told() -> redisson_semaphore::Result<()> {
    let seats = Arc::new(memory::Semaphore::with_permits("seats", 1));
    let last = seats.permit(1).await?;
    assert_eq!(handle(seats.clone()).await?, "come again");
    last.release().await?;
    assert_eq!(handle(seats.clone()).await?, "served");
    assert_eq!(seats.available_permits().await?, 1);
    Ok(())
}
