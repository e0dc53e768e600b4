//! What a lone call whose reply was lost leaves behind: nobody sleeps beside free permits.

mod support;

use support::channel::Channel;
use support::clients::{LIMIT, stored};
use support::proxy::Fate;
use support::sequence;
use support::waiters::channel;
use tokio::time::timeout;

async fn nudged(lost: bool) {
    let (server, proxy) = sequence::start().await;
    let client = sequence::connect(proxy.url()).await;
    let semaphore = client.semaphore("asleep");
    semaphore.try_set_permits(1).await.unwrap();
    assert!(semaphore.try_acquire(1).await.unwrap());
    let mut heard = Channel::subscribe(&server, &channel("asleep")).await;
    if lost {
        proxy.at_script(1, Fate::LoseReplyAndClose);
    }
    semaphore.release(1).await.unwrap();
    assert_eq!(proxy.struck(), u64::from(lost));
    assert_eq!(stored(&server, "asleep").await, ["1"]);
    assert_eq!(heard.next().await.payload, "1");
    // Whoever was not woken by the first message, or by more than there is, is woken once more.
    let again = timeout(LIMIT, heard.next()).await;
    assert_eq!(again.expect("a nudge").payload, "+1");
}

#[tokio::test]
async fn who_is_left_asleep_is_woken_again() {
    nudged(false).await;
}

#[tokio::test]
async fn who_is_left_asleep_is_woken_again_when_the_reply_was_lost() {
    nudged(true).await;
}
