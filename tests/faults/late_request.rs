//! Requests that arrive late, when their repetition has been answered: they do nothing.

use std::time::Duration;

use crate::support::clients::{LIMIT, builder, connect, start_behind_a_proxy, stored};
use crate::support::proxy::Fate;
use crate::support::snapshot::snapshot_all;
use redis::AsyncCommands;
use redisson_semaphore::Effect;
use tokio::time::timeout;

/// A request is held back, its repetition is answered with an error that says that nothing took effect, and the reason for the error
/// goes away: the held request must not take effect then.
#[tokio::test]
async fn a_late_copy_of_a_refused_call_does_nothing() {
    for (before, call) in [
        ("text", "release"),
        ("text", "try_acquire"),
        ("2147483647", "release"),
        ("", "rename"),
    ] {
        let (server, proxy) = start_behind_a_proxy().await;
        let mut control = server.connection().await;
        let semaphore = connect(proxy.url()).await.semaphore("late");
        if !before.is_empty() {
            let _: () = control.set("late", before).await.unwrap();
        }
        proxy.at_script(1, Fate::HoldRequest);
        let told = match call {
            "release" => semaphore.release(1).await,
            "try_acquire" => semaphore.try_acquire(1).await.map(drop),
            _ => semaphore.object().rename("elsewhere").await.map(drop),
        };
        let error = told.unwrap_err();
        assert_eq!(error.effect(), Effect::NotApplied, "{error}");
        let _: () = control.set("late", 5).await.unwrap();
        proxy.deliver(1).await;
        let what = format!("{call}, though its caller was told: {error}");
        assert_eq!(stored(&server, "late").await, ["5"], "{what}");
    }
}

/// A command without a waiting caller arrives when a later call has been answered: it does nothing, though the later call has changed
/// nothing.
#[tokio::test]
async fn a_command_that_was_given_up_does_nothing_late() {
    for call in ["delete", "rename"] {
        let (server, proxy) = start_behind_a_proxy().await;
        let mut control = server.connection().await;
        let client = builder(proxy.url()).response_timeout(Duration::from_secs(2));
        let client = client.call_timeout(Duration::from_secs(3));
        let client = client.connect().await.unwrap();
        // The server knows the script.
        assert_eq!(client.semaphore("other").delete().await, Ok(false));
        let semaphore = client.semaphore("late");
        assert_eq!(semaphore.try_set_permits(5).await, Ok(true));
        proxy.at_script(1, Fate::HoldRequest);
        proxy.at_script(2, Fate::HoldRequest);
        let told = match call {
            "delete" => semaphore.delete().await.map(drop),
            _ => semaphore.object().rename("elsewhere").await.map(drop),
        };
        let error = told.unwrap_err();
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
        let made = after.keys().find(|key| !before.contains_key(*key));
        assert_eq!(made, None, "{error}");
        // Records that are not needed any more are deleted soon.
        let mut gone = before.keys().filter(|key| !after.contains_key(*key));
        assert!(gone.all(|key| key.contains("_once:")), "{error}");
        let same = before["late"].matches(&after["late"], Duration::ZERO);
        assert!(same, "it took effect late: {error}");
    }
}
