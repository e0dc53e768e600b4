//! The judges: they check what must be true at any time, and at the end.
//!
//! They see both sides: how each command of each client has changed the server, and which results callers have got.

mod admin;
mod clients;
mod handed_out;
mod locks;
mod order;
mod permits;
mod recipes;
mod replicas;
mod starving;
mod waiting;
mod watched;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Arguments};
use std::time::Duration;

use tokio::time::Instant;

use self::clients::Client;
use self::locks::HeldLock;
pub use self::locks::Holder;
use self::order::Order;
pub use self::permits::Granted;
use self::permits::Ledger;
use self::recipes::Recipes;
pub use self::recipes::{Standing, Term};
use self::waiting::Waiting;
pub use self::waiting::Wanted;
use self::watched::Watched;
use super::trace::Trace;

/// The number of a client, from its start to its end. A restarted client has another number.
pub type Host = usize;
/// The operator, who works at the server itself.
pub const OPERATOR: Host = usize::MAX;

/// A fault of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The judge that found it.
    pub judge: &'static str,
    pub detail: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.judge, self.detail)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    Semaphore(usize),
    Lock(usize),
    Recipe(usize),
    Latch,
}

impl Object {
    pub fn key(self) -> String {
        match self {
            Object::Semaphore(number) => format!("s{number}"),
            Object::Lock(number) => format!("l{number}"),
            // All keys of a recipe are in one slot of a cluster.
            Object::Recipe(number) => format!("{{r{number}}}"),
            Object::Latch => "p0".to_owned(),
        }
    }
}

/// The facts of a plan by which it is judged.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    pub permits: Vec<i64>,
    /// The watched semaphores that no JVM and no operator changes: the counter and the records always add up to all permits.
    pub exact: Vec<bool>,
    /// How long a waiter waits at most while there is enough.
    pub patience: Duration,
    /// The same for a lock. At a fair lock, each dead client ahead of a waiter in the queue takes its share of time.
    pub patience_at_locks: Duration,
    /// After this time, at the latest, a waiter checks by itself.
    pub safety_interval: Duration,
    /// For each recipe, how many clients check on behalf of all waiters.
    pub lookers: Vec<usize>,
    /// All clients have a low latency, and keep to turns.
    pub near: bool,
    /// The object that has to serve its waiters in order of arrival.
    pub orderly: Option<Object>,
    /// The operator interferes, for example by writing into records: unknown outcomes stay unknown.
    pub meddled: bool,
    /// The server may forget writes, or its replica may lack some.
    pub forgetful: bool,
    /// Clients wait for replicas.
    pub replicated: bool,
    /// The server evicts keys.
    pub evicts: bool,
    /// The server may forget writes that callers know of.
    pub loses: bool,
    /// For how long a lease is renewed.
    pub watchdog: Duration,
    /// How many clients run at a time.
    pub clients: usize,
    /// How many masters the cluster has; 0 without a cluster.
    pub masters: usize,
    /// How many objects there are.
    pub objects: usize,
    /// How often in a second each client checks something by itself.
    pub looks: f64,
    /// Some process stops for a while.
    pub stops: bool,
    /// No call is given up sooner than this.
    pub gives_up_after: Duration,
    /// A client waits no longer than this for a reply.
    pub response_timeout: Duration,
    /// The longest lease there is.
    pub longest_lease: Duration,
    /// How long a request and its reply take at most.
    pub crossing: Duration,
}

impl Rules {
    /// Whether permits may be lost, or exist twice.
    fn inexact(&self) -> bool {
        self.meddled || self.evicts || self.loses
    }

    /// Whether a lease of this length can be renewed in time. It counts from the sending of its request, even if the script is still to be loaded.
    fn can_keep(&self, lasts: Duration) -> bool {
        // With a replica, each step is confirmed, too; and the first time each script is sent twice, the one that acquires and the one that renews.
        let crossings = if self.replicated { 3 } else { 1 };
        self.crossing * crossings < lasts / 3
    }
}

#[derive(Default)]
pub struct Judge {
    pub trace: Trace,
    pub fault: Option<Fault>,
    ledgers: Vec<Ledger>,
    locks: BTreeMap<u64, HeldLock>,
    /// Locks that were taken away from their holders, and until when the holders may not know.
    robbed: BTreeMap<usize, Instant>,
    /// Locks that an owner has had without a caller, and since when.
    stuck: BTreeMap<usize, (String, Instant)>,
    /// Owners that have unlocked a lock completely, and have not asked for it since.
    given_back: BTreeSet<(usize, String)>,
    /// Owners that are releasing a hold of a lock, once for each hold.
    releasing: Vec<(usize, String)>,
    /// How many holds an owner has released without waiting for the replies.
    let_go: BTreeMap<(usize, String), u32>,
    /// Owners that may still have a lock although their guards are gone, as the guards could not release it.
    outlasting: BTreeSet<(usize, String)>,
    waiting: BTreeMap<u64, Waiting>,
    /// The numbers of calls that only try.
    tries: BTreeSet<u64>,
    clients: BTreeMap<Host, Client>,
    ids: BTreeMap<String, Host>,
    last_number: u64,
    /// When everything healed. Callers begin no further rounds after that.
    healed: Option<Instant>,
    pub commands: u64,
    /// The commands other than PINGs and questions about the cluster.
    pub work: u64,
    pub granted: u64,
    pub calls: u64,
    rules: Rules,
    /// Since when nothing but scripts has happened, and how many of them.
    vain: (Option<Instant>, u32),
    admin: crate::admin::Ledger,
    /// When the latch was open, or may have been open, for the last time.
    open_at: Option<Instant>,
    recipes: Recipes,
    watched: Watched,
    /// The judged change is a write that a replica lacks when it takes over.
    undone: bool,
    order: Order,
    /// The highest token of each lock, and its owner.
    tokens: BTreeMap<usize, (u64, String)>,
    /// Since when each lock, recipe or latch is free.
    free_since: BTreeMap<Object, Instant>,
    /// The client that freed each lock last.
    freed_by: BTreeMap<usize, Host>,
}

impl Judge {
    pub fn new(trace: Trace, rules: Rules) -> Judge {
        let ledger = |permits: &i64| Ledger {
            permits: *permits,
            ..Ledger::default()
        };
        Judge {
            trace,
            ledgers: rules.permits.iter().map(ledger).collect(),
            rules,
            ..Judge::default()
        }
    }

    pub fn note(&mut self, what: Arguments<'_>) {
        if self.fault.is_none() {
            self.trace.note(what);
        }
    }

    /// Records a fault. Only the first one counts.
    pub fn accuse(&mut self, judge: &'static str, detail: String) {
        if self.fault.is_none() {
            self.trace.note(format_args!("!!! {judge}: {detail}"));
            self.fault = Some(Fault { judge, detail });
        }
    }
}
