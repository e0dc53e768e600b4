//! A large request that smaller ones pass: not in the windows in which it blocks them.

use std::time::Duration;

use tokio::time::Instant;

use super::waiting::Waiting;
use super::{Host, Judge, Object};

/// The first window in which a large request blocks others that is looked at; each further one begins after four times as long.
const FIRST: Duration = Duration::from_secs(1);
/// A window lasts half as long as the request has waited when it begins, and so long at the most.
const LONGEST: Duration = Duration::from_secs(20);
/// What was granted before a window began arrives within this. The script that serves may be that late, too.
const EDGE: Duration = Duration::from_millis(100);
/// So many entries a client has before it has one for the large request: they stand for earlier callers that have been served within the
/// client, and so for later ones.
const EARLIER: u32 = 64;

/// Whether a request blocks smaller ones that has waited for so long.
fn blocks(waited: Duration) -> bool {
    let mut from = FIRST;
    while from * 4 <= waited {
        from *= 4;
    }
    waited > from + EDGE && waited + EDGE < from + (from / 2).min(LONGEST)
}

impl Judge {
    /// A caller has been given `permits`. One that came before, and wants more of the `object`, must not be passed in its windows. Where
    /// several want more than one they block each other.
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
