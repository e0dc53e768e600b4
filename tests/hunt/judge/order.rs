//! Whether waiters are served in order of arrival while nothing goes wrong, and how many commands that takes.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::waiting::Waiting;
use super::{Host, Judge};

/// The tolerance: a part of the wait, by which clients may differ, and a moment for messages and local hand-offs.
const PART: f64 = 0.15;
const MOMENT: Duration = Duration::from_millis(100);

/// How often a waiter may be passed. Its client has no entry in the queue while it waits alone, until it hears of other clients.
const MOST: u32 = 2;

/// Scripts before the first grant.
const AT_FIRST: f64 = 20.0;
/// Scripts for each grant.
const MOST_SCRIPTS: f64 = 4.5;
/// Messages for each grant, to all clients together.
const MOST_MESSAGES: f64 = 4.0;

/// The order of service: since when each client's first waiter is the first one, how often each waiter was passed by later ones, and when last.
#[derive(Default)]
pub(super) struct Order {
    since: BTreeMap<Host, Instant>,
    passed: BTreeMap<u64, (u32, Instant)>,
    /// How many callers were served, how many scripts ran, and how many messages arrived.
    served: u64,
    pub(super) scripts: u64,
    /// Each costs a script: the client asks for missed notifications, or reports that it does not listen to JVMs any more.
    pub(super) subscriptions: u64,
    pub(super) messages: u64,
}

impl Judge {
    /// A waiter is served. It must not pass a waiter of another client again and again, if that one came long before it and has been the first of its
    /// client for a while.
    pub fn serves(&mut self, number: u64) {
        let Some(object) = self.rules.orderly else {
            return;
        };
        self.order.passed.remove(&number);
        let Some(served) = self.waiting.get(&number) else {
            return;
        };
        let (host, since) = (served.wanted.host, served.since);
        if served.wanted.object != object {
            return;
        }
        let first_since = |waiting: &Waiting| {
            let first = self.order.since.get(&waiting.wanted.host);
            waiting.since.max(first.copied().unwrap_or(waiting.since))
        };
        let now = Instant::now();
        self.order.served += 1;
        let mut late = None;
        for (other, waiting) in &self.waiting {
            let slack = MOMENT + waiting.since.elapsed().mul_f64(PART);
            let is_earlier = waiting.wanted.object == object
                && waiting.wanted.host != host
                && waiting.since + slack < since
                && first_since(waiting).elapsed() > MOMENT;
            if is_earlier {
                let (times, last) = self.order.passed.entry(*other).or_insert((0, now));
                if *times >= MOST && last.elapsed() > MOMENT {
                    late = Some((*other, waiting.wanted.host, waiting.since.elapsed(), *times));
                }
                (*times, *last) = (*times + 1, now);
            }
        }
        self.order.since.insert(host, now);
        if let Some((other, of, waited, times)) = late {
            let detail = format!(
                "#{number} of c{host} is served before #{other} of c{of}, which has waited for {waited:?}, and was passed {times} times before"
            );
            self.accuse("order", detail);
        }
    }

    /// All callers have been served. Judges the cost. `polled`: waiters check again and again.
    pub fn judge_orderly(&mut self, polled: bool) {
        // One client checks the leases of all holders, once a lease.
        let looks = self.trace.now().as_secs_f64() / self.rules.watchdog.as_secs_f64();
        let each = |count: u64| (count as f64 - AT_FIRST - looks) / self.order.served as f64;
        let scripts = self.order.scripts.saturating_sub(self.order.subscriptions);
        let (scripts, messages) = (each(scripts), each(self.order.messages));
        if scripts > MOST_SCRIPTS && !polled {
            self.accuse("cost", format!("{scripts:.1} scripts for each grant"));
        }
        if messages > MOST_MESSAGES {
            let detail = format!("{messages:.1} messages are sent for each grant");
            self.accuse("cost", detail);
        }
    }
}
