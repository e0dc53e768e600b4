//! Futures that are dropped: what was taken for them comes back, and what they gave back is given back.

use tokio::time::timeout;

use crate::lost::builder;
use crate::subject::{Books, End, Expected, Subject, in_time};
use crate::subjects::for_every_subject;
use crate::support::clients::LIMIT;
use crate::support::polls::poll_times;
use crate::support::proxy::{LOST_REPLIES, Proxy};
use crate::support::server::RedisServer;

/// More polls than any call needs.
const MOST_POLLS: usize = 200;

async fn after_every_number_of_polls<S: Subject>() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = builder(server.url()).connect().await.unwrap();
    let mut books = Books::new(Expected::of::<S>(&client, &mut redis).await);
    let mut most = 0;
    for (call, kind) in S::CALLS {
        for polls in 0.. {
            assert!(polls < MOST_POLLS, "{call}: no answer");
            let name = format!("{}-{polls}-{call}", S::NAME);
            let subject = S::new(&client, &name);
            subject.prepare(call).await.unwrap();
            let answer = poll_times(subject.call(call), polls).await;
            let what = format!("{name}: dropped after {polls} polls, with {answer:?}");
            let end = End::dropped(*kind, &answer, polls);
            books.settled(&mut redis, what, subject, call, end).await;
            if answer.is_some() {
                most = most.max(polls);
                break;
            }
        }
    }
    assert!(most > 1, "no call ever waits: nothing was tested");
    books.close(&mut redis, client).await;
}

#[tokio::test]
async fn dropped_after_every_number_of_polls() {
    for_every_subject!(after_every_number_of_polls);
}

/// The reply is lost, and the caller goes: what the repetition tells is put in order.
async fn before_its_answer<S: Subject>() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let proxy = Proxy::start(&server).await;
    let client = builder(proxy.url()).connect().await.unwrap();
    let mut books = Books::new(Expected::of::<S>(&client, &mut redis).await);
    let mut hits = 0;
    for fate in LOST_REPLIES {
        for (call, kind) in S::CALLS {
            let name = format!("{}-{fate:?}-{call}", S::NAME);
            let subject = S::new(&client, &name);
            subject.prepare(call).await.unwrap();
            let struck = proxy.struck();
            proxy.at_script(1, fate);
            let answer = tokio::select! {
                biased;
                () = proxy.until_struck(struck + 1) => None,
                answer = in_time(&subject, call) => Some(answer),
            };
            hits += u64::from(answer.is_none());
            let end = match &answer {
                Some(told) => End::told(*kind, told),
                None => End::unknown(*kind),
            };
            let what = format!("{name}: dropped behind {fate:?}, with {answer:?}");
            books.settled(&mut redis, what, subject, call, end).await;
            proxy.clear_fates();
        }
    }
    assert!(hits > 0, "nobody was dropped");
    timeout(LIMIT, books.close(&mut redis, client))
        .await
        .expect("it ends");
}

#[tokio::test]
async fn dropped_after_the_server_has_acted_and_before_its_answer() {
    for_every_subject!(before_its_answer);
}
