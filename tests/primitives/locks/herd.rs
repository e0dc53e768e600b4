//! A lock that hundreds of clients wait for: a grant costs few scripts, and somebody always has it.

use std::time::Duration;

use crate::support::clients::{connect, scripts, start_controlled};
use crate::support::lock_crowd::{LockCrowd, Way};
use crate::support::waiters::until;
use futures::future::join_all;

const CLIENTS: usize = 40;
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grant_costs_two_scripts_and_everybody_has_some() {
    let (server, mut connection) = start_controlled().await;
    let clients = join_all((0..CLIENTS).map(|_| connect(server.url()))).await;
    let crowds: Vec<LockCrowd> = clients
        .iter()
        .map(|client| LockCrowd::start(client, 1, Way::Lock, Duration::from_millis(2)))
        .collect();
    let total = || crowds.iter().map(LockCrowd::grants).sum::<u64>();
    until("each has been served twice", LIMIT, async || {
        crowds.iter().all(|crowd| crowd.grants() > 1)
    })
    .await;
    let (before, grants) = (scripts(&mut connection).await, total());
    until("they go on", LIMIT, async || total() > grants + 400).await;
    let cost = (scripts(&mut connection).await - before) as f64 / (total() - grants) as f64;
    println!("{cost} scripts a grant");
    assert!(cost < 2.5, "{cost} scripts a grant");
    let mut each: Vec<u64> = crowds.iter().map(LockCrowd::grants).collect();
    each.sort_unstable();
    assert!(each[0] * 2 > each[CLIENTS - 1], "{each:?}");
    join_all(crowds.into_iter().map(LockCrowd::stop)).await;
}
