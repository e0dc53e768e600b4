//! Guards of a client that is cut off: each guard learns of its loss before another client has its permits, and gives nothing back.

use std::pin::pin;
use std::time::Duration;

use crate::layouts::{Layout, Shape};
use crate::support::clients::{LIMIT, builder};
use crate::support::proxy::Proxy;
use crate::support::server::RedisServer;
use futures::future::join_all;
use redisson_semaphore::{Client, Error, LeasedPermit, Lock, LockGuard, Permit};
use tokio::time::{Instant, sleep, timeout};

/// Longer than a busy machine delays a renewal.
const TIME_OUT: Duration = Duration::from_secs(4);

const KINDS: [&str; 9] = [
    "lock",
    "fenced lock",
    "fair lock",
    "writer",
    "reader",
    "string lock",
    "semaphore",
    "permit with an id",
    "recipe",
];

enum Guard {
    Lock(LockGuard),
    Permit(Permit),
    Leased(LeasedPermit),
}

impl Guard {
    /// Waits for the object of this kind.
    async fn take(client: &Client, kind: &str) -> Guard {
        let both = || client.read_write_lock("both");
        match kind {
            "lock" => Guard::Lock(client.lock("lock").guard().await.unwrap()),
            "fenced lock" => {
                let lock = client.fenced_lock("fenced");
                Guard::Lock(Lock::guard(&lock).await.unwrap())
            }
            "fair lock" => Guard::Lock(client.fair_lock("fair").guard().await.unwrap()),
            "writer" => {
                let lock = client.read_write_lock("written").write();
                Guard::Lock(lock.guard().await.unwrap())
            }
            "reader" => Guard::Lock(both().read().guard().await.unwrap()),
            "writer behind a reader" => Guard::Lock(both().write().guard().await.unwrap()),
            "string lock" => {
                let lock = client.string_lock("string").timeout(TIME_OUT);
                Guard::Lock(lock.guard().await.unwrap())
            }
            "semaphore" => {
                let seats = client.semaphore("seats").watched();
                seats.try_set_permits(1).await.unwrap();
                Guard::Permit(seats.permit(1).await.unwrap())
            }
            "permit with an id" => {
                let jobs = client.permit_expirable_semaphore("jobs");
                jobs.try_set_permits(1).await.unwrap();
                Guard::Leased(jobs.permit().await.unwrap())
            }
            _ => {
                let shape = Shape::new(1).lease(TIME_OUT);
                let recipe = Layout::Fair.make(client, "recipe", shape);
                Guard::Leased(recipe.permit().await.unwrap())
            }
        }
    }

    fn is_lost(&self) -> bool {
        match self {
            Guard::Lock(guard) => guard.is_lost(),
            Guard::Permit(guard) => guard.is_lost(),
            Guard::Leased(guard) => guard.is_lost(),
        }
    }

    async fn lost(&self) {
        match self {
            Guard::Lock(guard) => guard.lost().await,
            Guard::Permit(guard) => guard.lost().await,
            Guard::Leased(guard) => guard.lost().await,
        }
    }

    /// Whether it still held something.
    async fn give_back(self) -> bool {
        let given = match self {
            Guard::Lock(guard) => guard.unlock().await,
            Guard::Permit(guard) => guard.release().await,
            Guard::Leased(guard) => return guard.release().await.unwrap(),
        };
        match given {
            Ok(()) => true,
            Err(Error::NotHeld { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    }
}

async fn connect(url: String) -> Client {
    let client = builder(url).lock_watchdog_timeout(TIME_OUT);
    client.connect().await.expect("the server runs")
}

#[tokio::test]
async fn a_guard_that_is_cut_off_is_lost_before_others_have_what_it_held() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(&server).await;
    let (far, near) = (connect(proxy.url()).await, connect(server.url()).await);
    let mut guards = Vec::new();
    for kind in KINDS {
        guards.push((kind, Guard::take(&far, kind).await));
    }
    sleep(2 * TIME_OUT).await;
    for (kind, guard) in &guards {
        assert!(!guard.is_lost(), "{kind}: it is renewed");
    }
    proxy.blackhole();
    let began = Instant::now();
    let others = guards.into_iter().map(async |(kind, guard)| {
        let wanted = match kind {
            "reader" => "writer behind a reader",
            _ => kind,
        };
        let mut other = pin!(timeout(LIMIT, Guard::take(&near, wanted)));
        tokio::select! {
            biased;
            () = guard.lost() => {}
            _ = &mut other => panic!("{kind}: somebody has it, and its holder does not know"),
        }
        let renewed_before = began.elapsed() >= TIME_OUT / 2;
        assert!(guard.is_lost() && renewed_before, "{kind}: too early");
        let other = other
            .await
            .unwrap_or_else(|_| panic!("{kind}: it does not come back"));
        (kind, guard, other)
    });
    let all = join_all(others).await;
    proxy.clear();
    for (kind, guard, other) in all {
        assert!(!guard.give_back().await, "{kind}: somebody else has it");
        assert!(!other.is_lost() && other.give_back().await, "{kind}");
        let again = timeout(LIMIT, Guard::take(&far, kind)).await;
        let again = again.unwrap_or_else(|_| panic!("{kind}: it is not free"));
        assert!(again.give_back().await, "{kind}");
    }
}
