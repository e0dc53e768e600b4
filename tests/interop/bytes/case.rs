//! One operation in one state, and the expected effect of this crate for a given effect of Redisson.

use std::time::{Duration, SystemTime};

use crate::common::operation::{Op, Outcome, epoch_millis};
use crate::support::snapshot::Snapshot;

pub const LOWEST: i64 = i32::MIN as i64;
pub const HIGHEST: i64 = i32::MAX as i64;

/// The time to live that keys are prepared with. Those that the operations set are far from it.
pub const TTL: Duration = Duration::from_secs(1000);
pub const TOLERANCE: Duration = Duration::from_secs(50);

/// The intended differences between this crate and Redisson.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// `addPermits` and `drainPermits` drop the time to live; here it is kept.
    KeepsTtl,
    /// Redisson publishes totals that leave no permits to take.
    SilentWithoutPermits,
    /// If a client listens, each further permit is announced by a `0`: up to 63 of them.
    FurtherMessages,
    /// Redisson lets counters grow out of its own `int`.
    RefusesOverflow,
    /// Redisson cuts its answer to 32 bits.
    TellsWideCounters,
    /// Redisson's own subscribers would take a wider total for a negative one.
    PublishesNarrowTotals,
    /// Redisson overwrites what is no number, or calls it an existing semaphore.
    RefusesText,
    /// Permits that come under another name are announced there.
    AnnouncesMoved,
    /// Redisson sends a time to live of zero: an error of the server, or the end of the object.
    RefusesZeroTtl,
}

use Difference::{
    AnnouncesMoved, FurtherMessages, KeepsTtl, PublishesNarrowTotals, RefusesOverflow, RefusesText,
    RefusesZeroTtl, SilentWithoutPermits, TellsWideCounters,
};

/// The content of a key before the operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Content {
    Missing,
    Text(&'static str),
    Hash,
    List,
    Set,
    SortedSet,
}

#[derive(Debug, Clone, Copy)]
pub struct State {
    pub content: Content,
    pub expires: bool,
}

pub const fn lasting(content: Content) -> State {
    State {
        content,
        expires: false,
    }
}

pub const fn expiring(content: Content) -> State {
    State {
        content,
        expires: true,
    }
}

impl State {
    pub fn prepare(self, key: &str, expiry: SystemTime, commands: &mut redis::Pipeline) {
        match self.content {
            Content::Missing => return,
            Content::Text(text) => commands.set(key, text),
            Content::Hash => commands.hset(key, "field", "1"),
            Content::List => commands.rpush(key, "1"),
            Content::Set => commands.sadd(key, "1"),
            Content::SortedSet => commands.zadd(key, "1", 1),
        };
        if self.expires {
            commands.pexpire_at(key, epoch_millis(expiry));
        }
    }

    /// The counter, where there is one that both sides can read.
    pub fn counter(self) -> Option<i64> {
        match self.content {
            Content::Text(text) => {
                let number: i64 = text.parse().ok()?;
                (number.to_string() == text).then_some(number)
            }
            _ => None,
        }
    }
}

/// The effect of an operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    pub outcome: Outcome,
    pub key: Snapshot,
    /// The second key, for renaming and copying.
    pub other: Snapshot,
    /// The payloads on the semaphore's channel; on that of the second key, behind "other"; on another channel, with
    /// its name.
    pub published: Vec<String>,
}

impl Effect {
    pub fn matches(&self, op: &Op, ours: &Effect) -> bool {
        let outcome = match (op, &self.outcome, &ours.outcome) {
            (Op::RemainingTtl, Outcome::Number(one @ 0..), Outcome::Number(two @ 0..)) => {
                u128::from(one.abs_diff(*two)) < TOLERANCE.as_millis()
            }
            (_, one, two) => one.agrees(two),
        };
        outcome
            && self.key.matches(&ours.key, TOLERANCE)
            && self.other.matches(&ours.other, TOLERANCE)
            && self.published == ours.published
    }
}

/// One operation in one state.
pub struct Case {
    pub state: State,
    pub other: State,
    pub op: Op,
}

impl Case {
    /// The expected effect of this crate, where `java` is Redisson's effect: the same but for the differences.
    /// `before` is the state of the keys before the operation.
    pub fn expected(
        &self,
        before: &Effect,
        java: &Effect,
        listened: bool,
    ) -> (Effect, Vec<Difference>) {
        let mut ours = java.clone();
        let mut differences = Vec::new();
        if let Some(difference) = self.refused() {
            differences.push(difference);
            let outcome = Outcome::Failed("refused".to_owned());
            ours = Effect {
                outcome,
                ..before.clone()
            };
            return (ours, differences);
        }
        let moved = matches!(
            self.op,
            Op::Rename(_) | Op::RenameNx(_) | Op::Copy(_) | Op::CopyAndReplace(_)
        );
        let done = matches!(java.outcome, Outcome::Nothing | Outcome::Flag(true));
        if moved
            && done
            && let Some(permits @ 1..) = self.state.counter()
        {
            differences.push(AnnouncesMoved);
            ours.published.push(format!("other {permits}"));
        }
        let Some(before_counter) = self.state.counter().or(self.created()) else {
            return (ours, differences);
        };
        if self.state.expires && matches!(self.op, Op::Add(_) | Op::Drain) {
            differences.push(KeepsTtl);
            ours.key.ttl = before.key.ttl;
        }
        if matches!(self.op, Op::Available | Op::Drain)
            && !(LOWEST..=HIGHEST).contains(&before_counter)
        {
            differences.push(TellsWideCounters);
            ours.outcome = Outcome::Number(before_counter);
        }
        if let [total] = java.published.as_slice() {
            let total: i64 = total.parse().expect("Redisson publishes numbers");
            let further = self.added().min(total).min(64) - 1;
            if total <= 0 {
                differences.push(SilentWithoutPermits);
                ours.published.clear();
            } else if total > HIGHEST {
                differences.push(PublishesNarrowTotals);
                ours.published = vec![HIGHEST.to_string()];
            } else if listened && further > 0 {
                differences.push(FurtherMessages);
                ours.published.extend((0..further).map(|_| "0".to_owned()));
            }
        }
        (ours, differences)
    }

    /// 0 if the operation finds no key, which counts as a counter of 0.
    pub fn created(&self) -> Option<i64> {
        (self.state.content == Content::Missing).then_some(0)
    }

    /// How many permits the operation adds.
    pub fn added(&self) -> i64 {
        match self.op {
            Op::TrySet(n) | Op::TrySetFor(n, _) | Op::Release(n) | Op::ReleaseIfExists(n) => {
                n.into()
            }
            Op::Add(delta) => delta.into(),
            _ => 0,
        }
    }

    /// The difference for which this crate refuses the operation, if there is one.
    pub fn refused(&self) -> Option<Difference> {
        if let Op::TrySetFor(_, Duration::ZERO) | Op::Expire(Duration::ZERO, _) = self.op {
            return Some(RefusesZeroTtl);
        }
        let sent = match self.op {
            Op::Acquire(n) | Op::TryAcquire(n) | Op::TryAcquireFor(n, _) => n > 0,
            Op::Release(n) | Op::ReleaseIfExists(n) => n > 0,
            Op::TrySet(_) | Op::TrySetFor(..) | Op::Add(_) | Op::Drain | Op::Available => true,
            _ => false,
        };
        if !sent {
            return None;
        }
        if matches!(self.state.content, Content::Text(_)) && self.state.counter().is_none() {
            return Some(RefusesText);
        }
        let missing = self.state.content == Content::Missing;
        let total = self.state.counter().or(self.created())? + self.added();
        let overflow = match self.op {
            Op::ReleaseIfExists(_) if missing => false,
            Op::Release(_) | Op::ReleaseIfExists(_) => total > HIGHEST,
            // A counter outside the range may be moved back.
            Op::Add(delta) => delta > 0 && total > HIGHEST || delta < 0 && total < LOWEST,
            _ => false,
        };
        overflow.then_some(RefusesOverflow)
    }
}
