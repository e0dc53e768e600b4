//! A caller blocks its runtime for longer than the watchdog time-out.

use std::pin::pin;
use std::thread;
use std::time::Duration;

use crate::support::server::RedisServer;
use futures::FutureExt;
use redisson_semaphore::{Client, ClientBuilder};
use tokio::runtime::{Builder, Runtime};

const WATCHDOG: Duration = Duration::from_millis(300);
const BLOCKED: Duration = Duration::from_secs(1);

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
    let (seats, ids) = (
        client.semaphore("seats"),
        client.permit_expirable_semaphore("ids"),
    );
    assert!(seats.try_set_permits(1).await.unwrap() && ids.try_set_permits(1).await.unwrap());
    let permit = seats.permit(1).await.unwrap();
    let leased = ids.permit().await.unwrap();
    let lock = client.lock("door").guard().await.unwrap();
    let (mut permit_lost, mut leased_lost) = (pin!(permit.lost()), pin!(leased.lost()));
    let mut lock_lost = pin!(lock.lost());
    assert!(
        permit_lost.as_mut().now_or_never().is_none()
            && leased_lost.as_mut().now_or_never().is_none()
    );
    assert!(lock_lost.as_mut().now_or_never().is_none());
    thread::sleep(BLOCKED);
    assert!(permit_lost.as_mut().now_or_never().is_some() && permit.is_lost());
    assert!(leased_lost.as_mut().now_or_never().is_some() && leased.is_lost());
    assert!(lock_lost.as_mut().now_or_never().is_some() && lock.is_lost());
}

#[test]
fn a_client_with_a_runtime_of_its_own_renews_what_a_blocked_caller_holds() {
    let own = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let server = own.block_on(RedisServer::start());
    let lazy = || async {
        builder(&server)
            .runtime(own.handle().clone())
            .connect_lazy()
    };
    let made = one_thread().block_on(async {
        let eager = builder(&server)
            .runtime(own.handle().clone())
            .connect()
            .await;
        [eager.unwrap(), lazy().await.unwrap()]
    });
    for client in made {
        // The runtime that made it has ended, and this one ends in between.
        for _ in 0..2 {
            one_thread().block_on(async {
                let guard = client.lock("door").guard().await.unwrap();
                thread::sleep(BLOCKED);
                assert!(!guard.is_lost());
                guard.unlock().await.unwrap();
            });
        }
    }
}
