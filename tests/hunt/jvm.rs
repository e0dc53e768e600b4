//! A JVM with Redisson, as far as its semaphore goes: blocked threads and async callers, with their flaws.
//!
//! A message starts one async caller, and as many threads as it says. A caller that finds no permits sleeps again, and no caller passes the message
//! on. A lost subscription is made again, and the sleeping callers are not woken. This behaviour was observed on the wire; nothing is copied from
//! Redisson.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::judge::Host;

/// JVMs have numbers from here on.
pub const FIRST: Host = 1000;

/// A caller in a JVM that wants permits.
#[derive(Debug, Clone)]
pub struct Caller {
    pub permits: i64,
    pub hold: Duration,
    /// The caller blocks a thread; otherwise it is an async call.
    pub blocks: bool,
}

/// The next step of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Tries before it listens.
    First,
    /// Tries once it listens, or has been started.
    Again,
    /// Releases.
    Release,
}

/// One semaphore of a JVM. The world decides which commands are sent, and when.
#[derive(Default)]
pub struct Entry {
    pub callers: BTreeMap<u64, Caller>,
    /// Threads and async callers that sleep.
    threads: VecDeque<u64>,
    queue: VecDeque<u64>,
    tokens: usize,
    /// How many callers wait, asleep or not.
    waiting: usize,
}

impl Entry {
    pub fn has_waiters(&self) -> bool {
        self.waiting > 0
    }

    /// A refused caller begins to listen. Returns whether it is the first one.
    pub fn listens(&mut self) -> bool {
        self.waiting += 1;
        self.waiting == 1
    }

    /// A caller has got its permits. Returns whether no caller listens any more.
    pub fn served(&mut self) -> bool {
        self.waiting -= 1;
        if self.waiting == 0 {
            self.tokens = 0;
        }
        self.waiting == 0
    }

    /// A caller has found too few permits. Returns the caller that tries next, if there is one.
    pub fn in_vain(&mut self, number: u64) -> Option<u64> {
        let token = self.tokens > 0;
        self.tokens -= usize::from(token);
        if self.callers[&number].blocks {
            if token {
                return Some(number);
            }
            self.threads.push_back(number);
            return None;
        }
        self.queue.push_back(number);
        if token { self.queue.pop_front() } else { None }
    }

    /// A message arrives. Returns the callers that try again.
    pub fn hears(&mut self, payload: i64) -> Vec<u64> {
        let mut started: Vec<u64> = self.queue.pop_front().into_iter().collect();
        self.tokens += usize::try_from(payload).unwrap_or(0).min(self.waiting);
        while self.tokens > 0
            && let Some(thread) = self.threads.pop_front()
        {
            self.tokens -= 1;
            started.push(thread);
        }
        started
    }
}
