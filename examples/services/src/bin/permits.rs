//! Permits that come back by themselves when their holder dies: `RPermitExpirableSemaphore`.
//!
//! Kill it while it works, and start it again: after the lease of 30 s there are two permits as before.

use std::env::var;
use std::error::Error;
use std::time::Duration;

use redisson_semaphore::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = var("REDIS_URL").unwrap_or("redis://127.0.0.1:6379".to_owned());
    let client = Client::connect(url).await?;
    // Java: redisson.getPermitExpirableSemaphore("example:jobs")
    let jobs = client.permit_expirable_semaphore("example:jobs");
    jobs.try_set_permits(2).await?;

    // With a guard: the permit is renewed in the background, and released when the guard is dropped.
    let Some(permit) = jobs.permit_for(Duration::from_secs(60)).await? else {
        println!("both jobs go on for a minute now");
        return Ok(client.shutdown().await?);
    };
    tokio::select! {
        () = permit.lost() => println!("lost: stopped, somebody else may hold it now"),
        () = tokio::time::sleep(Duration::from_millis(100)) => println!("the job is done"),
    }
    permit.release().await?;

    // With an id, for a job that passes to another process: the process that has the id releases the permit.
    let lease = Duration::from_secs(600);
    let held = jobs.clone().with_lease(lease).acquire().await?;
    println!("{} held for ten minutes", jobs.holders().await?.len());
    jobs.release(held.id()).await?;

    client.shutdown().await?;
    Ok(())
}
