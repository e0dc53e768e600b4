//! Permits that were taken for somebody who needs them no more: to those who ask meanwhile it is as if they had
//! never been taken.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use crate::support::clients::{LIMIT, builder, served, stored, until_stored};
use crate::support::proxy::Fate;
use crate::support::sequence::start;
use crate::support::server::RedisServer;
use crate::support::waiters::{until_notified, until_queued};
use tokio::time::timeout;

/// A caller's question is under way when a release serves it within the process.
#[tokio::test]
async fn what_was_taken_for_a_caller_served_meanwhile_is_there_for_the_next_call() {
    let (server, proxy) = start().await;
    let client = builder(proxy.url())
        .response_timeout(2 * LIMIT)
        .local_hand_over(LIMIT)
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("surplus");
    semaphore.try_set_permits(4).await.unwrap();
    semaphore.acquire(3).await.unwrap();

    proxy.at_script(1, Fate::HoldReply);
    let taking = semaphore.clone();
    let taking = tokio::spawn(async move { taking.acquire(1).await });
    // The server has given it the last permit, and it has not heard of that.
    proxy.until_struck(1).await;
    assert_eq!(stored(&server, "surplus").await, ["0"]);
    semaphore.release(1).await.unwrap();
    served(taking).await;

    let draining = semaphore.clone();
    let draining = tokio::spawn(async move { draining.drain_permits().await });
    tokio::task::yield_now().await;
    proxy.deliver(1).await;
    let drained = timeout(LIMIT, draining).await.expect("it ends").unwrap();
    assert_eq!(drained, Ok(1), "four, less three");
    client.shutdown().await.unwrap();
    assert_eq!(stored(&server, "surplus").await, ["0"]);
}

type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Whom it wakes drops somebody else.
struct Drops(Mutex<Option<Waiting>>);

impl Wake for Drops {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().unwrap().take());
    }
}

/// Two are served by one release within the process, and the second goes as the first one hears of that.
#[tokio::test]
async fn what_is_handed_to_somebody_who_goes_at_that_moment_is_given_back() {
    let server = RedisServer::start().await;
    let client = builder(server.url()).local_hand_over(LIMIT);
    let client = client.connect().await.unwrap();
    let semaphore = client.semaphore("gone");
    semaphore.try_set_permits(2).await.unwrap();
    semaphore.acquire(2).await.unwrap();
    let waiting = || -> Waiting {
        let semaphore = client.semaphore("gone");
        Box::pin(async move { semaphore.acquire(1).await.unwrap() })
    };
    let (mut one, mut two) = (waiting(), waiting());
    let drops = Arc::new(Drops(Mutex::new(None)));
    let waker = Waker::from(Arc::clone(&drops));
    let mut control = server.connection().await;
    // At first one of them carries their request out; then both wait for their answers only.
    for _ in 0..2 {
        for (waiting, waker) in [(&mut one, &waker), (&mut two, Waker::noop())] {
            let polled = waiting.as_mut().poll(&mut Context::from_waker(waker));
            assert_eq!(polled, Poll::Pending);
        }
        assert_eq!(semaphore.try_acquire(1).await, Ok(false));
        until_queued(&mut control, "gone", 2).await;
        until_notified(&mut control, "gone", client.id()).await;
    }
    *drops.0.lock().unwrap() = Some(two);
    semaphore.release(2).await.unwrap();
    assert!(drops.0.lock().unwrap().is_none(), "the second has gone");
    drop(semaphore);
    let polled = one.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(polled, Poll::Ready(()));
    drop(one);
    until_stored(&server, "gone", 1).await;
    client.shutdown().await.unwrap();
    assert_eq!(stored(&server, "gone").await, ["1"], "one of two is held");
}
