//! Requests that arrive late, when their repetition has been answered: they do nothing.

use std::time::Duration;

use crate::support::clients::{LIMIT, builder};
use crate::support::clients::{connect, start_behind_a_proxy};
use crate::support::proxy::Fate;
use crate::support::snapshot::{snapshot, snapshot_all};
use redis::AsyncCommands;
use redisson_semaphore::{Effect, Error, RSemaphore};
use tokio::time::timeout;

/// A request is held back, its repetition is answered with an error that says that nothing took effect,
/// and the reason for the error goes away: the held request must not take effect then.
async fn refused_then_delivered(
    before: Option<&str>,
    call: impl AsyncFnOnce(&RSemaphore) -> Error,
) {
    let after = "5";
    let (server, proxy) = start_behind_a_proxy().await;
    let mut control = server.connection().await;
    let client = connect(proxy.url()).await;
    let semaphore = client.semaphore("late");
    if let Some(text) = before {
        let _: () = control.set("late", text).await.unwrap();
    }
    proxy.at_script(1, Fate::HoldRequest);
    let error = call(&semaphore).await;
    assert_eq!(error.effect(), Effect::NotApplied, "{error}");
    let _: () = control.set("late", after).await.unwrap();
    proxy.deliver(1).await;
    assert_eq!(
        snapshot(&mut control, "late").await.value,
        [after],
        "though the caller was told: {error}"
    );
}

#[tokio::test]
async fn a_late_copy_of_a_refused_call_does_nothing() {
    refused_then_delivered(Some("text"), async |semaphore| {
        semaphore.release(1).await.unwrap_err()
    })
    .await;
    refused_then_delivered(Some("text"), async |semaphore| {
        semaphore.try_acquire(1).await.unwrap_err()
    })
    .await;
    refused_then_delivered(Some("2147483647"), async |semaphore| {
        semaphore.release(1).await.unwrap_err()
    })
    .await;
    refused_then_delivered(None, async |semaphore| {
        semaphore.object().rename("elsewhere").await.unwrap_err()
    })
    .await;
}

/// A command that nobody waits for any more arrives when a later call has been answered: it does nothing, though that call has changed
/// nothing.
async fn given_up_then_delivered(command: impl AsyncFnOnce(&RSemaphore) -> Error) {
    let (server, proxy) = start_behind_a_proxy().await;
    let mut control = server.connection().await;
    let client = builder(proxy.url())
        .response_timeout(Duration::from_millis(200))
        .call_timeout(Duration::from_millis(300))
        .connect()
        .await
        .unwrap();
    // The server knows the script.
    assert_eq!(client.semaphore("other").delete().await, Ok(false));
    let semaphore = client.semaphore("late");
    assert_eq!(semaphore.try_set_permits(5).await, Ok(true));
    proxy.at_script(1, Fate::HoldRequest);
    proxy.at_script(2, Fate::HoldRequest);
    let error = command(&semaphore).await;
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    let later = async {
        loop {
            if let Ok(set) = semaphore.try_set_permits(5).await {
                return set;
            }
        }
    };
    assert!(!timeout(LIMIT, later).await.expect("it is answered"));
    let before = snapshot_all(&mut control).await;
    proxy.deliver(2).await;
    let after = snapshot_all(&mut control).await;
    assert!(before.keys().eq(after.keys()), "{error}");
    let same = before["late"].matches(&after["late"], Duration::ZERO);
    assert!(same, "it took effect late: {error}");
}

#[tokio::test]
async fn a_command_that_was_given_up_does_nothing_late() {
    given_up_then_delivered(async |semaphore| semaphore.delete().await.unwrap_err()).await;
    given_up_then_delivered(async |semaphore| {
        semaphore.object().rename("elsewhere").await.unwrap_err()
    })
    .await;
}
