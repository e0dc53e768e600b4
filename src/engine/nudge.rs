//! A second call for waiters that a release has left asleep.
//!
//! Redisson's waiters do not pass a wake-up on: a message may wake only a thread that wants five permits
//! where one is free, and the thread behind it that wants one stays parked. While permits are left and
//! somebody listens, all are woken again: soon, then with growing pauses.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::command::Commands;
use super::line::Line;
use super::request::{Arg, Request, Script};
use crate::transport::{Backoff, Failure, Value};

static NUDGE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../lua/semaphore/nudge.lua")));

/// The first pause is long enough for those who were woken to take what is free.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A release in the meantime is followed up this soon.
const FOLLOW_UP: Duration = Duration::from_millis(200);
/// For this many nudges, about a minute, the task keeps its client alive.
const STEADFAST: u32 = 12;
/// A JVM wakes this many blocked threads at the most; it wakes no more than it has.
const THREADS: u32 = 65_536;
/// The first nudge starts this many async waiters, each further one twice as many, up to the last.
const ASYNC_FIRST: u32 = 2;
const ASYNC_MOST: u32 = 64;

/// Nudges from now on until no permits are left or nobody but this client listens.
pub(crate) fn start(line: &Arc<Line>) {
    line.core().runtime.spawn(nudge(Arc::clone(line)));
}

async fn nudge(line: Arc<Line>) {
    let mut backoff = Backoff::between(FIRST_PAUSE, LONGEST_PAUSE);
    let mut starts = ASYNC_FIRST;
    // The last handle may be gone already; those left asleep are woken all the same, for a while.
    for _ in 0..STEADFAST {
        if !pause_and_nudge(&line, &mut backoff, &mut starts).await {
            return;
        }
    }
    let line = Arc::downgrade(&line);
    while let Some(line) = line.upgrade() {
        if !pause_and_nudge(&line, &mut backoff, &mut starts).await {
            return;
        }
    }
}

/// The next nudge; whether another one makes sense.
async fn pause_and_nudge(line: &Line, backoff: &mut Backoff, starts: &mut u32) -> bool {
    let pause = backoff.next();
    if tokio::time::timeout(pause, line.released_again())
        .await
        .is_ok()
    {
        // There may be enough for somebody else now.
        tokio::time::sleep(FOLLOW_UP).await;
        *backoff = Backoff::between(2 * FOLLOW_UP, LONGEST_PAUSE);
    }
    let Some(releases) = line.wants_nudge() else {
        return false;
    };
    // An attempt that failed says nothing: the next one will.
    if let Some(listeners) = send(line, *starts).await
        && listeners <= line.own_subscriptions()
    {
        return !line.nudge_ended(releases);
    }
    *starts = (*starts * 2).min(ASYNC_MOST);
    true
}

/// How many listen while permits are left, 0 where nudging makes no sense; `None` if it was not learned.
async fn send(line: &Line, starts: u32) -> Option<u64> {
    let keys = line.keys();
    let request = Request::script(
        &NUDGE,
        vec![Arc::clone(keys.object()), Arc::clone(keys.channel())],
        vec![
            Arg::Word("PUBLISH"),
            Arg::Number(THREADS.into()),
            Arg::Number(starts.into()),
        ],
    );
    match line.core().try_once(&request).await {
        Ok(Value::Int(listeners)) => u64::try_from(listeners).ok(),
        Err(Failure::Refused(refusal)) if refusal.is_final(false) => Some(0),
        _ => None,
    }
}
