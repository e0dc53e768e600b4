//! A client whose password is wrong for a while: its releases in that time are carried out later.

use std::time::Duration;

use crate::support::acl::set_user;
use crate::support::clients::{LIMIT, builder, limited, until_stored};
use crate::support::polls::poll_once;
use crate::support::waiters::until;
use futures::future::join_all;
use futures::{FutureExt, future::BoxFuture};
use redis::AsyncCommands;
use redisson_semaphore::{Effect, LeasedSemaphore, Result};

/// The client cannot log in, for a reason that does not pass by itself. A caller that releases meanwhile gets an error with an unknown
/// outcome, or drops its call. The release is carried out all the same.
#[tokio::test]
async fn what_is_given_back_while_a_password_is_wrong_is_given_back_when_it_is_right() {
    let (server, _) = limited("~* &* +@all").await;
    let mut redis = server.connection().await;
    // Calls are repeated for half of the records' life.
    let client = builder(server.url_as("app", "pw"))
        .retry_window(Duration::from_millis(200))
        .connect_timeout(Duration::from_secs(2))
        .least_record_life(Duration::from_secs(2))
        .connect()
        .await
        .unwrap();
    let seats = client.semaphore("seats");
    let desks = client.semaphore("desks").watched();
    let work = client.permit_expirable_semaphore("work");
    let slots = client.set_semaphore("slots", 9);
    seats.try_set_permits(9).await.unwrap();
    desks.try_set_permits(9).await.unwrap();
    work.try_set_permits(9).await.unwrap();
    let kept = client.lock("door").guard().await.unwrap();
    let guards = async || -> Vec<BoxFuture<'static, Result<()>>> {
        let (seat, desk) = (
            seats.permit(1).await.unwrap(),
            desks.permit(2).await.unwrap(),
        );
        let job = work.permit().await.unwrap();
        let slot = LeasedSemaphore::permit(&slots).await.unwrap();
        let door = kept.again().await.unwrap();
        vec![
            seat.release().boxed(),
            desk.release().boxed(),
            job.release().map(|told| told.map(drop)).boxed(),
            slot.release().map(|told| told.map(drop)).boxed(),
            door.unlock().boxed(),
        ]
    };
    let (read, unread) = (guards().await, guards().await);
    let set = async |password: &str| {
        let mut redis = server.connection().await;
        set_user(&mut redis, &["app", "resetpass", password]).await;
        server.disconnect("app").await;
    };
    set(">wrong").await;
    let mut unread = Box::pin(join_all(unread));
    assert!(poll_once(&mut unread.as_mut()).await.is_pending());
    for told in join_all(read).await {
        let error = told.unwrap_err();
        assert_eq!(error.effect(), Effect::Unknown, "{error}");
    }
    // The other calls have ended as well, and their callers did not look.
    drop(unread);
    set(">pw").await;
    for name in ["seats", "desks", "work"] {
        until_stored(&server, name, 9).await;
    }
    until(
        "the slots are free, and the lock is held once",
        LIMIT,
        async || {
            let slots: bool = redis.exists("slots").await.unwrap();
            let owner = kept.handle().owner();
            let count: Option<u32> = redis.hget("door", owner).await.unwrap();
            !slots && count == Some(1)
        },
    )
    .await;
    kept.unlock().await.unwrap();
    assert!(!client.lock("door").is_locked().await.unwrap());
    client.shutdown().await.unwrap();
}
