//! One limit for many processes, or for one: decided where the service starts.
//!
//!     cargo run --example shared                                      # permits in this process
//!     REDIS_URL=redis://127.0.0.1:6379 cargo run --example shared     # permits in Redis
//!
//! Start it twice at the same time with `REDIS_URL`: both together never send more than two mails at once.
//! A Java service takes part with `redisson.getSemaphore("example:mails")`.

use std::sync::Arc;
use std::time::Duration;

use redisson_semaphore::{Client, Result, Semaphore, memory};

const NAME: &str = "example:mails";
const AT_ONCE: u32 = 2;

/// The service. It does not know where the permits are kept.
async fn send_all(limit: Arc<dyn Semaphore>) -> Result<()> {
    let mut mails = Vec::new();
    for number in 1..=6 {
        mails.push(tokio::spawn(send(number, Arc::clone(&limit))));
    }
    for mail in mails {
        mail.await.expect("no mail panics")?;
    }
    Ok(())
}

async fn send(number: usize, limit: Arc<dyn Semaphore>) -> Result<()> {
    // Waits for its turn; the guard gives the permit back when it is dropped.
    let _permit = limit.permit(1).await?;
    println!("mail {number}: begins");
    tokio::time::sleep(Duration::from_millis(500)).await;
    println!("mail {number}: sent");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let Ok(url) = std::env::var("REDIS_URL") else {
        println!("REDIS_URL is not set: the permits are in this process");
        return send_all(Arc::new(memory::Semaphore::with_permits(NAME, AT_ONCE))).await;
    };

    // One client for the whole process; handles to its semaphores cost nothing.
    let client = Client::connect(url).await?;
    let limit = client.semaphore(NAME);
    // The process that comes first sets the number of permits; for all others this does nothing. They stay
    // in Redis when all have gone: `redis-cli DEL example:mails` removes them.
    let first = limit.try_set_permits(AT_ONCE).await?;
    let whose = if first { "new" } else { "as set before" };
    println!("the permits are in Redis, {whose}");
    send_all(Arc::new(limit)).await?;

    // Carries out the pending releases: those of the guards that were dropped last.
    client.shutdown().await
}
