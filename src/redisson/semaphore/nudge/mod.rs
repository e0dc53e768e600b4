//! Further calls for waiters that an announcement has left asleep.
//!
//! Redisson's waiters do not pass a wake-up on: a message may wake only a thread that wants five permits
//! where one is free, and the thread behind it that wants one stays parked; and it starts one async waiter of a JVM,
//! however many permits there are. Those who were started in vain go to the end of their JVM's line, so the next
//! call reaches others.
//!
//! A series of nudges begins with a release that leaves permits while others listen. What counts is whether permits
//! are taken: as long as they are, twice as many waiters as took some are started, soon. A few nudges that have helped
//! nobody end the series, but for some late looks, for a JVM that was not awake or not connected; then only the next
//! release begins a new one, and a short one if as many permits were of no use a moment ago. A JVM carries out two
//! scripts at the most for each waiter that is started in vain. Who was not connected when permits were announced is
//! found by [`unheard`](crate::engine::unheard).

mod series;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::time::Instant;

use super::permits::Permits;
use super::record;
use crate::engine::Core;
use crate::engine::command::Commands;
use crate::engine::keys::Keys;
use crate::engine::primitive::Line;
use crate::engine::request::{Arg, Request, Script};
use crate::lua;
use crate::transport::{Failure, Value};

use series::{FEW_STEPS, STEPS, Series, Stands};

static NUDGE: LazyLock<Script> = LazyLock::new(|| Script::new(lua::NUDGE));

/// A nudge starts this many waiters of a client at the most.
const MOST: u32 = 256;
/// While one release follows another, nudges keep this distance.
const DISTANCE: Duration = Duration::from_millis(200);
/// How long ago a moment ago is.
const MOMENT: Duration = Duration::from_secs(10);

/// Tells others what is new at a semaphore of this client.
pub(super) fn tell(line: &Arc<Line<Permits>>) {
    let Some(news) = line.primitive(|permits| permits.news.take()) else {
        return;
    };
    if let Some(lost) = news.lost {
        lost.lose();
    }
    if news.recorded {
        line.client().watch(line.keys(), record::owner(line));
    }
    if news.unheard {
        line.client().nobody_has_heard(line.keys(), is_heard_by_now);
    }
    if news.left {
        start(line, line.primitive(|permits| permits.leavings.series()));
    }
}

/// Permits have come and been announced by another way than a batch of this line.
pub(super) fn has_been_given_more(line: &Arc<Line<Permits>>) {
    nudge_others(line, false, None);
}

/// Permits were announced when nobody listened, and somebody does now.
pub(super) fn is_heard_by_now(core: &Arc<Core>, keys: Keys) {
    let line = Permits::line(core, keys);
    // A series that began later looks late, too.
    if !line.primitive(|permits| permits.leavings.under_way) {
        nudge_others(&line, true, Some(Series::of_unheard()));
    }
}

fn nudge_others(line: &Arc<Line<Permits>>, unannounced: bool, series: Option<Series>) {
    let series = line.primitive(|permits| {
        // It is not known how many are free.
        permits.available = i64::MAX;
        let starts = permits.leavings.leave(None, unannounced);
        if !starts {
            permits.left_more.notify_one();
        }
        starts.then(|| series.unwrap_or_else(|| permits.leavings.series()))
    });
    if let Some(series) = series {
        start(line, series);
    }
}

/// Nudges from now on until no permits are left, nobody but this client listens, or it is of no use.
fn start(line: &Arc<Line<Permits>>, series: Series) {
    line.core().runtime.spawn(nudge(Arc::clone(line), series));
}

/// The last handle may be gone already; those left asleep are woken all the same. It keeps the client alive for less than
/// a minute behind the last release, or the last permit taken.
async fn nudge(line: Arc<Line<Permits>>, mut series: Series) {
    let left_more = line.primitive(|permits| Arc::clone(&permits.left_more));
    let next_series = || line.primitive(|permits| permits.leavings.series());
    let mut last: Option<Instant> = None;
    loop {
        let pause = tokio::time::timeout(series.pause(), left_more.notified());
        if pause.await.is_ok() {
            // There may be enough for somebody else now.
            series = next_series();
            let due = Instant::now() + series.pause();
            tokio::time::sleep_until(last.map_or(due, |last| due.max(last + DISTANCE))).await;
        }
        let Some(left) = begin(&line) else {
            return;
        };
        let request = request(&line, &series, &left);
        last = Some(Instant::now());
        let seen = match line.core().try_once(&request).await {
            Ok(value) => Seen::read(&value),
            Err(Failure::Refused(refusal)) if refusal.is_final(false) => Some(Seen::NOTHING),
            Err(_) => None,
        };
        let goes_on = match &seen {
            Some(seen) => series.goes_on(left.permits, seen),
            // That says nothing: the next one will.
            None => series.next_step(),
        };
        if has_ended(&line, &left, seen.as_ref(), &series, goes_on) {
            return;
        }
        if !goes_on {
            series = next_series();
        }
    }
}

/// What a nudge has to know; `None` if there is no reason for one any more.
fn begin(line: &Line<Permits>) -> Option<Left> {
    let closing = line.client().is_closing();
    line.primitive(|permits| {
        if permits.available < 1 || closing {
            permits.leavings.under_way = false;
            return None;
        }
        Some(permits.leavings.begin(permits.place.hears().into()))
    })
}

/// Whether the series of nudges has ended with this one.
fn has_ended(
    line: &Line<Permits>,
    left: &Left,
    seen: Option<&Seen>,
    series: &Series,
    goes_on: bool,
) -> bool {
    let ended = line.primitive(|permits| permits.leavings.end(left, seen, series, goes_on));
    if ended && seen.is_some_and(|seen| seen.permits > 0 && seen.others == 0) {
        let core = line.client();
        core.nobody_has_heard(line.keys(), is_heard_by_now);
    }
    ended
}

fn request(line: &Line<Permits>, series: &Series, left: &Left) -> Request {
    let keys = line.keys();
    Request::script(
        &NUDGE,
        vec![Arc::clone(keys.object()), Arc::clone(keys.channel())],
        vec![
            Arg::Publish,
            Arg::Number(left.permits.unwrap_or(-1)),
            Arg::Number(series.starts().into()),
            Arg::Number(MOST.into()),
            Arg::Number(left.own.cast_signed()),
            Arg::Number(left.unannounced.into()),
        ],
    )
}

/// What a line has left to others, and whether there is a series for it.
#[derive(Debug, Default)]
pub(super) struct Leavings {
    under_way: bool,
    times: u64,
    permits: Option<i64>,
    unannounced: bool,
    /// So many were of no use to anybody, and when that was.
    in_vain: Option<(i64, Instant)>,
}

/// The same when a nudge begins.
pub(super) struct Left {
    /// How many permits were left the last time that was seen.
    permits: Option<i64>,
    /// No message has told of them.
    unannounced: bool,
    /// How often some have been left so far.
    times: u64,
    /// How many of the channel's listeners are this client itself.
    own: u64,
}

impl Leavings {
    /// Some have been left, and it may be known how many, and no message may have told of them. Whether a series is to
    /// be started; else the one that is under way is to be told.
    pub(super) fn leave(&mut self, permits: Option<i64>, unannounced: bool) -> bool {
        self.times += 1;
        self.permits = permits;
        self.unannounced |= unannounced;
        !std::mem::replace(&mut self.under_way, true)
    }

    /// A nudge begins.
    pub(super) fn begin(&self, own: u64) -> Left {
        Left {
            permits: self.permits,
            unannounced: self.unannounced,
            times: self.times,
            own,
        }
    }

    /// The nudge of `series` that began with `left` has `seen` this, if it was answered. Whether the series ends: some
    /// may have been left meanwhile.
    pub(super) fn end(
        &mut self,
        left: &Left,
        seen: Option<&Seen>,
        series: &Series,
        goes_on: bool,
    ) -> bool {
        if let Some(seen) = seen {
            self.in_vain = match series.stands_at() {
                Stands::AtTheBeginning => None,
                Stands::InTheMiddle => self.in_vain,
                Stands::AtTheEnd => Some((seen.permits, Instant::now())),
            };
        }
        if self.times == left.times {
            if let Some(seen) = seen {
                self.permits = Some(seen.permits);
                self.unannounced = false;
            }
            self.under_way = goes_on;
        }
        !self.under_way
    }

    /// How what has been left is to be nudged for.
    pub(super) fn series(&self) -> Series {
        let fresh = |at: Instant| at.elapsed() < MOMENT;
        let as_before = match (self.in_vain, self.permits) {
            (Some((most, at)), Some(permits)) => permits <= most && fresh(at),
            _ => false,
        };
        Series::of(if as_before { &FEW_STEPS } else { &STEPS })
    }
}

/// What a nudge has seen.
pub(super) struct Seen {
    pub(super) permits: i64,
    pub(super) others: u64,
}

impl Seen {
    const NOTHING: Seen = Seen {
        permits: 0,
        others: 0,
    };

    fn read(value: &Value) -> Option<Seen> {
        match value {
            Value::Array(numbers) => match numbers[..] {
                [Value::Int(permits), Value::Int(others)] => Some(Seen {
                    permits,
                    others: u64::try_from(others).ok()?,
                }),
                _ => None,
            },
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One release after the other of `permits`, each series in vain: how many waiters each starts.
    fn releases(leavings: &mut Leavings, permits: i64) -> u32 {
        leavings.leave(Some(permits), false);
        let mut series = leavings.series();
        let mut started = 0;
        loop {
            started += series.starts();
            let left = leavings.begin(0);
            let seen = Seen { permits, others: 1 };
            let goes_on = series.goes_on(left.permits, &seen);
            if leavings.end(&left, Some(&seen), &series, goes_on) {
                return started;
            }
        }
    }

    #[test]
    fn what_was_of_no_use_a_moment_ago_is_not_tried_as_long_again() {
        let mut leavings = Leavings::default();
        assert_eq!(releases(&mut leavings, 2), 79);
        assert_eq!(releases(&mut leavings, 2), 9);
        assert_eq!(releases(&mut leavings, 1), 9);
        assert_eq!(releases(&mut leavings, 2), 9);
        assert_eq!(releases(&mut leavings, 3), 79, "enough for others");
        // Somebody could use some.
        leavings.leave(Some(2), false);
        let (mut series, left) = (leavings.series(), leavings.begin(0));
        let seen = Seen {
            permits: 1,
            others: 1,
        };
        let goes_on = series.goes_on(left.permits, &seen);
        leavings.end(&left, Some(&seen), &series, goes_on);
        assert_eq!(releases(&mut leavings, 2), 79);
    }
}
