//! The judges: what must be so at any time, and at the end.
//!
//! They see both sides: what each command of each client has changed in the server, and what callers have been told.

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
            // All its keys are in one slot of a cluster.
            Object::Recipe(number) => format!("{{r{number}}}"),
            Object::Latch => "p0".to_owned(),
        }
    }
}

/// What is to be judged of a plan.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    pub permits: Vec<i64>,
    /// Those with a watchdog that nobody else uses: counter and records come to the same always.
    pub exact: Vec<bool>,
    /// Whoever waits while there is enough waits so long at the most.
    pub patience: Duration,
    /// The same for a lock. At a fair one the dead stand before them in the queue, each for its share of time.
    pub patience_at_locks: Duration,
    /// When whoever waits looks by itself, at the latest.
    pub safety_interval: Duration,
    /// How many clients look after each recipe for all that wait.
    pub lookers: Vec<usize>,
    /// All clients are near enough, and keep to turns.
    pub near: bool,
    /// The first to come is the first to be served.
    pub orderly: Option<Object>,
    /// Somebody writes into the records: what was in doubt stays so.
    pub meddled: bool,
    /// The server forgets what it has done, or what it was told of it.
    pub forgetful: bool,
    /// Replicas are waited for.
    pub replicated: bool,
    /// It gives up what it holds under some names.
    pub evicts: bool,
    /// It forgets what callers have been told.
    pub loses: bool,
    /// What is renewed is renewed for so long.
    pub watchdog: Duration,
    /// How many there are.
    pub clients: usize,
    /// How many nodes a cluster has; none without.
    pub masters: usize,
    /// How many things there are to share.
    pub objects: usize,
    /// How often each of them looks after something in a second, whatever happens.
    pub looks: f64,
    /// Somebody's process stops for a while.
    pub stops: bool,
    /// No call is given up sooner.
    pub gives_up_after: Duration,
    /// An answer that takes longer is waited for no more.
    pub response_timeout: Duration,
    /// The longest lease there is.
    pub longest_lease: Duration,
    /// How long a question and its answer take.
    pub crossing: Duration,
}

impl Rules {
    /// Permits may be lost, or there twice.
    fn inexact(&self) -> bool {
        self.meddled || self.evicts || self.loses
    }

    /// Whether what lasts so long from its sending on can be renewed in time, though its script has to be sent first.
    fn can_keep(&self, lasts: Duration) -> bool {
        // Replicas are asked behind it; and the first time each script is sent twice, the one that takes and the one that renews.
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
    /// Locks that somebody has taken away, and until when their holders may not know.
    robbed: BTreeMap<usize, Instant>,
    /// Locks that an owner has had for nobody, and since when.
    stuck: BTreeMap<usize, (String, Instant)>,
    /// The owners that have been told that a lock is not theirs any more, and have not asked for it since.
    given_back: BTreeSet<(usize, String)>,
    /// The owners that are giving a hold of a lock back, once for each.
    releasing: Vec<(usize, String)>,
    /// How many holds an owner has let go without waiting for the answers.
    let_go: BTreeMap<(usize, String), u32>,
    /// Owners that may have a lock though their guards have gone, as these could not give it back.
    outlasting: BTreeSet<(usize, String)>,
    waiting: BTreeMap<u64, Waiting>,
    /// The numbers of those who only try.
    tries: BTreeSet<u64>,
    clients: BTreeMap<Host, Client>,
    ids: BTreeMap<String, Host>,
    last_number: u64,
    /// Nobody comes again.
    healed: Option<Instant>,
    pub commands: u64,
    /// Those but PINGs.
    pub work: u64,
    pub granted: u64,
    pub calls: u64,
    rules: Rules,
    /// Since when nothing has happened but scripts, and how many.
    vain: (Option<Instant>, u32),
    admin: crate::admin::Ledger,
    /// The last time that nobody had to wait for the latch.
    open_at: Option<Instant>,
    recipes: Recipes,
    watched: Watched,
    /// The change that is judged is undone, as a replica that takes over does not have it.
    undone: bool,
    order: Order,
    /// The highest token of each lock.
    tokens: BTreeMap<usize, (u64, String)>,
    /// Since when there is what those want who wait for something else than permits of semaphores.
    free_since: BTreeMap<Object, Instant>,
    /// Who has freed each lock last.
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

    /// The first fault is the one that counts.
    pub fn accuse(&mut self, judge: &'static str, detail: String) {
        if self.fault.is_none() {
            self.trace.note(format_args!("!!! {judge}: {detail}"));
            self.fault = Some(Fault { judge, detail });
        }
    }
}
