//! The description that a primitive gives of itself, so that everything that can go wrong is tried on it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::future::join_all;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, Effect, Result};
use tokio::time::timeout;

use crate::support::clients::LIMIT;
use crate::support::waiters::until;

/// A wait that ends before anything happens.
pub const SHORT: Duration = Duration::from_millis(5);
/// Longer than any test runs.
pub const HOUR: Duration = Duration::from_secs(3600);

/// How far two equal times to live may differ when they were read one after the other since `began`.
pub fn tolerance(began: Instant) -> Duration {
    Duration::from_secs(60) + began.elapsed()
}

/// The effect of a call where nothing goes wrong. It decides what the call may leave where something goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The call takes something. A caller without an answer does not have it in the end.
    Take,
    /// The call releases something. Once begun, it is carried out in the end.
    Give,
    /// Any other change. A caller without an answer does not know the outcome.
    Change,
    /// The call leaves nothing: its end undoes its effect, or its time runs out.
    Nothing,
    /// The call only reads, so its outcome can't be unknown.
    Look,
}

/// A primitive: a handle of one object, and everything that the handle has taken and not released.
pub trait Subject: Sized + Send + Sync + 'static {
    /// The name of the primitive, in one word.
    const NAME: &'static str;

    /// The calls of the primitive, each of about 1 request, and the kind of each call.
    const CALLS: &'static [(&'static str, Kind)];

    /// Commands without which some call can't work.
    const NEEDS: &'static [&'static str];

    /// Calls that use up their guard, whatever their result is. They can't be made again.
    const ONCE: &'static [&'static str] = &[];

    /// The beginning of a key that other clients may hold for as long as they like. Every call that takes waits for that key.
    const WAITS_FOR: Option<&'static str> = None;

    /// Whether a waiter checks again and again by itself, so that a request may be under way at any time.
    const LOOKS: bool = false;

    /// Creates a handle without I/O, with an owner of its own.
    fn new(client: &Client, name: &str) -> Self;

    /// The keys that other clients go by.
    fn keys(&self) -> Vec<String>;

    /// The content of the keys, as far as the same calls always leave the same content.
    fn left(&self, redis: &mut MultiplexedConnection) -> impl Future<Output = String> + Send;

    /// Prepares the state that the call meets, on an object that does not exist.
    fn prepare(&self, call: &'static str) -> impl Future<Output = Result<()>> + Send;

    /// Makes the call. Returns whether it has had its effect.
    fn call(&self, call: &'static str) -> impl Future<Output = Result<bool>> + Send;

    /// Makes every later caller wait, whether the object exists or not.
    fn close(&self) -> impl Future<Output = Result<()>> + Send {
        async {
            self.begin_anew().await?;
            self.take(None).await.map(drop)
        }
    }

    /// Lets one caller in, on the handle that has closed the object.
    fn open(&self) -> impl Future<Output = Result<()>> + Send {
        self.give()
    }

    /// Lets one caller in after all data are lost.
    fn begin_anew(&self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Takes the object. Without a limit the call waits until the object is available.
    fn take(&self, limit: Option<Duration>) -> impl Future<Output = Result<bool>> + Send;

    /// Releases everything that [`take`](Self::take) has taken.
    fn give(&self) -> impl Future<Output = Result<()>> + Send;
}

/// The content of the keys before and after each call where nothing goes wrong.
#[derive(Clone)]
pub struct Expected(BTreeMap<&'static str, [String; 2]>);

impl Expected {
    /// Makes all calls once. The server knows the scripts afterwards.
    pub async fn of<S: Subject>(client: &Client, redis: &mut MultiplexedConnection) -> Expected {
        let mut all = BTreeMap::new();
        for (call, kind) in S::CALLS {
            let subject = S::new(client, &format!("{}-undisturbed-{call}", S::NAME));
            subject.prepare(call).await.unwrap();
            let before = subject.left(redis).await;
            assert_eq!(in_time(&subject, call).await, Ok(true), "{call}");
            let changes = !matches!(kind, Kind::Nothing | Kind::Look);
            if changes {
                until(&format!("{call} has changed {before}"), LIMIT, async || {
                    subject.left(redis).await != before
                })
                .await;
            }
            let after = match changes {
                true => subject.left(redis).await,
                false => before.clone(),
            };
            all.insert(*call, [before, after]);
        }
        Expected(all)
    }

    pub fn before(&self, call: &str) -> &str {
        &self.0[call][0]
    }

    pub fn after(&self, call: &str) -> &str {
        &self.0[call][1]
    }

    /// The contents that the keys may have in the end.
    pub fn in_the_end(&self, call: &str, fate: End) -> Vec<&str> {
        match fate {
            End::Done => vec![self.after(call)],
            End::NotDone => vec![self.before(call)],
            End::Either => vec![self.before(call), self.after(call)],
        }
    }
}

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Done,
    NotDone,
    Either,
}

impl End {
    /// The outcome of a call that was begun, and whose caller got no answer.
    pub fn unknown(kind: Kind) -> End {
        match kind {
            Kind::Take | Kind::Nothing | Kind::Look => End::NotDone,
            Kind::Give => End::Done,
            Kind::Change => End::Either,
        }
    }

    /// The outcome that follows from the result of a call.
    pub fn told(kind: Kind, told: &Result<bool>) -> End {
        match told {
            Ok(true) => End::Done,
            Ok(false) => panic!("it does not do what it does"),
            Err(error) if error.effect() == Effect::NotApplied => End::NotDone,
            Err(_) => End::unknown(kind),
        }
    }

    /// The outcome of a call that was dropped after `polls` polls, unless it had been answered.
    pub fn dropped(kind: Kind, answer: &Option<Result<bool>>, polls: usize) -> End {
        match answer {
            Some(told) => End::told(kind, told),
            None if polls == 0 => End::NotDone,
            None => End::unknown(kind),
        }
    }
}

/// Objects, and the outcomes of their calls.
pub struct Books<S> {
    expected: Expected,
    entries: Vec<Entry<S>>,
}

struct Entry<S> {
    what: String,
    subject: S,
    call: &'static str,
    end: End,
}

impl<S: Subject> Books<S> {
    pub fn new(expected: Expected) -> Books<S> {
        Books {
            expected,
            entries: Vec::new(),
        }
    }

    pub fn expected(&self) -> &Expected {
        &self.expected
    }

    /// Waits until the content of the object's keys is an allowed one.
    pub async fn settled(
        &mut self,
        redis: &mut MultiplexedConnection,
        what: String,
        subject: S,
        call: &'static str,
        end: End,
    ) {
        let entry = Entry {
            what,
            subject,
            call,
            end,
        };
        entry.until_settled(&self.expected, redis).await;
        self.entries.push(entry);
    }

    /// Shuts the client down, and asserts that each content is still an allowed one.
    pub async fn close(self, redis: &mut MultiplexedConnection, client: Client) {
        timeout(LIMIT, client.shutdown())
            .await
            .expect("the shutdown ends")
            .unwrap();
        for entry in self.entries {
            let left = entry.subject.left(redis).await;
            let allowed = self.expected.in_the_end(entry.call, entry.end);
            assert!(
                allowed.contains(&&*left),
                "{}: after the shutdown there is {left}, not {allowed:?}",
                entry.what
            );
        }
    }
}

impl<S: Subject> Entry<S> {
    async fn until_settled(&self, expected: &Expected, redis: &mut MultiplexedConnection) {
        let allowed = expected.in_the_end(self.call, self.end);
        let mut left = String::new();
        let settled = async {
            loop {
                left = self.subject.left(redis).await;
                if allowed.contains(&&*left) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        };
        let settled = timeout(LIMIT, settled).await;
        assert!(
            settled.is_ok(),
            "{}: there is {left}, not {allowed:?}",
            self.what
        );
    }
}

/// Whether a call may wait without a limit. The first word of its name, which is the method's, says so.
pub fn waits_without_limit(call: &str) -> bool {
    let verb = call.split([',', ' ']).next().expect("there is a word");
    let waits = [
        "acquire",
        "acquire_many",
        "permit",
        "lock",
        "lock_with_lease",
        "guard",
        "wait",
    ];
    waits.contains(&verb)
}

/// The result of a call. Panics when the call hangs.
pub async fn in_time<S: Subject>(subject: &S, call: &'static str) -> Result<bool> {
    let told = timeout(LIMIT, subject.call(call)).await;
    told.unwrap_or_else(|_| panic!("{}: {call} hangs", S::NAME))
}

/// The results of all calls, made at once.
pub async fn tell_all<S: Subject>(prepared: &[(S, &'static str, Kind)]) -> Vec<Result<bool>> {
    let calls = prepared.iter();
    join_all(calls.map(|(subject, call, _)| in_time(subject, call))).await
}

/// Takes the object for another owner if it is available, and releases it. This leaves everything unchanged.
pub async fn pass<S: Subject>(client: &Client, name: &str) -> Result<()> {
    let other = S::new(client, name);
    if other.take(Some(SHORT)).await? {
        other.give().await?;
    }
    Ok(())
}

/// Waits until a client listens to a channel with this name in it.
pub async fn until_heard(redis: &mut MultiplexedConnection, name: &str) {
    let pattern = format!("*{name}*");
    until(&format!("somebody listens for {name}"), LIMIT, async || {
        let channels: Vec<String> = redis::cmd("PUBSUB")
            .arg(&["CHANNELS", &pattern])
            .query_async(redis)
            .await
            .expect("PUBSUB CHANNELS answers");
        !channels.is_empty()
    })
    .await;
}
