//! A large request that smaller ones pass: they must not do so in the windows in which it blocks them.

use std::time::Duration;

use tokio::time::Instant;

use super::waiting::Waiting;
use super::{Host, Judge, Object};

/// When the first judged window begins in which a large request blocks others. Each further window begins after four times as long.
const FIRST: Duration = Duration::from_secs(1);
/// A window lasts half as long as the request has waited when it begins, but no longer than this.
const LONGEST: Duration = Duration::from_secs(20);
/// A grant from before a window arrives within this time. The script that serves the request may be as late.
const EDGE: Duration = Duration::from_millis(100);
/// How many entries of a client may stand before its entry for the large request. They belong to earlier callers that a local hand-off has served,
/// and so serve later callers.
const EARLIER: u32 = 64;

/// Whether a request blocks smaller ones after it has waited this long.
fn blocks(waited: Duration) -> bool {
    let mut from = FIRST;
    while from * 4 <= waited {
        from *= 4;
    }
    waited > from + EDGE && waited + EDGE < from + (from / 2).min(LONGEST)
}

impl Judge {
    /// A caller has got `permits`. An earlier waiter that wants more permits of the `object` must not be passed in its windows. If several waiters
    /// want more than one permit, they block each other, and none is judged.
    pub(super) fn lets_starve(&mut self, number: u64, object: Object, host: Host, permits: i64) {
        let now = Instant::now();
        let all = self.waiting.iter_mut();
        let mut large = all
            .filter(|(_, waiting)| waiting.wanted.object == object && waiting.wanted.permits > 1);
        let (Some((other, waiting)), None) = (large.next(), large.next()) else {
            return;
        };
        let Waiting { wanted, since, .. } = *waiting;
        let client = self.clients.get(&wanted.host);
        let well = client.and_then(|client| client.well_since);
        let passed = *other < number
            && wanted.permits > permits
            && !wanted.stalls
            && well.is_some_and(|well| well <= since)
            && blocks(now - since);
        waiting.passed_late += u32::from(passed);
        if waiting.passed_late > EARLIER {
            let detail = format!(
                "#{other} of c{} wants {} of {}, and is passed by c{host} behind {:?}",
                wanted.host,
                wanted.permits,
                object.key(),
                now - since
            );
            self.accuse("starving", detail);
        }
    }
}
