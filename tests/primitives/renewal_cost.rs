//! The cost of renewing many guards: those that were taken together are renewed by few scripts.

use std::time::Duration;

use crate::layouts::{Layout, Shape};
use crate::support::clients::{LIMIT, builder, scripts};
use crate::support::monitor::Monitor;
use crate::support::server::RedisServer;
use crate::support::waiters::until;
use futures::future::{join_all, try_join_all};
use futures::stream::{self, StreamExt, TryStreamExt};
use redis::AsyncCommands;
use redisson_semaphore::{Client, Lease, LeasedSemaphore as _};
use tokio::time::{Instant, timeout};

/// A third of it is far longer than it takes to take all of them, so the first round renews each of them once.
const LEASE: Duration = Duration::from_secs(12);

async fn start() -> (RedisServer, Client) {
    let server = RedisServer::start().await;
    // Nothing is sent twice where the machine is slow.
    let client = builder(server.url()).response_timeout(LIMIT);
    let client = client.lock_watchdog_timeout(LEASE).connect().await.unwrap();
    (server, client)
}

/// How many scripts the first round takes: until the first entry of this zset ends later than the last one did. Each is asked for by its
/// digest; those that the server does not know at first are sent again, and are not counted again.
async fn scripts_of_the_first_round(server: &RedisServer, zset: &str) -> usize {
    let mut redis = server.connection().await;
    let mut end = async |place: isize| -> f64 {
        let entries = redis.zrange_withscores(zset, place, place).await;
        let entries: Vec<(Vec<u8>, f64)> = entries.unwrap();
        entries[0].1
    };
    let mut monitor = Monitor::start(server).await;
    let last = end(-1).await;
    until("all are renewed", LIMIT, async || end(0).await > last).await;
    let commands = monitor.until_marker().await;
    let scripts = commands.iter().filter(|one| one.is_script());
    scripts.filter(|one| one.name == "EVALSHA").count()
}

/// Entries that were taken within a tenth of a period are renewed together, as a group: how many groups there can be at the most.
fn groups(taking: Instant) -> f64 {
    1.0 + taking.elapsed().as_secs_f64() / (LEASE / 30).as_secs_f64()
}

/// One script renews 250 permits, so a hundred thousand cost 400 a period.
#[tokio::test]
async fn ten_thousand_permits_with_ids_are_renewed_together() {
    let (server, client) = start().await;
    let jobs = client.permit_expirable_semaphore("jobs");
    jobs.try_set_permits(10_000).await.unwrap();
    let leased = jobs.clone().with_lease(LEASE);
    let (mut leases, taking) = (Vec::new(), Instant::now());
    for _ in 0..10 {
        let held = leased.acquire_many(1000).await.unwrap();
        leases.extend(held.iter().map(|held| leased.keep(held)));
    }
    // The last script of a group renews what is left of it.
    let most = 40.0 + groups(taking);
    let needed = scripts_of_the_first_round(&server, "{jobs}:timeout").await;
    assert!(
        needed >= 40 && needed as f64 <= most,
        "{needed} scripts, at most {most}"
    );
    assert!(leases.iter().all(|lease| !lease.is_lost()));
    // A permit that is released is not renewed any more.
    assert_eq!(jobs.release_all().await, Ok(10_000));
    let lost = join_all(leases.iter().map(Lease::lost));
    timeout(LIMIT, lost).await.expect("their renewal tells");
}

#[tokio::test]
async fn guards_of_ninety_semaphores_are_renewed_together() {
    let (server, client) = start().await;
    let (mut held, taking) = (Vec::new(), Instant::now());
    for number in 0..90 {
        let seats = client.semaphore(&format!("s{number}")).watched();
        seats.try_set_permits(1).await.unwrap();
        held.push(seats.permit(1).await.unwrap());
    }
    let groups = groups(taking);
    let needed = scripts_of_the_first_round(&server, "redisson_sc_grants:{s0}").await;
    assert!(
        needed >= 1 && needed as f64 <= 2.0 * groups,
        "{needed} scripts for {groups} groups"
    );
    assert!(held.iter().all(|guard| !guard.is_lost()));
}

#[tokio::test]
async fn guards_of_a_recipe_are_renewed_together() {
    let (server, client) = start().await;
    let semaphore = Layout::Fair.make(&client, "kept", Shape::new(600).lease(LEASE));
    let mut monitor = Monitor::start(&server).await;
    let guards = try_join_all((0..600).map(|_| semaphore.permit()));
    let guards = guards.await.unwrap();
    let batches = monitor.scripts().await;
    assert!(batches < 20, "{batches} scripts for 600 guards");
    let needed = scripts_of_the_first_round(&server, "kept").await;
    assert!(needed <= batches, "{needed} scripts");
    assert!(guards.iter().all(|guard| !guard.is_lost()));
    assert_eq!(semaphore.holders().await.unwrap().len(), 600);
}

/// The locks of a client are renewed by scripts of many locks each.
#[tokio::test]
async fn ten_thousand_locks_are_renewed_by_few_scripts() {
    const LOCKS: usize = 10_000;
    const WATCHDOG: Duration = Duration::from_secs(15);
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = Client::builder(server.url()).lock_watchdog_timeout(WATCHDOG);
    let client = client.connect().await.unwrap();
    let locks = (0..LOCKS).map(|number| client.lock(&format!("held-{number}")));
    // So few at a time that no reply is late.
    let guards = stream::iter(locks.map(async |lock| lock.guard().await)).buffer_unordered(250);
    let guards: Vec<_> = guards.try_collect().await.unwrap();
    // The scripts that delete records are not counted.
    until("records are deleted", LIMIT, async || {
        let left: Vec<String> = redis.keys("redisson_lock_once:*").await.unwrap();
        left.len() < 64
    })
    .await;
    // A mark whose end is put off with theirs: each round of renewal is seen.
    let mut sent = Vec::new();
    for _ in 0..3 {
        let nearer = WATCHDOG.as_millis() as i64 * 3 / 4;
        let _: () = redis.pexpire("held-0", nearer).await.unwrap();
        until("it is renewed", LIMIT, async || {
            redis.pttl::<_, i64>("held-0").await.unwrap() > nearer
        })
        .await;
        sent.push(scripts(&mut redis).await);
    }
    // From one round to the next, wherever in them the mark stands.
    for pair in sent.windows(2) {
        let made = pair[1] - pair[0];
        assert!((1..=200).contains(&made), "{made} scripts in a period");
    }
    assert!(guards.iter().all(|guard| !guard.is_lost()));
    let mut ttls = redis::pipe();
    for number in 0..LOCKS {
        ttls.pttl(format!("held-{number}"));
    }
    let ttls: Vec<i64> = ttls.query_async(&mut redis).await.unwrap();
    assert!(ttls.iter().all(|ttl| *ttl > 0), "one was not renewed");
    // All at once, this process alone takes a lease's time in a debug build.
    let unlocks = stream::iter(guards.into_iter().map(|guard| guard.unlock()));
    let () = unlocks.buffer_unordered(250).try_collect().await.unwrap();
    let left: Vec<String> = redis.keys("held-*").await.unwrap();
    assert!(left.is_empty(), "{left:?}");
}
