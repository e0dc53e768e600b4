//! Lone calls on different semaphores travel together, as one call of `lua/semaphore/lone.lua`.
//!
//! Calls on one semaphore are combined in its line. A client that uses a thousand semaphores, each for one caller,
//! has nothing to combine there; here it has. A call that finds nobody under way is sent by itself at once, in the
//! caller's own future; the others are gathered by a few *carriers*, tasks that live as long as there is something
//! to carry.
//!
//! Each script goes by a *lane*: a record in Redis, `redisson_sc_once:<mapped client id>:<number of the lane>`, that says
//! what has become of the lane's last script (see [`once`](super::once) for why). A script whose answer is lost is not
//! sent again: `lua/semaphore/settle.lua` asks the lane's record about it and puts an end to it, and calls that were
//! not carried out go on alone, as every call does that is no usual case. Its lane is not used again.
//!
//! # What it is worth
//!
//! 1,000 semaphores with a caller each, acquire and release in turn; processor time a pair, the median of five rounds taken in
//! turns (redis-server 7.0.15, redis crate 1.8.1, 2 cores of an AMD EPYC, loaded by others, which such times stand better than rates):
//!
//! | How such calls travel | server | client | scripts |
//! |---|---|---|---|
//! | together, a record a lane: as here | 3.2 µs | 4.3 µs | 0.03 |
//! | together, each with the record of its own semaphore, read by one `MGET` | 6.8 µs | 6.9 µs | 0.03 |
//! | each by itself, in a short first branch of the batch's script | 9.8 µs | 11.1 µs | 2 |
//! | two scripts over the redis crate, neither of them done once | 4.3 µs | 6.2 µs | 2 |
//!
//! So without it such callers get less than half of what a plain client does, and with it as much. One caller alone has
//! nothing of it, and loses nothing. It is off in a cluster, where no script may name two of these semaphores, and where
//! replicas are waited for; and for a while where the server refuses such a script.

mod answer;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::core::Core;
use super::request::{Arg, Request, Script};
use super::sync::yield_now;
use crate::clock::Moment;
use crate::lua;
use crate::sync::{Mutex, MutexGuard};
use crate::transport::{Backoff, Failure, Reason, Refusal, Value};

pub(crate) use answer::{Fate, Outcome};

static LONE: LazyLock<Script> = LazyLock::new(|| Script::new(lua::LONE));
static SETTLE: LazyLock<Script> = LazyLock::new(|| Script::new(lua::SETTLE));

/// One script carries so many calls at the most: with all of them one took 0.3 ms (redis-server 7.0.15, 2 cores of an
/// AMD EPYC).
const MOST_TOGETHER: usize = 64;
/// So many scripts are on their way at once, besides those of callers who were alone.
const MOST_CARRIERS: usize = 4;
/// A server that refuses such scripts is asked again after a while: permissions change.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A call on a semaphore that is not combined with others on the same one.
pub(crate) struct LoneCall {
    pub(crate) semaphore: Arc<str>,
    pub(crate) channel: Arc<str>,
    /// What it gives; less than zero: what it takes.
    pub(crate) permits: i64,
}

/// What came of sending a lone call.
pub(crate) enum FirstAttempt {
    Answered(Outcome),
    /// It was not carried out: it is no usual case, or the server refused the script.
    NotDone,
    /// It was not sent; or, where its runtime has ended, it may have been, but no more can be.
    Failed(Failure),
    /// It may have been carried out; the question that settles it.
    Lost(Failure, Question),
}

/// What has become of one call of a script whose answer was lost.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    lane: Arc<str>,
    sequence: u64,
    index: usize,
}

/// The lone calls of one client.
pub(crate) struct Coalescer {
    state: Mutex<State>,
    /// What the names of all lanes begin with.
    prefix: String,
}

#[derive(Default)]
struct State {
    waiting: Vec<(LoneCall, oneshot::Sender<FirstAttempt>)>,
    /// How many scripts are on their way.
    under_way: usize,
    carriers: usize,
    /// A carrier is about to take what waits.
    gathering: bool,
    /// Lanes that are not in use, and the number of the last script on each.
    lanes: Vec<(Arc<str>, u64)>,
    /// How many there have been.
    opened: u64,
    /// There are no names for it.
    off: bool,
    /// The server has refused it: it is not tried until then.
    refused_until: Option<Instant>,
    /// How long it is not tried the next time, as long as it is refused.
    pauses: Option<Backoff>,
}

impl State {
    fn is_refused(&mut self) -> bool {
        let refused = self
            .refused_until
            .is_some_and(|until| Instant::now() < until);
        if !refused {
            self.refused_until = None;
        }
        refused
    }

    fn note_refusal(&mut self) {
        if self.is_refused() {
            // It was on its way with others.
            return;
        }
        let first = || Backoff::between(FIRST_PAUSE, LONGEST_PAUSE);
        let pause = self.pauses.get_or_insert_with(first).next();
        self.refused_until = Some(Instant::now() + pause);
    }
}

impl Coalescer {
    /// `client` is the mapped client id; where there is none, calls do not travel together.
    pub(crate) fn new(client: Option<String>) -> Self {
        let state = State {
            off: client.is_none(),
            ..State::default()
        };
        Coalescer {
            state: Mutex::new(state),
            prefix: format!("redisson_sc_once:{}", client.unwrap_or_default()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// How many lanes are not in use, and how many calls wait for one.
    pub(super) fn count(&self) -> usize {
        let state = self.lock();
        state.lanes.len() + state.waiting.len()
    }

    /// The records of all lanes that are not in use, each of whose scripts was answered; they are not used any more.
    pub(crate) fn take_records(&self) -> Vec<(Arc<str>, u64)> {
        std::mem::take(&mut self.lock().lanes)
    }
}

/// A script that is on its way.
struct UnderWay<'a>(&'a Coalescer);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.lock().under_way -= 1;
    }
}

/// A carrier, until its work is done. Dropped before that, with the runtime, it tells all who wait: nobody else will come.
struct Carrier(Option<Arc<Core>>);

impl Carrier {
    /// Its work is done.
    fn leave(&mut self, state: &mut State) {
        state.carriers -= 1;
        self.0 = None;
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        if let Some(core) = &self.0 {
            let mut state = core.coalescer.lock();
            state.carriers -= 1;
            state.gathering = false;
            drop(state);
            core.let_go(&not_sent(RUNTIME_ENDED));
        }
    }
}

const RUNTIME_ENDED: &str = "the runtime has ended";

enum Place {
    Alone(LoneCall),
    WithOthers(oneshot::Receiver<FirstAttempt>),
}

impl Core {
    /// Sends `call`, together with others that are made now.
    pub(crate) async fn first_attempt_together(self: &Arc<Self>, call: LoneCall) -> FirstAttempt {
        match self.join_others(call) {
            None => FirstAttempt::NotDone,
            Some(Place::Alone(call)) => {
                let _under_way = UnderWay(&self.coalescer);
                let mut attempts = self.send_together(std::slice::from_ref(&call)).await;
                attempts.pop().unwrap_or(FirstAttempt::NotDone)
            }
            Some(Place::WithOthers(answer)) => {
                // The script was on its way when the carrier went away.
                let ended = |_| Failure::unanswered(RUNTIME_ENDED, Moment::now());
                answer
                    .await
                    .unwrap_or_else(|error| FirstAttempt::Failed(ended(error)))
            }
        }
    }

    fn join_others(self: &Arc<Self>, call: LoneCall) -> Option<Place> {
        let mut state = self.coalescer.lock();
        if state.off || state.is_refused() {
            return None;
        }
        if state.under_way == 0 {
            state.under_way = 1;
            return Some(Place::Alone(call));
        }
        let (sender, answer) = oneshot::channel();
        state.waiting.push((call, sender));
        let carrier = self.one_more_carrier(&mut state);
        drop(state);
        self.start(carrier);
        Some(Place::WithOthers(answer))
    }

    fn one_more_carrier(self: &Arc<Self>, state: &mut State) -> Option<Carrier> {
        if state.gathering || state.carriers == MOST_CARRIERS {
            return None;
        }
        state.gathering = true;
        state.carriers += 1;
        Some(Carrier(Some(Arc::clone(self))))
    }

    /// Not under the lock: a runtime that is shutting down drops the task at once.
    fn start(self: &Arc<Self>, carrier: Option<Carrier>) {
        if let Some(carrier) = carrier {
            self.runtime.spawn(Arc::clone(self).carry(carrier));
        }
    }

    /// What a carrier does.
    async fn carry(self: Arc<Self>, mut carrier: Carrier) {
        loop {
            // Unless there is a load already, callers that were answered just now run first and bring their next calls.
            if self.coalescer.lock().waiting.len() < MOST_TOGETHER {
                yield_now().await;
                yield_now().await;
            }
            let ((calls, replies), next): ((Vec<_>, Vec<_>), _) = {
                let mut state = self.coalescer.lock();
                state.gathering = false;
                if state.waiting.is_empty() {
                    carrier.leave(&mut state);
                    return;
                }
                let count = state.waiting.len().min(MOST_TOGETHER);
                let calls = state.waiting.drain(..count).unzip();
                state.under_way += 1;
                let more = !state.waiting.is_empty();
                let next = more.then(|| self.one_more_carrier(&mut state)).flatten();
                (calls, next)
            };
            let under_way = UnderWay(&self.coalescer);
            self.start(next);
            let attempts = self.send_together(&calls).await;
            drop(under_way);
            for (reply, attempt) in replies.into_iter().zip(attempts) {
                // Nobody there to hear it: the client's runtime is ending.
                let _ = reply.send(attempt);
            }
            let mut state = self.coalescer.lock();
            if state.gathering {
                // Another one sees to what has come meanwhile.
                carrier.leave(&mut state);
                return;
            }
            state.gathering = true;
        }
    }

    /// What came of each of `calls`.
    async fn send_together(&self, calls: &[LoneCall]) -> Vec<FirstAttempt> {
        let lane = self.take_lane();
        let sequence = self.next_sequence();
        let request = self.request_together(calls, &lane, sequence);
        let sent = Moment::now();
        let under_way = self.sent.begin(&request);
        let failure = match self.try_once(&request).await {
            Ok(value) => match answer::read(&value, calls.len()) {
                Some(outcomes) => {
                    if outcomes.iter().all(Option::is_none) {
                        under_way.has_done_nothing();
                    }
                    let mut state = self.coalescer.lock();
                    state.lanes.push((lane, sequence));
                    state.pauses = None;
                    drop(state);
                    let attempt = |outcome: Option<Outcome>| {
                        outcome.map_or(FirstAttempt::NotDone, FirstAttempt::Answered)
                    };
                    return outcomes.into_iter().map(attempt).collect();
                }
                None => Failure::unanswered(format!("unexpected answer {value:?}"), sent),
            },
            Err(failure) => failure,
        };
        if let Failure::Refused(_) | Failure::NoConnection(_) = &failure {
            under_way.has_done_nothing();
        }
        self.let_go(&failure);
        let attempt = |index| match &failure {
            Failure::Refused(_) => FirstAttempt::NotDone,
            Failure::NoConnection(_) => FirstAttempt::Failed(failure.clone()),
            Failure::Unanswered { .. } => {
                let question = Question {
                    lane: Arc::clone(&lane),
                    sequence,
                    index,
                };
                FirstAttempt::Lost(failure.clone(), question)
            }
        };
        (0..calls.len()).map(attempt).collect()
    }

    fn request_together(&self, calls: &[LoneCall], lane: &Arc<str>, sequence: u64) -> Request {
        let mut keys = Vec::with_capacity(1 + 2 * calls.len());
        let mut args = Vec::with_capacity(3 + calls.len());
        keys.push(Arc::clone(lane));
        args.push(Arg::Publish);
        args.push(Arg::Sequence(sequence));
        args.push(Arg::millis(self.config.record_life()));
        for call in calls {
            keys.push(Arc::clone(&call.semaphore));
            keys.push(Arc::clone(&call.channel));
            args.push(Arg::Number(call.permits));
        }
        Request::script(&LONE, keys, args)
    }

    fn take_lane(&self) -> Arc<str> {
        let mut state = self.coalescer.lock();
        if let Some((lane, _)) = state.lanes.pop() {
            return lane;
        }
        state.opened += 1;
        format!("{}:{}", self.coalescer.prefix, state.opened).into()
    }

    /// While the server does not answer, those who wait go their own ways: their callers have their deadlines.
    fn let_go(&self, failure: &Failure) {
        let mut state = self.coalescer.lock();
        match failure {
            // The user may not write to lanes, or the server will not have several semaphores in one script.
            Failure::Refused(refusal) => {
                if matches!(
                    refusal.reason,
                    Reason::Permission | Reason::CrossSlot | Reason::Elsewhere | Reason::Other
                ) {
                    state.note_refusal();
                }
            }
            Failure::NoConnection(Refusal { detail, .. }) | Failure::Unanswered { detail, .. } => {
                let waiting = std::mem::take(&mut state.waiting);
                drop(state);
                for (_, reply) in waiting {
                    let _ = reply.send(FirstAttempt::Failed(not_sent(detail)));
                }
            }
        }
    }
}

fn not_sent(detail: &str) -> Failure {
    Failure::NoConnection(Refusal::unreachable(detail))
}

impl Question {
    /// The request that settles it.
    pub(crate) fn request(&self, core: &Core) -> Request {
        let life = Arg::millis(core.config.record_life());
        let args = vec![Arg::Sequence(self.sequence), life];
        Request::script(&SETTLE, vec![Arc::clone(&self.lane)], args)
    }

    /// What the server says has become of the call.
    pub(crate) fn read(&self, value: &Value) -> Fate {
        answer::read_fate(value, self.index)
    }
}
