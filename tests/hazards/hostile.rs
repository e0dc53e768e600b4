//! Values of other programs, in every key that is read. No call panics. Every call ends, and its error names the object.
//! A call whose error denies any effect has changed nothing. The next call succeeds when the value has gone.

use std::collections::BTreeSet;
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Effect, Error};

use crate::lost::builder;
use crate::subject::{Expected, Subject, tolerance, waits_without_limit};
use crate::subjects::for_every_subject;
use crate::support::clients::LIMIT;
use crate::support::monitor::{Command, Monitor};
use crate::support::server::RedisServer;
use crate::support::snapshot::{Snapshot, snapshot};
use crate::support::waiters::until;
use tokio::time::timeout;

/// The command that writes each value into a key.
const VALUES: [&[&str]; 12] = [
    &["RPUSH", "nobody's"],
    &["HSET", "nobody's", "value"],
    &["ZADD", "1e300", "nobody's"],
    &["SADD", "nobody's"],
    &["SET", ""],
    &["SET", "no number"],
    &["SET", "1.5"],
    &["SET", "-9"],
    &["SET", "-9223372036854775808"],
    &["SET", "9223372036854775807"],
    &["SET", "99999999999999999999"],
    &["SET", "1 -1 0 999"],
];

/// How many values are tried with each call and key, and with each call and record.
const EACH: [usize; 2] = [3, 6];

/// Texts after the number of a record.
const ANSWERS: [&str; 8] = [
    "",
    " x",
    " -1 0 999",
    " done 1 -1 0 0 0 0 0 11 - - -",
    " done 5 -1 -1 0 0 0 1 |",
    " refused ERR anything",
    " unreadable x",
    " stale",
];

/// Forged texts for a record. Some texts follow the number of the next call, or of the last one.
fn forged(record: &Snapshot) -> Vec<Vec<Vec<u8>>> {
    let number = record.value.first().and_then(|text| text.split(' ').next());
    let number: u64 = number.map_or(0, |number| number.parse().unwrap());
    let texts = [
        "",
        "no number",
        "9999999999999999 -1 0 1",
        "1e999 x",
        "nan x",
        "-1 x",
    ];
    let mut all: Vec<Vec<u8>> = texts.map(Into::into).into();
    all.push([format!("{number} ").as_bytes(), b"\xff\x00\xfe"].concat());
    for (place, answer) in ANSWERS.iter().enumerate() {
        let number = number + u64::from(place % 4 != 1);
        all.push(format!("{number:016}{answer}").into());
        all.push(format!("{number}{answer}").into());
    }
    all.into_iter()
        .map(|text| vec![b"SET".into(), text])
        .collect()
}
/// A call may have to wait without a limit because of a value. It is dropped after this time.
const PATIENCE: Duration = Duration::from_millis(60);

/// The number of panics in the library, in any task.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Counts panics from now on. Tokio would hide the panics of its tasks.
pub fn count_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            // A test that fails panics, too.
            let ours = |file: &str| !file.starts_with("tests/");
            let ours = panicked.location().is_some_and(|place| ours(place.file()));
            PANICS.fetch_add(ours.into(), Ordering::SeqCst);
            usual(panicked);
        }));
    });
}

pub fn assert_no_panic(what: &str) {
    assert_eq!(PANICS.load(Ordering::SeqCst), 0, "panicked: {what}");
}

/// The keys that the scripts are given.
fn keys_of(commands: &[Command]) -> BTreeSet<String> {
    let scripts = commands.iter().filter(|command| command.is_script());
    let mut all = BTreeSet::new();
    for script in scripts {
        let count: usize = script.args[1].parse().unwrap();
        all.extend(script.args[2..][..count].iter().cloned());
    }
    all
}

async fn write(redis: &mut MultiplexedConnection, key: &str, value: &[Vec<u8>]) {
    let mut pipe = redis::pipe();
    pipe.atomic().cmd("DEL").arg(key).ignore();
    let command = std::str::from_utf8(&value[0]).expect("a command");
    pipe.cmd(command).arg(key).arg(&value[1..]).ignore();
    // A script gives an end to a slot without one.
    pipe.pexpire(key, 3_600_000).ignore();
    let _: () = pipe.query_async(redis).await.unwrap();
}

/// Whether a key holds nothing but the order of waiters, or their grants.
fn is_of_a_queue(key: &str) -> bool {
    let parts = ["queue", "grants", "notes"];
    parts
        .iter()
        .any(|part| key.starts_with(&format!("redisson_sc_{part}:")))
}

pub async fn read<K: AsRef<str>>(redis: &mut MultiplexedConnection, keys: &[K]) -> Vec<Snapshot> {
    let mut all = Vec::new();
    for key in keys {
        all.push(snapshot(redis, key.as_ref()).await);
    }
    all
}

async fn in_each_key<S: Subject>() {
    count_panics();
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let mut monitor = Monitor::start(&server).await;
    let teacher = builder(server.url()).connect().await.unwrap();
    let expected = Expected::of::<S>(&teacher, &mut redis).await;
    let usual = VALUES.map(|words| words.iter().map(|word| word.as_bytes().to_vec()).collect());
    let (mut tried, mut refused) = (0, 0);
    // How many calls may wait without a limit, and how many of these calls did.
    let (mut patient, mut dropped) = (0, 0);
    for (number, (call, _)) in S::CALLS.iter().enumerate() {
        if call.ends_with("drop") {
            continue;
        }
        let client = builder(server.url()).connect().await.unwrap();
        // A call on a similar object shows which keys are read.
        let taught = format!("taught-{number}-name");
        let subject = S::new(&client, &taught);
        monitor.until_marker().await;
        subject.prepare(call).await.unwrap();
        assert_eq!(subject.call(call).await, Ok(true));
        let keys = keys_of(&monitor.until_marker().await);
        assert!(!keys.is_empty());
        for (place, key) in keys.iter().enumerate() {
            let is_record = key.contains("_once");
            // Each value is tried with each key, at this call or another.
            let each = EACH[usize::from(is_record)];
            for turn in number * each + place..(number + 1) * each + place {
                tried += 1;
                let name = format!("hostile-{tried}-name");
                let here = |key: &String| key.replace(&taught, &name);
                let (key, keys): (_, Vec<_>) = (here(key), keys.iter().map(here).collect());
                // A client's own records contain refusals, too.
                let others = |other: &&String| **other == key || !other.contains(client.id());
                let others: Vec<_> = keys.iter().filter(others).collect();
                let subject = S::new(&client, &name);
                subject.prepare(call).await.unwrap();
                let values = match is_record {
                    true => forged(&snapshot(&mut redis, &key).await),
                    false => usual.to_vec(),
                };
                let value = &values[turn % values.len()];
                let text = value.join(&b' ');
                let text = String::from_utf8_lossy(&text);
                let what = format!("{} {call}: {text:?} in {key}", S::NAME);
                write(&mut redis, &key, value).await;
                let began = Instant::now();
                let before = read(&mut redis, &others).await;
                let waits = waits_without_limit(call)
                    || S::WAITS_FOR.is_some_and(|lock| key.starts_with(lock));
                patient += usize::from(waits);
                let limit = if waits { PATIENCE } else { LIMIT };
                let told = timeout(limit, subject.call(call)).await;
                assert_no_panic(&what);
                let Ok(told) = told else {
                    assert!(waits, "{what}: it hangs");
                    dropped += 1;
                    continue;
                };
                if is_record {
                    // The forged text may have answered the call. The call does not take effect twice, or in part.
                    let allowed = [expected.before(call), expected.after(call)];
                    until(
                        &format!("{what}: {told:?}, then {allowed:?}"),
                        LIMIT,
                        async || allowed.contains(&&*subject.left(&mut redis).await),
                    )
                    .await;
                }
                if let Err(error) = told {
                    refused += 1;
                    let what = format!("{what}: told {error}");
                    assert!(error.to_string().contains(&name), "{what}");
                    assert!(!error.is_retryable(), "{what}");
                    let known = matches!(
                        error,
                        Error::Server { .. }
                            | Error::NotANumber { .. }
                            | Error::WrongType { .. }
                            | Error::OutcomeUnknown { .. }
                    );
                    assert!(known || !is_record, "{what}");
                    // Without its record, a call that was sent twice can't know the effect of the first request.
                    let is_known = error.effect() == Effect::NotApplied || is_record;
                    assert!(is_known || !what.contains("WRONGTYPE"), "{what}");
                    if error.effect() == Effect::NotApplied {
                        let after = read(&mut redis, &others).await;
                        // A script may delete a value of another type in place of a queue or its grants. It puts off the end of a
                        // record that has answered it.
                        let gone = |two: &Snapshot| two.kind == "none" && is_of_a_queue(&key);
                        let answers =
                            |one: &Snapshot, two: &Snapshot| is_record && one.value == two.value;
                        let same = before.iter().zip(&after).zip(&others);
                        let same = same.map(|((one, two), at)| {
                            one.matches(two, tolerance(began))
                                || ***at == key && (gone(two) || answers(one, two))
                        });
                        assert!(same.min() == Some(true), "{what}: {before:?}, {after:?}");
                    }
                }
                // The next caller succeeds when the value has gone.
                let _: () = redis.del(&keys).await.unwrap();
                drop(subject);
                let next = S::new(&client, &name);
                let next =
                    async { next.prepare(call).await.is_ok() && next.call(call).await == Ok(true) };
                let next = timeout(LIMIT, next)
                    .await
                    .unwrap_or_else(|_| panic!("{what}: then it hangs"));
                assert!(next, "{what}: then it is refused");
            }
        }
        timeout(LIMIT, client.shutdown())
            .await
            .expect("it ends")
            .unwrap();
    }
    assert!(refused > 0, "nobody minds");
    assert!(
        dropped < patient,
        "{dropped} of {patient} are not looked at"
    );
}

#[tokio::test]
async fn values_that_nobody_of_ours_has_written() {
    for_every_subject!(in_each_key);
}
