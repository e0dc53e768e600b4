//! Clients that want the same lock all the time: each gets its turn, and alone none pays for that.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::lock_crowd::{LockCrowd, Way};
use crate::support::proxy::Proxy;
use crate::support::server::RedisServer;
use crate::support::waiters::{until, until_lock_queued, until_subscribers};
use futures::future::join_all;
use redis::AsyncCommands;
use redisson_semaphore::Client;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(30);

async fn connect(url: String) -> Client {
    let client = Client::connect(&url).await;
    client.expect("the server runs")
}

/// Two clients side by side until `grants` turns are over; each has had at least 0.3 of an equal share.
async fn two_share(callers: usize, way: Way, hold: Duration, grants: u64) {
    let server = RedisServer::start().await;
    let clients = [connect(server.url()).await, connect(server.url()).await];
    let crowds = clients
        .each_ref()
        .map(|client| LockCrowd::start(client, callers, way, hold));
    let all = || crowds.iter().map(LockCrowd::grants).sum::<u64>();
    let what = format!("{grants} grants, {way:?}, {callers} callers");
    until(&what, LIMIT, async || all() >= grants).await;
    for crowd in &crowds {
        assert!(
            crowd.grants() * 20 >= grants * 3,
            "{} of {} grants; {what}, held for {hold:?}",
            crowd.grants(),
            all(),
        );
    }
    for crowd in crowds {
        println!(
            "{what}, {hold:?}: {} grants, longest wait {:?}",
            crowd.grants(),
            crowd.longest_wait()
        );
        crowd.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_with_several_callers_share() {
    let hold = Duration::from_millis(1);
    for way in [
        Way::Lock,
        Way::Timed,
        Way::Leased,
        Way::Reentrant,
        Way::Fenced,
    ] {
        two_share(2, way, hold, 200).await;
    }
    two_share(4, Way::Lock, hold, 200).await;
    two_share(4, Way::Lock, Duration::ZERO, 2000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_with_one_caller_share() {
    two_share(1, Way::Lock, Duration::ZERO, 2000).await;
    two_share(1, Way::Lock, Duration::from_micros(1500), 200).await;
    two_share(1, Way::Timed, Duration::from_micros(1500), 200).await;
    two_share(1, Way::Lock, Duration::from_millis(20), 50).await;
}

/// How many scripts a grant costs a client that is alone.
async fn scripts_of_one_alone(callers: usize, hold: Duration, grants: u64) -> f64 {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(&server).await;
    let client = connect(proxy.url()).await;
    let crowd = LockCrowd::start(&client, callers, Way::Lock, hold);
    until("they are at work", LIMIT, async || crowd.grants() >= 20).await;
    let (before, scripts) = (crowd.grants(), proxy.scripts());
    until("grants", LIMIT, async || crowd.grants() >= before + grants).await;
    let (done, sent) = (crowd.grants() - before, proxy.scripts() - scripts);
    crowd.stop().await;
    sent as f64 / done as f64
}

/// A turn travels with the unlock before it, and who comes behind a holder of the same client does not ask.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_alone_sends_no_more_than_it_must() {
    let hold = Duration::from_millis(1);
    for (callers, hold, most) in [
        (1, Duration::ZERO, 2.1),
        (1, hold, 2.1),
        (2, hold, 1.4),
        (16, hold, 1.4),
        (16, Duration::ZERO, 1.4),
    ] {
        let scripts = scripts_of_one_alone(callers, hold, 200).await;
        println!("{callers} callers, {hold:?}: {scripts}");
        assert!(scripts <= most, "{callers} callers, {hold:?}: {scripts}");
    }
}

/// A client to which everything comes later than a lock is left free for others at first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_far_away_has_its_turns() {
    let server = RedisServer::start().await;
    let near = connect(server.url()).await;
    let way = Proxy::start(&server).await;
    way.set_round_trip(Duration::from_millis(30));
    let far = connect(way.url()).await;
    for hold in [Duration::ZERO, Duration::from_millis(2)] {
        let near = LockCrowd::start(&near, 4, Way::Lock, hold);
        until("they are at work", LIMIT, async || near.grants() > 20).await;
        let far = LockCrowd::start(&far, 1, Way::Lock, hold);
        until("it has its turns", LIMIT, async || far.grants() >= 10).await;
        println!("{hold:?}: {} of the near ones", near.grants());
        far.stop().await;
        near.stop().await;
    }
}

/// The others wait for a client that is so far away once its caller has waited for long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_very_far_away_has_some() {
    let server = RedisServer::start().await;
    let near = [connect(server.url()).await, connect(server.url()).await];
    let way = Proxy::start(&server).await;
    way.set_round_trip(Duration::from_millis(300));
    let far = connect(way.url()).await;
    let hold = Duration::from_millis(1);
    let crowds = near
        .each_ref()
        .map(|client| LockCrowd::start(client, 2, Way::Lock, hold));
    let far = LockCrowd::start(&far, 1, Way::Lock, hold);
    until("it has some turns", LIMIT, async || far.grants() >= 3).await;
    // Each of the four others would have the lock once for each time that it is had far away.
    let others: u64 = crowds.iter().map(LockCrowd::grants).sum();
    assert!(
        others > 10 * far.grants(),
        "{others}: they wait for it all the time"
    );
    far.stop().await;
    for crowd in crowds {
        crowd.stop().await;
    }
}

const QUEUE: &str = "redisson_lock_waiters:{door}";
const NOTES: &str = "redisson_lock_notes:{door}";

/// Waits for the lock, is noted in `order` when it has it, and gives it back.
fn waits(client: &Client, number: usize, order: &Arc<Mutex<Vec<usize>>>) -> JoinHandle<()> {
    let (door, order) = (client.lock("door"), Arc::clone(order));
    tokio::spawn(async move {
        let guard = door.guard().await.unwrap();
        order.lock().unwrap().push(number);
        guard.unlock().await.unwrap();
    })
}

/// Whichever client it is, and though its owner wants it again at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_first_has_it_first() {
    const CLIENTS: usize = 5;
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let owner = connect(server.url()).await;
    let clients = join_all((0..CLIENTS).map(|_| connect(server.url()))).await;
    let order = Arc::<Mutex<Vec<usize>>>::default();
    for _ in 0..5 {
        let door = owner.lock("door");
        door.lock().await.unwrap();
        let mut all = Vec::new();
        for (number, client) in clients.iter().enumerate() {
            all.push(waits(client, number, &order));
            until_lock_queued(&mut redis, "door", number as u64 + 1).await;
            let own = format!("{QUEUE}:{}", client.id());
            until_subscribers(&mut redis, &own, 1).await;
        }
        door.unlock().await.unwrap();
        all.push(waits(&owner, CLIENTS, &order));
        join_all(all).await;
        let order = std::mem::take(&mut *order.lock().unwrap());
        assert_eq!(order.len(), CLIENTS + 1);
        assert!(order.is_sorted(), "{order:?}");
    }
}

/// As far apart as they may be: what is known of the others outlasts each of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_makes_a_handle_for_each_call_leaves_it_to_others_too() {
    const GRANTS: usize = 400;
    let server = RedisServer::start().await;
    let clients = [connect(server.url()).await, connect(server.url()).await];
    let grants = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let all = || {
        grants
            .iter()
            .map(|grants| grants.load(SeqCst))
            .sum::<usize>()
    };
    let work = async |number: usize| {
        while all() < GRANTS {
            let guard = clients[number].lock("door").guard().await.unwrap();
            grants[number].fetch_add(1, SeqCst);
            tokio::time::sleep(Duration::from_millis(1)).await;
            guard.unlock().await.unwrap();
        }
    };
    let both = async { tokio::join!(work(0), work(1)) };
    timeout(LIMIT, both).await.expect("both go on");
    let least = grants.iter().map(|grants| grants.load(SeqCst)).min();
    assert!(least.unwrap_or(0) * 3 > GRANTS, "{grants:?}");
}

/// The queue says who comes first, and nothing else.
#[tokio::test]
async fn whatever_stands_in_the_line_somebody_has_it() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let clients = [connect(server.url()).await, connect(server.url()).await];
    let order = Arc::<Mutex<Vec<usize>>>::default();
    let holder = connect(server.url()).await.lock("door");
    let wrongs: [&[&str]; 6] = [
        &["SET", QUEUE, "x"],
        &["LPUSH", QUEUE, "x"],
        &["SET", NOTES, "x"],
        &["ZADD", QUEUE, "0", "somebody", "-inf", "nobody"],
        &["HSET", NOTES, "lent", "x", "look", "x", "watch", "x"],
        &["DEL", QUEUE, NOTES],
    ];
    for wrong in wrongs {
        holder.lock().await.unwrap();
        let all: Vec<_> = (0..)
            .zip(&clients)
            .map(|(number, client)| waits(client, number, &order))
            .collect();
        until_lock_queued(&mut redis, "door", 2).await;
        let is_another_type = wrong[0] != "ZADD" && wrong[0] != "HSET";
        if is_another_type {
            let _: () = redis.del(wrong[1]).await.unwrap();
        }
        let command = redis::cmd(wrong[0]).arg(&wrong[1..]).to_owned();
        let _: redis::Value = command.query_async(&mut redis).await.unwrap();
        holder.unlock().await.unwrap();
        timeout(LIMIT, join_all(all))
            .await
            .expect("both are served");
        assert_eq!(
            std::mem::take(&mut *order.lock().unwrap()).len(),
            2,
            "{wrong:?}"
        );
    }
    let types: (String, String) = redis::pipe()
        .cmd("TYPE")
        .arg(QUEUE)
        .cmd("TYPE")
        .arg(NOTES)
        .query_async(&mut redis)
        .await
        .unwrap();
    assert!(
        ["none", "zset"].contains(&&*types.0) && ["none", "hash"].contains(&&*types.1),
        "{types:?}"
    );
}

async fn clients_of_one_caller(
    server: &RedisServer,
    count: usize,
    hold: Duration,
) -> Vec<LockCrowd> {
    let mut crowds = Vec::new();
    for _ in 0..count {
        let client = connect(server.url()).await;
        crowds.push(LockCrowd::start(&client, 1, Way::Lock, hold));
    }
    crowds
}

/// Clients of one caller each, who are all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_with_one_caller_share() {
    const GRANTS: u64 = 480;
    let server = RedisServer::start().await;
    let crowds = clients_of_one_caller(&server, 8, Duration::from_millis(1)).await;
    let all = || crowds.iter().map(LockCrowd::grants).sum::<u64>();
    until("they have been served", LIMIT, async || all() >= GRANTS).await;
    let grants: Vec<u64> = crowds.iter().map(LockCrowd::grants).collect();
    let least = grants.iter().min().expect("some");
    assert!(least * 2 >= GRANTS / 8, "{grants:?}");
    for crowd in crowds {
        crowd.stop().await;
    }
}

/// Clients whose entries are deleted queue again at their next slow check.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_entries_come_back() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let hold = Duration::from_millis(1);
    let mut crowds = Vec::new();
    for _ in 0..2 {
        let client = Client::builder(server.url()).safety_interval(Duration::from_millis(200));
        let client = client.connect().await.expect("the server runs");
        crowds.push(LockCrowd::start(&client, 2, Way::Lock, hold));
    }
    for _ in 0..8 {
        for _ in 0..5 {
            let () = connection.del(QUEUE).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for crowd in &crowds {
            let before = crowd.grants();
            let what = format!("it has its turns behind {before}");
            until(&what, LIMIT / 6, async || crowd.grants() > before + 5).await;
        }
    }
    for crowd in crowds {
        crowd.stop().await;
    }
}

/// One question answers all who were there when it was sent, however many they are.
#[tokio::test]
async fn who_does_not_wait_is_answered_with_others() {
    const CALLERS: usize = 5000;
    let server = RedisServer::start().await;
    let holder = connect(server.url()).await.lock("door");
    let way = Proxy::start(&server).await;
    way.set_round_trip(Duration::from_millis(20));
    let client = connect(way.url()).await;
    for held in [true, false] {
        if held {
            holder.lock().await.unwrap();
        }
        let locks: Vec<_> = (0..CALLERS).map(|_| client.lock("door")).collect();
        let before = way.scripts();
        let answers = join_all(locks.iter().map(|lock| lock.try_lock())).await;
        let sent = way.scripts() - before;
        assert!(sent <= 6, "{sent} scripts");
        let mut taken = Vec::new();
        for (answer, lock) in answers.into_iter().zip(&locks) {
            taken.extend(answer.unwrap().then_some(lock));
        }
        assert_eq!(taken.len(), usize::from(!held));
        let holder = if held { &holder } else { taken[0] };
        holder.unlock().await.unwrap();
    }
}
