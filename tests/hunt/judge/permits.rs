//! Permits of semaphores: how many each client has taken in the server, and how many its callers hold.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::{Host, Judge, OPERATOR, Object};
use crate::jvm;

/// After the healing, all clients have sent their deferred releases within this time.
const DEBTS_ARE_PAID: Duration = Duration::from_secs(10);

/// The grants of a semaphore in the server.
#[derive(Debug, Default)]
pub struct Granted {
    pub all: BTreeMap<Host, i64>,
    pub leased: BTreeMap<Host, i64>,
    /// When each lease ends, and how many permits come back then.
    pub ends: Vec<(Host, Instant, i64)>,
}

/// The ledger of one semaphore.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) permits: i64,
    pub(super) counter: i64,
    /// How much each client has added to the counter in the server.
    pub(super) net: BTreeMap<Host, i64>,
    /// How many permits each client has been granted for a time. They count as taken, and come back by themselves.
    pub(super) recorded: BTreeMap<Host, i64>,
    /// How many of those permits guards hold, or are to hold.
    pub(super) leased: BTreeMap<Host, i64>,
    /// When each of those leases ends.
    pub(super) ends: Vec<(Host, Instant, i64)>,
    /// How many permits the callers of each client hold.
    pub(super) held: BTreeMap<Host, i64>,
    /// Clients some of whose calls have ended without a reply, and since when: those calls may still take permits.
    pub(super) doubts: BTreeMap<Host, Instant>,
    /// Clients whose last call had no effect for certain, and that have held and asked for nothing since.
    pub(super) denied: BTreeSet<Host>,
    /// When each client was served last.
    pub(super) served: BTreeMap<Host, Instant>,
    /// Clients that were cut off for longer than they repeat a call, with a release or a reply under way. The same goes for clients that might not
    /// release, at their end, the grant of a dropped caller.
    pub(super) given_up: BTreeSet<Host>,
    /// Since when there is enough for each waiter.
    pub(super) ample_since: Option<Instant>,
    /// The client that changed the counter last. Clients that only took permits from those that a JVM has left do not count.
    pub(super) changed_by: Option<Host>,
}

impl Ledger {
    /// How many permits a client has taken.
    pub(super) fn taken(&self, host: Host) -> i64 {
        -self.net.get(&host).copied().unwrap_or_default()
    }

    /// The same without the permits on record: those come back by themselves once their client is dead.
    fn taken_off_record(&self, host: Host) -> i64 {
        self.taken(host) - self.on_record(host)
    }

    /// How many permits a client has taken that none of its callers holds.
    pub(super) fn in_excess(&self, host: Host) -> i64 {
        let of = |map: &BTreeMap<Host, i64>| map.get(&host).copied().unwrap_or_default();
        -of(&self.net) - of(&self.held)
    }

    pub(super) fn on_record(&self, host: Host) -> i64 {
        self.recorded.get(&host).copied().unwrap_or_default()
    }

    /// How many permits a client has under leases that are over. The next script frees them.
    pub(super) fn over(&self, host: Host) -> i64 {
        let now = Instant::now();
        let over = (self.ends.iter()).filter(|(of, ends, _)| *of == host && *ends <= now);
        over.map(|(_, _, permits)| permits).sum()
    }
}

/// How long a request takes to the server, if nothing is wrong.
const UNDER_WAY: Duration = Duration::from_millis(200);

/// How long it takes at most until the call of a dropped caller is answered, if nothing is wrong.
const SETTLING: Duration = Duration::from_secs(5);

impl Judge {
    /// The counter is `value` now, with these grants. `host` has changed it, or no client has (`None`).
    pub fn counter(&mut self, number: usize, host: Option<Host>, value: i64, granted: Granted) {
        let recorded = granted.all;
        let ledger = &mut self.ledgers[number];
        (ledger.leased, ledger.ends) = (granted.leased, granted.ends);
        let delta = value - ledger.counter;
        if delta == 0 && recorded == ledger.recorded {
            return;
        }
        let own_before = host.map_or(0, |host| ledger.on_record(host));
        ledger.counter = value;
        let left_by_a_jvm = ledger.changed_by.is_some_and(|host| host >= jvm::FIRST);
        if delta > 0 || delta < 0 && !left_by_a_jvm {
            ledger.changed_by = host;
        }
        self.vain = (Some(Instant::now()), 0);
        let before: i64 = ledger.recorded.values().sum();
        let after: i64 = recorded.values().sum();
        for (host, permits) in &ledger.recorded {
            *ledger.net.entry(*host).or_default() += permits;
        }
        for (host, permits) in &recorded {
            *ledger.net.entry(*host).or_default() -= permits;
        }
        ledger.recorded = recorded;
        let unrecorded = delta + after - before;
        *ledger.net.entry(host.unwrap_or(OPERATOR)).or_default() += unrecorded;
        // Permits that a script moves to other clients are not taken by the client that sent it.
        let takes = host.map_or(0, |host| ledger.on_record(host) - own_before - unrecorded);
        let undone = self.undone;
        if undone {
            // A lost release is repeated, and permits that had come back from dead clients are on record again.
            let hosts: Vec<Host> = self.clients.keys().copied().collect();
            for host in hosts {
                self.is_unbalanced(Object::Semaphore(number), host);
            }
        }
        let ledger = &mut self.ledgers[number];
        let permits = ledger.permits;
        if self.rules.exact[number] && value + after != permits {
            self.accuse(
                "records",
                format!("s{number} has {value} permits, and {after} are on record, of {permits}"),
            );
        }
        if value > permits && !self.rules.inexact() {
            self.accuse(
                "permits",
                format!("s{number} has {value} permits, of {permits}"),
            );
        }
        if value < 0 && !self.rules.meddled {
            self.accuse("permits", format!("s{number} has {value} permits"));
        }
        if let Some(host) = host.filter(|_| takes > 0 && !undone) {
            self.settle_doubts(host);
            let asked = self.waits_for(number, host);
            let ledger = &self.ledgers[number];
            // A local hand-off may serve a waiter whose request is still under way. The permits of that request arrive when no caller waits any more,
            // and the client releases them.
            let well = self.clients.get(&host).and_then(|client| client.well_since);
            let under_way = |served: &Instant| served.elapsed() < UNDER_WAY || well > Some(*served);
            let served = ledger.served.get(&host).is_some_and(under_way);
            let denied = ledger.denied.contains(&host) && !ledger.doubts.contains_key(&host);
            // A client that ends releases its grants.
            if denied && !asked && !served && !self.closing(host) {
                self.accuse(
                    "effects",
                    format!("c{host} takes {takes} of s{number}, and each caller that asked was told that nothing was done"),
                );
            }
        }
        self.look_at(number);
    }

    /// Forgets old unknown outcomes of a client: they have been resolved since, if nothing was wrong.
    pub(super) fn settle_doubts(&mut self, host: Host) {
        let now = Instant::now();
        let client = self.clients.get(&host);
        let well = client.and_then(|client| client.well_since);
        let of_host = |since: &Instant| now > well.unwrap_or(now).max(*since) + SETTLING;
        for ledger in &mut self.ledgers {
            ledger
                .doubts
                .retain(|other, since| *other != host || !of_host(since));
        }
    }

    /// A call has ended without a reply, or with an unknown outcome.
    pub fn doubts(&mut self, object: Object, host: Host) {
        match object {
            Object::Semaphore(number) => {
                self.ledgers[number].doubts.insert(host, Instant::now());
            }
            Object::Lock(number) => self.doubts_lock(number, host),
            Object::Recipe(_) | Object::Latch => {}
        }
    }

    /// Permits that the client has taken without a holder may stay taken.
    pub(super) fn loses_what_is_under_way(&mut self, host: Host) {
        for ledger in &mut self.ledgers {
            if ledger.in_excess(host) > 0 {
                ledger.given_up.insert(host);
            }
        }
    }

    /// A caller has got permits.
    pub fn holds(&mut self, number: u64, object: usize, host: Host, permits: i64) {
        self.granted += 1;
        if self.rules.near && !self.rules.forgetful && !self.tries.remove(&number) {
            self.lets_starve(number, Object::Semaphore(object), host, permits);
        }
        self.keeps(object, host, permits);
    }

    /// A caller holds permits. It may have held them before, if their release was refused.
    pub fn keeps(&mut self, object: usize, host: Host, permits: i64) {
        let ledger = &mut self.ledgers[object];
        ledger.denied.remove(&host);
        ledger.served.insert(host, Instant::now());
        let held = ledger.held.entry(host).or_default();
        *held += permits;
        let held = *held;
        let taken = ledger.taken(host);
        // A client may not know that it has lost permits on record.
        let robbed = self.records_are_robbed() && self.watched.is_watched(object);
        if held > taken && !self.rules.inexact() && !robbed && !self.has_ended(host) {
            self.accuse(
                "holders",
                format!("callers of c{host} hold {held} of s{object}, but it has taken {taken}"),
            );
        }
    }

    /// A caller does not hold these permits any more.
    pub fn lets_go(&mut self, object: usize, host: Host, permits: i64) {
        self.note(format_args!("c{host} lets {permits} of s{object} go"));
        self.is_unbalanced(Object::Semaphore(object), host);
        *self.ledgers[object].held.entry(host).or_default() -= permits;
        if self.gives_up_what_begins(host) {
            self.ledgers[object].given_up.insert(host);
        }
    }

    /// Permits were dropped after the client's end.
    pub fn strands(&mut self, object: usize, host: Host, permits: i64) {
        let client = self.clients.entry(host).or_default();
        *client.stranded.entry(object).or_default() += permits;
    }

    pub fn in_hand(&self, object: usize, host: Host) -> i64 {
        self.ledgers[object]
            .held
            .get(&host)
            .copied()
            .unwrap_or_default()
    }

    /// The client's shutdown is complete. `well`: nothing was wrong to the end.
    pub(super) fn settle(&mut self, host: Host, well: bool) {
        self.is_to_balance(host, well, "been shut down");
    }

    /// It has been quiet for long: permits without a holder have come back, though no caller has asked for any.
    pub fn rests(&mut self) {
        let hosts = self.clients.keys().copied();
        let ours: Vec<Host> = hosts
            .filter(|host| *host < jvm::FIRST && !self.closing(*host))
            .collect();
        for host in ours {
            self.is_to_balance(host, true, "been quiet for long");
        }
    }

    fn is_to_balance(&mut self, host: Host, well: bool, has: &str) {
        for number in 0..self.ledgers.len() {
            if let Some((taken, rest)) = self.out_of_balance(number, host, well) {
                self.accuse(
                    "balance",
                    format!(
                        "c{host} has {has}, and s{number} lacks {taken} permits for it, but its callers have {rest}"
                    ),
                );
            }
        }
    }

    /// Returns how many permits of a semaphore a client has taken, and how many its callers hold, if they differ without a good reason.
    fn out_of_balance(&self, number: usize, host: Host, well: bool) -> Option<(i64, i64)> {
        let client = &self.clients[&host];
        if client.excused || self.rules.inexact() {
            return None;
        }
        let ledger = &self.ledgers[number];
        // Permits on record come back by themselves if they could not be renewed any more, or have come back already.
        let stranded = client.stranded.get(&number).copied();
        let lapsed = self.watched.is_watched(number) && stranded.is_some();
        let lapses = !well && (ledger.recorded.contains_key(&host) || lapsed);
        if lapses || self.has_lost_some(number, host) || ledger.given_up.contains(&host) {
            return None;
        }
        let taken = ledger.taken(host);
        let rest = self.in_hand(number, host) + stranded.unwrap_or_default();
        let differs = taken != rest;
        differs.then_some((taken, rest))
    }

    /// How many permits that are not on record the callers of a client hold.
    fn held_off_record(&self, object: usize, host: Host) -> i64 {
        self.in_hand(object, host) - self.watched.held_on_record(object, host)
    }

    /// How many permits are gone with clients that have ended.
    pub fn missing(&self, object: usize) -> i64 {
        let ledger = &self.ledgers[object];
        let recorded: i64 = ledger.recorded.values().sum();
        let alive = |host: &Host| *host != OPERATOR && !self.has_ended(*host);
        // Before that, some releases may not have been sent.
        let debts_are_paid = self.healed.is_some_and(|at| at.elapsed() > DEBTS_ARE_PAID);
        if !debts_are_paid && (self.rules.inexact() || !ledger.given_up.is_empty()) {
            return 0;
        }
        if self.rules.inexact() {
            let hosts = ledger.held.keys().filter(|host| alive(host));
            let held: i64 = hosts.map(|host| self.held_off_record(object, *host)).sum();
            // A permit that is being released counts twice for a moment, so that the result is rather too small.
            return (ledger.permits - ledger.counter - recorded - held).max(0);
        }
        let hosts = ledger.net.keys().filter(|host| alive(host));
        let taken: i64 = hosts
            .map(|host| match ledger.given_up.contains(host) {
                true => self.held_off_record(object, *host),
                false => ledger.taken_off_record(*host),
            })
            .sum();
        (ledger.permits - ledger.counter - recorded - taken).max(0)
    }
}
