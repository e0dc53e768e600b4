//! The rounds of the watchdog: one task of a client looks after all semaphores that its guards have used.
//!
//! Every third of the watchdog time-out, and shortly after somebody's time is up, one script for up to [`MOST_KEYS`] of them (of a slot, in a cluster)
//! puts off what this client holds there, and gives back what the dead held. A semaphore is looked after as long as this client
//! has a handle of it, and after that until nobody is on record there.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::life::{Life, Renewal};
use crate::api::PermitHolder;
use crate::clock::Moment;
use crate::engine::core::Core;
use crate::engine::keys::Keys;
use crate::engine::once::{in_part, refused, unexpected_answer};
use crate::engine::request::{Arg, Request, Script};
use crate::engine::unheard::Heard;
use crate::engine::window;
use crate::error::{Error, Result};
use crate::lua;
use crate::sync::{Mutex, MutexGuard};
use crate::transport::{Command, Failure, Reason, Refusal, Value};

static RECLAIM: LazyLock<Script> = LazyLock::new(|| Script::new(lua::RECLAIM));
/// What callers make of it is called so.
pub(crate) const RECLAIM_CALL: &str = "reclaim";

/// One script call looks after this many semaphores at the most.
const MOST_KEYS: usize = 100;
/// Whoever's time is up is looked after so much later, or up to twice as much: clients share the work.
const LATE: Duration = Duration::from_millis(100);

/// What one client looks after.
#[derive(Default)]
pub(crate) struct Watchdog {
    state: Mutex<State>,
    /// Somebody's time is up earlier than was known.
    news: Notify,
}

#[derive(Default)]
struct State {
    by_object: BTreeMap<Arc<str>, Watched>,
    /// A task sees to them.
    running: bool,
}

/// A semaphore of which permits of this client are on record.
pub(crate) trait OnRecord: Send + Sync {
    /// What of this client's there is to be put off.
    fn renewal(&self) -> Option<Renewal>;

    /// It is on record until then, with so many permits; or it is not.
    fn renewed(self: Arc<Self>, renewal: &Renewal, on_record: Option<u64>, until: Moment);

    /// Permits have come and been announced by another way than a batch of this client.
    fn has_been_given_more(self: Arc<Self>);
}

/// Whose semaphore it is.
#[derive(Clone)]
pub(crate) struct Owner {
    pub(crate) line: Weak<dyn OnRecord>,
    /// What is done when somebody hears of permits who did not listen when they came back.
    pub(crate) heard: Heard,
}

struct Watched {
    keys: Keys,
    owner: Owner,
    /// When to look, if that is before the next round.
    due: Option<Instant>,
    /// What the last handle has left there, under which nothing is held: the next one goes on with it, or it is taken off.
    left: Option<Life>,
}

/// A semaphore that is being looked after, and what of this client's is to be put off there.
struct Look {
    keys: Keys,
    owner: Option<Owner>,
    left: Option<Life>,
    renewal: Option<Renewal>,
}

/// What a look has found.
struct Seen {
    on_record: Option<u64>,
    next: Option<Duration>,
    /// How many permits are free, where some came back.
    total: Option<i64>,
    failure: String,
    dead: Vec<PermitHolder>,
}

impl Look {
    fn line(&self) -> Option<Arc<dyn OnRecord>> {
        self.owner.as_ref()?.line.upgrade()
    }
}

impl Watchdog {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// How many semaphores are looked after.
    pub(in crate::engine) fn count(&self) -> usize {
        self.lock().by_object.len()
    }

    /// Those to be looked after now; `None` where there is nothing to be looked after at all, and the task ends.
    fn due(&self, all: bool) -> Option<Vec<Look>> {
        let now = Instant::now();
        let mut state = self.lock();
        state.running = !state.by_object.is_empty();
        state.running.then(|| {
            let watched = state.by_object.values_mut();
            let due = watched.filter(|watched| all || watched.due.is_some_and(|due| due <= now));
            due.map(|watched| {
                watched.due = None;
                Look {
                    keys: watched.keys.clone(),
                    owner: Some(watched.owner.clone()),
                    // Once: if there is something on record, after all, that comes back when its time is up.
                    left: watched.left.take(),
                    renewal: None,
                }
            })
            .collect()
        })
    }

    fn next_due(&self) -> Option<Instant> {
        let state = self.lock();
        let all = state.by_object.values();
        all.filter_map(|watched| watched.due).min()
    }

    fn look_at(&self, object: &Arc<str>, due: Instant) {
        if let Some(watched) = self.lock().by_object.get_mut(object) {
            watched.due = Some(watched.due.map_or(due, |known| known.min(due)));
        }
    }

    /// The last handle has gone, and nothing is held under its `life`.
    pub(crate) fn leaves(&self, object: &Arc<str>, life: Life) {
        if let Some(watched) = self.lock().by_object.get_mut(object) {
            watched.left = Some(life);
        }
    }

    /// There is a handle again.
    pub(crate) fn takes_up(&self, object: &Arc<str>) -> Option<Life> {
        self.lock().by_object.get_mut(object)?.left.take()
    }

    /// Nobody is on record there, nor will this client be: unless somebody has a handle.
    fn nobody_at(&self, object: &Arc<str>) {
        let mut state = self.lock();
        let watched = state.by_object.get(object);
        if watched.is_some_and(|watched| watched.owner.line.strong_count() == 0) {
            state.by_object.remove(object);
        }
    }
}

impl Core {
    /// Looks after this semaphore from now on, and at once.
    pub(crate) fn watch(self: &Arc<Self>, keys: &Keys, owner: Owner) {
        let watched = Watched {
            keys: keys.clone(),
            owner,
            due: Some(Instant::now()),
            left: None,
        };
        let mut state = self.watchdog.lock();
        state.by_object.insert(Arc::clone(keys.object()), watched);
        let running = std::mem::replace(&mut state.running, true);
        drop(state);
        if running {
            self.watchdog.news.notify_one();
        } else {
            let watchdog = Arc::clone(&self.watchdog);
            self.runtime.spawn(go_round(Arc::downgrade(self), watchdog));
        }
    }

    /// The last round, before the connection is closed: nothing is left on record of a client that holds nothing.
    pub(crate) async fn watch_for_the_last_time(self: &Arc<Self>) {
        if let Some(looks) = self.watchdog.due(true) {
            self.look_after(looks).await;
        }
    }

    /// Gives back for the dead at the semaphore with these keys; who they were.
    pub(crate) async fn reclaim(&self, keys: &Keys) -> Result<Vec<PermitHolder>> {
        let look = Look {
            keys: keys.clone(),
            owner: None,
            left: None,
            renewal: None,
        };
        let began = Instant::now();
        let mut all = Vec::new();
        loop {
            match self.reclaim_some(keys, &look).await {
                Ok(dead) if dead.is_empty() => return Ok(all),
                Ok(dead) => all.extend(dead),
                Err(error) if all.is_empty() => return Err(error),
                Err(error) => {
                    return Err(in_part(keys.name(), RECLAIM_CALL, began.elapsed(), error));
                }
            }
        }
    }

    /// So many as one script gives back for.
    async fn reclaim_some(&self, keys: &Keys, look: &Look) -> Result<Vec<PermitHolder>> {
        let request = self.request(std::slice::from_ref(look));
        let answer = self.ask_once(keys, RECLAIM_CALL, &request).await?;
        let Some(seen) = read(&answer, 1).and_then(|mut seen| seen.pop()) else {
            return Err(unexpected_answer(keys.name(), &answer, None));
        };
        if !seen.failure.is_empty() {
            let error = refused(keys.name(), &Refusal::from_text(&seen.failure));
            return Err(self.explain(error, || keys.typed()).await);
        }
        Ok(seen.dead)
    }

    /// What is on record at the semaphore with these keys.
    pub(crate) async fn holders(&self, keys: &Keys) -> Result<Vec<PermitHolder>> {
        let Some(holders) = keys.holders() else {
            return Ok(Vec::new());
        };
        let request = Request::Plain(Command::new("HGETALL").key(&holders.held));
        let answer = self.ask_once(keys, "holders", &request).await?;
        let Value::Array(words) = &answer else {
            return Err(unexpected_answer(keys.name(), &answer, None));
        };
        let pairs = words.chunks_exact(2);
        let read = pairs.map(|pair| Some(PermitHolder::read(&text(&pair[0])?, &text(&pair[1])?)));
        let holders: Option<Vec<_>> = read.collect();
        holders.ok_or_else(|| unexpected_answer(keys.name(), &answer, None))
    }

    async fn ask_once(
        &self,
        keys: &Keys,
        operation: &'static str,
        request: &Request,
    ) -> Result<Value> {
        let began = Instant::now();
        let name = keys.name().to_owned();
        let refusal = match self.try_once(request).await {
            Ok(answer) => return Ok(answer),
            Err(Failure::Refused(refusal) | Failure::NoConnection(refusal)) => refusal,
            Err(Failure::Unanswered { detail, .. }) => {
                return Err(Error::OutcomeUnknown {
                    name,
                    operation,
                    waited: began.elapsed(),
                    detail,
                });
            }
        };
        Err(match refusal.reason {
            _ if self.is_finished() => Error::ShutDown { name },
            Reason::Unreachable => Error::Unavailable {
                name,
                waited: began.elapsed(),
                detail: refusal.detail,
            },
            _ => {
                self.explain(refused(&name, &refusal), || keys.typed())
                    .await
            }
        })
    }

    fn request(&self, looks: &[Look]) -> Request {
        let mut keys = Vec::with_capacity(4 * looks.len());
        let mut args = Vec::with_capacity(2 + 2 * looks.len());
        args.push(Arg::Publish);
        args.push(Arg::millis(self.config.lock_watchdog_timeout));
        for look in looks {
            keys.extend([look.keys.object(), look.keys.channel()].map(Arc::clone));
            if let Some(holders) = look.keys.holders() {
                keys.extend([&holders.held, &holders.alive].map(Arc::clone));
            }
            let renewal = look.renewal.as_ref();
            let holder = renewal.map_or_else(|| "".into(), |renewal| Arc::clone(&renewal.holder));
            args.push(Arg::Text(holder));
            let may_go = renewal.is_some_and(|renewal| renewal.may_go);
            args.push(Arg::Number(may_go.into()));
        }
        Request::script(&RECLAIM, keys, args)
    }

    async fn look_after(self: &Arc<Self>, mut looks: Vec<Look>) {
        let slot = |look: &Look| self.connection.slot(look.keys.object());
        looks.sort_by_cached_key(slot);
        let mut rest = looks.into_iter().peekable();
        // One script has keys of one slot only.
        let calls = std::iter::from_fn(|| {
            let first = rest.next()?;
            let of_first = slot(&first);
            let mut some = vec![first];
            while some.len() < MOST_KEYS
                && let Some(look) = rest.next_if(|look| slot(look) == of_first)
            {
                some.push(look);
            }
            Some((some.len(), self.look_after_some(some)))
        });
        window::each(calls, |()| {}).await;
    }

    async fn look_after_some(self: &Arc<Self>, mut looks: Vec<Look>) {
        for look in &mut looks {
            look.renewal = match look.line() {
                Some(line) => line.renewal(),
                None => look.left.as_ref().and_then(Life::renewal),
            };
        }
        let until = Moment::now() + self.config.lock_watchdog_timeout;
        let answer = self.try_once(&self.request(&looks)).await;
        let seen = match &answer {
            Ok(value) => read(value, looks.len()),
            // It may be about one of them.
            Err(Failure::Refused(refusal)) if refusal.is_final(false) && looks.len() > 1 => {
                for look in looks {
                    Box::pin(self.look_after_some(vec![look])).await;
                }
                return;
            }
            Err(_) => None,
        };
        let Some(seen) = seen else {
            if self.not_renewed.is_due() {
                tracing::warn!(
                    ?answer,
                    "not looked after permits on record; it will be tried again"
                );
            }
            let soon = (period(self) / 10).max(Duration::from_millis(1));
            for look in looks {
                let object = look.keys.object();
                self.watchdog.look_at(object, Instant::now() + soon);
                if let (None, Some(life)) = (look.line(), look.left) {
                    self.watchdog.leaves(object, life);
                }
            }
            return;
        };
        for (look, seen) in looks.into_iter().zip(seen) {
            self.has_seen(&look, seen, until);
        }
    }

    fn has_seen(self: &Arc<Self>, look: &Look, seen: Seen, until: Moment) {
        let (name, line) = (look.keys.name(), look.line());
        for dead in &seen.dead {
            tell_of(name, dead);
        }
        let failed = !seen.failure.is_empty();
        if failed {
            let why = &seen.failure;
            tracing::warn!(name, %why, "permits of clients that are gone could not be given back");
        } else if let Some(next) = seen.next {
            let late = LATE + LATE.mul_f64(fastrand::f64());
            let object = look.keys.object();
            self.watchdog.look_at(object, Instant::now() + next + late);
        } else {
            self.watchdog.nobody_at(look.keys.object());
        }
        if seen.total.is_some_and(|total| total > 0) {
            // A JVM whose subscription is just being made anew has not heard of them, and does not look.
            if let Some(owner) = &look.owner {
                self.nobody_has_heard(&look.keys, owner.heard);
            }
        }
        let Some(line) = line else { return };
        if let Some(renewal) = &look.renewal
            && (seen.on_record.is_some() || !failed)
        {
            Arc::clone(&line).renewed(renewal, seen.on_record, until);
        }
        if seen.total.is_some_and(|total| total > 0) {
            line.has_been_given_more();
        }
    }
}

fn tell_of(name: &str, dead: &PermitHolder) {
    // A client that has ended leaves a record of nothing.
    if dead.permits() > 0 {
        let (client, client_name, permits) = (dead.client_id(), dead.client_name(), dead.permits());
        tracing::warn!(
            name,
            client,
            client_name,
            permits,
            "a client is gone, and the permits that it held are free again"
        );
    }
}

/// What the script answers; `None` for what no script of ours does.
fn read(value: &Value, looks: usize) -> Option<Vec<Seen>> {
    let Value::Array(answers) = value else {
        return None;
    };
    (answers.len() == looks).then(|| answers.iter().map(read_one).collect())?
}

fn read_one(answer: &Value) -> Option<Seen> {
    let Value::Array(words) = answer else {
        return None;
    };
    let (numbers, rest) = words.split_at_checked(3)?;
    let number = |index: usize| match numbers[index] {
        Value::Int(number) => Some(number),
        _ => None,
    };
    let (failure, dead) = rest.split_first()?;
    Some(Seen {
        on_record: u64::try_from(number(0)?).ok(),
        next: u64::try_from(number(1)?).ok().map(Duration::from_millis),
        total: (number(2)? >= 0).then_some(number(2)?),
        failure: text(failure)?,
        dead: dead
            .chunks_exact(2)
            .map(|pair| Some(PermitHolder::read(&text(&pair[0])?, &text(&pair[1])?)))
            .collect::<Option<_>>()?,
    })
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(text) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    }
}

/// How often what is held is put off.
fn period(core: &Core) -> Duration {
    core.config.lock_watchdog_timeout / 3
}

async fn go_round(core: Weak<Core>, watchdog: Arc<Watchdog>) {
    let Some(period) = core.upgrade().map(|core| period(&core)) else {
        return;
    };
    let mut round = Instant::now() + period;
    loop {
        let next = watchdog.next_due().map_or(round, |due| due.min(round));
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(next) => {}
            () = watchdog.news.notified() => {}
        }
        let Some(core) = core.upgrade() else { return };
        if core.is_finished() {
            return;
        }
        let now = Instant::now();
        let all = now >= round;
        if all {
            round = now + period;
        }
        let Some(looks) = watchdog.due(all) else {
            return;
        };
        core.look_after(looks).await;
    }
}
