//! The client's runtime ends, or a caller has none: each call ends with an error, and releases that are not carried out are reported.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use crate::support::clients::{LIMIT, builder, start_behind_a_proxy, until_stored};
use crate::support::cluster::ask;
use crate::support::proxy::Fate;
use crate::support::server::RedisServer;
use crate::support::waiters::until;
use futures::FutureExt;
use futures::future::BoxFuture;
use redisson_semaphore::{Client, Error, LeasedSemaphore as _, Result};
use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

type Waits = fn(Client) -> BoxFuture<'static, Result<()>>;

/// The end of `#[tokio::main]` waits for such threads: without the error it would never come.
#[test]
fn who_waits_without_a_limit_is_told_and_does_not_hold_up_the_end() {
    let outside = runtime();
    let server = outside.block_on(RedisServer::start());
    let waits: [(&str, Waits); 8] = [
        ("semaphore", |client| {
            let semaphore = client.semaphore("semaphore");
            async move { semaphore.acquire(1).await }.boxed()
        }),
        ("watched", |client| {
            let semaphore = client.semaphore("watched").watched();
            async move { semaphore.acquire(1).await }.boxed()
        }),
        ("ids", |client| {
            let ids = client.permit_expirable_semaphore("ids");
            async move { ids.acquire().await.map(drop) }.boxed()
        }),
        ("latch", |client| {
            let latch = client.count_down_latch("latch");
            async move { latch.try_set_count(1).await.and(latch.wait().await) }.boxed()
        }),
        ("lock", |client| {
            let (held, lock) = (client.lock("lock"), client.lock("lock").with_owner(2));
            async move { held.lock().await.and(lock.lock().await) }.boxed()
        }),
        ("prices", |client| {
            let lock = client.read_write_lock("prices");
            async move { lock.read().lock().await.and(lock.write().lock().await) }.boxed()
        }),
        ("turn", |client| {
            let (held, lock) = (client.fair_lock("turn"), client.fair_lock("turn"));
            async move { held.lock().await.and(lock.lock().await) }.boxed()
        }),
        ("fair", |client| {
            let fair = client.fair_semaphore("fair", 1);
            async move { fair.acquire().await.and(fair.acquire().await).map(drop) }.boxed()
        }),
    ];
    for (kind, wait) in waits {
        let inside = runtime();
        let client = inside.block_on(Client::connect(server.url())).unwrap();
        let (handle, (tell, told)) = (inside.handle().clone(), mpsc::channel());
        let waiting = wait(client);
        inside.spawn_blocking(move || {
            let told = catch_unwind(AssertUnwindSafe(|| handle.block_on(waiting)));
            let _ = tell.send(told);
        });
        outside.block_on(until("it listens", LIMIT, async || {
            let heard: Vec<String> = ask(&server, &["PUBSUB", "CHANNELS"]).await;
            heard.iter().any(|channel| channel.contains(kind))
        }));
        let (end, ended) = mpsc::channel();
        std::thread::spawn(move || {
            drop(inside);
            let _ = end.send(());
        });
        match told.recv_timeout(LIMIT).expect("it is told") {
            // The request may have been under way.
            Ok(Err(Error::RuntimeEnded { .. } | Error::OutcomeUnknown { .. })) => {}
            Ok(told) => panic!("{kind}: {told:?}"),
            // A timer that is polled in `Handle::block_on` behind the end of its runtime panics, as tokio says there.
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or(panic.downcast_ref::<&str>().copied());
                let of_timer = text.is_some_and(|text| text.contains("it is being shutdown"));
                assert!(of_timer, "{kind}: {text:?}");
            }
        }
        ended.recv_timeout(LIMIT).expect("it ends");
    }
}

/// A call that travels alone was sent by a task of the runtime that ends.
#[test]
fn whose_command_was_on_the_way_is_not_told_that_nothing_was_sent() {
    let outside = runtime();
    let (server, proxy) = outside.block_on(start_behind_a_proxy());
    let inside = runtime();
    let semaphore = inside.block_on(async {
        let client = builder(proxy.url()).response_timeout(Duration::from_secs(60));
        let semaphore = client.connect().await.unwrap().semaphore("deleted");
        semaphore.try_set_permits(1).await.unwrap();
        semaphore
    });
    proxy.at_script(1, Fate::HoldReply);
    let before = proxy.scripts();
    let mut call = Box::pin(semaphore.delete());
    inside.block_on(async { assert!(call.as_mut().now_or_never().is_none()) });
    // A second call makes the first one go on without its caller.
    let other = semaphore.clone();
    inside.spawn(async move { other.exists().await });
    outside.block_on(async {
        proxy.until_scripts(before + 1).await;
        until("it is carried out", LIMIT, async || {
            ask::<i64>(&server, &["EXISTS", "deleted"]).await == 0
        })
        .await;
    });
    drop(inside);
    let told = outside.block_on(call);
    assert!(
        matches!(told, Err(Error::OutcomeUnknown { .. })),
        "it has been deleted: {told:?}"
    );
}

/// A guard is dropped after the end of the client's runtime, or just before: its permits are not released, and `shutdown` says so.
#[test]
fn a_shutdown_behind_the_end_tells_what_has_not_been_given_back() {
    for dropped_before in [true, false] {
        let outside = runtime();
        let mut server = outside.block_on(RedisServer::start());
        let inside = Builder::new_current_thread().enable_all().build().unwrap();
        let (client, permit) = inside.block_on(async {
            let client = Client::connect(server.url()).await.unwrap();
            let semaphore = client.semaphore("ended");
            semaphore.try_set_permits(5).await.unwrap();
            (client, semaphore.permit(2).await.unwrap())
        });
        let mut permit = Some(permit);
        if dropped_before {
            server.freeze();
            inside.block_on(async {
                drop(permit.take());
                tokio::task::yield_now().await;
            });
        }
        drop(inside);
        server.thaw();
        drop(permit);
        let ended = outside.block_on(client.shutdown());
        assert!(
            matches!(ended, Err(Error::Unfinished { .. })),
            "{dropped_before}: {ended:?}"
        );
    }
}

struct Unparks(Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls on this thread, without a runtime.
fn by_hand<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unparks(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => std::thread::park_timeout(LIMIT),
        }
    }
}

/// A call that no runtime polls uses the client's runtime.
#[test]
fn every_call_may_be_polled_outside_of_a_runtime() {
    let runtime = runtime();
    let (server, client) = runtime.block_on(async {
        let (server, _) = start_behind_a_proxy().await;
        let client = Client::connect(server.url()).await.unwrap();
        (server, client)
    });
    let semaphore = client.semaphore("outside").watched();
    by_hand(async {
        client.ping().await.unwrap();
        client.ask(None, &["PING"]).await.unwrap();
        assert!(semaphore.try_set_permits(1).await.unwrap());
        let permit = semaphore.permit_for(1, LIMIT).await.unwrap();
        assert_eq!(semaphore.holders().await.unwrap().len(), 1);
        assert!(semaphore.reclaim().await.unwrap().is_empty());
        drop(permit);
        client.shutdown().await.unwrap();
    });
    runtime.block_on(until_stored(&server, "outside", 1));
}

/// Neither a response time-out nor a retry window has passed.
const SOON: Duration = Duration::from_secs(4);

/// One client in a `static`, and a runtime for each test, is the usual way to get there.
#[test]
fn calls_after_the_end_of_the_runtime_name_it_at_once() {
    let outside = runtime();
    let server = outside.block_on(RedisServer::start());
    let one_thread = || Builder::new_current_thread().enable_all().build().unwrap();
    for inside in [runtime(), one_thread()] {
        // Some objects have been used before the end.
        let (client, used) = inside.block_on(async {
            let client = builder(server.url()).response_timeout(LIMIT);
            let client = client.retry_window(LIMIT).connect().await.unwrap();
            let used = client.semaphore("used");
            used.try_set_permits(1).await.unwrap();
            (client, used)
        });
        drop(inside);
        let new = client.semaphore("new");
        let (lock, latch) = (client.lock("lock"), client.count_down_latch("latch"));
        let ids = client.permit_expirable_semaphore("ids");
        let fair = client.fair_semaphore("fair", 1);
        let calls = [
            async { used.try_acquire(1).await.map(drop) }.boxed_local(),
            async { used.release(1).await }.boxed_local(),
            async { used.acquire(1).await }.boxed_local(),
            async { used.holders().await.map(drop) }.boxed_local(),
            async { new.permit_for(1, LIMIT).await.map(drop) }.boxed_local(),
            async { new.available_permits().await.map(drop) }.boxed_local(),
            async { new.delete().await.map(drop) }.boxed_local(),
            async { lock.lock().await }.boxed_local(),
            async { latch.wait().await }.boxed_local(),
            async { ids.acquire().await.map(drop) }.boxed_local(),
            async { fair.acquire().await.map(drop) }.boxed_local(),
            async { client.ping().await }.boxed_local(),
            async { client.ask(None, &["PING"]).await.map(drop) }.boxed_local(),
        ];
        for (number, call) in calls.into_iter().enumerate() {
            let told = outside.block_on(async { tokio::time::timeout(SOON, call).await });
            let error = told.expect("told at once").unwrap_err();
            let ended = matches!(error, Error::RuntimeEnded { .. });
            assert!(ended, "call {number}: {error}");
        }
    }
}
