//! A replica takes over with the data that reached it, and the same address leads to it: calls that were begun at the
//! old primary take effect once, and waiters go on waiting.

use std::time::Duration;

use crate::pair::Pair;
use crate::support::clients::{
    LIMIT, NEVER, builder, connect, release_as_redisson, served, stored, until_stored, warm_up,
};
use crate::support::log;
use crate::support::proxy::{Fate, LOST_REPLIES, Proxy};
use crate::support::server::replica_of;
use crate::support::waiters::{channel, until, until_subscribers, waiter};
use redisson_semaphore::Client;
use tokio::time::timeout;

/// A client that finds the master of the pair by itself: nothing redirects an address.
async fn of_the_master(pair: &Pair) -> Client {
    // The client does not poll.
    let connecting = builder(pair.url()).safety_interval(NEVER);
    connecting.connect().await.unwrap()
}

/// A waiter sends only requests that change nothing, and a replica carries these out, too.
#[tokio::test]
async fn who_only_waits_leaves_a_master_that_has_become_a_replica() {
    let pair = Pair::start().await;
    let client = of_the_master(&pair).await;
    let (semaphore, latch) = (client.semaphore("left"), client.count_down_latch("shut"));
    semaphore.try_set_permits(0).await.unwrap();
    latch.try_set_count(1).await.unwrap();
    pair.until_across().await;
    let task = waiter(&mut pair.master.connection().await, &semaphore, 1).await;
    let open = tokio::spawn(async move { latch.wait().await });
    pair.part_as_masters().await;
    let other = connect(pair.replica.url()).await;
    other.semaphore("left").release(1).await.unwrap();
    other.count_down_latch("shut").count_down().await.unwrap();
    served(task).await;
    served(open).await;
}

/// A client renews its holds at the new master, sooner than it asks for the role of a server by itself.
#[tokio::test]
async fn who_only_holds_leaves_a_master_that_has_become_a_replica() {
    const LEASE: Duration = Duration::from_secs(3);
    let pair = Pair::start().await;
    let connecting = builder(pair.url()).lock_watchdog_timeout(LEASE);
    let client = connecting.connect().await.unwrap();
    let seats = client.semaphore("held").watched();
    seats.try_set_permits(2).await.unwrap();
    let permit = seats.permit(1).await.unwrap();
    pair.until_across().await;
    pair.part_as_masters().await;
    // This client reclaims the permits of dead clients, too.
    let connecting = builder(pair.replica.url()).lock_watchdog_timeout(LEASE);
    let other = connecting.connect().await.unwrap();
    let others = other.semaphore("held").watched();
    let theirs = others.permit(1).await.unwrap();
    let freed = others.try_acquire_for(1, LEASE * 3).await;
    assert_eq!(freed, Ok(false), "what is held is free for nobody");
    assert!(!permit.is_lost());
    permit.release().await.unwrap();
    theirs.release().await.unwrap();
    assert_eq!(others.available_permits().await, Ok(2));
}

/// Messages come from the server that commands go to, though each of the two connections finds the master by itself.
#[tokio::test]
async fn messages_are_heard_where_commands_go_to() {
    let pair = Pair::start().await;
    let client = of_the_master(&pair).await;
    let semaphore = client.semaphore("heard");
    semaphore.try_set_permits(0).await.unwrap();
    pair.until_across().await;
    let task = waiter(&mut pair.master.connection().await, &semaphore, 1).await;
    pair.part_as_masters().await;
    let kill = redis::cmd("CLIENT")
        .arg(&["KILL", "TYPE", "normal"])
        .clone();
    let _: u64 = (kill.query_async(&mut pair.master.connection().await).await).unwrap();
    let replica = &mut pair.replica.connection().await;
    until_subscribers(replica, &channel("heard"), 1).await;
    release_as_redisson(replica, "heard", 1).await;
    served(task).await;
}

/// The old primary has carried out the call, and the new one has its record.
#[tokio::test]
async fn a_call_whose_reply_is_lost_in_the_failover_takes_effect_once() {
    let mut pair = Pair::start().await;
    let address = Proxy::start(&pair.master).await;
    // Both servers know the scripts: otherwise the lost reply may only say that the server lacks the script.
    for _ in 0..2 {
        warm_up(&pair.master).await;
        pair.change_places().await;
    }
    address.lead_to(&pair.master);
    let client = connect(address.url()).await;
    let semaphore = client.semaphore("across");
    let other = client.semaphore("moved");
    semaphore.try_set_permits(9).await.unwrap();
    for fate in LOST_REPLIES {
        for (call, left) in [("acquire", 7), ("release", 8), ("add", 3), ("drain", 0)] {
            let struck = address.struck();
            address.at_script(1, fate);
            let semaphore = semaphore.clone();
            let task = tokio::spawn(async move {
                match call {
                    "acquire" => semaphore.acquire(2).await.map(|()| 0),
                    "release" => semaphore.release(1).await.map(|()| 0),
                    "add" => semaphore.add_permits(-5).await.map(|()| 0),
                    _ => semaphore.drain_permits().await,
                }
            });
            address.until_struck(struck + 1).await;
            pair.until_across().await;
            pair.change_places().await;
            address.lead_to(&pair.master);
            let answer = timeout(LIMIT, task).await.expect("it ends").unwrap();
            assert_eq!(answer, Ok(if call == "drain" { 3 } else { 0 }), "{call}");
            assert_eq!(stored(&pair.master, "across").await, [left.to_string()]);
            // The next call must not begin at the new replica.
            address.cut();
            assert_eq!(
                client.semaphore("across").available_permits().await,
                Ok(left)
            );
        }
        semaphore.add_permits(9).await.unwrap();
    }
    // The new primary must know the script: otherwise the lost reply only says that it lacks the script.
    assert_eq!(semaphore.clear_expire().await, Ok(false));
    address.at_script(1, Fate::LoseReplyAndClose);
    let struck = address.struck();
    let renamed =
        tokio::spawn(async move { semaphore.object().rename(other.name()).await.map(drop) });
    address.until_struck(struck + 1).await;
    pair.until_across().await;
    pair.change_places().await;
    address.lead_to(&pair.master);
    assert_eq!(timeout(LIMIT, renamed).await.unwrap().unwrap(), Ok(()));
    assert_eq!(stored(&pair.master, "moved").await, ["9"]);
}

#[tokio::test]
async fn who_waits_is_served_by_the_new_primary() {
    let mut pair = Pair::start().await;
    let address = Proxy::start(&pair.master).await;
    let client = connect(address.url()).await;
    let semaphore = client.semaphore("waited");
    for cut in [false, true] {
        let task = waiter(&mut pair.master.connection().await, &semaphore, 2).await;
        pair.change_places().await;
        address.lead_to(&pair.master);
        if cut {
            // The old primary is gone for this client.
            address.cut();
        }
        // Replicas hear the messages of their primary.
        release_as_redisson(&mut pair.master.connection().await, "waited", 2).await;
        served(task).await;
        until_stored(&pair.master, "waited", 0).await;
        assert_eq!(semaphore.available_permits().await, Ok(0));
    }
}

/// Both connections to a replica are made again and again; the log does not mention each time.
#[tokio::test]
async fn a_refusing_replica_is_logged_once() {
    log::record();
    let pair = Pair::start().await;
    let address = Proxy::start(&pair.replica).await;
    let client = builder(address.url())
        .retry_window(LIMIT)
        .local_hand_off(Duration::ZERO)
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("told");
    let mut control = pair.replica.connection().await;
    let opened = address.opened();
    let waiting = semaphore.clone();
    let waiting = tokio::spawn(async move { waiting.acquire(7).await });
    let release = semaphore.clone();
    let release = tokio::spawn(async move { release.release(7).await });
    until("it is tried again and again", LIMIT, async || {
        address.opened() >= opened + 6
    })
    .await;
    replica_of(&mut control, None).await;
    assert_eq!(timeout(LIMIT, release).await.unwrap().unwrap(), Ok(()));
    served(waiting).await;
    let lines = || log::lines(tracing::Level::INFO, &address.address());
    let told: Vec<_> = lines().iter().map(|line| line.level).collect();
    assert_eq!(told, [tracing::Level::WARN], "{:#?}", lines());
    assert!(lines()[0].text.contains("READONLY"));
}
