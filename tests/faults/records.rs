//! Records that are not needed any more are deleted, and only those.

use crate::support::clients::{LIMIT, patient, start_controlled};
use crate::support::monitor::{Command, Monitor, forgets};
use crate::support::waiters::until;
use futures::{StreamExt, stream};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, LeasedSemaphore as _};

/// The most records that one script deletes.
const TOGETHER: usize = 64;

/// The records of semaphores, recipes and locks, but for those that many semaphores share.
async fn records(server: &mut MultiplexedConnection) -> Vec<String> {
    let mut all = Vec::new();
    for pattern in [
        "redisson_sc_once:{*",
        "redisson_sc_recipe_once:*",
        "redisson_lock_fence:*",
    ] {
        let some: Vec<String> = server.keys(pattern).await.unwrap();
        all.extend(some);
    }
    all
}

/// How many scripts of `commands` have deleted records.
fn given_back(commands: &[Command]) -> usize {
    let is_one = |one: &&Command| one.name.starts_with("EVAL") && forgets(&one.args[0]);
    commands.iter().filter(is_one).count()
}

/// So few calls at a time that no reply is late.
async fn some_at_a_time(count: usize, one: impl AsyncFn(usize)) {
    stream::iter(0..count)
        .for_each_concurrent(50, |number| one(number))
        .await;
}

#[tokio::test]
async fn objects_used_once_leave_few_keys_for_few_commands() {
    const SEMAPHORES: usize = 3000;
    const OTHERS: usize = 500;
    let (server, mut control) = start_controlled().await;
    let mut monitor = Monitor::start(&server).await;
    let client = Client::connect(server.url()).await.unwrap();
    some_at_a_time(SEMAPHORES, async |number| {
        let semaphore = client.semaphore(&format!("once-{number}"));
        assert!(semaphore.try_set_permits(1).await.unwrap());
    })
    .await;
    some_at_a_time(OTHERS, async |number| {
        let lock = client.lock(&format!("forced-{number}"));
        assert!(lock.try_lock().await.unwrap());
        assert!(lock.force_unlock().await.unwrap());
        let recipe = client.set_semaphore(&format!("set-{number}"), 2);
        recipe.permit().await.unwrap().release().await.unwrap();
        let deleted = client.semaphore(&format!("deleted-{number}"));
        assert!(deleted.try_set_permits(1).await.unwrap());
        assert!(deleted.delete().await.unwrap());
    })
    .await;
    until("no records are left", LIMIT, async || {
        records(&mut control).await.is_empty()
    })
    .await;
    let scripts = given_back(&monitor.until_marker().await);
    let objects = SEMAPHORES + 3 * OTHERS;
    assert!(scripts >= objects / TOGETHER, "{scripts}");
    assert!(scripts <= objects / 10, "{scripts} for {objects} objects");
}

/// For all kinds of objects, and after callers have waited.
#[tokio::test]
async fn nothing_of_ours_is_left_where_nobody_waits_or_holds() {
    let (server, mut control) = start_controlled().await;
    // A batch that is sent twice leaves its record until that expires.
    let connect = async || patient(server.url()).connect().await.unwrap();
    let clients = [connect().await, connect().await];
    let [one, other] = &clients;
    assert!(one.semaphore("seats").try_set_permits(1).await.unwrap());
    let jobs = one.permit_expirable_semaphore("jobs");
    assert!(jobs.try_set_permits(1).await.unwrap());
    let latch = one.count_down_latch("done");
    assert!(latch.try_set_count(1).await.unwrap());
    let take = async |client: &Client| {
        let (seats, door) = (client.semaphore("seats"), client.lock("door"));
        let jobs = client.permit_expirable_semaphore("jobs");
        let fair = client.fair_semaphore("fair", 1);
        let slots = client.slot_semaphore("slots", 1);
        tokio::try_join!(
            seats.permit(1),
            door.guard(),
            jobs.permit(),
            fair.permit(),
            slots.permit()
        )
        .unwrap()
    };
    let held = take(one).await;
    let waiting = async {
        drop(take(other).await);
        other.count_down_latch("done").wait().await.unwrap();
    };
    let releasing = async {
        until("all wait", LIMIT, async || {
            let queues: Vec<String> = control.keys("redisson_*queue*").await.unwrap();
            let lock = control.exists("redisson_lock_waiters:{door}").await;
            queues.len() == 4 && lock == Ok(true)
        })
        .await;
        drop(held);
        latch.count_down().await.unwrap();
    };
    tokio::join!(waiting, releasing);
    until("nothing of ours is left", LIMIT, async || {
        let keys: Vec<String> = control.keys("*redisson*").await.unwrap();
        keys.is_empty()
    })
    .await;
}
