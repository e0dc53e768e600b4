//! A service that limits itself, without Redis: `cargo run --example in_process`
//!
//! The service only knows the trait. The same code shares its limit with other processes when it is given a
//! semaphore that lives in Redis: see `shared.rs`.

use std::sync::Arc;
use std::time::Duration;

use redisson_semaphore::{Result, Semaphore, memory};

const DOWNLOADS: usize = 6;
const AT_ONCE: u32 = 2;

/// The service: all downloads at once, but no more of them under way than there are permits.
async fn download_all(slots: Arc<dyn Semaphore>) -> Result<()> {
    let mut downloads = Vec::new();
    for number in 1..=DOWNLOADS {
        downloads.push(tokio::spawn(download(number, Arc::clone(&slots))));
    }
    for download in downloads {
        download.await.expect("no download panics")?;
    }
    Ok(())
}

async fn download(number: usize, slots: Arc<dyn Semaphore>) -> Result<()> {
    // Waits for its turn. The guard gives the permit back when it is dropped, also if this future is
    // cancelled or the work panics.
    let slot = slots.permit(1).await?;
    println!("download {number}: begins");
    tokio::time::sleep(Duration::from_millis(200)).await;
    println!("download {number}: done");
    // Dropping would do; this waits until the permit is back, and tells if that fails.
    slot.release().await
}

#[tokio::main]
async fn main() -> Result<()> {
    let slots: Arc<dyn Semaphore> = Arc::new(memory::Semaphore::with_permits("downloads", AT_ONCE));
    download_all(Arc::clone(&slots)).await?;
    println!(
        "{} of {AT_ONCE} slots are free",
        slots.available_permits().await?
    );

    // Not every caller wants to wait: two permits at once, or none within 50 ms.
    let all = slots.permit(AT_ONCE).await?;
    let late = slots.permit_for(1, Duration::from_millis(50)).await?;
    println!(
        "one more while all are taken: {}",
        if late.is_some() { "yes" } else { "no" }
    );
    drop(all);
    Ok(())
}
