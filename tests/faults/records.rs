//! Records that are not needed any more are given back, and only those.

use crate::support::clients::{LIMIT, connect};
use crate::support::monitor::{Command, Monitor};
use crate::support::proxy::{Fate, Proxy};
use crate::support::server::RedisServer;
use crate::support::waiters::until;
use futures::{StreamExt, stream};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, LeasedSemaphore as _};

const FORGET: &str = include_str!("../../lua/engine/forget.lua");
/// One script deletes so many records at the most.
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

async fn until_left(server: &mut MultiplexedConnection, most: usize) {
    until(&format!("{most} records are left"), LIMIT, async || {
        records(server).await.len() <= most
    })
    .await;
}

/// How many scripts of `commands` have deleted records.
fn given_back(commands: &[Command]) -> usize {
    let digest = redis::Script::new(FORGET).get_hash().to_owned();
    let is_one = |command: &&Command| match &*command.name {
        "EVALSHA" => command.args[0] == digest,
        "EVAL" => command.args[0] == FORGET,
        _ => false,
    };
    commands.iter().filter(is_one).count()
}

/// Uses a semaphore once, which leaves a record.
async fn use_once(client: &Client, name: &str) {
    let semaphore = client.semaphore(name);
    assert!(semaphore.try_set_permits(1).await.unwrap());
}

/// So few that no reply is late.
async fn some_at_a_time(count: usize, one: impl AsyncFn(usize)) {
    stream::iter(0..count)
        .for_each_concurrent(50, |number| one(number))
        .await;
}

#[tokio::test]
async fn objects_used_once_leave_few_keys_for_few_commands() {
    const SEMAPHORES: usize = 3000;
    const OTHERS: usize = 500;
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let mut monitor = Monitor::start(&server).await;
    let client = Client::connect(server.url()).await.unwrap();
    some_at_a_time(SEMAPHORES, async |number| {
        use_once(&client, &format!("once-{number}")).await;
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
    until_left(&mut control, 0).await;
    let scripts = given_back(&monitor.until_marker().await);
    let objects = SEMAPHORES + 3 * OTHERS;
    assert!(scripts >= objects / TOGETHER, "{scripts}");
    assert!(scripts <= objects / 10, "{scripts} for {objects} objects");
}

/// Whatever it was, and whether callers have waited.
#[tokio::test]
async fn nothing_of_ours_is_left_where_nobody_waits_or_holds() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let [one, other] = [connect(server.url()).await, connect(server.url()).await];
    let semaphores = [&one, &other].map(|client| client.semaphore("seats"));
    assert!(semaphores[0].try_set_permits(1).await.unwrap());
    let permits = [&one, &other].map(|client| client.permit_expirable_semaphore("jobs"));
    assert!(permits[0].try_set_permits(1).await.unwrap());
    let locks = [&one, &other].map(|client| client.lock("door"));
    let fair = [&one, &other].map(|client| client.fair_semaphore("fair", 1));
    let slots = [&one, &other].map(|client| client.slot_semaphore("slots", 1));
    let latch = [&one, &other].map(|client| client.count_down_latch("done"));
    assert!(latch[0].try_set_count(1).await.unwrap());
    let held = (
        semaphores[0].permit(1).await.unwrap(),
        permits[0].permit().await.unwrap(),
        locks[0].guard().await.unwrap(),
        fair[0].permit().await.unwrap(),
        slots[0].permit().await.unwrap(),
    );
    let waiting = async {
        tokio::join!(
            async {
                semaphores[1]
                    .permit(1)
                    .await
                    .unwrap()
                    .release()
                    .await
                    .unwrap()
            },
            async { permits[1].permit().await.unwrap().release().await.unwrap() },
            async { locks[1].guard().await.unwrap().unlock().await.unwrap() },
            async { fair[1].permit().await.unwrap().release().await.unwrap() },
            async { slots[1].permit().await.unwrap().release().await.unwrap() },
            async { latch[1].wait().await.unwrap() },
        );
    };
    let releasing = async {
        until("all wait", LIMIT, async || {
            let queues: Vec<String> = control.keys("redisson_*queue*").await.unwrap();
            let lock: bool = control
                .exists("redisson_lock_waiters:{door}")
                .await
                .unwrap();
            queues.len() == 4 && lock
        })
        .await;
        drop(held);
        latch[0].count_down().await.unwrap();
    };
    tokio::join!(waiting, releasing);
    until("nothing of ours is left", LIMIT, async || {
        let keys: Vec<String> = control.keys("*redisson*").await.unwrap();
        keys.is_empty()
    })
    .await;
}

/// A copy of the call may still arrive: only the record keeps it out.
#[tokio::test]
async fn the_record_of_a_call_in_doubt_stays() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let proxy = Proxy::start(&server).await;
    let client = connect(proxy.url()).await;
    // One after the other: on a busy machine a late answer brings one of them in doubt, and not all that are under way.
    for number in 0..2 * TOGETHER {
        use_once(&client, &format!("sure-{number}")).await;
    }
    let doubted = client.semaphore("doubted");
    assert!(doubted.try_set_permits(5).await.unwrap());
    let struck = proxy.struck();
    proxy.at_script(1, Fate::HoldRequest);
    doubted.add_permits(3).await.unwrap();
    assert_eq!(proxy.struck(), struck + 1);
    let record = format!("redisson_sc_once:{{doubted}}:{}", client.id());
    until("the others are given back", LIMIT, async || {
        let left = records(&mut control).await;
        assert!(left.contains(&record), "{left:?}");
        left.len() < TOGETHER
    })
    .await;
    proxy.deliver(1).await;
    assert_eq!(doubted.available_permits().await.unwrap(), 8);
}
