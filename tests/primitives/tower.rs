//! The layer for services: which requests are let in, what the others get, and that no permit stays taken.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::support::clients::{LIMIT, builder, connect};
use crate::support::server::RedisServer;
use crate::support::waiters::until;
use redisson_semaphore::tower::{LimitLayer, Limited, Refused};
use redisson_semaphore::{Error, MAX_PERMITS, Semaphore, memory};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tower::{Layer, Service, ServiceExt, service_fn};

type Told = Result<&'static str, Infallible>;

const WAIT: Duration = Duration::from_millis(300);

fn told(refused: Refused) -> Told {
    Ok(match refused {
        Refused::NotInTime => "busy",
        Refused::Missing => "missing",
        Refused::Unanswered => "unanswered",
        Refused::Failed(Error::InvalidPermits { .. }) => "invalid",
        _ => "failed",
    })
}

/// A service that answers when it is notified, and counts the requests inside.
#[derive(Default)]
struct Room {
    inside: AtomicUsize,
    go: Notify,
}

fn limited(
    room: &Arc<Room>,
    limit: LimitLayer<fn(Refused) -> Told>,
) -> Limited<
    impl Service<(), Response = &'static str, Error = Infallible, Future: Send> + Clone + Send + 'static,
    fn(Refused) -> Told,
> {
    let room = Arc::clone(room);
    limit.layer(service_fn(move |()| {
        let room = Arc::clone(&room);
        async move {
            room.inside.fetch_add(1, Ordering::SeqCst);
            room.go.notified().await;
            Ok("done")
        }
    }))
}

fn call<S>(service: &S) -> JoinHandle<Told>
where
    S: Service<(), Response = &'static str, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static,
{
    tokio::spawn(service.clone().oneshot(()))
}

async fn answer(call: JoinHandle<Told>) -> &'static str {
    let Ok(answer) = timeout(LIMIT, call)
        .await
        .expect("an answer")
        .expect("no panic");
    answer
}

fn layer(semaphore: Arc<dyn Semaphore>) -> LimitLayer<fn(Refused) -> Told> {
    LimitLayer::new(semaphore, WAIT, told)
}

#[tokio::test(start_paused = true)]
async fn a_request_holds_its_permits_until_the_response() {
    let seats = Arc::new(memory::Semaphore::with_permits("seats", 3));
    let room = Arc::new(Room::default());
    let service = limited(&room, layer(seats.clone()).permits(2));
    let first = call(&service);
    tokio::task::yield_now().await;
    assert_eq!(answer(call(&service)).await, "busy");
    assert_eq!(room.inside.load(Ordering::SeqCst), 1);
    assert_eq!(seats.available_permits().await, Ok(1));
    room.go.notify_one();
    assert_eq!(answer(first).await, "done");
    assert_eq!(seats.available_permits().await, Ok(3));
    let many = limited(&room, layer(seats.clone()).permits(MAX_PERMITS + 1));
    assert_eq!(answer(call(&many)).await, "invalid");
    // Requests that are cancelled leave nothing taken.
    let inside = call(&service);
    tokio::task::yield_now().await;
    let waiting = call(&service);
    tokio::task::yield_now().await;
    assert_eq!(room.inside.load(Ordering::SeqCst), 2);
    for gone in [waiting, inside] {
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
    }
    assert_eq!(seats.available_permits().await, Ok(3));
}

/// A service that has said that it is ready is the one that is called.
#[tokio::test]
async fn the_service_that_is_ready_is_called() {
    #[derive(Default)]
    struct Picky {
        ready: bool,
    }
    impl Clone for Picky {
        fn clone(&self) -> Self {
            Picky::default()
        }
    }
    impl Service<()> for Picky {
        type Response = &'static str;
        type Error = Infallible;
        type Future = std::future::Ready<Told>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            self.ready = true;
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, (): ()) -> Self::Future {
            assert!(self.ready);
            std::future::ready(Ok("done"))
        }
    }
    let seats = Arc::new(memory::Semaphore::with_permits("seats", 1));
    let service = layer(seats).layer(Picky::default());
    for _ in 0..2 {
        assert_eq!(answer(call(&service)).await, "done");
    }
}

#[tokio::test]
async fn replicas_share_the_limit_and_a_silent_redis_does_not_hold_requests_up() {
    let mut server = RedisServer::start().await;
    let clients = [connect(server.url()).await, connect(server.url()).await];
    let seats = clients.each_ref().map(|client| client.semaphore("seats"));
    seats[0].try_set_permits(1).await.unwrap();
    let room = Arc::new(Room::default());
    let replicas = seats
        .each_ref()
        .map(|seats| limited(&room, layer(Arc::new(seats.clone()))));
    let first = call(&replicas[0]);
    until("it is let in", LIMIT, async || {
        room.inside.load(Ordering::SeqCst) == 1
    })
    .await;
    assert_eq!(answer(call(&replicas[1])).await, "busy");
    room.go.notify_one();
    assert_eq!(answer(first).await, "done");
    let patient = builder(server.url())
        .retry_window(LIMIT * 100)
        .connect()
        .await
        .unwrap();
    let limit = layer(Arc::new(patient.semaphore("seats"))).answer_time(WAIT);
    let replica = limited(&room, limit);
    server.freeze();
    assert_eq!(answer(call(&replica)).await, "unanswered");
    server.thaw();
    // The permit of the request is given back, whether it was granted or not.
    patient.shutdown().await.unwrap();
    assert_eq!(seats[0].available_permits().await, Ok(1));
}

/// The layer distinguishes a semaphore that Redis has lost from a busy one, and makes it anew where it knows the limit.
#[tokio::test]
async fn a_missing_semaphore_is_told_or_made_anew() {
    let server = RedisServer::start().await;
    let client = connect(server.url()).await;
    let memory = memory::Semaphore::with_permits("seats", 3);
    let redis = client.semaphore("seats");
    redis.try_set_permits(3).await.unwrap();
    let lost = memory.clone();
    lost.lose();
    let control = server.connection().await;
    let () = redis::cmd("FLUSHALL")
        .query_async(&mut control.clone())
        .await
        .unwrap();
    for seats in [Arc::new(memory) as Arc<dyn Semaphore>, Arc::new(redis)] {
        let room = Arc::new(Room::default());
        let service = limited(&room, layer(seats.clone()));
        assert_eq!(answer(call(&service)).await, "missing");
        let service = limited(&room, layer(seats.clone()).limit(3));
        room.go.notify_one();
        assert_eq!(answer(call(&service)).await, "done");
        assert_eq!(seats.exists().await, Ok(true));
        until("it is given back", LIMIT, async || {
            seats.available_permits().await == Ok(3)
        })
        .await;
        let all = seats.permit(3).await.unwrap();
        assert_eq!(answer(call(&service)).await, "busy");
        drop(all);
    }
}
