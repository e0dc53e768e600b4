//! The judges: what must be so at any time, and at the end.
//!
//! They see both sides: what each command of each client has changed in the server, and what callers have been told.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Arguments};
use std::time::Duration;

use redisson_semaphore::{Effect, Error, Lease};
use tokio::time::Instant;

use super::jvm;
use super::trace::Trace;

/// A client from its start to its end; one that comes back has another number.
pub type Host = usize;
/// Who works at the server itself.
pub const OPERATOR: Host = usize::MAX;

/// What is wrong with a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Which judge says so.
    pub judge: &'static str,
    pub detail: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.judge, self.detail)
    }
}

/// What a call may take, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    pub host: Host,
    pub object: Object,
    pub permits: i64,
    /// When it must have ended; it may wait for ever without.
    pub due: Option<Instant>,
    /// It is not polled for a while.
    pub stalls: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    Semaphore(usize),
    Lock(usize),
}

impl Object {
    pub fn key(self) -> String {
        match self {
            Object::Semaphore(number) => format!("s{number}"),
            Object::Lock(number) => format!("l{number}"),
        }
    }
}

struct Waiting {
    wanted: Wanted,
    since: Instant,
    /// How often callers of other clients that came later have been served before it.
    passed: u32,
}

/// One semaphore.
#[derive(Default)]
struct Ledger {
    permits: i64,
    counter: i64,
    /// What each client has added to the counter in the server.
    net: BTreeMap<Host, i64>,
    /// What callers of each client have in hand.
    held: BTreeMap<Host, i64>,
    /// The clients some of whose calls have gone without an answer: they may yet take something.
    doubts: BTreeSet<Host>,
    /// Those that were told last that nothing was done, and have had and asked for nothing since.
    denied: BTreeSet<Host>,
    /// Since when there is enough for each waiting caller.
    ample_since: Option<Instant>,
    /// Who has changed the counter last.
    changed_by: Option<Host>,
}

struct HeldLock {
    host: Host,
    object: usize,
    owner: String,
    lease: Lease,
    /// Somebody has taken it away; until then its holder need not know.
    robbed: Option<Instant>,
}

/// What is to be judged of a plan.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    pub permits: Vec<i64>,
    /// Whoever waits while there is enough waits so long at the most.
    pub patience: Duration,
    /// Everybody is near enough, and keeps to turns.
    pub fair_semaphores: bool,
    pub fair_locks: bool,
    /// Somebody writes into the records: what was in doubt stays so.
    pub meddled: bool,
    /// The longest lease there is.
    pub longest_lease: Duration,
}

/// How long callers of JVMs that were left asleep wait at the most: until the last of the looks after them.
const JVM_PATIENCE: Duration = Duration::from_secs(75);
/// Nobody is passed by so many who came later.
const MOST_PASSED: u32 = 100;
/// That may be a matter of milliseconds where there are many permits.
const PASSED_FOR: Duration = Duration::from_secs(1);
/// Within a second, while nothing else happens.
const MOST_SCRIPTS: u32 = 150;

/// What is known of a client.
#[derive(Default)]
struct Client {
    /// Gone without a word, or after a shutdown that could not do all: nothing is known for certain.
    excused: bool,
    /// Its shutdown has begun.
    closing: bool,
    /// Until then nothing can be sent.
    cut_off: Option<Instant>,
    ended: bool,
    /// Since when nothing is wrong with it, or its connections.
    well_since: Option<Instant>,
    /// What it was left with, after its shutdown.
    stranded: BTreeMap<usize, i64>,
}

pub struct Judge {
    pub trace: Trace,
    pub fault: Option<Fault>,
    ledgers: Vec<Ledger>,
    locks: BTreeMap<u64, HeldLock>,
    /// Locks that somebody has taken away, and until when their holders may not know.
    robbed: BTreeMap<usize, Instant>,
    waiting: BTreeMap<u64, Waiting>,
    clients: BTreeMap<Host, Client>,
    last_number: u64,
    /// Nobody comes again.
    healed: bool,
    pub commands: u64,
    /// Those but PINGs.
    pub work: u64,
    window: (u64, u64),
    pub granted: u64,
    pub calls: u64,
    rules: Rules,
    /// Since when nothing has happened but scripts, and how many.
    vain: (Instant, u32),
    pub admin: super::admin::Ledger,
}

/// Commands within a second, at the most.
const MOST_COMMANDS: u64 = 6_000;

impl Judge {
    pub fn new(trace: Trace, rules: Rules) -> Judge {
        let ledger = |permits: &i64| Ledger {
            permits: *permits,
            ..Ledger::default()
        };
        Judge {
            trace,
            fault: None,
            ledgers: rules.permits.iter().map(ledger).collect(),
            locks: BTreeMap::new(),
            robbed: BTreeMap::new(),
            waiting: BTreeMap::new(),
            clients: BTreeMap::new(),
            last_number: 0,
            healed: false,
            commands: 0,
            work: 0,
            window: (0, 0),
            granted: 0,
            calls: 0,
            rules,
            vain: (Instant::now(), 0),
            admin: super::admin::Ledger::default(),
        }
    }

    pub fn note(&mut self, what: Arguments<'_>) {
        if self.fault.is_none() {
            self.trace.note(what);
        }
    }

    /// The first fault is the one that counts.
    pub fn accuse(&mut self, judge: &'static str, detail: String) {
        if self.fault.is_none() {
            self.trace.note(format_args!("!!! {judge}: {detail}"));
            self.fault = Some(Fault { judge, detail });
        }
    }

    /// A command has been carried out. `calls`: it is none of those that ask whether the server is there.
    pub fn count_command(&mut self, calls: bool) {
        self.commands += 1;
        self.work += u64::from(calls);
        let second = self.trace.now().as_secs();
        if self.window.0 != second {
            self.window = (second, 0);
        }
        self.window.1 += 1;
        if self.window.1 > MOST_COMMANDS {
            self.accuse(
                "scripts",
                format!("more than {MOST_COMMANDS} commands in a second"),
            );
        }
    }

    /// A script has been carried out.
    pub fn script(&mut self) {
        let (since, count) = &mut self.vain;
        if since.elapsed() > Duration::from_secs(1) {
            self.vain = (Instant::now(), 0);
            return;
        }
        *count += 1;
        if *count > MOST_SCRIPTS {
            self.accuse(
                "storm",
                format!("{MOST_SCRIPTS} scripts within a second, and nothing else"),
            );
        }
    }

    fn something_happens(&mut self) {
        self.vain = (Instant::now(), 0);
    }

    /// The counter is `value` now; `host` has changed it, or nobody has.
    pub fn counter(&mut self, number: usize, host: Option<Host>, value: i64) {
        let ledger = &mut self.ledgers[number];
        let delta = value - ledger.counter;
        if delta == 0 {
            return;
        }
        ledger.counter = value;
        ledger.changed_by = host;
        self.vain = (Instant::now(), 0);
        *ledger.net.entry(host.unwrap_or(OPERATOR)).or_default() += delta;
        let permits = ledger.permits;
        if value > permits && !self.rules.meddled {
            self.accuse(
                "permits",
                format!("s{number} has {value} permits, of {permits}"),
            );
        }
        if value < 0 && !self.rules.meddled {
            self.accuse("permits", format!("s{number} has {value} permits"));
        }
        if let Some(host) = host.filter(|_| delta < 0) {
            let object = Object::Semaphore(number);
            let of_host =
                |waiting: &Waiting| waiting.wanted.host == host && waiting.wanted.object == object;
            let asked = self.waiting.values().any(of_host);
            let ledger = &self.ledgers[number];
            // What is handed on within a client may be in hand twice for a moment, and is given back.
            let denied = ledger.denied.contains(&host) && !ledger.doubts.contains(&host);
            if denied && !asked && !self.has_ended(host) {
                self.accuse(
                    "effects",
                    format!("c{host} takes {} of s{number}, and whoever asked was told that nothing was done", -delta),
                );
            }
        }
        self.look_at(number);
    }

    /// A caller was told that nothing was done.
    pub fn denies(&mut self, object: Object, host: Host) {
        if let Object::Semaphore(number) = object {
            self.ledgers[number].denied.insert(host);
        }
    }

    /// A call has gone without an answer, or has been told that it is not known.
    pub fn doubts(&mut self, object: Object, host: Host) {
        if let Object::Semaphore(number) = object {
            self.ledgers[number].doubts.insert(host);
        }
    }

    /// Notes since when there is enough for all who wait.
    fn look_at(&mut self, number: usize) {
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
        let waiting = Waiting {
            wanted,
            since,
            passed: 0,
        };
        self.waiting.insert(number, waiting);
        if let Object::Semaphore(number) = wanted.object {
            self.ledgers[number].denied.remove(&host);
            self.look_at(number);
        }
        number
    }

    /// It does not wait any more.
    pub fn end(&mut self, number: u64, what: Arguments<'_>) {
        if let Some(Waiting { wanted, .. }) = self.waiting.remove(&number) {
            self.trace
                .note(format_args!("c{} #{number} {what}", wanted.host));
            if let Object::Semaphore(number) = wanted.object {
                self.look_at(number);
            }
        }
    }

    /// Permits are in hand.
    pub fn holds(&mut self, number: u64, object: usize, host: Host, permits: i64) {
        self.granted += 1;
        if self.rules.fair_semaphores {
            self.passes(number, Object::Semaphore(object), host, permits);
        }
        self.keeps(object, host, permits);
    }

    /// Who has come earlier, and wanted no more, has been passed.
    fn passes(&mut self, number: u64, object: Object, host: Host, permits: i64) {
        let now = Instant::now();
        let mut found = None;
        for (other, waiting) in &mut self.waiting {
            let wanted = waiting.wanted;
            let well = self
                .clients
                .get(&wanted.host)
                .and_then(|client| client.well_since);
            if well.is_some_and(|well| now < well) {
                waiting.passed = 0;
            } else if *other < number
                && wanted.object == object
                && wanted.host != host
                && wanted.permits <= permits
                && !wanted.stalls
                && wanted.host < jvm::FIRST
            {
                waiting.passed += 1;
                let long = now > waiting.since + PASSED_FOR;
                if waiting.passed > MOST_PASSED && long {
                    found = Some((*other, wanted.host));
                }
            }
        }
        if let Some((other, of)) = found {
            let key = object.key();
            self.accuse(
                "fairness",
                format!(
                    "#{other} of c{of} has been passed {MOST_PASSED} times in the line for {key}"
                ),
            );
        }
    }

    /// Permits are in hand again, as their release has been refused.
    pub fn keeps(&mut self, object: usize, host: Host, permits: i64) {
        let ledger = &mut self.ledgers[object];
        ledger.denied.remove(&host);
        let held = ledger.held.entry(host).or_default();
        *held += permits;
        let (held, taken) = (*held, -ledger.net.get(&host).copied().unwrap_or_default());
        if held > taken && !self.rules.meddled {
            self.accuse(
                "holders",
                format!("callers of c{host} hold {held} of s{object}, but it has taken {taken}"),
            );
        }
    }

    /// Permits are not in hand any more.
    pub fn lets_go(&mut self, object: usize, host: Host, permits: i64) {
        *self.ledgers[object].held.entry(host).or_default() -= permits;
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

    /// A lock is in hand. `number`: the call that it was granted to.
    pub fn locks(
        &mut self,
        number: u64,
        object: usize,
        host: Host,
        owner: &str,
        lease: Lease,
    ) -> u64 {
        self.granted += 1;
        self.last_number += 1;
        if self.rules.fair_locks {
            self.passes(number, Object::Lock(object), host, 1);
        }
        let now = Instant::now();
        let believes = |held: &&HeldLock| {
            held.object == object
                && held.owner != owner
                && !held.lease.is_lost()
                && held.robbed.is_none_or(|until| now > until)
        };
        let other = self.locks.values().find(believes).map(|held| held.host);
        // Who was not polled for longer than its lease is told so together with its hold.
        if let Some(other) = other.filter(|_| !lease.is_lost()) {
            self.accuse("owner", format!("c{host} holds l{object} beside c{other}"));
        }
        let held = HeldLock {
            host,
            object,
            owner: owner.to_owned(),
            lease,
            // What was on its way to its holder is taken away, too.
            robbed: self
                .robbed
                .get(&object)
                .copied()
                .filter(|until| now <= *until),
        };
        self.locks.insert(self.last_number, held);
        self.last_number
    }

    /// Somebody takes a lock away from its holder.
    pub fn robs(&mut self, object: usize) {
        let until = Instant::now() + self.rules.longest_lease + Duration::from_secs(1);
        self.robbed.insert(object, until);
        for held in self.locks.values_mut().filter(|held| held.object == object) {
            held.robbed.get_or_insert(until);
        }
    }

    pub fn unlocks(&mut self, number: u64) {
        self.locks.remove(&number);
    }

    /// Nothing that the client sends reaches anybody until then.
    pub fn cuts_off(&mut self, host: Host, until: Instant) {
        let client = self.clients.entry(host).or_default();
        client.cut_off = client.cut_off.max(Some(until));
    }

    pub fn has_healed(&self) -> bool {
        self.healed
    }

    /// All can send again.
    pub fn heals(&mut self) {
        self.healed = true;
        for client in self.clients.values_mut() {
            client.cut_off = None;
        }
    }

    pub fn is_cut_off(&self, host: Host) -> bool {
        let until = self.clients.get(&host).and_then(|client| client.cut_off);
        until.is_some_and(|until| Instant::now() < until)
    }

    /// The semaphore of the calls that hold nothing has this value now.
    pub fn admin_becomes(&mut self, host: Option<Host>, value: Option<i64>) {
        if let Err(detail) = self.admin.becomes(host, value) {
            self.accuse("effects", detail);
        }
    }

    pub fn admin_ends(&mut self, host: Host, number: u64, ended: super::admin::Ended) {
        if let Err(detail) = self.admin.ends(host, number, ended) {
            self.accuse("effects", detail);
        }
    }

    /// Something is wrong with the client, or its connections, just now.
    pub fn unwell(&mut self, host: Host, until: Instant) {
        let client = self.clients.entry(host).or_default();
        client.well_since = client.well_since.max(Some(until));
    }

    pub fn starts(&mut self, host: Host) {
        self.trace.note(format_args!("c{host} starts"));
        self.unwell(host, Instant::now());
    }

    /// The client's process is no more.
    pub fn dies(&mut self, host: Host) {
        self.trace.note(format_args!("c{host} dies"));
        let client = self.clients.entry(host).or_default();
        (client.excused, client.ended) = (true, true);
        self.locks.retain(|_, held| held.host != host);
    }

    /// The client has been shut down.
    pub fn has_shut_down(&mut self, host: Host, result: &Result<(), Error>) {
        self.trace
            .note(format_args!("c{host} has shut down: {result:?}"));
        let client = self.clients.entry(host).or_default();
        client.ended = true;
        client.excused |= result.is_err();
        self.settle(host);
    }

    pub fn has_ended(&self, host: Host) -> bool {
        self.clients.get(&host).is_some_and(|client| client.ended)
    }

    /// Nothing is owed any more.
    fn settle(&mut self, host: Host) {
        let client = &self.clients[&host];
        if client.excused || self.rules.meddled {
            return;
        }
        for number in 0..self.ledgers.len() {
            let ledger = &self.ledgers[number];
            let of = |map: &BTreeMap<Host, i64>| map.get(&host).copied().unwrap_or_default();
            let taken = -of(&ledger.net);
            let stranded = self.clients[&host].stranded.get(&number).copied();
            let rest = of(&ledger.held) + stranded.unwrap_or_default();
            if taken != rest {
                self.accuse(
                    "balance",
                    format!(
                        "c{host} has been shut down, and s{number} lacks {taken} permits for it, but its \
                         callers have {rest}"
                    ),
                );
            }
        }
    }

    /// A call has failed.
    pub fn failed(&mut self, host: Host, call: &str, error: &Error) {
        let unknown = error.effect() == Effect::Unknown;
        self.trace.note(format_args!(
            "c{host} {call} failed ({}): {error}",
            if unknown { "unknown" } else { "none" }
        ));
        let expected = matches!(
            error,
            Error::OutcomeUnknown { .. }
                | Error::Unavailable { .. }
                | Error::RefusedForNow { .. }
                | Error::ShutDown { .. }
        ) || self.rules.meddled;
        let told = matches!(error, Error::ShutDown { .. }) && !self.closing(host);
        if !expected || told {
            self.accuse("errors", format!("c{host}: {call}: {error:?}"));
        }
    }

    fn closing(&self, host: Host) -> bool {
        self.clients
            .get(&host)
            .is_some_and(|client| client.closing || client.ended)
    }

    /// Its shutdown begins.
    pub fn shuts_down(&mut self, host: Host) {
        self.trace.note(format_args!("c{host} shuts down"));
        self.clients.entry(host).or_default().closing = true;
    }

    /// Looked at again and again.
    pub fn look(&mut self) {
        let now = Instant::now();
        let mut found = None;
        for (number, Waiting { wanted, since, .. }) in &self.waiting {
            let host = wanted.host;
            if wanted.stalls || self.closing(host) {
                continue;
            }
            let waited = now.saturating_duration_since(*since);
            if wanted.due.is_some_and(|due| now > due) {
                found = Some((
                    "ends",
                    format!("#{number} of c{host} has not ended after {waited:?}"),
                ));
                break;
            }
            let Object::Semaphore(object) = wanted.object else {
                continue;
            };
            let well = self.clients.get(&host).and_then(|client| client.well_since);
            let Some(ample) = self.ledgers[object].ample_since else {
                continue;
            };
            let from = ample.max(*since).max(well.unwrap_or(*since));
            let in_jvm = host >= jvm::FIRST;
            // What Redisson leaves asleep by itself is not to be judged.
            if in_jvm && self.is_for_jvms_alone(object) {
                continue;
            }
            let patience = if in_jvm {
                JVM_PATIENCE
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

    /// Whether the permits that are there were left by no client of ours.
    fn is_for_jvms_alone(&self, object: usize) -> bool {
        self.ledgers[object]
            .changed_by
            .is_none_or(|host| host >= jvm::FIRST)
    }

    /// The semaphores beside whose permits callers of JVMs sleep, for all that we know.
    pub fn asleep(&self) -> Vec<usize> {
        let of_jvm = |waiting: &&Waiting| waiting.wanted.host >= jvm::FIRST;
        let waiting = self.waiting.values().filter(of_jvm);
        let objects: BTreeSet<usize> = waiting
            .filter_map(|waiting| match waiting.wanted.object {
                Object::Semaphore(number) => Some(number),
                Object::Lock(_) => None,
            })
            .collect();
        let alone = |number: &usize| self.is_for_jvms_alone(*number);
        objects.into_iter().filter(alone).collect()
    }

    /// Whether anybody waits.
    pub fn somebody_waits(&self) -> Option<String> {
        let first = self.waiting.iter().next();
        first.map(|(number, waiting)| format!("#{number}: {:?}", waiting.wanted))
    }

    /// How many permits are gone with clients that have ended.
    pub fn missing(&self, object: usize) -> i64 {
        let ledger = &self.ledgers[object];
        let alive = |host: &Host| *host != OPERATOR && !self.has_ended(*host);
        let taken: i64 = ledger
            .net
            .iter()
            .filter(|(host, _)| alive(host))
            .map(|(_, net)| -net)
            .sum();
        ledger.permits - ledger.counter - taken
    }
}
