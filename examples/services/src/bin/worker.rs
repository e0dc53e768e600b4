//! A job that runs in one process at a time, with fencing tokens: the second of the guide's examples.

use redisson_semaphore::Client;
use std::{env::var, error::Error};

/// The storage refuses a token that is lower than one it has seen.
async fn write(token: u64) {
    println!("written with token {token}");
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = var("REDIS_URL").unwrap_or("redis://127.0.0.1:6379".to_owned());
    let client = Client::connect(url).await?;
    let ledger = client.fenced_lock("ledger"); // Java: redisson.getFencedLock("ledger")

    let guard = ledger.guard().await?; // waits; renewed in the background, unlocked when dropped
    let token = guard.token();
    match guard.run(write(token)).await {
        Some(()) => guard.unlock().await?,
        None => eprintln!("the lock was lost, and the write was stopped"),
    }
    client.shutdown().await?;
    Ok(())
}
