//! Calls that travel to the server together, as one call of a script that is put together of
//! `lua/recipes/record.lua`, `lua/recipes/ids.lua`, the layout's part, `lua/recipes/line.lua` and
//! `lua/recipes/batch.lua`.
//!
//! The order within a batch: releases, refreshes, those who wait, those who only try. The ids of those who are
//! granted are made by the script, out of a random number that travels with the batch, so that a thousand
//! callers are no longer a request than one.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::time::Instant;

use super::answer::Outcome;
use super::line::keeping::Kept;
use super::line::waiting::{Claim, Reply};
use super::names::Names;
use super::settings::{Layout, Settings};
use crate::engine::log::list_of;
use crate::engine::request::{Arg, RecordKey, Request, Script, ScriptCall};
use crate::outside;
use crate::units::Units;

static TIMESTAMP: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("../../lua/recipes/record.lua"),
        include_str!("../../lua/recipes/ids.lua"),
        include_str!("../../lua/recipes/times.lua"),
        include_str!("../../lua/recipes/timestamp.lua"),
        include_str!("../../lua/recipes/line.lua"),
        include_str!("../../lua/recipes/batch.lua"),
    ))
});
static FAIR: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("../../lua/recipes/record.lua"),
        include_str!("../../lua/recipes/ids.lua"),
        include_str!("../../lua/recipes/times.lua"),
        include_str!("../../lua/recipes/fair.lua"),
        include_str!("../../lua/recipes/line.lua"),
        include_str!("../../lua/recipes/batch.lua"),
    ))
});
static SET: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("../../lua/recipes/record.lua"),
        include_str!("../../lua/recipes/ids.lua"),
        include_str!("../../lua/recipes/set.lua"),
        include_str!("../../lua/recipes/line.lua"),
        include_str!("../../lua/recipes/batch.lua"),
    ))
});
static SLOTS: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("../../lua/recipes/record.lua"),
        include_str!("../../lua/recipes/ids.lua"),
        include_str!("../../lua/recipes/slots.lua"),
        include_str!("../../lua/recipes/line.lua"),
        include_str!("../../lua/recipes/batch.lua"),
    ))
});

/// A batch takes this many calls of a kind at the most: it bounds the script's time.
pub(super) const MOST_CALLS: usize = 256;

/// Where in the script's arguments the sequence number stands, and whether the batch must be put on record in
/// any case.
const SEQUENCE: usize = 1;
const RECORD_FLAG: usize = 3;

/// What a caller asks for.
#[derive(Debug, Clone)]
pub(super) enum Operation {
    Release(Arc<str>),
    /// To last for so long; in the background, where it is kept.
    Refresh(Arc<str>, Duration, Option<Kept>),
    /// For a permit that lasts for so long.
    Try(Duration),
    /// A page of the holders, behind where the one before has ended.
    List(Arc<str>),
    Clear,
}

impl Operation {
    /// The id that is to be released by it.
    pub(super) fn released(&self) -> Option<&Arc<str>> {
        match self {
            Operation::Release(id) => Some(id),
            _ => None,
        }
    }

    /// The id that it is about.
    pub(super) fn id(&self) -> Option<&str> {
        match self {
            Operation::Release(id) | Operation::Refresh(id, ..) => Some(id),
            Operation::Try(_) | Operation::List(_) | Operation::Clear => None,
        }
    }

    /// The name for error texts.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Operation::Release(_) => "release",
            Operation::Refresh(..) => "refresh",
            Operation::Try(_) => "try_acquire",
            Operation::List(_) => "holders",
            Operation::Clear => "release_all",
        }
    }
}

/// For the log: what somebody has to repair.
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.id().unwrap_or_default())
    }
}

/// One call and its caller.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) operation: Operation,
    /// `None` once the caller has been answered, or where there is none.
    pub(super) reply: Option<Reply>,
    pub(super) since: Instant,
}

impl Call {
    /// Whether it is waited for, or owed. What is neither has to be forgotten as long as it has not been sent.
    pub(super) fn is_wanted(&mut self) -> bool {
        if self.reply.as_ref().is_some_and(Reply::is_closed) {
            self.reply = None;
        }
        self.reply.is_some() || self.is_owed()
    }

    /// Whether it is to be carried out without a caller: what was granted has to be given back, and what is kept
    /// to be refreshed.
    pub(super) fn is_owed(&self) -> bool {
        match &self.operation {
            Operation::Release(_) => true,
            Operation::Refresh(_, _, kept) => {
                kept.as_ref().is_some_and(|kept| !kept.lease.is_lost())
            }
            Operation::Try(_) | Operation::List(_) | Operation::Clear => false,
        }
    }
}

/// What travels together.
#[derive(Debug)]
pub(super) struct Batch {
    /// `List` and `Clear`: without other calls.
    pub(super) alone: Option<Call>,
    pub(super) releases: Vec<Call>,
    pub(super) refreshes: Vec<Call>,
    pub(super) claim: Claim,
    pub(super) tries: Vec<Call>,
    /// From which slot on it is found out when one expires.
    pub(super) ends_from: u32,
    ids: Ids,
}

impl Batch {
    pub(super) fn new(claim: Claim) -> Self {
        Batch {
            alone: None,
            releases: Vec::new(),
            refreshes: Vec::new(),
            claim,
            tries: Vec::new(),
            ends_from: 1,
            ids: Ids::new(),
        }
    }

    /// Takes `call` along; gives it back where there is no room.
    pub(super) fn add(&mut self, call: Call) -> Result<(), Call> {
        let list = match call.operation {
            Operation::Release(_) => &mut self.releases,
            Operation::Refresh(..) => &mut self.refreshes,
            Operation::Try(_) => &mut self.tries,
            Operation::List(_) | Operation::Clear => {
                if self.alone.is_some() || self.calls().next().is_some() {
                    return Err(call);
                }
                self.alone = Some(call);
                return Ok(());
            }
        };
        if self.alone.is_some() || list.len() == MOST_CALLS {
            return Err(call);
        }
        list.push(call);
        Ok(())
    }

    /// Whether it is about nothing but the holders' list.
    pub(super) fn is_list(&self) -> bool {
        let alone = self.alone.as_ref().map(|call| &call.operation);
        matches!(alone, Some(Operation::List(_)))
    }

    pub(super) fn calls(&self) -> impl Iterator<Item = &Call> {
        let lists = self.releases.iter().chain(&self.refreshes);
        self.alone.iter().chain(lists).chain(&self.tries)
    }

    pub(super) fn into_calls(self) -> impl Iterator<Item = Call> {
        let lists = self.releases.into_iter().chain(self.refreshes);
        self.alone.into_iter().chain(lists).chain(self.tries)
    }

    /// The calls that change something, for the log, and the ids of what may have been granted; empty where there are
    /// none.
    pub(super) fn changes(&self) -> String {
        let named =
            |call: &&Call| !matches!(call.operation, Operation::Try(_) | Operation::List(_));
        let calls = self.calls().filter(named);
        let calls = calls.map(|call| (call.operation.to_string(), 1));
        let acquired = self.ids().map(|id| (format!("acquired({id})"), 1));
        list_of(calls.chain(acquired))
    }

    /// Drops the calls that `keep` does not want. The batch must not be sent as it was after that.
    pub(super) fn retain_calls(&mut self, mut keep: impl FnMut(&mut Call) -> bool) {
        if self.alone.as_mut().is_some_and(|call| !keep(call)) {
            self.alone = None;
        }
        for list in [&mut self.releases, &mut self.refreshes, &mut self.tries] {
            list.retain_mut(&mut keep);
        }
    }

    /// Whether the server may have answered this batch so.
    pub(super) fn expects(&self, outcome: &Outcome) -> bool {
        let Outcome { served, tried, .. } = *outcome;
        let granted = served.saturating_add(tried);
        !self.is_list()
            && served <= self.claim.len()
            && tried <= self.tries.len()
            && (outcome.slots.is_empty() || outcome.slots.len() == granted)
            && outcome.released.len() == self.releases.len()
            && outcome.refreshed.len() == self.refreshes.len()
    }

    /// The ids that those who are granted get, in order: those who wait, then those who try.
    pub(super) fn ids(&self) -> impl Iterator<Item = Arc<str>> + '_ {
        let wanted = self.claim.len() + self.tries.len();
        (0..wanted).map(|index| self.ids.get(index))
    }

    /// For how long those who are granted hold, in order: the first `served` who wait, then those who try.
    pub(super) fn times(&self, served: usize) -> impl Iterator<Item = Duration> + '_ {
        let runs = self.claim.runs.iter();
        let waiting = runs.flat_map(|run| run.tickets.iter().map(|_| run.lasts));
        let trying = self.tries.iter().filter_map(|call| match call.operation {
            Operation::Try(lasts) => Some(lasts),
            _ => None,
        });
        waiting.take(served).chain(trying)
    }

    /// The script call.
    pub(super) fn request(&self, settings: &Settings, names: &Names, setting: &Sending) -> Request {
        let script = match settings.layout {
            Layout::Timestamp => &TIMESTAMP,
            Layout::Fair => &FAIR,
            Layout::Set => &SET,
            Layout::Slots | Layout::Lock => &SLOTS,
        };
        let what = match self.alone.as_ref().map(|call| &call.operation) {
            Some(Operation::List(_)) => "list",
            Some(_) => "clear",
            None if self.calls().next().is_none() && self.claim.waiting == 0 && !setting.leaves => {
                "tend"
            }
            None => "batch",
        };
        let flags = match (settings.layout, settings.units, &settings.tokens) {
            (Layout::Lock, ..) => "rp",
            (Layout::Slots, ..) => "p",
            (_, Units::Seconds, Some(_)) => "st",
            (_, Units::Seconds, None) => "s",
            (_, Units::Millis, Some(_)) => "t",
            (_, Units::Millis, None) => "-",
        };
        let lock_timeout = match names.lock {
            Some(_) => Arg::millis(settings.lock_timeout),
            None => Arg::Number(0),
        };
        let number = |count: usize| Arg::Number(i64::try_from(count).unwrap_or(i64::MAX));
        let mut args = vec![
            Arg::Publish,
            Arg::Number(0),
            Arg::millis(setting.record_life),
            Arg::Number(setting.doubtful.into()),
            Arg::Word(what),
            Arg::Number(settings.limit.into()),
            Arg::millis(match settings.layout {
                Layout::Lock => settings.lock_timeout,
                _ => settings.timeout,
            }),
            Arg::Word(flags),
            lock_timeout,
            Arg::Text(Arc::clone(&names.field)),
            Arg::millis(line_life(settings)),
            number(self.claim.waiting),
            Arg::Text(Arc::clone(&self.ids.prefix)),
            number(self.releases.len()),
            number(self.refreshes.len()),
            number(self.tries.len()),
            match self.alone.as_ref().map(|call| &call.operation) {
                Some(Operation::List(from)) => Arg::Text(Arc::clone(from)),
                _ => Arg::Number(self.ends_from.into()),
            },
            Arg::micros(setting.patience),
            Arg::Number(setting.listens.into()),
        ];
        for call in self.releases.iter().chain(&self.refreshes) {
            if let Operation::Release(id) | Operation::Refresh(id, ..) = &call.operation {
                args.push(Arg::Text(Arc::clone(id)));
            }
        }
        if settings.layout.has_own_times() {
            for call in self.refreshes.iter().chain(&self.tries) {
                if let Operation::Refresh(_, lasts, _) | Operation::Try(lasts) = &call.operation {
                    args.push(Arg::millis(*lasts));
                }
            }
        }
        for run in &self.claim.runs {
            args.push(Arg::Number(run.arrival.cast_signed()));
            args.push(number(run.tickets.len()));
            args.push(Arg::millis(run.lasts));
        }
        let mut keys = names.keys.clone();
        keys.extend(names.lock.clone());
        let record = RecordKey {
            index: keys.len(),
            always: true,
        };
        keys.extend([&names.record, &names.line, &names.notes].map(Arc::clone));
        Request::Script(ScriptCall {
            script,
            keys,
            args,
            sequence: Some(SEQUENCE),
            record_flag: Some(RECORD_FLAG),
            renumbered: false,
            question: None,
            record: Some(record),
        })
    }
}

/// How a batch is sent.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) record_life: Duration,
    /// An earlier batch may still be on its way to the server.
    pub(super) doubtful: bool,
    /// This client stands in line, and nobody waits any more.
    pub(super) leaves: bool,
    /// For how long the others wait for this client when it has been told that it is its turn.
    pub(super) patience: Duration,
    /// It hears that.
    pub(super) listens: bool,
}

/// How long the line is kept when nobody looks: for several looks of whoever looks least.
fn line_life(settings: &Settings) -> Duration {
    let life = settings.check_interval.saturating_mul(3);
    life.clamp(Duration::from_secs(60), Duration::from_secs(24 * 60 * 60))
}

/// The ids of one batch: a random UUID but for its last three digits, which count.
#[derive(Debug)]
struct Ids {
    prefix: Arc<str>,
}

/// More than twice [`MOST_CALLS`].
const COUNTING_DIGITS: usize = 3;

impl Ids {
    fn new() -> Self {
        let mut buffer = uuid::Uuid::encode_buffer();
        let id = outside::uuid().hyphenated().encode_lower(&mut buffer);
        Ids {
            prefix: id[..id.len() - COUNTING_DIGITS].into(),
        }
    }

    /// As the script makes it.
    fn get(&self, index: usize) -> Arc<str> {
        format!("{}{index:03x}", self.prefix).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuids_that_count() {
        let ids = Ids::new();
        for index in [0, 1, 2 * MOST_CALLS - 1] {
            let id = ids.get(index);
            let uuid = uuid::Uuid::parse_str(&id).expect("a UUID");
            assert_eq!(uuid.get_version_num(), 4);
        }
        assert_ne!(ids.get(0), ids.get(1));
    }
}
