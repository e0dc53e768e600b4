//! The client's runtime ends while a thread waits on it for a call that travels together with others'.

mod support;

use std::pin::Pin;
use std::sync::mpsc;
use std::time::Duration;

use futures::FutureExt;
use redisson_semaphore::{Error, RSemaphore, Result};
use support::clients::{LIMIT, until_stored};
use support::proxy::Fate;
use support::sequence;
use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

/// Calls on so many semaphores are under way, each in a script of its own, and unanswered; a thread waits for one
/// more. What it is told when the runtime ends, which may be nothing, as tokio's timers panic then; `then` comes before
/// that.
fn told_at_the_end(
    under_way: usize,
    then: impl AsyncFnOnce(&support::server::RedisServer),
) -> Option<Result<bool>> {
    let outside = runtime();
    let (server, proxy) = outside.block_on(sequence::start());
    let inside = runtime();
    let semaphores: Vec<RSemaphore> = inside.block_on(async {
        let client = sequence::builder(proxy.url())
            .response_timeout(Duration::from_secs(60))
            .retry_window(Duration::from_millis(100));
        let client = client.connect().await.unwrap();
        let names = (0..=under_way).map(|number| format!("s-{number}"));
        let all: Vec<_> = names.map(|name| client.semaphore(&name)).collect();
        for one in &all {
            one.try_set_permits(1).await.unwrap();
        }
        all
    });
    proxy.at_script(1, Fate::HoldReply);
    for one in &semaphores[..under_way] {
        let before = proxy.scripts();
        let one = one.clone();
        inside.spawn(async move { one.try_acquire(1).await });
        outside.block_on(proxy.until_scripts(before + 1));
    }
    let (started, start) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let last = semaphores[under_way].clone();
    let handle = inside.handle().clone();
    inside.spawn_blocking(move || {
        let mut call: Pin<Box<dyn Future<Output = _> + Send>> =
            Box::pin(async move { last.try_acquire(1).await });
        handle.block_on(async {
            assert!(call.as_mut().now_or_never().is_none());
        });
        started.send(()).unwrap();
        let answer = handle.block_on(call);
        let _ = tell.send(answer);
    });
    start.recv().unwrap();
    outside.block_on(then(&server));
    inside.shutdown_background();
    match told.recv_timeout(LIMIT) {
        Ok(answer) => Some(answer),
        Err(mpsc::RecvTimeoutError::Disconnected) => None,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the caller hangs"),
    }
}

#[test]
fn who_waits_behind_others_does_not_hang() {
    // One alone, and all carriers.
    let told = told_at_the_end(5, async |_| {});
    assert!(!matches!(told, Some(Ok(_))), "{told:?}");
}

#[test]
fn who_was_on_the_way_is_not_told_that_nothing_was_sent() {
    let told = told_at_the_end(1, async |server| until_stored(server, "s-1", 0).await);
    assert!(
        matches!(told, None | Some(Err(Error::OutcomeUnknown { .. }))),
        "it took a permit: {told:?}"
    );
}
