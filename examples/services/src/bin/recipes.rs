//! The classic recipes, one after the other: permits and locks shared with programs that write them by hand.

use std::env::var;
use std::error::Error;
use std::time::Duration;

use redisson_semaphore::recipes::Units;
use redisson_semaphore::{Client, LeasedPermit, LeasedSemaphore as _, Lock as _};

/// Work with a permit that ends when it is not refreshed: the guard refreshes it, and tells when it is lost.
async fn work(what: &str, permit: LeasedPermit) -> redisson_semaphore::Result<()> {
    tokio::select! {
        () = permit.lost() => println!("{what}: lost, somebody else may hold it now"),
        () = tokio::time::sleep(Duration::from_millis(20)) => {
            println!("{what}: done as {}", permit.id());
            permit.release().await?;
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = var("REDIS_URL").unwrap_or("redis://127.0.0.1:6379".to_owned());
    let client = Client::connect(url).await?;

    // "Redis in Action", Python's time.time() as scores, at most 5 at a time.
    let times = client.timestamp_semaphore("example:times", 5);
    work("timestamp", times.units(Units::Seconds).permit().await?).await?;

    // The same, fair, where peers acquire under the lock `lock:remote`.
    let fair = client.fair_semaphore("example:remote", 5);
    let fair = fair.units(Units::Seconds).under_lock("remote");
    work("fair", fair.permit().await?).await?;

    // A set of ids: nothing ends by itself.
    work(
        "set",
        client.set_semaphore("example:set", 5).permit().await?,
    )
    .await?;

    // Numbered slots: each worker knows which one it is.
    let slot = client.slot_semaphore("example:shards", 16).permit().await?;
    println!("slot: number {}", slot.slot().expect("slots have numbers"));
    slot.release().await?;

    // SET lock:import <id> NX PX, and a script that deletes it.
    let import = client.string_lock("example:import");
    match import.guard_for(Duration::from_secs(2)).await? {
        Some(guard) => guard.unlock().await?,
        None => println!("lock: somebody else imports"),
    }
    println!("lock: done");

    client.shutdown().await?;
    Ok(())
}
