//! Futures that are polled by hand.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

/// Polls once.
pub async fn poll_once<F: Future + ?Sized>(future: &mut Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

/// Polls at most `times` times; in between the connection has time to bring answers.
pub async fn poll_times<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..times {
        if let Poll::Ready(answer) = poll_once(&mut future).await {
            return Some(answer);
        }
        tokio::task::yield_now().await;
    }
    None
}
