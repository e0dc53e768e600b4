//! Grants that replicas must confirm, and the grants that a failover loses without that.

use std::pin::Pin;
use std::time::{Duration, Instant};

use crate::pair::Pair;
use crate::support::clients::{
    self, LIMIT, NEVER, commands, scripts, served, stored, until_stored,
};
use crate::support::cluster::{Cluster, ask};
use crate::support::proxy::{Fate, Proxy};
use crate::support::server::RedisServer;
use crate::support::waiters::{until, until_counted, waiter};
use futures::future::join_all;
use redisson_semaphore::{Client, ClientBuilder, Effect, Error, Lease, LeasedSemaphore, Lock as _};
use tokio::time::timeout;

/// How long a call may take here: some rounds of waiting for replicas.
const BOUND: Duration = Duration::from_secs(4);

/// A reply is lost only where its connection closes, so late replies are waited for.
fn builder(url: String) -> ClientBuilder {
    clients::builder(url).response_timeout(LIMIT)
}

async fn start() -> Pair {
    let pair = Pair::start().await;
    until_counted(&mut pair.master.connection().await).await;
    pair
}

impl Pair {
    /// No renewal is due in the time of a test.
    fn builder(&self) -> ClientBuilder {
        builder(self.url())
            .call_timeout(BOUND)
            .local_hand_off(Duration::ZERO)
            .lock_watchdog_timeout(NEVER)
    }

    async fn connect(&self) -> Client {
        let builder = self.builder().wait_for_replicas(1);
        builder.connect().await.unwrap()
    }

    /// The replica logs in as `user`.
    async fn replica_is(&self, user: &str) {
        for setting in ["masteruser", "masterauth"] {
            ask::<()>(&self.replica, &["CONFIG", "SET", setting, user]).await;
        }
    }

    /// The replica gets no more data.
    async fn part(&self) {
        self.replica_is("nobody").await;
        ask::<i64>(&self.master, &["CLIENT", "KILL", "TYPE", "replica"]).await;
        until("the replica is gone", LIMIT, async || {
            let info: String = ask(&self.master, &["INFO", "replication"]).await;
            info.contains("connected_slaves:0")
        })
        .await;
    }

    async fn rejoin(&self) {
        self.replica_is("").await;
    }

    /// The master is gone, and with it all data that the replica lacks.
    async fn fail_over(&mut self) {
        self.master.kill().await;
        ask::<()>(&self.replica, &["REPLICAOF", "NO", "ONE"]).await;
    }
}

async fn waits(server: &RedisServer) -> u64 {
    commands(&mut server.connection().await, "wait:").await
}

#[tokio::test]
async fn what_is_granted_is_on_the_replica_already() {
    let mut pair = start().await;
    let client = pair.builder().wait_for_replicas(1).call_timeout(NEVER);
    let client = client.connect().await.unwrap();
    let semaphore = client.semaphore("seats");
    semaphore.try_set_permits(10).await.unwrap();
    // The replica does not get the grant yet.
    pair.replica.freeze();
    let call = semaphore.clone();
    let task = tokio::spawn(async move { call.acquire(1).await });
    until_stored(&pair.master, "seats", 9).await;
    assert!(!task.is_finished());
    pair.replica.thaw();
    served(task).await;
    for left in (0..9).rev() {
        semaphore.acquire(1).await.unwrap();
        assert_eq!(stored(&pair.replica, "seats").await, [left.to_string()]);
    }
    assert!(client.lock("door").try_lock().await.unwrap());
    assert_eq!(ask::<i64>(&pair.replica, &["EXISTS", "door"]).await, 1);
    let slots = client.set_semaphore("slots", 1);
    let _held = slots.acquire().await.unwrap();
    assert_eq!(ask::<i64>(&pair.replica, &["SCARD", "slots"]).await, 1);
}

/// Concurrent callers share one wait for the replicas.
#[tokio::test]
async fn many_share_one_wait() {
    let pair = start().await;
    let client = pair.connect().await;
    let names: Vec<String> = (0..64).map(|number| format!("seats-{number}")).collect();
    let all = names.iter().map(async |name| {
        let semaphore = client.semaphore(name);
        semaphore.try_set_permits(1).await.unwrap();
        for _ in 0..10 {
            semaphore.permit(1).await.unwrap().release().await.unwrap();
        }
    });
    join_all(all).await;
    let scripts = scripts(&mut pair.master.connection().await).await;
    let waits = waits(&pair.master).await;
    assert!(scripts > 64 * 20, "{scripts}");
    assert!(0 < waits && waits * 4 < scripts, "{waits} for {scripts}");
}

/// A caller that gets nothing has nothing that a replica could lose.
#[tokio::test]
async fn who_looks_or_gets_nothing_waits_for_no_replica() {
    let pair = start().await;
    let (client, other) = (
        pair.connect().await,
        pair.builder().connect().await.unwrap(),
    );
    let semaphore = client.semaphore("seats");
    semaphore.try_set_permits(2).await.unwrap();
    let _door = other.lock("door").guard().await.unwrap();
    let leased = client.permit_expirable_semaphore("work");
    leased.try_set_permits(0).await.unwrap();
    let latch = client.count_down_latch("latch");
    latch.try_set_count(1).await.unwrap();
    let _slot = other.set_semaphore("slots", 1).acquire().await.unwrap();
    pair.part().await;

    let before = waits(&pair.master).await;
    let wait = Duration::from_millis(10);
    let lock = client.lock("door");
    for _ in 0..3 {
        assert!(!semaphore.try_acquire(3).await.unwrap());
        assert!(!semaphore.try_set_permits(7).await.unwrap());
        assert_eq!(semaphore.available_permits().await, Ok(2));
        assert!(!lock.try_lock().await.unwrap());
        assert!(lock.is_locked().await.unwrap());
        assert!(!client.lock("free").force_unlock().await.unwrap());
        assert!(client.lock("free").unlock().await.is_err());
        assert!(leased.try_acquire().await.unwrap().is_none());
        assert!(!latch.try_set_count(2).await.unwrap());
        assert!(!latch.wait_for(wait).await.unwrap());
        let slots = client.set_semaphore("slots", 1);
        assert!(
            LeasedSemaphore::permit_for(&slots, wait)
                .await
                .unwrap()
                .is_none()
        );
    }
    assert_eq!(waits(&pair.master).await, before);
    let error = semaphore.try_acquire(1).await.unwrap_err();
    assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
}

/// The change of the first sending, whose reply was lost, is not on the replica either: the repetition on another connection
/// waits for the replica, too.
#[tokio::test]
async fn what_is_answered_from_its_record_is_confirmed_too() {
    let mut pair = start().await;
    let proxy = Proxy::start(&pair.master).await;
    let client = builder(proxy.url())
        .call_timeout(BOUND)
        .lock_watchdog_timeout(NEVER)
        .wait_for_replicas(1)
        .connect()
        .await
        .unwrap();
    let seats = client.semaphore("seats");
    let watched = client.semaphore("watched").watched();
    let leased = client.permit_expirable_semaphore("work");
    seats.try_set_permits(5).await.unwrap();
    watched.try_set_permits(5).await.unwrap();
    assert!(watched.try_acquire(1).await.unwrap());
    leased.try_set_permits(5).await.unwrap();
    let latch = client.count_down_latch("latch");
    let lock = client.lock("door");
    let slots = client.set_semaphore("slots", 5);

    let lost = async |call: Pin<Box<dyn Future<Output = Option<Error>>>>| {
        let struck = proxy.struck();
        proxy.at_script(1, Fate::LoseReplyAndClose);
        let error = call.await;
        assert_eq!(proxy.struck(), struck + 1);
        error
    };
    pair.replica.freeze();
    let told = [
        lost(Box::pin(async { seats.try_acquire(1).await.err() })).await,
        lost(Box::pin(async { watched.try_acquire(1).await.err() })).await,
        lost(Box::pin(async { leased.try_acquire().await.err() })).await,
        lost(Box::pin(async { latch.try_set_count(1).await.err() })).await,
        lost(Box::pin(async { lock.try_lock().await.err() })).await,
        lost(Box::pin(async { slots.try_acquire().await.err() })).await,
    ];
    pair.replica.thaw();
    for (number, error) in told.into_iter().enumerate() {
        let error = error.unwrap_or_else(|| panic!("call {number} was not confirmed"));
        assert!(
            error.to_string().contains("0 of 1 replicas"),
            "{number}: {error}"
        );
    }
}

/// Each master has replicas of its own.
#[tokio::test]
async fn each_master_of_a_cluster_is_waited_for() {
    let mut cluster = Cluster::start().await;
    let client = builder(cluster.url())
        .call_timeout(BOUND)
        .wait_for_replicas(1)
        .connect()
        .await
        .unwrap();
    let mut semaphores = vec![];
    for master in 0..3 {
        let name = cluster.name_at(master, "seats").await;
        let semaphore = client.semaphore(&name);
        semaphore.try_set_permits(2).await.unwrap();
        let before = waits(&cluster.servers[master]).await;
        let began = Instant::now();
        assert!(semaphore.try_acquire(1).await.unwrap());
        // A replica that has not confirmed it after 150 ms is asked again.
        let most = 1 + began.elapsed().as_millis() as u64 / 150;
        // The answer comes at once: no other call waits for it.
        assert_eq!(
            cluster.copied(master + 3, &name).await.as_deref(),
            Some("1")
        );
        let asked = waits(&cluster.servers[master]).await - before;
        assert!((1..=most).contains(&asked), "{asked} of {most}");
        semaphores.push(semaphore);
    }
    cluster.servers[3].freeze();
    let told = semaphores[0].try_acquire(1).await.unwrap_err();
    assert!(matches!(told, Error::OutcomeUnknown { .. }), "{told:?}");
    assert!(told.to_string().contains("0 of 1 replicas"), "{told}");
    for semaphore in &semaphores[1..] {
        assert!(semaphore.try_acquire(1).await.unwrap());
    }
    cluster.servers[3].thaw();
}

/// A grant that no replica confirms is returned, and its caller gets an error.
#[tokio::test]
async fn what_no_replica_confirms_is_given_back_and_told() {
    let pair = start().await;
    let client = pair.connect().await;
    let semaphore = client.semaphore("seats");
    semaphore.try_set_permits(5).await.unwrap();
    let (lock, slots) = (client.lock("door"), client.set_semaphore("slots", 5));
    // Another client's waiter, which goes on waiting: a hand-off within one client would be no change to confirm.
    let guard = semaphore.permit(5).await.unwrap();
    let other = pair.connect().await.semaphore("seats");
    let line = waiter(&mut pair.master.connection().await, &other, 5).await;
    pair.part().await;

    let wait = Duration::from_millis(10);
    let (released, locked, slot) = tokio::join!(
        guard.release(),
        lock.try_lock(),
        LeasedSemaphore::permit_for(&slots, wait),
    );
    let told = [
        released.unwrap_err(),
        locked.map(drop).unwrap_err(),
        slot.map(drop).unwrap_err(),
    ];
    for error in told {
        assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error:?}");
        assert_eq!(error.effect(), Effect::Unknown);
        assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
    }
    until("lock and slot are free", LIMIT, async || {
        ask::<i64>(&pair.master, &["EXISTS", "door", "slots"]).await == 0
    })
    .await;
    assert!(!line.is_finished());
    pair.rejoin().await;
    served(line).await;
    assert_eq!(stored(&pair.replica, "seats").await, ["0"]);
    semaphore.release(5).await.unwrap();
    assert_eq!(stored(&pair.replica, "seats").await, ["5"]);
}

/// Callers that fail one after the other: a hand-off between them would be no change for the replicas to confirm.
async fn in_vain<T>(kind: &str, granted: impl AsyncFn() -> Result<T, Error>) {
    for time in 1..=3 {
        let error = granted().await.map(drop).expect_err(kind);
        // A call that waits behind another request is not sent.
        let told = matches!(
            error,
            Error::OutcomeUnknown { .. } | Error::Unavailable { .. }
        );
        assert!(told, "{kind}, {time}: {error:?}");
    }
}

#[tokio::test]
async fn what_no_replica_has_is_not_passed_on() {
    let pair = start().await;
    let patient = pair.builder().call_timeout(NEVER).connect().await.unwrap();
    let (seats, work) = (
        patient.semaphore("seats"),
        patient.permit_expirable_semaphore("work"),
    );
    seats.try_set_permits(1).await.unwrap();
    work.try_set_permits(1).await.unwrap();
    let client = pair.builder().wait_for_replicas(1);
    let client = client.retry_window(BOUND / 2).connect().await.unwrap();
    let semaphore = client.semaphore("seats");
    let leased = client.permit_expirable_semaphore("work");
    let (slots, fair) = (
        client.set_semaphore("slots", 1),
        client.fair_semaphore("fair", 1),
    );
    let recipes: [&dyn LeasedSemaphore; 2] = [&slots, &fair];
    pair.part().await;
    let all = futures::future::join3(
        in_vain("a fair lock", async || {
            client.fair_lock("turn").lock().await
        }),
        in_vain("a reader", async || {
            client.read_write_lock("prices").read().lock().await
        }),
        futures::future::join5(
            in_vain("a counter", async || semaphore.permit(1).await),
            in_vain("ids", async || leased.permit().await),
            in_vain("a set", async || recipes[0].try_acquire().await),
            in_vain("fair", async || recipes[1].acquire().await),
            in_vain("a lock", async || client.lock("door").lock().await),
        ),
    );
    all.await;
    // The same for a try that travelled with a release.
    in_vain("a counter", async || semaphore.try_acquire(1).await).await;
    until_stored(&pair.master, "seats", 1).await;
    until_stored(&pair.master, "work", 1).await;
    until("they are free", LIMIT, async || {
        ask::<i64>(
            &pair.master,
            &["EXISTS", "slots", "fair", "door", "turn", "prices"],
        )
        .await
            == 0
    })
    .await;
}

/// Without confirmations two callers may come to hold the only permit. With confirmations the first caller gets an error instead.
#[tokio::test]
async fn a_failover_loses_what_was_granted_unless_replicas_were_waited_for() {
    for careful in [false, true] {
        let mut pair = start().await;
        let builder = pair.builder().wait_for_replicas(careful.into());
        let client = builder.connect().await.unwrap();
        let semaphore = client.semaphore("seats");
        semaphore.try_set_permits(1).await.unwrap();
        until_stored(&pair.replica, "seats", 1).await;
        pair.part().await;
        let granted = semaphore.try_acquire(1).await;
        pair.fail_over().await;
        assert_eq!(stored(&pair.replica, "seats").await, ["1"]);
        match (careful, granted) {
            (false, Ok(true)) => {
                // The second grant of the same permit.
                until("the new master serves", LIMIT, async || {
                    semaphore.try_acquire(1).await.unwrap_or(false)
                })
                .await;
            }
            (true, Err(Error::OutcomeUnknown { .. })) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// A permission forbids the command, or it has another name, as with managed services. Nothing has been changed then.
#[tokio::test]
async fn a_server_that_does_not_let_clients_wait_for_replicas_is_told() {
    let options = RedisServer::options().setting("rename-command", "WAIT \"\"");
    let without = options.start().await;
    let plain = builder(without.url()).connect().await.unwrap();
    assert_eq!(plain.semaphore("seats").try_set_permits(1).await, Ok(true));
    let options = RedisServer::options().user("app on >pw ~* &* +@all -wait");
    let forbidding = options.start().await;
    for (url, port, denied, words) in [
        (without.url(), without.port(), false, "wait_for_replicas"),
        (
            forbidding.url_as("app", "pw"),
            forbidding.port(),
            true,
            "'wait'",
        ),
    ] {
        let connecting = builder(url).wait_for_replicas(1).connect();
        let error = timeout(LIMIT, connecting).await.expect("at once");
        let error = error.unwrap_err();
        let is_denied = matches!(error, Error::PermissionDenied { .. });
        assert_eq!(is_denied, denied, "{error:?}");
        let address = format!("127.0.0.1:{port}");
        assert!(error.name().is_some_and(|name| name.contains(&address)));
        assert_eq!(error.effect(), Effect::NotApplied);
        assert!(!error.is_retryable(), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

/// A release that no replica has confirmed ends with an error, and is carried out all the same.
#[tokio::test]
async fn what_is_given_back_and_not_confirmed_is_given_back_behind_a_failover() {
    let mut pair = start().await;
    let builder = pair.builder().wait_for_replicas(1).call_timeout(NEVER);
    let client = builder.retry_window(BOUND).connect().await.unwrap();
    let semaphore = client.semaphore("seats");
    semaphore.try_set_permits(1).await.unwrap();
    semaphore.acquire(1).await.unwrap();
    let slots = client.set_semaphore("slots", 1);
    let held = slots.acquire().await.unwrap();
    pair.part().await;
    let told = tokio::join!(semaphore.release(1), slots.release(held.id()));
    for error in [told.0.unwrap_err(), told.1.unwrap_err()] {
        assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error}");
    }
    pair.fail_over().await;
    until_stored(&pair.replica, "seats", 1).await;
    until("the slot is free", LIMIT, async || {
        ask::<i64>(&pair.replica, &["SCARD", "slots"]).await == 0
    })
    .await;
}

/// Holds last while the replica is away, even if another step of their holder, or of their queue, is not confirmed.
#[tokio::test]
async fn who_renews_waits_for_no_replica() {
    const LASTS: Duration = Duration::from_secs(5);
    let pair = start().await;
    let builder = pair.builder().wait_for_replicas(1).call_timeout(NEVER);
    let builder = builder.retry_window(NEVER).lock_watchdog_timeout(LASTS);
    let client = builder.connect().await.unwrap();
    let slots = client.slot_semaphore("slots", 3).timeout(LASTS);
    let (slot, other) = (slots.permit().await.unwrap(), slots.permit().await.unwrap());
    let string_lock = client.string_lock("key").timeout(LASTS);
    let key = string_lock.guard().await.unwrap();
    let door = client.lock("door");
    let outer = door.guard().await.unwrap();
    let inner = outer.again().await.unwrap();
    pair.part().await;
    let began = Instant::now();
    let leaving = tokio::spawn(inner.unlock());
    let returning = tokio::spawn(other.release());
    let renewed = |lease: &Lease| lease.remaining() > Some(LASTS / 2);
    until(
        "they are renewed behind their second end",
        LIMIT,
        async || {
            let leases = [slot.lease(), key.lease(), outer.lease()];
            assert!(!leases.iter().any(|lease| lease.is_lost()));
            leases.into_iter().all(renewed) && began.elapsed() > LASTS * 2
        },
    )
    .await;
    assert!(!leaving.is_finished() && !returning.is_finished());
    pair.rejoin().await;
    timeout(LIMIT, leaving).await.unwrap().unwrap().unwrap();
    timeout(LIMIT, returning).await.unwrap().unwrap().unwrap();
    outer.unlock().await.unwrap();
    assert_eq!(door.is_locked().await, Ok(false));
}
