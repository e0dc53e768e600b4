//! Callers of both sides that are parked, many of them and in order.

use redisson_semaphore::RSemaphore;
use serde_json::json;

use super::parked::{Attempts, finished, park, served};
use super::world::{Mode, World, channel};
use crate::support::peer::PendingCall;
use crate::support::waiters::until_subscribers;

/// A Java caller tries twice before it is parked.
pub const TRIES: usize = 2;

impl World {
    /// Java callers of these amounts, parked in this order.
    pub async fn park_java(
        &self,
        attempts: &mut Attempts,
        name: &str,
        mode: Mode,
        amounts: impl IntoIterator<Item = u32>,
    ) -> Vec<PendingCall> {
        let mut calls = Vec::new();
        for permits in amounts {
            let before = attempts.of(name).await;
            let mut call = self.java_acquire(name, permits, mode);
            attempts.until(name, before, TRIES).await;
            assert!(
                !call.is_finished(),
                "{name}: {permits} permits without waiting"
            );
            calls.push(call);
        }
        calls
    }

    /// As [`park_java`](Self::park_java), many at once.
    pub async fn park_java_crowd(
        &self,
        attempts: &mut Attempts,
        name: &str,
        mode: Mode,
        amounts: impl IntoIterator<Item = u32>,
    ) -> Vec<PendingCall> {
        let before = attempts.of(name).await;
        let begin = |permits| self.java_acquire(name, permits, mode);
        let mut calls: Vec<_> = amounts.into_iter().map(begin).collect();
        attempts.until(name, before, TRIES * calls.len()).await;
        assert_eq!(finished(&mut calls), 0, "{name}: without waiting");
        calls
    }

    /// A Rust caller, parked and subscribed.
    pub async fn park_rust(
        &mut self,
        semaphore: &RSemaphore,
        permits: u32,
    ) -> tokio::task::JoinHandle<redisson_semaphore::Result<()>> {
        let waiting = semaphore.clone();
        let caller = park(async move { waiting.acquire(permits).await });
        until_subscribers(&mut self.redis, &channel(semaphore.name()), 1).await;
        caller
    }

    /// Both sides see so many permits.
    pub async fn expect_available(&self, name: &str, expected: i64) {
        assert_eq!(
            self.available(name).await,
            expected,
            "{name}, as Rust sees it"
        );
        let java = self.java_available(name).await;
        assert_eq!(java, json!(expected), "{name}, as Java sees it");
    }
}

/// Waits until all of these have been served.
pub async fn all_served(name: &str, calls: Vec<PendingCall>) {
    for (number, call) in calls.into_iter().enumerate() {
        served(&format!("{name}, caller {number}"), call).await;
    }
}
