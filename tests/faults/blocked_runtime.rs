//! A caller blocks its runtime for longer than the watchdog time-out.

use std::pin::pin;
use std::thread;
use std::time::Duration;

use crate::support::clients::LIMIT;
use crate::support::server::RedisServer;
use crate::support::waiters::until;
use futures::FutureExt;
use redis::AsyncCommands;
use redisson_semaphore::{Client, ClientBuilder};
use tokio::runtime::{Builder, Runtime};

const WATCHDOG: Duration = Duration::from_secs(4);

fn builder(server: &RedisServer) -> ClientBuilder {
    Client::builder(server.url()).lock_watchdog_timeout(WATCHDOG)
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Timers have had no chance to run: the clock alone can answer.
#[tokio::test]
async fn guards_are_lost_as_soon_as_a_blocked_holder_goes_on() {
    let server = RedisServer::start().await;
    let client = builder(&server).connect().await.unwrap();
    let seats = client.semaphore("seats");
    let ids = client.permit_expirable_semaphore("ids");
    assert!(seats.try_set_permits(1).await.unwrap() && ids.try_set_permits(1).await.unwrap());
    let permit = seats.permit(1).await.unwrap();
    let leased = ids.permit().await.unwrap();
    let lock = client.lock("door").guard().await.unwrap();
    let mut permit_lost = pin!(permit.lost());
    let mut leased_lost = pin!(leased.lost());
    let mut lock_lost = pin!(lock.lost());
    for blocked in [false, true] {
        if blocked {
            thread::sleep(WATCHDOG + Duration::from_secs(1));
        }
        let told = [
            permit_lost.as_mut().now_or_never(),
            leased_lost.as_mut().now_or_never(),
            lock_lost.as_mut().now_or_never(),
        ];
        assert!(told.iter().all(|told| told.is_some() == blocked));
    }
    assert!(permit.is_lost() && leased.is_lost() && lock.is_lost());
}

#[test]
fn a_client_with_a_runtime_of_its_own_renews_what_a_blocked_caller_holds() {
    let mut own = Builder::new_multi_thread();
    let own = own.worker_threads(1).enable_all().build().unwrap();
    let server = own.block_on(RedisServer::start());
    let with_own = || builder(&server).runtime(own.handle().clone());
    // The runtime that makes them ends.
    let made = one_thread().block_on(async {
        let eager = with_own().connect().await.unwrap();
        [eager, with_own().connect_lazy().unwrap()]
    });
    // Each is used on two runtimes, and the first one ends in between.
    for client in made.iter().flat_map(|client| [client; 2]) {
        let blocked = one_thread();
        let guard = blocked.block_on(client.lock("door").guard()).unwrap();
        own.block_on(async {
            let mut redis = server.connection().await;
            let nearer = WATCHDOG.as_millis() as i64 * 3 / 4;
            let _: () = redis.pexpire("door", nearer).await.unwrap();
            until("it is renewed", LIMIT, async || {
                redis.pttl::<_, i64>("door").await.unwrap() > nearer
            })
            .await;
        });
        assert!(!guard.is_lost());
        blocked.block_on(guard.unlock()).unwrap();
    }
}
