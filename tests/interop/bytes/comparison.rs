//! Runs cases on both sides and keeps the mistakes.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::case::Difference::{self, RefusesText, RefusesZeroTtl};
use super::case::{Case, Effect, TTL};
use crate::common::operation::{Op, Outcome, Side, epoch_millis};
use crate::common::world::{NEWEST, World, channel};
use crate::support::channel::Channel;
use crate::support::monitor::{Command, Monitor};
use crate::support::snapshot::{Snapshot, snapshot, snapshot_all};

/// Runs cases and keeps the mistakes.
pub struct Comparison {
    pub world: World,
    pub commands: Monitor,
    /// The messages, while the test listens.
    pub received: Option<Channel>,
    pub number: usize,
    pub mistakes: String,
    /// The differences seen, each with the operation's name.
    pub differences: BTreeSet<(Difference, String)>,
}

impl Comparison {
    pub async fn start() -> Comparison {
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

    /// From now on the test listens to all semaphores.
    pub async fn listen(&mut self) {
        let received = Channel::pattern(&self.world.server, "redisson_sc:*").await;
        self.received = Some(received);
    }

    pub async fn run(&mut self, case: Case) {
        self.number += 1;
        // The names have equal length and were never used before: nothing of an earlier case can be mistaken for this one's.
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
        let mut unheard = None;
        let mut commands = Vec::new();
        for (side, key) in [
            (Side::Java(&self.world.java), &java),
            (Side::Rust(&self.world.rust), &rust),
        ] {
            let outcome = side.run(key, &with_other(&case.op, key)).await;
            commands = self.commands.until_marker().await;
            let published = published(&commands, key);
            if let Some(received) = &mut self.received {
                let heard = received.until_marker().await.into_iter();
                let heard = heard.filter(|message| message.channel == channel(key));
                let heard: Vec<String> = heard.map(|message| message.payload).collect();
                // Repeated wake-ups of callers that are still parked come later.
                if !heard.starts_with(&published) {
                    unheard = Some(format!("published {published:?}, heard {heard:?}"));
                }
            }
            effects.push((key, outcome, published));
        }
        if let Some(text) = unheard {
            self.mistake(&case, &text);
        }
        let mut after = Vec::new();
        for (key, outcome, messages) in effects {
            after.push(self.effect(key, outcome, messages).await);
        }
        let [java, ours] = after.try_into().expect("two sides");

        let (expected, differences) = case.expected(&before, &java, self.received.is_some());
        if !expected.matches(&case.op, &ours) {
            let text = format!(
                "\n  Redisson: {java:?}\n  expected: {expected:?} {differences:?}\n  ours:     {ours:?}"
            );
            self.mistake(&case, &text);
        }
        for difference in differences {
            // Where Redisson fails as well and changes nothing, a refusal is no difference.
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
        self.check_records(&case, &rust, changed, commands).await;
    }

    /// Besides the keys themselves there is at most this client's record, which is there for a moment after a change, and the queue.
    async fn check_records(
        &mut self,
        case: &Case,
        key: &str,
        changed: bool,
        mut commands: Vec<Command>,
    ) {
        let id = self.world.rust.id();
        let own = format!("redisson_sc_once:{{{key}}}:{id}");
        let mut keys = snapshot_all(&mut self.world.redis).await;
        let mut known = vec![key.to_owned(), format!("java-{}", self.number)];
        known.extend([other(&known[0]), other(&known[1])]);
        keys.retain(|key, _| !known.contains(key));
        // The record may have gone between the list of keys and the look at it.
        let recorded = keys.remove(&own).filter(|record| record.kind != "none");
        commands.extend(self.commands.until_marker().await);
        let deleted =
            |command: &Command| command.name == "DEL" && command.args.first() == Some(&own);
        let deleted = commands.iter().any(deleted);
        // A caller that got nothing leaves the queue a moment later.
        for (of, kind) in [("queue", "zset"), ("notes", "hash")] {
            let left = keys.remove(&format!("redisson_sc_{of}:{{{key}}}"));
            // The key may have gone between the list of keys and the look at it.
            let expires =
                |left: &Snapshot| left.kind == "none" || left.kind == kind && left.ttl.is_some();
            if left.as_ref().is_some_and(|left| !expires(left)) {
                self.mistake(case, &format!("it stays: {left:?}"));
            }
        }
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
            None => !changed || deleted,
        };
        if !good {
            self.mistake(case, &format!("changed: {changed}, record: {recorded:?}"));
        }
    }

    pub async fn effect(&mut self, key: &str, outcome: Outcome, published: Vec<String>) -> Effect {
        Effect {
            outcome,
            key: snapshot(&mut self.world.redis, key).await,
            other: snapshot(&mut self.world.redis, &other(key)).await,
            published,
        }
    }

    pub fn mistake(&mut self, case: &Case, text: &str) {
        let Case { state, other, op } = case;
        let listened = self.received.as_ref().map_or("", |_| ", listened to");
        writeln!(
            self.mistakes,
            "\n{op:?} on {state:?}, other {other:?}{listened}: {text}"
        )
        .expect("a String takes everything");
    }

    /// Nothing was wrong, and just these differences were seen.
    pub fn end(self, differences: &[(Difference, &[&str])]) {
        assert!(self.mistakes.is_empty(), "{}", self.mistakes);
        let expected: BTreeSet<(Difference, String)> = differences
            .iter()
            .flat_map(|(difference, ops)| ops.iter().map(|op| (*difference, (*op).to_owned())))
            .collect();
        assert_eq!(self.differences, expected, "after {} cases", self.number);
    }
}

pub fn other(key: &str) -> String {
    format!("{key}-other")
}

pub fn with_other(op: &Op, key: &str) -> Op {
    match op {
        Op::Rename(_) => Op::Rename(other(key)),
        Op::RenameNx(_) => Op::RenameNx(other(key)),
        Op::Copy(_) => Op::Copy(other(key)),
        Op::CopyAndReplace(_) => Op::CopyAndReplace(other(key)),
        op => op.clone(),
    }
}

/// The operation without its arguments.
pub fn word(op: &Op) -> String {
    let text = format!("{op:?}");
    text.split('(').next().expect("the first part").to_owned()
}

/// The messages that the commands sent, other than those of a repeated wake-up, which comes whenever it comes.
pub fn published(commands: &[Command], key: &str) -> Vec<String> {
    let mut repeats = false;
    let mut payloads = Vec::new();
    for command in commands {
        match command.name.as_str() {
            "EVAL" | "EVALSHA" => {
                repeats = command.args.iter().any(|argument| argument == "announce");
            }
            "PUBLISH" | "SPUBLISH" if !command.args[0].starts_with("channel-marker") => {
                if repeats && command.is_lua() {
                    continue;
                }
                let payload = command.args[1].clone();
                let on = |key: &str| command.args[0] == channel(key) && command.name == "PUBLISH";
                payloads.push(if on(key) {
                    payload
                } else if on(&other(key)) {
                    format!("other {payload}")
                } else {
                    format!("{} {} {payload}", command.name, command.args[0])
                });
            }
            _ => {}
        }
    }
    payloads
}
