//! The README's first example does what it says, on a real server.

mod support;

use redisson_semaphore::RSemaphore;
use support::server::RedisServer;

/// The README's own text, run as it stands but for the address.
async fn quick_start(url: String) -> redisson_semaphore::Result<()> {
    // quick start: begin
    use redisson_semaphore::Client;
    use std::time::Duration;

    let client = Client::connect(url).await?;
    let seats = client.semaphore("seats");
    seats.try_set_permits(8).await?;

    let seat = seats.permit(1).await?;
    seat.release().await?;

    if let Some(two) = seats.permit_for(2, Duration::from_secs(1)).await? {
        println!("{} seats for a while", two.permits());
    }

    seats.acquire(3).await?;
    seats.release(3).await?;

    client.shutdown().await?;
    // quick start: end
    Ok(())
}

/// Lines of code, without comments, hidden lines and the address.
fn code(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| line.split(" //").next().unwrap_or_default().trim())
        .filter(|line| !line.is_empty() && !line.starts_with('#') && !line.starts_with("//"))
        .map(|line| line.replace("\"redis://127.0.0.1:6379\"", "url"))
        .collect()
}

#[test]
fn the_example_below_is_the_readmes() {
    let readme = include_str!("../README.md");
    let readme = readme
        .split("```rust\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let here = include_str!("readme.rs")
        .split("// quick start: begin\n")
        .nth(1);
    let here = here.and_then(|rest| rest.split("// quick start: end").next());
    assert_eq!(
        code(readme.expect("an example")),
        code(here.expect("an example"))
    );
}

#[tokio::test]
async fn the_quick_start_runs() {
    let server = RedisServer::start().await;
    quick_start(server.url()).await.unwrap();
    let client = redisson_semaphore::Client::connect(server.url())
        .await
        .unwrap();
    let seats: RSemaphore = client.semaphore("seats");
    assert_eq!(seats.available_permits().await, Ok(8), "all seats are back");
}
