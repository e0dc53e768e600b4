//! A JVM with Redisson, as far as its semaphore goes: blocked threads and async callers, with their flaws.
//!
//! Of each message one async caller is started, and as many threads as it says; whoever was started in vain goes to sleep
//! again, and nobody passes a message on. A subscription that was lost is made again without a word to those who sleep.
//! What is stepped over here has been seen on the wire; nothing of it is Redisson's text.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::judge::Host;

/// JVMs have numbers from here on.
pub const FIRST: Host = 1000;

/// Somebody in a JVM who wants permits.
#[derive(Debug, Clone)]
pub struct Caller {
    pub permits: i64,
    pub hold: Duration,
    /// It blocks a thread; else it is an async call.
    pub blocks: bool,
}

/// What a caller is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Tries before it listens.
    First,
    /// Tries once it listens, or has been started.
    Again,
    /// Gives back.
    Release,
}

/// One semaphore of a JVM. Who sends what, and when, is left to the world.
#[derive(Default)]
pub struct Entry {
    pub callers: BTreeMap<u64, Caller>,
    /// Threads and async callers that sleep.
    threads: VecDeque<u64>,
    queue: VecDeque<u64>,
    tokens: usize,
    /// How many wait, asleep or not.
    waiting: usize,
}

impl Entry {
    pub fn has_waiters(&self) -> bool {
        self.waiting > 0
    }

    /// A caller that has been refused begins to listen; whether it is the first who does.
    pub fn listens(&mut self) -> bool {
        self.waiting += 1;
        self.waiting == 1
    }

    /// A caller has got what it wants; whether nobody listens any more.
    pub fn served(&mut self) -> bool {
        self.waiting -= 1;
        if self.waiting == 0 {
            self.tokens = 0;
        }
        self.waiting == 0
    }

    /// A caller has tried in vain; who tries next, if anybody does.
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

    /// A message: those who try again.
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
