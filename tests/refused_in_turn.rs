//! Each command that the scripts of a primitive use is forbidden in turn: what is told and what has happened agree. Whoever
//! is refused has changed nothing, and goes on when it is allowed again.
//!
//! A primitive is one [`Subject`]; the commands are read off a run in which all is allowed.

mod layouts;
mod support;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use layouts::{Handle, Layout, Shape};
use redis::aio::MultiplexedConnection;
use redisson_semaphore::recipes::StringLock;
use redisson_semaphore::{Client, Error, Held, RCountDownLatch, RLock, Result};
use support::clients::{LIMIT, limited};
use support::monitor::Monitor;
use support::refusals::assert_clear;
use support::snapshot::{Snapshot, snapshot};
use tokio::time::timeout;

const NAME: &str = "subject";
const SHORT: Duration = Duration::from_millis(5);
/// How far times to live may be apart that are the same.
const TOLERANCE: Duration = Duration::from_secs(60);

/// A primitive: calls, by their numbers, on an object called [`NAME`].
trait Subject {
    const CALLS: usize;

    fn new(client: &Client) -> Self;

    /// What others go by.
    fn keys(&self) -> Vec<String>;

    /// Commands without which some call can't do what it does.
    fn needs(&self) -> &'static [&'static str];

    /// Brings about what the call meets; all is allowed.
    async fn prepare(&self, call: usize) -> Result<()>;

    /// Whether it has done what it does.
    async fn call(&self, call: usize) -> Result<bool>;
}

impl Subject for RCountDownLatch {
    const CALLS: usize = 6;

    fn new(client: &Client) -> Self {
        client.count_down_latch(NAME)
    }

    fn keys(&self) -> Vec<String> {
        vec![NAME.to_owned()]
    }

    fn needs(&self) -> &'static [&'static str] {
        &["get", "set", "decrby", "del", "publish", "pttl"]
    }

    async fn prepare(&self, call: usize) -> Result<()> {
        self.delete().await?;
        match call {
            0 => {}
            1 => drop(self.try_set_count(2).await?),
            _ => drop(self.try_set_count(1).await?),
        }
        Ok(())
    }

    async fn call(&self, call: usize) -> Result<bool> {
        match call {
            0 => self.try_set_count(3).await,
            1 | 2 => self.count_down().await.map(|()| true),
            3 => self.delete().await,
            4 => Ok(!self.wait_for(SHORT).await?),
            _ => Ok(self.count().await? == 1),
        }
    }
}

/// A classic semaphore, and the permit that it is called with.
struct Leased<const LAYOUT: usize> {
    semaphore: Handle,
    id: Mutex<String>,
}

impl<const LAYOUT: usize> Subject for Leased<LAYOUT> {
    const CALLS: usize = 7;

    fn new(client: &Client) -> Self {
        Leased {
            semaphore: layouts::ALL[LAYOUT].make(client, NAME, Shape::new(2)),
            id: Mutex::default(),
        }
    }

    /// The counter and the tokens are nobody's permits.
    fn keys(&self) -> Vec<String> {
        let keys: &[&str] = match layouts::ALL[LAYOUT] {
            Layout::Timestamp | Layout::TimestampInSeconds | Layout::Set => &[NAME],
            Layout::Fair | Layout::FairUnderLock => &[NAME, "subject:owner"],
            Layout::FairWithTokens => &[NAME, "subject-owners"],
            Layout::Slots => &["subject:1", "subject:2"],
        };
        keys.iter().map(|key| (*key).to_owned()).collect()
    }

    fn needs(&self) -> &'static [&'static str] {
        match layouts::ALL[LAYOUT] {
            Layout::Timestamp | Layout::TimestampInSeconds => {
                &["get", "set", "time", "zadd", "zrem"]
            }
            Layout::Fair | Layout::FairUnderLock | Layout::FairWithTokens => {
                &["get", "set", "time", "incrby", "zadd", "zrem"]
            }
            Layout::Set => &["get", "set", "time", "sadd", "srem"],
            Layout::Slots => &["get", "set", "time", "mget", "del"],
        }
    }

    async fn prepare(&self, call: usize) -> Result<()> {
        self.semaphore.release_all().await?;
        let held = self.semaphore.acquire().await?;
        *self.id.lock().unwrap() = held.id().to_owned();
        if call == 2 {
            self.semaphore.acquire().await?;
        }
        Ok(())
    }

    async fn call(&self, call: usize) -> Result<bool> {
        let id = self.id.lock().unwrap().clone();
        match call {
            0 => Ok(self.semaphore.try_acquire().await?.is_some()),
            1 => self.semaphore.acquire().await.map(|_| true),
            2 => Ok(self.semaphore.try_acquire_for(SHORT).await?.is_none()),
            3 => self.semaphore.release(&id).await,
            4 => self.semaphore.refresh(&id).await,
            5 => Ok(self.semaphore.holders().await?.len() == 1),
            _ => Ok(self.semaphore.release_all().await? == 1),
        }
    }
}

impl Subject for StringLock {
    const CALLS: usize = 5;

    fn new(client: &Client) -> Self {
        client.string_lock(NAME)
    }

    fn keys(&self) -> Vec<String> {
        vec![format!("lock:{NAME}")]
    }

    fn needs(&self) -> &'static [&'static str] {
        &["get", "set", "time", "mget", "del"]
    }

    async fn prepare(&self, call: usize) -> Result<()> {
        self.force_unlock().await?;
        if call > 0 {
            self.lock_with_lease(TOLERANCE).await?;
        }
        Ok(())
    }

    async fn call(&self, call: usize) -> Result<bool> {
        match call {
            0 => self.try_lock().await,
            1 => self.unlock().await.map(|()| true),
            2 => Ok(!self.try_lock_for(SHORT).await?),
            3 => self.is_locked().await,
            _ => self.force_unlock().await,
        }
    }
}

/// A lock, and another owner of it.
struct Shared([RLock; 2]);

impl Subject for Shared {
    const CALLS: usize = 8;

    fn new(client: &Client) -> Self {
        let lock = client.lock(NAME);
        Shared([lock.with_owner(1), lock.with_owner(2)])
    }

    fn keys(&self) -> Vec<String> {
        vec![NAME.to_owned()]
    }

    fn needs(&self) -> &'static [&'static str] {
        &["hset", "pexpire", "pttl", "del", "hget", "publish"]
    }

    async fn prepare(&self, call: usize) -> Result<()> {
        let Shared([one, _]) = self;
        one.force_unlock().await?;
        if call > 1 {
            one.lock_with_lease(TOLERANCE).await?;
        }
        if call == 3 {
            one.lock_with_lease(TOLERANCE).await?;
        }
        Ok(())
    }

    async fn call(&self, call: usize) -> Result<bool> {
        let Shared([one, two]) = self;
        match call {
            0 => one.try_lock().await,
            1 => one.lock_with_lease(TOLERANCE).await.map(|()| true),
            2 | 3 => one.unlock().await.map(|()| true),
            4 => Ok(!two.try_lock_for(SHORT).await?),
            5 => Ok(one.hold_count().await? == 1),
            6 => two.is_locked().await,
            _ => two.force_unlock().await,
        }
    }
}

async fn snapshots(control: &mut MultiplexedConnection, keys: &[String]) -> Vec<Snapshot> {
    let mut all = Vec::new();
    for key in keys {
        all.push(snapshot(control, key).await);
    }
    all
}

async fn in_time<S: Subject>(subject: &S, call: usize) -> Result<bool> {
    let told = timeout(LIMIT, subject.call(call)).await;
    told.unwrap_or_else(|_| panic!("call {call} hangs"))
}

async fn allow(control: &mut MultiplexedConnection, rule: &str) {
    redis::cmd("ACL")
        .arg(&["SETUSER", "app", "+@all", rule])
        .exec_async(control)
        .await
        .unwrap();
}

/// Makes all calls once; which commands the scripts use for them.
async fn commands_of<S: Subject>(subject: &S, monitor: &mut Monitor) -> BTreeSet<String> {
    for call in 0..S::CALLS {
        subject.prepare(call).await.unwrap();
        assert_eq!(in_time(subject, call).await, Ok(true), "call {call}");
    }
    let commands = monitor.until_marker().await.into_iter();
    let of_scripts = commands.filter(|command| command.is_lua());
    of_scripts
        .map(|command| command.name.to_lowercase())
        .collect()
}

async fn each_command_is_refused_in_turn<S: Subject>() {
    let (server, client) = limited("~* &* +@all").await;
    let mut control = server.connection().await;
    let subject = S::new(&client);
    let keys = subject.keys();
    let mut monitor = Monitor::start(&server).await;
    let commands = commands_of(&subject, &mut monitor).await;
    assert!(commands.len() >= 4, "{commands:?}");
    for command in &commands {
        let mut refused = 0;
        for call in 0..S::CALLS {
            subject.prepare(call).await.unwrap();
            let before = snapshots(&mut control, &keys).await;
            allow(&mut control, &format!("-{command}")).await;
            let told = in_time(&subject, call).await;
            allow(&mut control, "+@all").await;
            let what = format!("{command} is forbidden: call {call} is told {told:?}");
            let Err(error) = told else {
                assert_eq!(told, Ok(true), "{what}");
                continue;
            };
            refused += 1;
            assert!(matches!(error, Error::PermissionDenied { .. }), "{what}");
            assert_clear(&error, NAME);
            let after = snapshots(&mut control, &keys).await;
            let same = before.iter().zip(&after);
            let same = same.map(|(one, two)| one.matches(two, TOLERANCE));
            assert!(same.min() == Some(true), "{what}: {before:?}, {after:?}");
            assert_eq!(in_time(&subject, call).await, Ok(true), "{what}, and again");
        }
        // What serves nothing but the order of callers is done without.
        assert!(
            refused > 0 || !subject.needs().contains(&&**command),
            "{command}"
        );
    }
    for command in subject.needs() {
        assert!(
            commands.contains(*command),
            "{command} is not used: {commands:?}"
        );
    }
}

macro_rules! subjects {
    ($($name:ident: $subject:ty),+ $(,)?) => {
        $(
            #[tokio::test]
            async fn $name() {
                each_command_is_refused_in_turn::<$subject>().await;
            }
        )+
    };
}

subjects! {
    count_down_latch: RCountDownLatch,
    timestamp: Leased<0>,
    timestamp_in_seconds: Leased<1>,
    fair: Leased<2>,
    fair_under_lock: Leased<3>,
    fair_with_tokens: Leased<4>,
    set: Leased<5>,
    slots: Leased<6>,
    string_lock: StringLock,
    lock: Shared,
}

/// A semaphore of two permits, and who has them.
async fn both_taken(layout: Layout, client: &Client) -> (Handle, [Held; 2]) {
    let semaphore = layout.make(client, NAME, Shape::new(2));
    let both = [
        semaphore.acquire().await.unwrap(),
        semaphore.acquire().await.unwrap(),
    ];
    (semaphore, both)
}

/// Calls that are made together, of which one is refused: what the other is told is what has happened.
#[tokio::test]
async fn a_refused_refresh_takes_no_release_along() {
    for layout in layouts::ALL {
        let (server, client) = limited("~* &* +@all").await;
        let mut control = server.connection().await;
        let (semaphore, [one, two]) = both_taken(layout, &client).await;
        let command = match layout {
            Layout::Set => "-smismember",
            Layout::Slots => "-pexpire",
            _ => "-zadd",
        };
        allow(&mut control, command).await;
        // The other two travel together, behind the first one.
        let calls = futures::future::join3(
            semaphore.holders(),
            semaphore.release(one.id()),
            semaphore.refresh(two.id()),
        );
        let (_, released, refreshed) = timeout(LIMIT, calls).await.expect("a call hangs");
        allow(&mut control, "+@all").await;
        let what = format!("{layout:?}: {released:?}, {refreshed:?}");
        let held = semaphore.holders().await.unwrap();
        let is_held = |id| held.iter().any(|holder| holder.id() == id);
        match released {
            Ok(released) => assert!(released && !is_held(one.id()), "{what}"),
            Err(_) => assert!(is_held(one.id()), "{what}"),
        }
        assert!(is_held(two.id()), "{what}");
        assert!(refreshed.is_err() || layout == Layout::Slots, "{what}");
    }
}

/// The same with an acquisition that can't be put on record, and for what can be released without.
#[tokio::test]
async fn a_refused_acquisition_takes_no_release_along() {
    for layout in layouts::ALL {
        let (server, client) = limited("~* &* +@all").await;
        let mut control = server.connection().await;
        let (semaphore, [one, two]) = both_taken(layout, &client).await;
        allow(&mut control, "-set").await;
        let calls = futures::future::join3(
            semaphore.holders(),
            semaphore.release(one.id()),
            semaphore.acquire(),
        );
        let (_, released, acquired) = timeout(LIMIT, calls).await.expect("a call hangs");
        allow(&mut control, "+@all").await;
        assert_eq!(released, Ok(true), "{layout:?}: {acquired:?}");
        let error = acquired.unwrap_err();
        assert!(matches!(error, Error::PermissionDenied { .. }), "{error}");
        let held = semaphore.holders().await.unwrap();
        let held: Vec<_> = held.iter().map(|holder| holder.id()).collect();
        assert_eq!(held, [two.id()], "{layout:?}");
    }
}
