//! Byte for byte: each operation in each state, by the real Redisson on one key and by this crate on another
//! one that was prepared the same way, leaves the same behind: type, value, time to live, messages, answer.
//!
//! Redisson itself says what is right; nothing is typed in by hand but the differences that are meant. Each of
//! them is a [`Difference`], and the tests fail when one appears elsewhere, or disappears.

mod interop;
mod support;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use interop::operation::{Op, Outcome, Side, epoch_millis};
use interop::world::{NEWEST, World, channel};
use redisson_semaphore::redisson::ExpireCondition::{self, Greater, Less, NotSet, Set};
use support::channel::Channel;
use support::monitor::{Command, Monitor};
use support::snapshot::{Snapshot, snapshot, snapshot_all};

const LOWEST: i64 = i32::MIN as i64;
const HIGHEST: i64 = i32::MAX as i64;

/// The time to live that keys are prepared with. Those that the operations set are far from it.
const TTL: Duration = Duration::from_secs(1000);
const TOLERANCE: Duration = Duration::from_secs(50);

/// What this crate does otherwise than Redisson, and means to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Difference {
    /// `addPermits` and `drainPermits` drop the time to live; here it is kept.
    KeepsTtl,
    /// Redisson publishes totals of which nobody can take anything.
    SilentWithoutPermits,
    /// Where somebody listens, each further permit is announced by a `0`: up to 63 of them.
    FurtherMessages,
    /// Redisson lets counters grow out of its own `int`.
    RefusesOverflow,
    /// Redisson cuts its answer to 32 bits.
    TellsWideCounters,
    /// Redisson's own subscribers would take a wider total for a negative one.
    PublishesNarrowTotals,
    /// Redisson overwrites what is no number, or calls it an existing semaphore.
    RefusesText,
    /// Redisson sends a time to live of zero: an error of the server, or the end of the object.
    RefusesZeroTtl,
}

use Difference::{
    FurtherMessages, KeepsTtl, PublishesNarrowTotals, RefusesOverflow, RefusesText, RefusesZeroTtl,
    SilentWithoutPermits, TellsWideCounters,
};

/// What a key holds before the operation.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Content {
    Missing,
    Text(&'static str),
    Hash,
    List,
    Set,
    SortedSet,
}

#[derive(Debug, Clone, Copy)]
struct State {
    content: Content,
    expires: bool,
}

const fn lasting(content: Content) -> State {
    State {
        content,
        expires: false,
    }
}

const fn expiring(content: Content) -> State {
    State {
        content,
        expires: true,
    }
}

impl State {
    fn prepare(self, key: &str, expiry: SystemTime, commands: &mut redis::Pipeline) {
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
    fn counter(self) -> Option<i64> {
        match self.content {
            Content::Text(text) => {
                let number: i64 = text.parse().ok()?;
                (number.to_string() == text).then_some(number)
            }
            _ => None,
        }
    }
}

/// What an operation did.
#[derive(Debug, Clone, PartialEq)]
struct Effect {
    outcome: Outcome,
    key: Snapshot,
    /// The key that is the second one of renaming and copying.
    other: Snapshot,
    /// The payloads on the semaphore's channel; on another channel, with its name.
    published: Vec<String>,
}

impl Effect {
    fn matches(&self, op: &Op, ours: &Effect) -> bool {
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
struct Case {
    state: State,
    other: State,
    op: Op,
}

impl Case {
    /// What this crate is to do, where Redisson did `java`: the same but for the differences.
    /// `before` is what the keys held.
    fn expected(
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

    /// 0 where the operation finds nothing, which is a counter of 0.
    fn created(&self) -> Option<i64> {
        (self.state.content == Content::Missing).then_some(0)
    }

    /// How many permits the operation adds.
    fn added(&self) -> i64 {
        match self.op {
            Op::TrySet(n) | Op::TrySetFor(n, _) | Op::Release(n) | Op::ReleaseIfExists(n) => {
                n.into()
            }
            Op::Add(delta) => delta.into(),
            _ => 0,
        }
    }

    /// What this crate does not do at all.
    fn refused(&self) -> Option<Difference> {
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
            // What lies outside may be moved back.
            Op::Add(delta) => delta > 0 && total > HIGHEST || delta < 0 && total < LOWEST,
            _ => false,
        };
        overflow.then_some(RefusesOverflow)
    }
}

/// Runs cases and keeps what was wrong.
struct Comparison {
    world: World,
    commands: Monitor,
    /// While somebody listens.
    received: Option<Channel>,
    number: usize,
    mistakes: String,
    /// The differences seen, each with the operation's name.
    differences: BTreeSet<(Difference, String)>,
}

impl Comparison {
    async fn start() -> Comparison {
        let world = World::start(NEWEST).await;
        Comparison {
            commands: Monitor::start(&world.server).await,
            world,
            received: None,
            number: 0,
            mistakes: String::new(),
            differences: BTreeSet::new(),
        }
    }

    /// From now on somebody listens to all semaphores.
    async fn listen(&mut self) {
        let received = Channel::pattern(&self.world.server, "redisson_sc:*").await;
        self.received = Some(received);
    }

    async fn run(&mut self, case: Case) {
        self.number += 1;
        // Of equal length, and never used before: nothing of an earlier case can be mistaken for this one's.
        let java = format!("java-{}", self.number);
        let rust = format!("rust-{}", self.number);
        let expiry = UNIX_EPOCH
            + Duration::from_millis(epoch_millis(SystemTime::now()).unsigned_abs())
            + TTL;
        let mut prepare = redis::pipe();
        prepare.cmd("FLUSHDB");
        for key in [&java, &rust] {
            case.state.prepare(key, expiry, &mut prepare);
            case.other.prepare(&other(key), expiry, &mut prepare);
        }
        let () = prepare
            .query_async(&mut self.world.redis)
            .await
            .expect("the server runs");
        let before = self.effect(&rust, Outcome::Nothing, Vec::new()).await;
        self.commands.until_marker().await;

        let mut effects = Vec::new();
        let mut unheard = Vec::new();
        for (side, key) in [
            (Side::Java(&self.world.java), &java),
            (Side::Rust(&self.world.rust), &rust),
        ] {
            let op = with_other(&case.op, key);
            let outcome = side.run(key, &op).await;
            let published = published(&self.commands.until_marker().await, key);
            if let Some(received) = &mut self.received {
                let heard = received.until_marker().await.into_iter();
                let heard = heard.filter(|message| message.channel == channel(key));
                let heard: Vec<String> = heard.map(|message| message.payload).collect();
                // What comes behind are the later calls for those who are still parked.
                if !heard.starts_with(&published) {
                    unheard.push(format!("published {published:?}, heard {heard:?}"));
                }
            }
            effects.push((outcome, published));
        }
        for text in unheard {
            self.mistake(&case, &text);
        }
        let (outcome, messages) = effects.pop().expect("two");
        let ours = self.effect(&rust, outcome, messages).await;
        let (outcome, messages) = effects.pop().expect("two");
        let java = self.effect(&java, outcome, messages).await;

        let (expected, differences) = case.expected(&before, &java, self.received.is_some());
        if !expected.matches(&case.op, &ours) {
            let text = format!(
                "\n  Redisson: {java:?}\n  expected: {expected:?} {differences:?}\n  ours:     {ours:?}"
            );
            self.mistake(&case, &text);
        }
        for difference in differences {
            // Where Redisson fails as well, and changes nothing, refusing is none.
            if !java.matches(&case.op, &expected) {
                self.differences.insert((difference, word(&case.op)));
            } else if !matches!(difference, RefusesText | RefusesZeroTtl) {
                self.mistake(
                    &case,
                    &format!("{difference:?} is no difference any more: {java:?}"),
                );
            }
        }
        let content = |effect: &Effect| {
            let keys = [&effect.key, &effect.other];
            keys.map(|key| (key.kind.clone(), key.value.clone()))
        };
        let changed = content(&before) != content(&ours);
        self.check_records(&case, &rust, changed).await;
    }

    /// Besides the keys themselves there is at most this client's record, and after a change it is there.
    async fn check_records(&mut self, case: &Case, key: &str, changed: bool) {
        let record = format!("redisson_sc_once:{{{key}}}:{}", self.world.rust.id());
        let mut keys = snapshot_all(&mut self.world.redis).await;
        let mut known = vec![key.to_owned(), format!("java-{}", self.number)];
        known.extend([other(&known[0]), other(&known[1])]);
        keys.retain(|key, _| !known.contains(key));
        let recorded = keys.remove(&record);
        if !keys.is_empty() {
            self.mistake(case, &format!("other keys: {keys:?}"));
        }
        let is_record = |record: &Snapshot| {
            let ten_minutes = Duration::from_secs(600);
            let ttl = record
                .ttl
                .is_some_and(|ttl| ttl > ten_minutes / 2 && ttl <= ten_minutes);
            record.kind == "string" && ttl
        };
        let good = match &recorded {
            Some(record) => is_record(record),
            None => !changed,
        };
        if !good {
            self.mistake(case, &format!("changed: {changed}, record: {recorded:?}"));
        }
    }

    async fn effect(&mut self, key: &str, outcome: Outcome, published: Vec<String>) -> Effect {
        Effect {
            outcome,
            key: snapshot(&mut self.world.redis, key).await,
            other: snapshot(&mut self.world.redis, &other(key)).await,
            published,
        }
    }

    fn mistake(&mut self, case: &Case, text: &str) {
        let Case { state, other, op } = case;
        let listened = self.received.as_ref().map_or("", |_| ", listened to");
        writeln!(
            self.mistakes,
            "\n{op:?} on {state:?}, other {other:?}{listened}: {text}"
        )
        .expect("a String takes everything");
    }

    /// Nothing was wrong, and just these differences were seen.
    fn end(self, differences: &[(Difference, &[&str])]) {
        assert!(self.mistakes.is_empty(), "{}", self.mistakes);
        let expected: BTreeSet<(Difference, String)> = differences
            .iter()
            .flat_map(|(difference, ops)| ops.iter().map(|op| (*difference, (*op).to_owned())))
            .collect();
        assert_eq!(self.differences, expected, "after {} cases", self.number);
    }
}

fn other(key: &str) -> String {
    format!("{key}-other")
}

fn with_other(op: &Op, key: &str) -> Op {
    match op {
        Op::Rename(_) => Op::Rename(other(key)),
        Op::RenameNx(_) => Op::RenameNx(other(key)),
        Op::Copy(_) => Op::Copy(other(key)),
        Op::CopyAndReplace(_) => Op::CopyAndReplace(other(key)),
        op => op.clone(),
    }
}

/// The operation without its arguments.
fn word(op: &Op) -> String {
    let text = format!("{op:?}");
    text.split('(').next().expect("the first part").to_owned()
}

/// The messages that the commands sent, other than those of a later call (`nudge.lua`), which comes whenever
/// it comes.
fn published(commands: &[Command], key: &str) -> Vec<String> {
    let mut in_nudge = false;
    let mut payloads = Vec::new();
    for command in commands {
        match command.name.as_str() {
            "EVAL" | "EVALSHA" => {
                // Two keys, and the first argument is the publish command.
                in_nudge = command
                    .args
                    .get(4)
                    .is_some_and(|argument| argument == "PUBLISH");
            }
            "PUBLISH" | "SPUBLISH" if !command.args[0].starts_with("channel-marker") => {
                if in_nudge && command.is_lua() {
                    continue;
                }
                let payload = command.args[1].clone();
                payloads.push(
                    if command.args[0] == channel(key) && command.name == "PUBLISH" {
                        payload
                    } else {
                        format!("{} {} {payload}", command.name, command.args[0])
                    },
                );
            }
            _ => {}
        }
    }
    payloads
}

const COUNTERS: [State; 24] = [
    lasting(Content::Missing),
    lasting(Content::Text("0")),
    lasting(Content::Text("1")),
    lasting(Content::Text("3")),
    lasting(Content::Text("-2")),
    lasting(Content::Text("2147483647")),
    lasting(Content::Text("-2147483648")),
    lasting(Content::Text("3000000000")),
    lasting(Content::Text("-3000000000")),
    expiring(Content::Text("0")),
    expiring(Content::Text("3")),
    expiring(Content::Text("-2")),
    lasting(Content::Text("")),
    lasting(Content::Text("seats")),
    expiring(Content::Text("1.5")),
    lasting(Content::Text(" 7")),
    lasting(Content::Text("007")),
    lasting(Content::Text("-0")),
    lasting(Content::Text("1e3")),
    lasting(Content::Text("0x10")),
    expiring(Content::Text("inf")),
    lasting(Content::Text("99999999999999999999")),
    lasting(Content::Hash),
    expiring(Content::SortedSet),
];

fn counter_operations(state: State) -> Vec<Op> {
    let minute = Duration::from_secs(60);
    let moment = Duration::from_millis(15);
    let mut ops = vec![
        Op::TrySet(0),
        Op::TrySet(1),
        Op::TrySet(4),
        Op::TrySet(100),
        Op::TrySet(HIGHEST as u32),
        Op::TrySetFor(0, minute),
        Op::TrySetFor(1, minute),
        Op::TrySetFor(4, minute),
        Op::TrySetFor(4, Duration::ZERO),
        Op::Acquire(0),
        Op::TryAcquire(0),
        Op::TryAcquire(1),
        Op::TryAcquire(3),
        Op::TryAcquire(4),
        Op::TryAcquire(HIGHEST as u32),
        Op::TryAcquireFor(0, moment),
        Op::TryAcquireFor(2, Duration::ZERO),
        Op::TryAcquireFor(2, moment),
        Op::Release(0),
        Op::Release(1),
        Op::Release(2),
        Op::Release(3),
        Op::Release(63),
        Op::Release(64),
        Op::Release(65),
        Op::Release(1000),
        Op::Release(HIGHEST as u32),
        Op::ReleaseIfExists(0),
        Op::ReleaseIfExists(1),
        Op::ReleaseIfExists(2),
        Op::ReleaseIfExists(5),
        Op::ReleaseIfExists(HIGHEST as u32),
        Op::Add(0),
        Op::Add(1),
        Op::Add(2),
        Op::Add(5),
        Op::Add(-1),
        Op::Add(-3),
        Op::Add(-5),
        Op::Add(i32::MAX),
        Op::Add(i32::MIN),
        Op::Drain,
        Op::Available,
    ];
    // In the other states Redisson waits for ever.
    let wrong_type = !matches!(state.content, Content::Text(_) | Content::Missing);
    if wrong_type || state.counter().is_some_and(|counter| counter >= 1) {
        ops.push(Op::Acquire(1));
    }
    ops
}

#[tokio::test(flavor = "multi_thread")]
async fn counters() {
    let mut comparison = Comparison::start().await;
    for listened in [false, true] {
        if listened {
            comparison.listen().await;
        }
        // Nobody hears of what fails.
        let heard = |state: &State| state.content == Content::Missing || state.counter().is_some();
        let states = COUNTERS.into_iter();
        for state in states.filter(|state| !listened || heard(state)) {
            for op in counter_operations(state) {
                let case = Case {
                    state,
                    other: lasting(Content::Missing),
                    op,
                };
                comparison.run(case).await;
            }
        }
    }
    let adding = &["Add", "Release", "ReleaseIfExists", "TrySet", "TrySetFor"];
    comparison.end(&[
        (KeepsTtl, &["Add", "Drain"]),
        (SilentWithoutPermits, adding),
        (FurtherMessages, adding),
        (RefusesOverflow, &["Add", "Release", "ReleaseIfExists"]),
        (TellsWideCounters, &["Available", "Drain"]),
        (PublishesNarrowTotals, &["Add"]),
        (
            RefusesText,
            &[
                "Add",
                "Available",
                "Drain",
                "TryAcquire",
                "TryAcquireFor",
                "TrySet",
                "TrySetFor",
            ],
        ),
        (RefusesZeroTtl, &["TrySetFor"]),
    ]);
}

const OBJECTS: [State; 10] = [
    lasting(Content::Missing),
    lasting(Content::Text("3")),
    lasting(Content::Text("-2")),
    expiring(Content::Text("3")),
    lasting(Content::Text("seats")),
    expiring(Content::Text("seats")),
    lasting(Content::Hash),
    expiring(Content::Hash),
    lasting(Content::List),
    lasting(Content::Set),
];

fn object_operations() -> Vec<Op> {
    let mut ops = vec![
        Op::Exists,
        Op::Delete,
        Op::Unlink,
        Op::Touch,
        Op::Size,
        Op::ClearExpire,
        Op::RemainingTtl,
        Op::ExpireTime,
        Op::Expire(Duration::ZERO, None),
    ];
    let conditions: [Option<ExpireCondition>; 5] =
        [None, Some(NotSet), Some(Set), Some(Greater), Some(Less)];
    for condition in conditions {
        for ttl in [TTL / 2, TTL * 2] {
            ops.push(Op::Expire(ttl, condition));
            ops.push(Op::ExpireAt(SystemTime::now() + ttl, condition));
        }
        let past = SystemTime::now() - Duration::from_secs(1);
        ops.push(Op::ExpireAt(past, condition));
    }
    ops
}

#[tokio::test(flavor = "multi_thread")]
async fn objects() {
    let mut comparison = Comparison::start().await;
    for state in OBJECTS {
        for op in object_operations() {
            let case = Case {
                state,
                other: lasting(Content::Missing),
                op,
            };
            comparison.run(case).await;
        }
        for other in OBJECTS {
            for op in [Op::Rename, Op::RenameNx, Op::Copy, Op::CopyAndReplace] {
                // The second name depends on the first: see `with_other`.
                let case = Case {
                    state,
                    other,
                    op: op(String::new()),
                };
                comparison.run(case).await;
            }
        }
    }
    comparison.end(&[(RefusesZeroTtl, &["Expire"])]);
}
