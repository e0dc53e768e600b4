//! A future that is left unpolled.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// A future that is not polled for a while.
pub(super) struct Stalling<F> {
    inner: Pin<Box<F>>,
    stall: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<F: Future> Stalling<F> {
    pub(super) fn new(inner: F, stall: Option<(Duration, Duration)>) -> Self {
        let now = Instant::now();
        Stalling {
            inner: Box::pin(inner),
            stall: stall.map(|(after, time)| {
                let from = now + after;
                (from, Box::pin(tokio::time::sleep_until(from + time)))
            }),
        }
    }
}

impl<F: Future> Future for Stalling<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if let Some((from, end)) = &mut self.stall {
            if end.as_mut().poll(cx).is_ready() {
                self.stall = None;
            } else if Instant::now() >= *from {
                return Poll::Pending;
            }
        }
        self.inner.as_mut().poll(cx)
    }
}
