//! Waiting for a condition instead of for a time.

use std::time::Duration;

use redis::aio::ConnectionLike;
use redisson_semaphore::{RSemaphore, Result};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const PAUSE: Duration = Duration::from_millis(3);
const PATIENCE: Duration = Duration::from_secs(20);

/// Asks `condition` again and again, with short pauses, until it holds; panics with `what` at the deadline.
pub async fn until(what: &str, deadline: Duration, mut condition: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + deadline;
    while !condition().await {
        assert!(Instant::now() < end, "not within {deadline:?}: {what}");
        sleep(PAUSE).await;
    }
}

/// The number of connections subscribed to a channel (not by pattern).
pub async fn subscribers(connection: &mut impl ConnectionLike, channel: &str) -> u64 {
    let (_, count): (String, u64) = redis::cmd("PUBSUB")
        .arg(&["NUMSUB", channel])
        .query_async(connection)
        .await
        .expect("PUBSUB NUMSUB answers");
    count
}

/// Waits until exactly `count` connections are subscribed to a channel.
pub async fn until_subscribers(connection: &mut impl ConnectionLike, channel: &str, count: u64) {
    until(
        &format!("{count} subscribers of {channel:?}"),
        PATIENCE,
        async || subscribers(connection, channel).await == count,
    )
    .await;
}

/// Waits until exactly `count` clients listen for their turns at a semaphore of the classic recipes.
pub async fn until_listening(connection: &mut impl ConnectionLike, name: &str, count: usize) {
    let pattern = format!("redisson_sc_recipe_line:*{{{name}}}:*");
    until(
        &format!("{count} listen for {name:?}"),
        PATIENCE,
        async || {
            let channels: Vec<String> = redis::cmd("PUBSUB")
                .arg(&["CHANNELS", &pattern])
                .query_async(connection)
                .await
                .expect("PUBSUB CHANNELS answers");
            channels.len() == count
        },
    )
    .await;
}

/// What a server says of its primary, or of its replicas.
async fn replication(server: &mut impl ConnectionLike) -> String {
    let mut info = redis::cmd("INFO");
    let info = info.arg("replication").query_async(server).await;
    info.expect("INFO answers")
}

/// Waits until a replica has its primary's data and follows it.
pub async fn until_linked(replica: &mut impl ConnectionLike) {
    until("the replica follows its primary", PATIENCE, async || {
        let info = replication(replica).await;
        info.contains("master_link_status:up")
    })
    .await;
}

/// Waits until a primary's one replica has told it how far it is: only then does `WAIT` count it, up to a second after the replica
/// says that it follows.
pub async fn until_counted(primary: &mut impl ConnectionLike) {
    until("the primary hears its replica", PATIENCE, async || {
        let info = replication(primary).await;
        let replica = info.lines().find(|line| line.starts_with("slave0:"));
        replica.is_some_and(|told| told.contains("state=online") && !told.contains("offset=0,"))
    })
    .await;
}

/// Where the waiters of a semaphore listen.
pub fn channel(name: &str) -> String {
    format!("redisson_sc:{{{name}}}")
}

/// `acquire` in a task that stands in line when this returns: somebody listens for it.
pub async fn waiter(
    connection: &mut impl ConnectionLike,
    semaphore: &RSemaphore,
    permits: u32,
) -> JoinHandle<Result<()>> {
    let call = semaphore.clone();
    let task = tokio::spawn(async move { call.acquire(permits).await });
    until_subscribers(connection, &channel(semaphore.name()), 1).await;
    // Answered behind the waiter's own question.
    semaphore.available_permits().await.unwrap();
    task
}
