//! Waiting for a condition instead of for a time.

use std::time::Duration;

use super::clients::served;
use super::polls::poll_once;
use redis::aio::ConnectionLike;
use redisson_semaphore::{RSemaphore, Result};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const PAUSE: Duration = Duration::from_millis(3);
const PATIENCE: Duration = Duration::from_secs(20);

/// Checks `condition` again and again, with short pauses, until it holds. Panics with `what` at the deadline.
pub async fn until(what: &str, deadline: Duration, mut condition: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + deadline;
    while !condition().await {
        assert!(Instant::now() < end, "not within {deadline:?}: {what}");
        sleep(PAUSE).await;
    }
}

/// Waits until a remaining time rises, as at a renewal.
pub async fn until_it_rises(what: &str, deadline: Duration, mut left: impl AsyncFnMut() -> i64) {
    let mut before = left().await;
    until(what, deadline, async || {
        let now = left().await;
        std::mem::replace(&mut before, now) < now
    })
    .await;
}

/// Waits until `time` has passed by the server's clock: a key with this life is gone.
pub async fn until_passed(connection: &mut impl ConnectionLike, time: Duration) {
    let mut set = redis::cmd("SET");
    let set = set.arg(&["clock", "1", "PX"]).arg(time.as_millis() as u64);
    let () = set.query_async(connection).await.expect("SET answers");
    until("time passes", time + PATIENCE, async || {
        let mut exists = redis::cmd("EXISTS");
        let exists = exists.arg("clock").query_async(connection).await;
        exists == Ok(false)
    })
    .await;
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

/// Waits until exactly `count` clients listen for notifications of a semaphore of the classic recipes.
pub async fn until_listening(connection: &mut impl ConnectionLike, name: &str, count: usize) {
    let pattern = format!("redisson_sc_recipe_queue:*{{{name}}}:*");
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

/// The report of a server about its primary, or about its replicas.
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

/// Waits until a primary's one replica has reported its position. Only then does `WAIT` count the replica, up to a second after
/// the replica says that it follows.
pub async fn until_counted(primary: &mut impl ConnectionLike) {
    until("the primary hears its replica", PATIENCE, async || {
        let info = replication(primary).await;
        let replica = info.lines().find(|line| line.starts_with("slave0:"));
        replica.is_some_and(|told| told.contains("state=online") && !told.contains("offset=0,"))
    })
    .await;
}

/// The channel on which JVMs wait for a semaphore, and on which one client listens to them.
pub fn channel(name: &str) -> String {
    format!("redisson_sc:{{{name}}}")
}

/// The entries in the queue of a semaphore, the first one first: `<client>:<kind><ticket>:<permits>:<life>`.
pub async fn queued(connection: &mut impl ConnectionLike, name: &str) -> Vec<String> {
    redis::cmd("ZRANGE")
        .arg(format!("redisson_sc_queue:{{{name}}}"))
        .arg(&["0", "-1"])
        .query_async(connection)
        .await
        .expect("a queue, or none")
}

/// Waits until exactly `count` callers of a semaphore are in its queue.
pub async fn until_queued(connection: &mut impl ConnectionLike, name: &str, count: usize) {
    until(
        &format!("{count} wait for {name:?}"),
        PATIENCE,
        async || queued(connection, name).await.len() == count,
    )
    .await;
}

/// Waits until exactly `count` callers of a lock are in its queue.
pub async fn until_lock_queued(connection: &mut impl ConnectionLike, name: &str, count: u64) {
    let queue = format!("redisson_lock_waiters:{{{name}}}");
    until_in_queue(connection, &queue, count).await;
}

/// Waits until exactly `count` callers are in the queue with this key.
pub async fn until_in_queue(connection: &mut impl ConnectionLike, queue: &str, count: u64) {
    let what = format!("{count} wait in {queue:?}");
    until(&what, PATIENCE, async || {
        let mut command = redis::cmd("ZCARD");
        command.arg(queue).query_async(connection).await == Ok(count)
    })
    .await;
}

/// Waits until the client with this id listens for its grants.
pub async fn until_notified(connection: &mut impl ConnectionLike, name: &str, client: &str) {
    let channel = format!("redisson_sc_queue:{{{name}}}:{client}");
    until_subscribers(connection, &channel, 1).await;
}

/// Starts `acquire` in a task. The call is in the queue, and its client listens, when this returns.
pub async fn waiter(
    connection: &mut impl ConnectionLike,
    semaphore: &RSemaphore,
    permits: u32,
) -> JoinHandle<Result<()>> {
    let name = semaphore.name();
    let before = queued(connection, name).await;
    let call = semaphore.clone();
    let mut call = Box::pin(async move { call.acquire(permits).await });
    assert!(poll_once(&mut call.as_mut()).await.is_pending());
    let task = tokio::spawn(call);
    // The server answers this call after the waiter's own request.
    semaphore.available_permits().await.unwrap();
    let amount = permits.to_string();
    let mut entry = None;
    until(&format!("it waits for {name:?}"), PATIENCE, async || {
        let mut all = queued(connection, name).await;
        all.retain(|entry| entry.split(':').nth(2) == Some(&*amount));
        // The entry of this call, or of a caller that has just gone.
        let new = all.iter().find(|entry| !before.contains(entry));
        entry = new.or(all.last()).cloned();
        entry.is_some()
    })
    .await;
    let (client, _) = entry.as_ref().unwrap().split_once(':').expect("an entry");
    until_notified(connection, name, client).await;
    until_subscribers(connection, &channel(name), 1).await;
    semaphore.available_permits().await.unwrap();
    task
}

/// As [`waiter`], of a client that has heard of a grant since its subscription was confirmed. So no script about that is still to
/// come, and the next script is about the waiter. `releasing` belongs to another client; its permit is taken.
pub async fn settled_waiter(
    connection: &mut impl ConnectionLike,
    semaphore: &RSemaphore,
    permits: u32,
    releasing: &RSemaphore,
) -> JoinHandle<Result<()>> {
    let earlier = waiter(connection, semaphore, 1).await;
    let task = waiter(connection, semaphore, permits).await;
    releasing.release(1).await.unwrap();
    served(earlier).await;
    until_queued(connection, semaphore.name(), 1).await;
    task
}
