//! Waiting callers: how long they wait, and whether others pass them.

use std::collections::BTreeSet;
use std::fmt::Arguments;
use std::time::Duration;

use tokio::time::Instant;

use super::{Host, Judge, Object};
use crate::jvm;

/// The permits that a call wants, and how long it may wait.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    pub host: Host,
    pub object: Object,
    pub permits: i64,
    /// When the call must have ended. Without this, it may wait for ever.
    pub due: Option<Instant>,
    /// The same, if nothing is wrong with its client meanwhile.
    pub due_if_well: Option<Instant>,
    /// The call is not polled for a while.
    pub stalls: bool,
    /// The call takes free permits even if others wait.
    pub tries: bool,
}

pub(super) struct Waiting {
    pub(super) wanted: Wanted,
    pub(super) since: Instant,
    /// Since the call began, its client has taken just the permits that its callers hold, or wait for.
    pub(super) balanced: bool,
    /// How often the call was passed when it should not have been any more.
    pub(super) passed_late: u32,
}

impl Waiting {
    pub(super) fn is_of(&self, object: Object, host: Host) -> bool {
        self.wanted.object == object && self.wanted.host == host
    }
}

/// How long callers of JVMs that were left asleep wait at most: until the last announcement of free permits.
const JVM_PATIENCE: Duration = Duration::from_secs(75);

impl Judge {
    /// A caller begins to wait.
    pub fn begin(&mut self, wanted: Wanted) -> u64 {
        self.last_number += 1;
        self.calls += 1;
        let number = self.last_number;
        let (host, key, permits) = (wanted.host, wanted.object.key(), wanted.permits);
        self.trace
            .note(format_args!("c{host} #{number} wants {permits} of {key}"));
        self.something_happens();
        let since = Instant::now();
        let balanced = self.is_balanced(wanted.object, host);
        let waiting = Waiting {
            wanted,
            since,
            balanced,
            passed_late: 0,
        };
        self.waiting.insert(number, waiting);
        if wanted.tries {
            self.tries.insert(number);
        }
        if let Object::Semaphore(number) = wanted.object {
            self.ledgers[number].denied.remove(&host);
            self.look_at(number);
        }
        number
    }

    /// Whether a client has taken just the permits that its callers hold, or wait for.
    fn is_balanced(&mut self, object: Object, host: Host) -> bool {
        let Object::Semaphore(number) = object else {
            return false;
        };
        self.settle_doubts(host);
        let ledger = &self.ledgers[number];
        if ledger.doubts.contains_key(&host) {
            return false;
        }
        let mut others = self.waiting.values();
        match others.find(|waiting| waiting.is_of(object, host)) {
            Some(other) => other.balanced,
            None => ledger.in_excess(host) == 0,
        }
    }

    /// A caller of a client releases, and it is unknown when that is carried out.
    pub(super) fn is_unbalanced(&mut self, object: Object, host: Host) {
        let all = self.waiting.values_mut();
        for waiting in all.filter(|waiting| waiting.is_of(object, host)) {
            waiting.balanced = false;
        }
    }

    /// A call ends without a grant.
    pub fn refuses(&mut self, number: u64) {
        let Some(Waiting { wanted, .. }) = self.waiting.get(&number) else {
            return;
        };
        let wanted = *wanted;
        match wanted.object {
            // A call ends at its deadline, though its entry may have been granted.
            Object::Semaphore(_) if !wanted.tries => self.doubts(wanted.object, wanted.host),
            // Permits on record that no caller got come back by themselves.
            Object::Semaphore(object) if self.watched.is_watched(object) => {}
            _ => self.denies(number),
        }
    }

    /// A caller learns that nothing was done.
    pub fn denies(&mut self, number: u64) {
        let Some(waiting) = self.waiting.get(&number) else {
            return;
        };
        let Object::Semaphore(object) = waiting.wanted.object else {
            return;
        };
        let (host, balanced) = (waiting.wanted.host, waiting.balanced);
        let others = self.waiting.iter().filter(|(other, waiting)| {
            **other != number && waiting.is_of(Object::Semaphore(object), host)
        });
        let others: i64 = others.map(|(_, waiting)| waiting.wanted.permits).sum();
        let renewed = self.watched.is_watched(object) && !self.closing(host);
        let ledger = &mut self.ledgers[object];
        ledger.denied.insert(host);
        // Grants come back by themselves if they are not confirmed, if their lease is over, or if it is not renewed any more.
        let returns = match renewed {
            true => ledger.over(host),
            false => ledger.on_record(host),
        };
        let excess = ledger.in_excess(host) - others - returns;
        let balanced = balanced && !ledger.doubts.contains_key(&host);
        // Permits that another caller of the client has lost are on record, without a holder, until their lease ends.
        let balanced = balanced && !self.has_lost_some(object, host);
        if balanced && excess > 0 && !self.rules.inexact() && !self.has_ended(host) {
            self.accuse(
                "effects",
                format!(
                    "#{number} of c{host} is told that nothing was done, and c{host} has taken \
                     {excess} of s{object} for nobody"
                ),
            );
        }
    }

    /// A call does not wait any more.
    pub fn end(&mut self, number: u64, what: Arguments<'_>) {
        if let Some(waiting) = self.waiting.remove(&number) {
            let Waiting { wanted, since, .. } = waiting;
            self.trace
                .note(format_args!("c{} #{number} {what}", wanted.host));
            if let Object::Semaphore(number) = wanted.object {
                if wanted.stalls && since.elapsed() + self.rules.crossing > self.rules.watchdog {
                    // Permits that its late request takes are on record until their lease ends, and come back by themselves.
                    self.keeps_on_record(number, wanted.host);
                }
                self.look_at(number);
            }
        }
    }

    /// Notes since when there is enough for each waiter.
    pub(super) fn look_at(&mut self, number: usize) {
        let object = Object::Semaphore(number);
        let waiting = self
            .waiting
            .values()
            .filter(|waiting| waiting.wanted.object == object);
        let most = waiting.map(|waiting| waiting.wanted.permits).max();
        let ledger = &mut self.ledgers[number];
        let ample = most.is_some_and(|most| ledger.counter >= most);
        match (ample, ledger.ample_since) {
            (true, None) => ledger.ample_since = Some(Instant::now()),
            (false, _) => ledger.ample_since = None,
            _ => {}
        }
    }

    /// Judges how long callers have waited. Runs again and again.
    pub fn look(&mut self) {
        let now = Instant::now();
        let mut found = None;
        for (number, Waiting { wanted, since, .. }) in &self.waiting {
            let host = wanted.host;
            if wanted.stalls || self.closing(host) {
                continue;
            }
            let waited = now.saturating_duration_since(*since);
            let well = self.clients.get(&host).and_then(|client| client.well_since);
            let due = match wanted.due_if_well {
                Some(due) if well.is_some_and(|well| well <= *since) => Some(due),
                _ => wanted.due,
            };
            if due.is_some_and(|due| now > due) {
                found = Some((
                    "ends",
                    format!("#{number} of c{host} has not ended after {waited:?}"),
                ));
                break;
            }
            let Object::Semaphore(object) = wanted.object else {
                let free = self.free_since.get(&wanted.object);
                let from = free.map(|free| (*free).max(*since).max(well.unwrap_or(*since)));
                let patience = match wanted.object {
                    Object::Lock(lock) if self.is_freed_by_the_lost(lock) => {
                        self.rules.patience_at_locks + self.rules.safety_interval
                    }
                    Object::Lock(_) => self.rules.patience_at_locks,
                    // The first waiters in the queue check for permits that come without a notification.
                    Object::Recipe(recipe)
                        if self.lost_since(*since) >= self.rules.lookers[recipe] =>
                    {
                        self.rules.patience + 2 * self.rules.safety_interval
                    }
                    _ => self.rules.patience,
                };
                if from.is_some_and(|from| now > from + patience) {
                    let key = wanted.object.key();
                    let detail = format!("#{number} of c{host} waits for {key}, and there is some");
                    found = Some(("waits", detail));
                    break;
                }
                continue;
            };
            let Some(ample) = self.ledgers[object].ample_since else {
                continue;
            };
            let from = ample.max(*since).max(well.unwrap_or(*since));
            let in_jvm = host >= jvm::FIRST;
            // Callers that Redisson leaves asleep by itself are not judged.
            if in_jvm && (self.is_for_jvms_alone(object) || self.was_cut_off(host, *since, object))
            {
                continue;
            }
            let patience = if in_jvm {
                JVM_PATIENCE
            } else if self.is_left_by_the_lost(object) {
                self.rules.patience + self.rules.safety_interval
            } else {
                self.rules.patience
            };
            if now.saturating_duration_since(from) > patience {
                let counter = self.ledgers[object].counter;
                found = Some((
                    "waits",
                    format!(
                        "#{number} of c{host} wants {} of s{object}, which has {counter}, and has waited for {waited:?}",
                        wanted.permits
                    ),
                ));
                break;
            }
        }
        if let Some((judge, detail)) = found {
            self.accuse(judge, detail);
        }
    }

    /// Whether the free permits come from outside our clients, or from one that has ended: no client that could check has heard of them.
    pub(super) fn is_for_jvms_alone(&self, object: usize) -> bool {
        self.ledgers[object]
            .changed_by
            .is_none_or(|host| host >= jvm::FIRST || self.has_ended(host))
    }

    /// Whether the JVM could not hear of the permits when they came. It is notified again only if a client has a handle, or has seen it listen.
    fn was_cut_off(&self, jvm: Host, waits_since: Instant, object: usize) -> bool {
        let well = self.clients.get(&jvm).and_then(|jvm| jvm.well_since);
        well > Some(waits_since) && well >= self.ledgers[object].ample_since
    }

    /// Whether the free permits come from a client that has died or been cut off since: its last script may not have been carried out. For permits
    /// from outside our clients, any lost client counts: the one client that hears of them may be frozen.
    fn is_left_by_the_lost(&self, object: usize) -> bool {
        let ledger = &self.ledgers[object];
        let lost = |host| self.is_lost_since(host, ledger.ample_since);
        match ledger.changed_by {
            Some(host) if host < jvm::FIRST => lost(host),
            _ => self.clients.keys().any(|host| lost(*host)),
        }
    }

    /// The same for a lock, and the client that freed it.
    fn is_freed_by_the_lost(&self, lock: usize) -> bool {
        let since = self.free_since.get(&Object::Lock(lock)).copied();
        let freed_by = self.freed_by.get(&lock);
        freed_by.is_some_and(|host| self.is_lost_since(*host, since))
    }

    /// How many clients have died or been cut off since then.
    fn lost_since(&self, since: Instant) -> usize {
        let hosts = self.clients.keys();
        hosts
            .filter(|host| self.is_lost_since(**host, Some(since)))
            .count()
    }

    fn is_lost_since(&self, host: Host, since: Option<Instant>) -> bool {
        let well = self.clients.get(&host).and_then(|client| client.well_since);
        let dead = self.has_ended(host) && !self.is_settled(host);
        dead || well > since
    }

    /// Returns the semaphores where callers of JVMs may sleep although there are permits.
    pub fn asleep(&self) -> BTreeSet<usize> {
        let of_jvm = |waiting: &&Waiting| waiting.wanted.host >= jvm::FIRST;
        let waiting = self.waiting.values().filter(of_jvm);
        let asleep = waiting.filter_map(|Waiting { wanted, since, .. }| match wanted.object {
            Object::Semaphore(number) => (self.is_for_jvms_alone(number)
                || self.was_cut_off(wanted.host, *since, number))
            .then_some(number),
            _ => None,
        });
        asleep.collect()
    }

    /// Describes the first waiting call, if there is one.
    pub fn somebody_waits(&self) -> Option<String> {
        let first = self.waiting.iter().next();
        first.map(|(number, Waiting { wanted, .. })| {
            let Wanted {
                host,
                permits,
                object,
                ..
            } = wanted;
            format!("#{number} of c{host} waits for {permits} of {object:?}")
        })
    }
}
