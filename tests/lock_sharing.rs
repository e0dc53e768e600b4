//! Clients that want the same lock all the time: each gets its turn, and alone none pays for that.

mod support;

use std::time::Duration;

use futures::future::join_all;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::Client;
use support::lock_crowd::{LockCrowd, Way};
use support::proxy::Proxy;
use support::server::RedisServer;
use support::waiters::{until, until_subscribers};
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

async fn held_by(redis: &mut MultiplexedConnection, client: &Client) -> bool {
    let owners: Vec<String> = redis.hkeys("door").await.unwrap();
    owners
        .iter()
        .any(|owner| owner.starts_with(&client.id().to_string()))
}

/// A client that is too far away to win any race is next when others have been served for long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_been_passed_for_long_is_next() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let near = [connect(server.url()).await, connect(server.url()).await];
    let way = Proxy::start(&server).await;
    way.set_round_trip(Duration::from_millis(300));
    let far = Client::builder(way.url()).safety_interval(Duration::from_secs(1));
    let far = far.connect().await.unwrap();
    let holder = near[0].lock("door");
    holder.lock().await.unwrap();
    let patient = LockCrowd::start(
        &far,
        1,
        Way::Patient(Duration::from_secs(2)),
        Duration::ZERO,
    );
    until_subscribers(&mut redis, "redisson_lock__channel:{door}", 1).await;
    until("it is settled who is next", LIMIT, async || {
        redis
            .clone()
            .exists("redisson_lock_next:{door}")
            .await
            .unwrap()
    })
    .await;
    let crowds = near
        .each_ref()
        .map(|client| LockCrowd::start(client, 2, Way::Lock, Duration::from_millis(1)));
    until_subscribers(&mut redis, "redisson_lock__channel:{door}", 3).await;
    holder.unlock().await.unwrap();
    until("somebody has it", LIMIT, async || {
        redis.clone().exists("door").await.unwrap()
    })
    .await;
    assert!(held_by(&mut redis, &far).await);
    until("the others go on", LIMIT, async || {
        crowds.iter().all(|crowd| crowd.grants() > 0)
    })
    .await;
    patient.stop().await;
    for crowd in crowds {
        crowd.stop().await;
    }
    let settled: bool = redis.exists("redisson_lock_next:{door}").await.unwrap();
    assert!(!settled);
}

/// Where all have been passed for long, those who hear of a free lock first would always ask first.
#[tokio::test]
async fn who_has_been_passed_for_longest_is_next() {
    let server = RedisServer::start().await;
    let redis = server.connection().await;
    let holder = connect(server.url()).await.lock("door");
    holder.lock().await.unwrap();
    let client = Client::builder(server.url()).safety_interval(Duration::from_millis(200));
    let client = client.connect().await.unwrap();
    let (next, waits) = ("redisson_lock_next:{door}", client.lock("door"));
    let waits = tokio::spawn(async move { waits.guard().await.map(drop) });
    let is_next = async || {
        let text: Option<String> = redis.clone().get(next).await.unwrap();
        text.is_some_and(|text| text.ends_with(&client.id().to_string()))
    };
    until("it is next", LIMIT, &is_next).await;
    // Another one that has been passed since just now.
    let now: (u64, u64) = redis::cmd("TIME")
        .query_async(&mut redis.clone())
        .await
        .unwrap();
    let other = format!("2000 {} somebody", now.0 * 1000);
    let _: () = redis.clone().set(next, other).await.unwrap();
    until("it has waited longer", LIMIT, &is_next).await;
    let _: () = redis.clone().del(next).await.unwrap();
    holder.unlock().await.unwrap();
    timeout(LIMIT, waits)
        .await
        .expect("served")
        .unwrap()
        .unwrap();
}

/// The lock is free a little longer for it, and the others go on.
#[tokio::test]
async fn who_is_next_and_does_not_come_is_passed() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = connect(server.url()).await;
    let next = "redisson_lock_next:{door}";
    for text in [
        "50 1 somebody",
        "99999999999999999999 1 somebody",
        "50 99999999999999999999 somebody",
        "",
        "x",
        "5 ",
    ] {
        let _: () = redis.set(next, text).await.unwrap();
        let door = client.lock("door");
        assert!(door.try_lock().await.unwrap(), "{text}: it does not wait");
        door.unlock().await.unwrap();
        let _: () = redis.set(next, text).await.unwrap();
        assert!(door.try_lock_for(LIMIT).await.unwrap(), "{text}");
        let waits = client.lock("door");
        let waits = tokio::spawn(async move { waits.guard().await.map(drop) });
        until_subscribers(&mut redis, "redisson_lock__channel:{door}", 1).await;
        let _: () = redis.set(next, text).await.unwrap();
        door.unlock().await.unwrap();
        timeout(LIMIT, waits).await.expect(text).unwrap().unwrap();
    }
    let _: () = redis.del(next).await.unwrap();
    let _: () = redis.lpush(next, "x").await.unwrap();
    let door = client.lock("door");
    door.lock().await.unwrap();
    door.unlock().await.unwrap();
    let left: bool = redis.exists(next).await.unwrap();
    assert!(!left);
}

/// Clients of one caller each, who are all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_with_one_caller_share() {
    const GRANTS: u64 = 480;
    let server = RedisServer::start().await;
    let hold = Duration::from_millis(1);
    let mut crowds = Vec::new();
    for _ in 0..8 {
        let client = connect(server.url()).await;
        crowds.push(LockCrowd::start(&client, 1, Way::Lock, hold));
    }
    let all = || crowds.iter().map(LockCrowd::grants).sum::<u64>();
    until("they have been served", LIMIT, async || all() >= GRANTS).await;
    let grants: Vec<u64> = crowds.iter().map(LockCrowd::grants).collect();
    let least = grants.iter().min().expect("some");
    assert!(least * 5 >= GRANTS / 8, "{grants:?}");
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
