//! Who wants much, and is passed by those who want less.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::waiting::Waiting;
use super::{Host, Judge, Object};

/// It has been passed for five seconds, and a quarter of that more; the line stands still for five then, at least.
const STANDS_STILL: (Duration, Duration) = (Duration::from_secs(7), Duration::from_secs(10));
/// What was on its way, or was handed over within a client.
const ON_ITS_WAY: u32 = 10;
/// For so long the line does not stand still again where somebody has stopped it, or may have.
const TURN: Duration = Duration::from_secs(60);
/// Whoever has waited for less has hardly stopped it.
const HARDLY: Duration = Duration::from_secs(1);

/// Those who have wanted more than one permit and wait no more.
#[derive(Default)]
pub(super) struct Starving {
    until: BTreeMap<Object, Instant>,
}

impl Starving {
    /// One of those who waited does so no more.
    pub(super) fn ends(&mut self, waiting: &Waiting) {
        if waiting.wanted.permits > 1 && waiting.since.elapsed() >= HARDLY {
            self.until.insert(waiting.wanted.object, Instant::now());
        }
    }

    fn may_have_stopped(&self, object: Object) -> bool {
        let until = self.until.get(&object);
        until.is_some_and(|until| until.elapsed() < TURN)
    }
}

impl Judge {
    /// Somebody has been given `permits`: whoever wants more of the `object`, and came before, must not have been passed for too long. Where
    /// several want more than one they take turns in that.
    pub(super) fn lets_starve(&mut self, number: u64, object: Object, host: Host, permits: i64) {
        let all = self.waiting.iter_mut();
        let mut large = all
            .filter(|(_, waiting)| waiting.wanted.object == object && waiting.wanted.permits > 1);
        let (Some((other, waiting)), None) = (large.next(), large.next()) else {
            return;
        };
        let wanted = waiting.wanted;
        let waited = waiting.first_since.elapsed();
        let (from, until) = STANDS_STILL;
        let passed = *other < number
            && wanted.permits > permits
            && !wanted.stalls
            // Where it was not the first from the beginning, others do not count from then on how long it is passed.
            && (wanted.host == host || waiting.first_since == waiting.since)
            && waited > from
            && waited < until
            && !self.starving.may_have_stopped(object);
        waiting.passed_late += u32::from(passed);
        if waiting.passed_late > ON_ITS_WAY {
            let detail = format!(
                "#{other} of c{} wants {} of {}, and is passed behind {waited:?}",
                wanted.host,
                wanted.permits,
                object.key()
            );
            self.accuse("starving", detail);
        }
    }
}
