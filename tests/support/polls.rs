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

/// Polls `call` when it is woken, `polls` times at the most, and drops it; its answer if it was that fast.
pub async fn polled<F: Future>(call: F, polls: u32) -> Option<F::Output> {
    let mut call = pin!(call);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match call.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
