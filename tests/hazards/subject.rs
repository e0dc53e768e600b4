//! What a primitive tells of itself, so that everything that can go wrong is tried on it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::future::join_all;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, Effect, Result};
use tokio::time::timeout;

use crate::support::clients::LIMIT;
use crate::support::waiters::until;

/// Over before anything happens.
pub const SHORT: Duration = Duration::from_millis(5);
/// Nothing ends by itself while a test runs.
pub const HOUR: Duration = Duration::from_secs(3600);

/// How far times to live may be apart that are the same, and have been read one after the other since `began`.
pub fn tolerance(began: Instant) -> Duration {
    Duration::from_secs(60) + began.elapsed()
}

/// What a call does where nothing goes wrong; what it may leave where something does follows from that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It takes something: whoever is not told that he has it does not have it in the end.
    Take,
    /// It gives something back: in the end that has happened, once the call was begun.
    Give,
    /// Any other change: whoever is not told does not know.
    Change,
    /// What it does is undone by its end, or its time runs out.
    Nothing,
    /// It looks: there is nothing to be unsure of.
    Look,
}

/// A primitive: a handle of one object, and what was taken by it and not given back.
pub trait Subject: Sized + Send + Sync + 'static {
    /// In one word.
    const NAME: &'static str;

    /// Its calls, each about 1 request, and each kind of them.
    const CALLS: &'static [(&'static str, Kind)];

    /// Commands without which some call can't do what it does.
    const NEEDS: &'static [&'static str];

    /// Calls that end with what they were called on, a guard, whatever they are told: they can't be made again.
    const ONCE: &'static [&'static str] = &[];

    /// How the key begins that others hold for as long as they like, where every call that takes waits for that.
    const WAITS_FOR: Option<&'static str> = None;

    /// Whoever waits looks again and again by itself: a question may be under way at any time.
    const LOOKS: bool = false;

    /// A handle, made without I/O; an owner of its own.
    fn new(client: &Client, name: &str) -> Self;

    /// What others go by.
    fn keys(&self) -> Vec<String>;

    /// What stands there, as far as it is the same for whoever has made the same calls.
    fn left(&self, redis: &mut MultiplexedConnection) -> impl Future<Output = String> + Send;

    /// Brings about what the call meets, on an object that does not exist.
    fn prepare(&self, call: &'static str) -> impl Future<Output = Result<()>> + Send;

    /// Whether it has done what it does.
    fn call(&self, call: &'static str) -> impl Future<Output = Result<bool>> + Send;

    /// Whoever comes has to wait from now on, whether the object exists or not.
    fn close(&self) -> impl Future<Output = Result<()>> + Send {
        async {
            self.begin_anew().await?;
            self.take(None).await.map(drop)
        }
    }

    /// The handle that has closed it lets one in.
    fn open(&self) -> impl Future<Output = Result<()>> + Send {
        self.give()
    }

    /// One is let in where all data are lost.
    fn begin_anew(&self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Takes one; without a limit it waits until there is one.
    fn take(&self, limit: Option<Duration>) -> impl Future<Output = Result<bool>> + Send;

    /// Gives back what [`take`](Self::take) has taken.
    fn give(&self) -> impl Future<Output = Result<()>> + Send;
}

/// What stands there before and behind each call where nothing goes wrong.
#[derive(Clone)]
pub struct Expected(BTreeMap<&'static str, [String; 2]>);

impl Expected {
    /// Makes all calls once. The server knows the scripts after it.
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

    /// What may stand there in the end.
    pub fn in_the_end(&self, call: &str, fate: End) -> Vec<&str> {
        match fate {
            End::Done => vec![self.after(call)],
            End::NotDone => vec![self.before(call)],
            End::Either => vec![self.before(call), self.after(call)],
        }
    }
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Done,
    NotDone,
    Either,
}

impl End {
    /// Of a call that was begun, and whose caller does not know.
    pub fn unknown(kind: Kind) -> End {
        match kind {
            Kind::Take | Kind::Nothing | Kind::Look => End::NotDone,
            Kind::Give => End::Done,
            Kind::Change => End::Either,
        }
    }

    /// Of what its caller was told.
    pub fn told(kind: Kind, told: &Result<bool>) -> End {
        match told {
            Ok(true) => End::Done,
            Ok(false) => panic!("it does not do what it does"),
            Err(error) if error.effect() == Effect::NotApplied => End::NotDone,
            Err(_) => End::unknown(kind),
        }
    }

    /// Of a call that was dropped after so many polls, unless it had been answered.
    pub fn dropped(kind: Kind, answer: &Option<Result<bool>>, polls: usize) -> End {
        match answer {
            Some(told) => End::told(kind, told),
            None if polls == 0 => End::NotDone,
            None => End::unknown(kind),
        }
    }
}

/// Objects, and what has become of their calls.
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

    /// Waits until there is what has to be.
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

    /// Nothing comes later: it is the same at the client's end.
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

/// Whether it may wait for as long as it takes: the first word of its name says so, which is that of the method.
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

/// What it is told; panics when it hangs.
pub async fn in_time<S: Subject>(subject: &S, call: &'static str) -> Result<bool> {
    let told = timeout(LIMIT, subject.call(call)).await;
    told.unwrap_or_else(|_| panic!("{}: {call} hangs", S::NAME))
}

/// All calls at once.
pub async fn tell_all<S: Subject>(prepared: &[(S, &'static str, Kind)]) -> Vec<Result<bool>> {
    let calls = prepared.iter();
    join_all(calls.map(|(subject, call, _)| in_time(subject, call))).await
}

/// Somebody else takes one if there is one, and gives it back; nothing is changed by it.
pub async fn pass<S: Subject>(client: &Client, name: &str) -> Result<()> {
    let other = S::new(client, name);
    if other.take(Some(SHORT)).await? {
        other.give().await?;
    }
    Ok(())
}

/// Waits until somebody listens for it.
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
