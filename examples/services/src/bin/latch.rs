//! Parties that wait for each other: `RCountDownLatch`.
//!
//! The process that starts the work waits until all parts are done, wherever they are done; here by tasks of this process.

use std::env::var;
use std::error::Error;
use std::time::Duration;

use redisson_semaphore::{Client, RCountDownLatch};

const PARTS: u32 = 3;

async fn part(number: u32, done: RCountDownLatch) -> redisson_semaphore::Result<()> {
    tokio::time::sleep(Duration::from_millis(50) * number).await;
    println!("part {number} is done");
    done.count_down().await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = var("REDIS_URL").unwrap_or("redis://127.0.0.1:6379".to_owned());
    let client = Client::connect(url).await?;
    let done = client.count_down_latch("example:done"); // Java: redisson.getCountDownLatch("example:done")
    // The latch goes when it has been counted down, so that the next run sets it anew.
    if !done.try_set_count(PARTS).await? {
        println!("somebody else has begun: waiting for that");
    } else {
        for number in 1..=PARTS {
            tokio::spawn(part(number, done.clone()));
        }
    }
    if done.wait_for(Duration::from_secs(10)).await? {
        println!("all parts are done");
    } else {
        println!("{} parts are missing", done.count().await?);
    }
    client.shutdown().await?;
    Ok(())
}
