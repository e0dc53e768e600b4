//! Futures that are dropped, left alone or aborted, runtimes and clients that end: every permit is
//! accounted for, and nobody is held up.

mod support;

use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use redisson_semaphore::{Client, ClientBuilder, Error, Permit, RSemaphore};
use support::server::RedisServer;
use support::snapshot::snapshot;
use support::waiters::{until, until_subscribers};
use tokio::time::timeout;

use support::proxy::{Fate, LOST_REPLIES, Proxy};

const LIMIT: Duration = Duration::from_secs(10);
/// More polls than any call needs.
const MOST_POLLS: usize = 200;

fn builder(url: String) -> ClientBuilder {
    Client::builder(url)
        .response_timeout(Duration::from_millis(300))
        .retry_window(Duration::from_secs(5))
        .safety_interval(Duration::from_secs(3600))
}

async fn connect(url: String) -> Client {
    builder(url).connect().await.expect("the server runs")
}

async fn poll_once<F: Future + ?Sized>(future: &mut Pin<&mut F>) -> Poll<F::Output> {
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

/// Polls at most `times` times; in between the connection has time to bring answers.
async fn poll_times<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..times {
        if let Poll::Ready(answer) = poll_once(&mut future).await {
            return Some(answer);
        }
        tokio::task::yield_now().await;
    }
    None
}

async fn stored(server: &RedisServer, name: &str) -> Vec<String> {
    snapshot(&mut server.connection().await, name).await.value
}

/// Waits until the server's counter, which this client does not see otherwise, is `permits`.
async fn until_stored(server: &RedisServer, name: &str, permits: i64) {
    let mut control = server.connection().await;
    let expected = [permits.to_string()];
    until(&format!("{name} holds {permits}"), LIMIT, async || {
        snapshot(&mut control, name).await.value == expected
    })
    .await;
}

/// Drops `call` after 0, 1, 2... polls, until it is fast enough to answer; each time the permits must be
/// what `after` says: of a counter of 5, where the call was begun or not, answered or not.
async fn dropped_after_every_number_of_polls<T>(
    call: impl AsyncFn(RSemaphore) -> T,
    dropped: i64,
    answered: i64,
) {
    let server = RedisServer::start().await;
    let client = connect(server.url()).await;
    for polls in 0..MOST_POLLS {
        let semaphore = client.semaphore(&format!("polls-{polls}"));
        semaphore.try_set_permits(5).await.unwrap();
        let answer = poll_times(call(semaphore.clone()), polls).await;
        let expected = match (&answer, polls) {
            (Some(_), _) => answered,
            (None, 0) => 5,
            (None, _) => dropped,
        };
        until_stored(&server, semaphore.name(), expected).await;
        // Nothing comes later than the end of this.
        let seen = timeout(LIMIT, semaphore.available_permits()).await;
        assert_eq!(seen, Ok(Ok(expected)), "after {polls} polls");
        if answer.is_some() {
            assert!(polls > 1, "the call never waits: nothing was tested");
            client.shutdown().await.unwrap();
            assert_eq!(
                stored(&server, semaphore.name()).await,
                [expected.to_string()]
            );
            return;
        }
    }
    panic!("no answer within {MOST_POLLS} polls");
}

#[tokio::test]
async fn acquire_dropped_after_every_number_of_polls() {
    dropped_after_every_number_of_polls(async |s: RSemaphore| s.acquire(2).await, 5, 3).await;
}

#[tokio::test]
async fn try_acquire_dropped_after_every_number_of_polls() {
    dropped_after_every_number_of_polls(async |s: RSemaphore| s.try_acquire(2).await, 5, 3).await;
}

#[tokio::test]
async fn try_acquire_for_dropped_after_every_number_of_polls() {
    let call = async |s: RSemaphore| s.try_acquire_for(2, LIMIT).await;
    dropped_after_every_number_of_polls(call, 5, 3).await;
}

#[tokio::test]
async fn release_dropped_after_every_number_of_polls() {
    dropped_after_every_number_of_polls(async |s: RSemaphore| s.release(2).await, 7, 7).await;
}

#[tokio::test]
async fn add_dropped_after_every_number_of_polls() {
    dropped_after_every_number_of_polls(async |s: RSemaphore| s.add_permits(-7).await, -2, -2)
        .await;
}

#[tokio::test]
async fn drain_dropped_after_every_number_of_polls() {
    dropped_after_every_number_of_polls(async |s: RSemaphore| s.drain_permits().await, 0, 0).await;
}

#[tokio::test]
async fn permit_dropped_after_every_number_of_polls() {
    // The guard is dropped with the answer.
    dropped_after_every_number_of_polls(async |s: RSemaphore| s.permit(2).await.map(drop), 5, 5)
        .await;
}

#[tokio::test]
async fn permit_release_dropped_after_every_number_of_polls() {
    let server = RedisServer::start().await;
    let client = connect(server.url()).await;
    for polls in 0..MOST_POLLS {
        let semaphore = client.semaphore(&format!("guard-{polls}"));
        semaphore.try_set_permits(5).await.unwrap();
        let permit = semaphore.permit(2).await.unwrap();
        let answer = poll_times(permit.release(), polls).await;
        until_stored(&server, semaphore.name(), 5).await;
        assert_eq!(semaphore.available_permits().await, Ok(5));
        if answer.is_some() {
            return;
        }
    }
    panic!("no answer within {MOST_POLLS} polls");
}

/// The answer is lost and the caller gone: what the repetition tells is given back.
#[tokio::test]
async fn dropped_after_the_server_has_acted_and_before_its_answer() {
    let server = RedisServer::start().await;
    connect(server.url())
        .await
        .semaphore("warm-up")
        .release(1)
        .await
        .unwrap();
    let proxy = Proxy::start(&server).await;
    let client = connect(proxy.url()).await;
    let semaphore = client.semaphore("unseen");
    semaphore.try_set_permits(5).await.unwrap();
    for (round, fate) in LOST_REPLIES.into_iter().cycle().take(6).enumerate() {
        proxy.at_script(1, fate);
        {
            let call = async {
                match round % 3 {
                    0 => semaphore.acquire(2).await.map(|()| true),
                    1 => semaphore.try_acquire(2).await,
                    _ => semaphore.try_acquire_for(2, LIMIT).await,
                }
            };
            tokio::select! {
                biased;
                () = proxy.until_struck(round as u64 + 1) => {}
                answer = call => panic!("answered without a reply: {answer:?}"),
            }
        }
        assert_eq!(stored(&server, "unseen").await, ["3"], "carried out");
        until_stored(&server, "unseen", 5).await;
        assert_eq!(semaphore.available_permits().await, Ok(5));
    }
}

/// A call that was polled once and is then left alone, neither polled nor dropped, while the same task
/// goes on with `others`.
async fn left_alone<T>(call: impl AsyncFn(RSemaphore) -> T, permits_taken: i64) {
    let server = RedisServer::start().await;
    let client = connect(server.url()).await;
    let elsewhere = connect(server.url()).await.semaphore("alone");
    let semaphore = client.semaphore("alone");
    semaphore.try_set_permits(10).await.unwrap();
    for polls in 1..6 {
        let mut left = pin!(call(semaphore.clone()));
        let mut answer = None;
        for _ in 0..polls {
            if answer.is_none()
                && let Poll::Ready(done) = poll_once(&mut left).await
            {
                answer = Some(done);
            }
            tokio::task::yield_now().await;
        }
        let others = async {
            semaphore.acquire(1).await.unwrap();
            assert!(semaphore.try_acquire(1).await.unwrap());
            semaphore.release(2).await.unwrap();
            assert!(semaphore.try_acquire_for(1, LIMIT).await.unwrap());
            drop(semaphore.permit(1).await.unwrap());
            semaphore.release(1).await.unwrap();
            semaphore.add_permits(0).await.unwrap();
            assert!(semaphore.exists().await.unwrap());
            semaphore.available_permits().await.unwrap()
        };
        let seen = timeout(LIMIT, others).await.expect("others are held up");
        assert_eq!(seen, 10 - permits_taken, "after {polls} polls");
        // Somebody outside is served, too.
        assert!(elsewhere.try_acquire_for(1, LIMIT).await.unwrap());
        elsewhere.release(1).await.unwrap();
        if answer.is_none() {
            timeout(LIMIT, left).await.expect("it is still answered");
        }
        semaphore.add_permits(permits_taken as i32).await.unwrap();
        assert_eq!(semaphore.available_permits().await, Ok(10));
    }
}

#[tokio::test]
async fn an_acquire_left_alone_holds_nobody_up() {
    left_alone(async |s: RSemaphore| s.acquire(2).await, 2).await;
}

#[tokio::test]
async fn a_try_acquire_left_alone_holds_nobody_up() {
    left_alone(async |s: RSemaphore| s.try_acquire(2).await, 2).await;
    left_alone(async |s: RSemaphore| s.try_acquire_for(2, LIMIT).await, 2).await;
}

#[tokio::test]
async fn a_change_left_alone_holds_nobody_up() {
    left_alone(async |s: RSemaphore| s.release(2).await, -2).await;
    left_alone(async |s: RSemaphore| s.exists().await, 0).await;
    left_alone(async |s: RSemaphore| s.available_permits().await, 0).await;
}

#[tokio::test]
async fn a_waiter_left_alone_does_not_stop_the_line() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let other = connect(server.url()).await.semaphore("line");
    let semaphore = client.semaphore("line");
    let mut first = pin!(semaphore.acquire(1));
    assert!(poll_once(&mut first).await.is_pending());
    // Its question has not been carried through, and it is not polled any more.
    let second = semaphore.clone();
    let second = tokio::spawn(async move { second.acquire(1).await });
    until_subscribers(&mut control, "redisson_sc:{line}", 1).await;
    other.release(2).await.unwrap();
    timeout(LIMIT, second)
        .await
        .expect("held up")
        .unwrap()
        .unwrap();
    timeout(LIMIT, first).await.expect("served").unwrap();
    assert_eq!(stored(&server, "line").await, ["0"]);
}

/// Both are woken by messages while one of them carries the round out and is not polled.
#[tokio::test]
async fn a_lonely_waiter_left_alone_is_given_its_permit_by_a_message() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let other = connect(server.url()).await.semaphore("lonely");
    let semaphore = client.semaphore("lonely");
    let mut waiter = pin!(semaphore.acquire(1));
    for polls in [1, 2, 3, 5, 9] {
        for _ in 0..polls {
            assert!(poll_once(&mut waiter).await.is_pending());
            tokio::task::yield_now().await;
        }
    }
    let asked = timeout(Duration::from_millis(50), &mut waiter).await;
    assert!(asked.is_err(), "there are no permits");
    until_subscribers(&mut control, "redisson_sc:{lonely}", 1).await;
    other.release(1).await.unwrap();
    until_stored(&server, "lonely", 0).await;
    timeout(LIMIT, waiter).await.expect("served").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aborted_tasks_leave_no_permit_behind() {
    let server = RedisServer::start().await;
    let first = connect(server.url()).await.semaphore("aborted");
    let second = connect(server.url()).await.semaphore("aborted");
    first.try_set_permits(4).await.unwrap();
    for round in 0..60_u64 {
        let tasks: Vec<_> = (0..12_u32)
            .map(|number| {
                let semaphore = if number % 3 == 0 { &second } else { &first }.clone();
                tokio::spawn(async move {
                    let permits = 1 + number % 3;
                    let guard = match number % 4 {
                        0 => semaphore.permit(permits).await.ok(),
                        1 => semaphore.try_permit(permits).await.unwrap(),
                        2 => semaphore.permit_for(permits, LIMIT).await.unwrap(),
                        _ => semaphore.permit(permits).await.ok(),
                    };
                    tokio::task::yield_now().await;
                    if let Some(guard) = guard {
                        if number % 2 == 0 {
                            guard.release().await.unwrap();
                        } else {
                            drop(guard);
                        }
                    }
                })
            })
            .collect();
        for _ in 0..round % 16 {
            tokio::task::yield_now().await;
        }
        for task in &tasks {
            task.abort();
        }
        for task in tasks {
            if let Err(error) = task.await {
                assert!(error.is_cancelled(), "{error}");
            }
        }
        until_stored(&server, "aborted", 4).await;
    }
    assert_eq!(first.available_permits().await, Ok(4));
    assert_eq!(second.available_permits().await, Ok(4));
}

/// The runtime that a client lives in ends while guards, waiters and calls are alive.
#[test]
fn a_runtime_that_ends_takes_its_waiters_along_and_panics_nowhere() {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap()
    };
    let outer = runtime();
    let server = outer.block_on(RedisServer::start());
    let inner = runtime();
    let (client, kept, held): (Client, RSemaphore, Permit) = inner.block_on(async {
        let client = connect(server.url()).await;
        let semaphore = client.semaphore("ended");
        semaphore.try_set_permits(4).await.unwrap();
        // One is given back before the end, in the background.
        drop(semaphore.permit(1).await.unwrap());
        let held = semaphore.permit(1).await.unwrap();
        let waiting = semaphore.clone();
        tokio::spawn(async move { waiting.acquire(4).await });
        let mut control = server.connection().await;
        until_subscribers(&mut control, "redisson_sc:{ended}", 1).await;
        until_stored(&server, "ended", 3).await;
        (client, semaphore, held)
    });
    let waiter = {
        let semaphore = kept.clone();
        outer.spawn(async move { semaphore.acquire(4).await })
    };
    inner.shutdown_timeout(Duration::from_secs(5));
    // No runtime, nobody to carry it out: it is only logged.
    drop(held);
    let told = outer.block_on(async { timeout(LIMIT, waiter).await.expect("it is told").unwrap() });
    assert!(matches!(told, Err(Error::ShutDown { .. })), "{told:?}");
    let told = outer.block_on(async { timeout(LIMIT, kept.try_acquire(1)).await.expect("told") });
    assert!(told.is_err(), "{told:?}");
    drop((client, kept));
    outer.block_on(async {
        let other = connect(server.url()).await.semaphore("ended");
        assert!(other.try_acquire_for(3, LIMIT).await.unwrap());
        assert_eq!(other.available_permits().await, Ok(0));
    });
}

#[test]
fn a_runtime_that_ends_at_any_moment_of_a_call_loses_no_release_and_panics_nowhere() {
    let outer = tokio::runtime::Runtime::new().unwrap();
    let server = outer.block_on(RedisServer::start());
    for polls in 0..12 {
        let inner = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let name = format!("moment-{polls}");
        let mut calls: Vec<Pin<Box<dyn Future<Output = ()> + Send>>> = Vec::new();
        inner.block_on(async {
            let semaphore = connect(server.url()).await.semaphore(&name);
            semaphore.try_set_permits(4).await.unwrap();
            for number in 0..3_u32 {
                let semaphore = semaphore.clone();
                calls.push(Box::pin(async move {
                    // What becomes of it is told by the counter.
                    let _ = semaphore.permit(1 + number).await;
                }));
            }
            for call in &mut calls {
                for _ in 0..polls {
                    if poll_once(&mut call.as_mut()).await.is_ready() {
                        *call = Box::pin(std::future::pending());
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            }
        });
        drop(inner);
        // Dropped without a runtime.
        drop(calls);
        let left: i64 = outer.block_on(async {
            let left = stored(&server, &name).await;
            left[0].parse().unwrap()
        });
        assert!((0..=4).contains(&left), "{left} permits");
    }
}

#[tokio::test]
async fn shutdown_tells_those_who_wait_and_carries_out_what_is_owed() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let semaphore = client.semaphore("shut");
    semaphore.try_set_permits(6).await.unwrap();
    let guards = [
        semaphore.permit(1).await.unwrap(),
        semaphore.permit(2).await.unwrap(),
    ];
    let kept = semaphore.permit(3).await.unwrap();
    let waiting = semaphore.clone();
    let untimed = tokio::spawn(async move { waiting.acquire(7).await });
    let waiting = semaphore.clone();
    let timed = tokio::spawn(async move { waiting.try_acquire_for(7, LIMIT).await });
    until_subscribers(&mut control, "redisson_sc:{shut}", 1).await;
    drop(guards);
    timeout(LIMIT, client.shutdown())
        .await
        .expect("it ends")
        .unwrap();
    assert_eq!(stored(&server, "shut").await, ["3"]);

    let shut_down = |told: Result<bool, Error>| {
        let error = told.expect_err("the client has ended");
        assert!(
            matches!(&error, Error::ShutDown { name } if name == "shut"),
            "{error}"
        );
        assert!(error.to_string().contains("nothing took effect"), "{error}");
    };
    shut_down(untimed.await.unwrap().map(|()| true));
    shut_down(timed.await.unwrap());
    shut_down(semaphore.acquire(1).await.map(|()| true));
    shut_down(semaphore.try_acquire(1).await);
    shut_down(semaphore.try_acquire_for(1, LIMIT).await);
    shut_down(semaphore.release(1).await.map(|()| true));
    shut_down(semaphore.add_permits(1).await.map(|()| true));
    shut_down(semaphore.drain_permits().await.map(|_| true));
    shut_down(semaphore.available_permits().await.map(|_| true));
    shut_down(semaphore.delete().await);
    shut_down(client.semaphore("shut").try_set_permits(1).await);
    shut_down(kept.release().await.map(|()| true));
    assert_eq!(stored(&server, "shut").await, ["3"]);
    // A second time does no harm, and names made after the end are closed as well.
    client.shutdown().await.unwrap();
    let error = client.semaphore("new").release(1).await.unwrap_err();
    assert!(matches!(error, Error::ShutDown { .. }));
    until("no connection for messages is left", LIMIT, async || {
        let list: String = redis::cmd("CLIENT")
            .arg(&["LIST", "TYPE", "pubsub"])
            .query_async(&mut control)
            .await
            .unwrap();
        list.trim().is_empty()
    })
    .await;
}

/// What is granted in the very moment of the end is either told or given back.
#[tokio::test]
async fn shutdown_while_an_answer_is_on_its_way() {
    let server = RedisServer::start().await;
    connect(server.url())
        .await
        .semaphore("warm-up")
        .release(1)
        .await
        .unwrap();
    let proxy = Proxy::start(&server).await;
    let client = connect(proxy.url()).await;
    let semaphore = client.semaphore("moment");
    semaphore.try_set_permits(5).await.unwrap();
    proxy.at_script(1, Fate::LoseReply);
    let call = semaphore.clone();
    let call = tokio::spawn(async move { call.acquire(2).await });
    proxy.until_struck(1).await;
    timeout(LIMIT, client.shutdown())
        .await
        .expect("it ends")
        .unwrap();
    let told = call.await.unwrap();
    assert!(matches!(told, Err(Error::ShutDown { .. })), "{told:?}");
    assert_eq!(stored(&server, "moment").await, ["5"]);
}

#[tokio::test]
async fn shutdown_without_a_server_ends_and_says_so() {
    let mut server = RedisServer::start().await;
    let client = builder(server.url())
        .retry_window(Duration::from_millis(200))
        .connect()
        .await
        .unwrap();
    let permit = client.semaphore("gone").permit(0).await.unwrap();
    assert_eq!(permit.permits(), 0);
    drop(permit);
    let semaphore = client.semaphore("gone");
    semaphore.try_set_permits(2).await.unwrap();
    let permit = semaphore.permit(2).await.unwrap();
    server.stop().await;
    drop(permit);
    let told = timeout(LIMIT, client.shutdown()).await.expect("it ends");
    assert!(matches!(told, Err(Error::Unavailable { .. })), "{told:?}");
}

/// The caller of another runtime carries a round out there, and leaves it to others when it is dropped.
/// What becomes of that runtime must not matter to them: here it has ended, or nobody drives it.
fn begun_on_another_runtime(ended: bool) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (server, proxy, client) = runtime.block_on(async {
        let server = RedisServer::start().await;
        connect(server.url())
            .await
            .semaphore("warm-up")
            .release(1)
            .await
            .unwrap();
        let proxy = Proxy::start(&server).await;
        let client = connect(proxy.url()).await;
        (server, proxy, client)
    });
    let semaphore = client.semaphore("foreign");
    runtime.block_on(semaphore.try_set_permits(5)).unwrap();
    proxy.at_script(1, Fate::LoseReply);
    let other = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let answer = other.block_on(poll_times(semaphore.acquire(2), 1));
    assert_eq!(answer, None);
    let other = (!ended).then_some(other);
    runtime.block_on(async {
        let seen = timeout(LIMIT, semaphore.available_permits()).await;
        seen.expect("no answer").expect("the client goes on");
        until_stored(&server, "foreign", 5).await;
    });
    drop(other);
}

#[test]
fn a_round_begun_on_a_runtime_that_ends_goes_on() {
    begun_on_another_runtime(true);
}

#[test]
fn a_round_begun_on_a_runtime_that_nobody_drives_goes_on() {
    begun_on_another_runtime(false);
}
