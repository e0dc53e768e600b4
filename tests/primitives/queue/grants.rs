//! Grants: short leases that a client confirms, or loses to the next in the queue; never both, and never neither.

use std::time::Duration;

use super::far;
use crate::support::clients::{
    LIMIT, builder, connect, served, start_behind_a_proxy, start_controlled, stored, until_stored,
};
use crate::support::proxy::{Fate, LOST_REPLIES};
use crate::support::waiters::{
    settled_waiter, until, until_lock_queued, until_notified, until_queued, until_subscribers,
    waiter,
};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, Permit, RLock, RSemaphore, Result};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const NAME: &str = "granted";
const GRANTS: &str = "redisson_sc_grants:{granted}";

fn guard(semaphore: &RSemaphore) -> JoinHandle<Result<Permit>> {
    let semaphore = semaphore.clone();
    tokio::spawn(async move { semaphore.permit(1).await })
}

/// A guard's caller that queues behind `before` others, and whose client gets notifications.
async fn queued_guard(
    control: &mut MultiplexedConnection,
    client: &Client,
    before: usize,
) -> JoinHandle<Result<Permit>> {
    let task = guard(&client.semaphore(NAME));
    until_queued(control, NAME, before + 1).await;
    until_notified(control, NAME, client.id()).await;
    client.semaphore(NAME).available_permits().await.unwrap();
    task
}

/// A guard's caller whose client has got another grant since its subscription: no script about the subscription is still to come, and
/// the next script is about the guard.
async fn settled_guard(
    control: &mut MultiplexedConnection,
    client: &Client,
    releasing: &RSemaphore,
) -> JoinHandle<Result<Permit>> {
    let earlier = waiter(control, &client.semaphore(NAME), 1).await;
    let task = queued_guard(control, client, 1).await;
    releasing.release(1).await.unwrap();
    served(earlier).await;
    until_queued(control, NAME, 1).await;
    task
}

async fn got(task: JoinHandle<Result<Permit>>) -> Permit {
    timeout(LIMIT, task)
        .await
        .expect("served")
        .unwrap()
        .unwrap()
}

/// Waits until there are `count` grants and leases.
async fn until_granted(control: &mut MultiplexedConnection, count: usize) {
    until(&format!("{count} are granted"), LIMIT, async || {
        control.zcard::<_, usize>(GRANTS).await.unwrap() == count
    })
    .await;
}

/// A guard does not wait for the answer to its confirmation. A caller without one does: that is in `tests/hazards/stalled.rs`.
#[tokio::test]
async fn guard_is_taken_at_once_and_confirmed() {
    let (server, proxy) = start_behind_a_proxy().await;
    let mut control = server.connection().await;
    let client = builder(proxy.url()).response_timeout(LIMIT);
    let client = client.connect().await.unwrap();
    let releasing = connect(server.url()).await.semaphore(NAME);
    let waiting = settled_guard(&mut control, &client, &releasing).await;
    proxy.at_script(1, Fate::HoldReply);
    releasing.release(1).await.unwrap();
    let held = got(waiting).await;
    proxy.until_struck(1).await;
    proxy.deliver(1).await;
    // The first script may have confirmed the entry, behind the subscription.
    until(
        "it is renewed for longer than a grant lasts",
        LIMIT,
        async || {
            let (seconds, _): (f64, u64) =
                redis::cmd("TIME").query_async(&mut control).await.unwrap();
            let ends: Vec<(String, f64)> = control.zrange_withscores(GRANTS, 0, -1).await.unwrap();
            assert_eq!(ends.len(), 1, "{ends:?}");
            ends[0].1 > (seconds + 10.0) * 1e6
        },
    )
    .await;
    assert!(!held.is_lost());
    held.release().await.unwrap();
}

/// The request to leave the queue arrives behind the grant, or the grant behind a caller that has gone.
#[tokio::test]
async fn dropped_waiter_returns_a_grant_that_crosses_its_leave() {
    for fate in [Fate::HoldRequest, Fate::HoldReply] {
        for guards in [false, true] {
            let (server, proxy) = start_behind_a_proxy().await;
            let mut control = server.connection().await;
            let client = builder(proxy.url()).response_timeout(LIMIT);
            let client = client.connect().await.unwrap();
            let releasing = connect(server.url()).await.semaphore(NAME);
            let semaphore = client.semaphore(NAME);
            let waiting = match guards {
                true => settled_guard(&mut control, &client, &releasing)
                    .await
                    .abort_handle(),
                false => settled_waiter(&mut control, &semaphore, 1, &releasing)
                    .await
                    .abort_handle(),
            };
            proxy.at_script(1, fate);
            if fate == Fate::HoldRequest {
                waiting.abort();
                proxy.until_struck(1).await;
                releasing.release(1).await.unwrap();
            } else {
                releasing.release(1).await.unwrap();
                proxy.until_struck(1).await;
                waiting.abort();
            }
            proxy.deliver(1).await;
            until_stored(&server, NAME, 1).await;
            until_granted(&mut control, 0).await;
            until_queued(&mut control, NAME, 0).await;
            client.shutdown().await.unwrap();
            assert_eq!(stored(&server, NAME).await, ["1"], "{guards} {fate:?}");
        }
    }
}

#[tokio::test]
async fn lost_or_late_confirmation_takes_effect_once() {
    let [close, lose] = LOST_REPLIES;
    for fate in [close, lose, Fate::LoseRequest, Fate::HoldRequest] {
        let (server, proxy) = start_behind_a_proxy().await;
        let mut control = server.connection().await;
        let client = builder(proxy.url()).connect().await.unwrap();
        let releasing = connect(server.url()).await.semaphore(NAME);
        let waiting = settled_waiter(&mut control, &client.semaphore(NAME), 1, &releasing).await;
        proxy.at_script(1, fate);
        releasing.release(1).await.unwrap();
        proxy.until_struck(1).await;
        served(waiting).await;
        assert_eq!(stored(&server, NAME).await, ["0"], "{fate:?}");
        until_granted(&mut control, 0).await;
        if fate == Fate::HoldRequest {
            proxy.deliver(1).await;
        }
        client.semaphore(NAME).release(1).await.unwrap();
        assert_eq!(stored(&server, NAME).await, ["1"], "{fate:?}");
        until_granted(&mut control, 0).await;
    }
}

/// The guard learns of its loss before the next caller can have its permit.
#[tokio::test]
async fn guard_whose_confirmation_does_not_arrive_is_lost_before_the_next_has_its_permit() {
    let (server, mut control) = start_controlled().await;
    let (proxy, client) = far(&server).await;
    let releasing = connect(server.url()).await.semaphore(NAME);
    let other = connect(server.url()).await;
    let first = settled_guard(&mut control, &client, &releasing).await;
    let mut second = queued_guard(&mut control, &other, 1).await;
    proxy.at_script(1, Fate::HoldRequest);
    releasing.release(1).await.unwrap();
    let held = got(first).await;
    proxy.until_struck(1).await;
    tokio::select! {
        biased;
        () = held.lost() => {}
        _ = &mut second => panic!("the next one has it, and the guard does not know"),
    }
    let next = got(second).await;
    assert_eq!(stored(&server, NAME).await, ["0"]);
    proxy.deliver(1).await;
    held.release().await.unwrap_err();
    assert!(!next.is_lost());
    assert_eq!(stored(&server, NAME).await, ["0"]);
    next.release().await.unwrap();
    assert_eq!(stored(&server, NAME).await, ["1"]);
}

/// The client that granted is gone before it can see to it that the grant is confirmed.
#[tokio::test]
async fn grant_of_a_client_that_died_goes_to_the_next() {
    let (server, proxy) = start_behind_a_proxy().await;
    let mut control = server.connection().await;
    let dying = builder(proxy.url()).connect().await.unwrap();
    let (deaf, stalled) = far(&server).await;
    let other = builder(server.url()).safety_interval(Duration::from_secs(1));
    let other = other.connect().await.unwrap();
    let first = waiter(&mut control, &stalled.semaphore(NAME), 1).await;
    let second = waiter(&mut control, &other.semaphore(NAME), 1).await;
    deaf.deafen();
    proxy.mute();
    let releasing = dying.semaphore(NAME);
    let releasing = tokio::spawn(async move { releasing.release(1).await });
    until_granted(&mut control, 1).await;
    proxy.blackhole();
    releasing.abort();
    served(second).await;
    assert!(!first.is_finished());
    assert_eq!(stored(&server, NAME).await, ["0"]);
    until_granted(&mut control, 0).await;
}

/// A grant of the only permit has run out as soon as another client can have it.
async fn until_run_out(other: &RSemaphore) {
    until("it has run out", LIMIT, async || {
        other.reclaim().await.unwrap();
        other.try_acquire(1).await.unwrap()
    })
    .await;
}

/// The script that takes a grant from a client takes all its entries out of the queue, and says so.
#[tokio::test]
async fn client_whose_guard_has_run_out_queues_its_others_again() {
    let (server, mut control) = start_controlled().await;
    let (proxy, client) = far(&server).await;
    let releasing = connect(server.url()).await.semaphore(NAME);
    let first = settled_guard(&mut control, &client, &releasing).await;
    let second = guard(&client.semaphore(NAME));
    until_queued(&mut control, NAME, 2).await;
    proxy.at_script(1, Fate::HoldRequest);
    releasing.release(1).await.unwrap();
    let lost = got(first).await;
    proxy.until_struck(1).await;
    until_run_out(&releasing).await;
    assert!(lost.is_lost());
    until_queued(&mut control, NAME, 0).await;
    proxy.deliver(1).await;
    until_queued(&mut control, NAME, 1).await;
    releasing.release(1).await.unwrap();
    let held = got(second).await;
    assert!(!held.is_lost());
    assert_eq!(stored(&server, NAME).await, ["0"]);
}

/// The same for a lock: its holder learns of the loss before the next caller has the lock.
#[tokio::test]
async fn lock_whose_confirmation_does_not_arrive_is_lost_before_the_next_has_it() {
    let (server, mut control) = start_controlled().await;
    let (proxy, client) = far(&server).await;
    let holder = connect(server.url()).await.lock(NAME);
    let next = connect(server.url()).await.lock(NAME);
    holder.lock().await.unwrap();
    let guard = |lock: RLock| tokio::spawn(async move { lock.guard().await });
    let first = guard(client.lock(NAME));
    until_lock_queued(&mut control, NAME, 1).await;
    let own = format!("redisson_lock_waiters:{{{NAME}}}:{}", client.id());
    until_subscribers(&mut control, &own, 1).await;
    // Answered behind the waiter's own requests.
    assert!(!client.lock(NAME).try_lock().await.unwrap());
    let mut second = guard(next);
    until_lock_queued(&mut control, NAME, 2).await;
    proxy.at_script(1, Fate::HoldRequest);
    holder.unlock().await.unwrap();
    let held = timeout(LIMIT, first).await.unwrap().unwrap().unwrap();
    proxy.until_struck(1).await;
    tokio::select! {
        biased;
        () = held.lost() => {}
        _ = &mut second => panic!("the next one has it, and the guard does not know"),
    }
    let next = timeout(LIMIT, second).await.unwrap().unwrap().unwrap();
    proxy.deliver(1).await;
    held.unlock().await.unwrap_err();
    assert!(!next.is_lost() && next.handle().is_held().await.unwrap());
    next.unlock().await.unwrap();
    assert!(!holder.is_locked().await.unwrap());
}
