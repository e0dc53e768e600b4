//! Who acts: clients that start, die and shut down, and their callers.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use redisson_semaphore::{Client, Effect, Error, LockGuard, Permit, RLock, RSemaphore};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::admin::{self, Ended};
use super::judge::{Host, Judge, Object, Wanted};
use super::plan::{Admin, AdminCall, Ask, Call, Give, Life, Settings};

/// All clients, in their places.
pub struct Stage {
    settings: Settings,
    pub judge: Arc<Mutex<Judge>>,
    /// The client that is in each place now.
    places: Vec<Arc<Actor>>,
    all: Vec<(usize, Arc<Actor>)>,
}

/// A client, from its start to its end.
pub struct Actor {
    pub host: Host,
    judge: Arc<Mutex<Judge>>,
    settings: Settings,
    place: usize,
    client: Mutex<Option<Client>>,
    /// Wakes in the order of coming, which other ways to wait do not.
    there: Notify,
    callers: Mutex<Vec<JoinHandle<()>>>,
    /// Permits that callers keep to the end.
    kept: Mutex<Vec<(usize, u32)>>,
    /// One call at a time.
    administers: tokio::sync::Mutex<()>,
}

impl Stage {
    pub fn new(settings: &Settings, judge: Arc<Mutex<Judge>>) -> Stage {
        Stage {
            settings: settings.clone(),
            judge,
            places: Vec::new(),
            all: Vec::new(),
        }
    }

    pub fn host(&self, place: usize) -> Host {
        self.places[place].host
    }

    pub fn place(&self, host: Host) -> usize {
        self.all[host].0
    }

    /// The clients that are there now.
    pub fn actors(&self) -> Vec<Arc<Actor>> {
        self.places.clone()
    }

    pub fn somebody_died(&self) -> bool {
        self.all.len() > self.places.len()
    }

    /// Whether no caller has anything to do any more.
    pub fn is_idle(&self) -> bool {
        let idle = |actor: &Arc<Actor>| {
            actor
                .callers
                .lock()
                .unwrap()
                .iter()
                .all(JoinHandle::is_finished)
        };
        self.places.iter().all(idle)
    }

    pub fn start(&mut self, place: usize, host: Host, after: Duration) {
        let actor = Arc::new(Actor {
            host,
            judge: Arc::clone(&self.judge),
            settings: self.settings.clone(),
            place,
            client: Mutex::default(),
            there: Notify::new(),
            callers: Mutex::default(),
            kept: Mutex::default(),
            administers: tokio::sync::Mutex::default(),
        });
        self.judge.lock().unwrap().starts(host);
        self.all.push((place, Arc::clone(&actor)));
        match self.places.get_mut(place) {
            Some(former) => *former = Arc::clone(&actor),
            None => self.places.push(Arc::clone(&actor)),
        }
        let starting = Arc::clone(&actor);
        actor.spawn(async move { starting.connect(after).await });
    }

    pub fn call(&self, place: usize, call: Call) {
        let actor = Arc::clone(&self.places[place]);
        let caller = Arc::clone(&actor);
        actor.spawn(async move { caller.calls(call).await });
    }

    pub fn admin(&self, place: usize, admin: Admin) {
        let actor = Arc::clone(&self.places[place]);
        let caller = Arc::clone(&actor);
        actor.spawn(async move { caller.administer(admin).await });
    }

    pub fn end(&self, place: usize, life: Life) {
        let actor = Arc::clone(&self.places[place]);
        match life {
            Life::Die => {
                actor.judge().dies(actor.host);
                actor.drop_callers();
                actor.put(None);
            }
            Life::ShutDown { drop_callers } => {
                tokio::spawn(async move { actor.shut_down(drop_callers).await });
            }
        }
    }
}

impl Actor {
    fn judge(&self) -> MutexGuard<'_, Judge> {
        self.judge.lock().unwrap()
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut callers = self.callers.lock().unwrap();
        callers.retain(|caller| !caller.is_finished());
        callers.push(tokio::spawn(task));
    }

    fn drop_callers(&self) -> Vec<JoinHandle<()>> {
        let callers = std::mem::take(&mut *self.callers.lock().unwrap());
        callers.iter().for_each(JoinHandle::abort);
        callers
    }

    async fn connect(&self, after: Duration) {
        sleep(after).await;
        loop {
            let settings = &self.settings;
            let builder = Client::builder(format!("redis://c{}:6379", self.host))
                .retry_window(settings.retry_window)
                .response_timeout(settings.response_timeout)
                .connect_timeout(settings.connect_timeout)
                .safety_interval(settings.safety_interval)
                .local_hand_over(settings.local_hand_over)
                .lock_watchdog_timeout(settings.watchdog);
            match builder.connect().await {
                Ok(client) => {
                    self.judge()
                        .note(format_args!("c{} is connected", self.host));
                    self.put(Some(client));
                    return;
                }
                Err(error) => self.judge().failed(self.host, "connect", &error),
            }
        }
    }

    async fn client(&self) -> Client {
        loop {
            let there = self.there.notified();
            if let Some(client) = self.known() {
                return client;
            }
            there.await;
        }
    }

    fn known(&self) -> Option<Client> {
        self.client.lock().unwrap().clone()
    }

    fn put(&self, client: Option<Client>) {
        let former = std::mem::replace(&mut *self.client.lock().unwrap(), client);
        drop(former);
        self.there.notify_waiters();
    }

    pub async fn shut_down(&self, drop_callers: bool) {
        self.judge().shuts_down(self.host);
        // Without a client they would go on trying to connect.
        if drop_callers || self.known().is_none() {
            for caller in self.drop_callers() {
                let _ = caller.await;
            }
        }
        let client = self.known();
        if let Some(client) = client {
            let began = Instant::now();
            let result = client.shutdown().await;
            let took = began.elapsed();
            let mut judge = self.judge();
            if took > self.settings.retry_window + Duration::from_secs(2) {
                judge.accuse(
                    "ends",
                    format!("the shutdown of c{} took {took:?}", self.host),
                );
            }
            judge.has_shut_down(self.host, &result);
        } else {
            self.judge().has_shut_down(self.host, &Ok(()));
        }
        self.put(None);
    }

    /// Gives back what has been kept.
    pub async fn give_kept(&self) {
        let kept = std::mem::take(&mut *self.kept.lock().unwrap());
        for (object, permits) in kept {
            let semaphore = self.semaphore(object).await;
            let held = Held::again(self, object, permits);
            held.release(&semaphore, false).await;
        }
    }

    async fn semaphore(&self, object: usize) -> RSemaphore {
        let semaphore = self
            .client()
            .await
            .semaphore(&Object::Semaphore(object).key());
        if self.settings.without_turns[self.place] {
            semaphore.without_turns()
        } else {
            semaphore
        }
    }

    async fn administer(&self, admin: Admin) {
        let _alone = self.administers.lock().await;
        let semaphore = self.client().await.semaphore(admin::KEY);
        let (number, cut_off) = {
            let mut judge = self.judge();
            judge.note(format_args!("c{} asks for {:?}", self.host, admin.what));
            let number = judge.admin.begins(self.host, admin.what);
            (number, judge.is_cut_off(self.host))
        };
        let asked = Asked {
            actor: self,
            number,
            cut_off: cut_off && !admin.what.is_owed(),
        };
        let asking = async {
            match admin.what {
                AdminCall::Set(permits) => semaphore.try_set_permits(permits).await.map(drop),
                AdminCall::Add(delta) => semaphore.add_permits(delta).await,
                AdminCall::Drain => semaphore.drain_permits().await.map(drop),
                AdminCall::Release(permits) => semaphore.release(permits).await,
                AdminCall::ReleaseIfExists(permits) => {
                    semaphore.release_if_exists(permits).await.map(drop)
                }
                AdminCall::Delete => semaphore.delete().await.map(drop),
                AdminCall::Look => semaphore.available_permits().await.map(drop),
            }
        };
        let answer = match admin.patience {
            Some(patience) => match timeout(patience, asking).await {
                Ok(answer) => answer,
                // Told when it is dropped.
                Err(_) => return,
            },
            None => asking.await,
        };
        match answer {
            Ok(()) => asked.ends(Ended::Done),
            Err(error) => {
                self.judge()
                    .failed(self.host, &format!("{:?}", admin.what), &error);
                asked.ends(match error.effect() {
                    Effect::None => Ended::Not,
                    _ => Ended::Unknown,
                });
            }
        }
    }

    async fn calls(self: Arc<Self>, call: Call) {
        let mut lock = None;
        for round in 0..call.rounds {
            if round > 0 && self.judge().has_healed() {
                return;
            }
            match call.object {
                Object::Semaphore(object) => {
                    let semaphore = self.semaphore(object).await;
                    self.hold_permits(&semaphore, object, &call).await;
                }
                Object::Lock(object) => {
                    let client = self.client().await;
                    if lock.is_none() || !call.one_owner {
                        lock = Some(client.lock(&Object::Lock(object).key()));
                    }
                    let lock = lock.as_ref().expect("made just now");
                    self.hold_lock(lock, object, &call).await;
                }
            }
            sleep(call.pause).await;
        }
    }

    /// Waits as `call` says; `None` if the future was dropped, or got nothing.
    async fn wait<T>(
        &self,
        call: &Call,
        asking: impl Future<Output = Result<Option<T>, Error>>,
    ) -> Option<(u64, T)> {
        let stalled = call.stall.map_or(Duration::ZERO, |(_, time)| time);
        let limit = match call.ask {
            Ask::Wait => None,
            Ask::Try => Some(Duration::ZERO),
            Ask::For(wait) => Some(wait),
        };
        let wanted = Wanted {
            host: self.host,
            object: call.object,
            permits: call.permits.into(),
            due: limit.map(|wait| {
                let settings = &self.settings;
                let window = settings.retry_window + settings.response_timeout * 2;
                Instant::now() + wait + window + stalled + Duration::from_secs(2)
            }),
            stalls: call.stall.is_some(),
        };
        let number = self.judge().begin(wanted);
        let waiting = Waiting {
            actor: self,
            number,
            object: call.object,
        };
        let asking = Stalling::new(asking, call.stall);
        let answer = match call.patience {
            Some(patience) => timeout(patience, asking).await,
            None => Ok(asking.await),
        };
        match answer {
            Ok(Ok(Some(granted))) => {
                waiting.ends("is served");
                Some((number, granted))
            }
            Ok(Ok(None)) => {
                waiting.ends("gets nothing");
                None
            }
            Ok(Err(error)) => {
                waiting.ends("fails");
                if error.effect() == Effect::Unknown {
                    self.judge().doubts(call.object, self.host);
                }
                self.judge().failed(
                    self.host,
                    &format!("{:?} of {:?}", call.ask, call.object),
                    &error,
                );
                if error.effect() == Effect::None {
                    // Not at once again.
                    sleep(Duration::from_millis(200)).await;
                }
                None
            }
            Err(_) => None,
        }
    }

    async fn hold_permits(&self, semaphore: &RSemaphore, object: usize, call: &Call) {
        let n = call.permits;
        let granted = if call.guard {
            let asking = async {
                match call.ask {
                    Ask::Wait => semaphore.permit(n).await.map(Some),
                    Ask::Try => semaphore.try_permit(n).await,
                    Ask::For(wait) => semaphore.permit_for(n, wait).await,
                }
            };
            self.wait(call, asking)
                .await
                .map(|(number, permit)| Held::new(self, number, object, n, Some(permit)))
        } else {
            let asking = async {
                let taken = match call.ask {
                    Ask::Wait => semaphore.acquire(n).await.map(|()| true),
                    Ask::Try => semaphore.try_acquire(n).await,
                    Ask::For(wait) => semaphore.try_acquire_for(n, wait).await,
                };
                taken.map(|taken| taken.then_some(()))
            };
            self.wait(call, asking)
                .await
                .map(|(number, ())| Held::new(self, number, object, n, None))
        };
        let Some(held) = granted else { return };
        if !call.hold.is_zero() {
            sleep(call.hold).await;
        }
        match call.give {
            Give::Keep => held.keep(),
            Give::Call => held.release(semaphore, false).await,
            Give::Drop => held.release(semaphore, true).await,
        }
    }

    async fn hold_lock(&self, lock: &RLock, object: usize, call: &Call) {
        let wait = match call.ask {
            Ask::Wait => None,
            Ask::Try => Some(Duration::ZERO),
            Ask::For(wait) => Some(wait),
        };
        let asking = lock.guarded(wait, call.lease);
        let Some((number, guard)) = self.wait(call, asking).await else {
            return;
        };
        let mut outer = HeldLock::new(self, number, object, lock, guard);
        let mut inner = None;
        if let Some((lease, _)) = call.nested {
            let again = lock.guarded(Some(Duration::from_secs(1)), lease);
            match again.await {
                Ok(Some(guard)) => inner = Some(HeldLock::new(self, number, object, lock, guard)),
                Ok(None) => {}
                Err(error) => self.judge().failed(self.host, "lock again", &error),
            }
        }
        let lost = timeout(call.hold, outer.lost()).await.is_ok();
        if lost {
            self.judge().note(format_args!(
                "c{} is told that it has lost l{object}",
                self.host
            ));
        }
        if let (Some(inner), Some((_, true))) = (&mut inner, call.nested) {
            // In the other order.
            std::mem::swap(inner, &mut outer);
        }
        for held in inner.into_iter().chain([outer]) {
            if call.give == Give::Call {
                held.unlock(lock).await;
            } else {
                drop(held);
            }
            if call.nested.is_some() {
                // What is left has to outlast what is renewed no more.
                sleep(call.hold + self.settings.watchdog.min(Duration::from_secs(3))).await;
            }
        }
    }
}

/// A caller in line.
struct Waiting<'a> {
    actor: &'a Actor,
    number: u64,
    object: Object,
}

impl Waiting<'_> {
    fn ends(self, what: &str) {
        self.actor.judge().end(self.number, format_args!("{what}"));
        std::mem::forget(self);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut judge = self.actor.judge();
        judge.doubts(self.object, self.actor.host);
        judge.end(self.number, format_args!("is dropped"));
    }
}

/// Permits in hand.
struct Held<'a> {
    actor: &'a Actor,
    object: usize,
    permits: u32,
    permit: Option<Permit>,
    in_hand: bool,
}

impl<'a> Held<'a> {
    fn new(
        actor: &'a Actor,
        number: u64,
        object: usize,
        permits: u32,
        permit: Option<Permit>,
    ) -> Self {
        actor
            .judge()
            .holds(number, object, actor.host, permits.into());
        Held {
            actor,
            object,
            permits,
            permit,
            in_hand: true,
        }
    }

    /// What has been kept.
    fn again(actor: &'a Actor, object: usize, permits: u32) -> Self {
        Held {
            actor,
            object,
            permits,
            permit: None,
            in_hand: true,
        }
    }

    fn lets_go(&mut self) {
        if std::mem::take(&mut self.in_hand) {
            let (actor, permits) = (self.actor, i64::from(self.permits));
            actor.judge().lets_go(self.object, actor.host, permits);
        }
    }

    fn keep(mut self) {
        if let Some(permit) = self.permit.take() {
            permit.forget();
        }
        self.in_hand = false;
        self.actor
            .kept
            .lock()
            .unwrap()
            .push((self.object, self.permits));
    }

    async fn release(mut self, semaphore: &RSemaphore, drops: bool) {
        let mut permit = self.permit.take();
        if drops && permit.is_some() {
            self.permit = permit;
            return;
        }
        loop {
            self.lets_go();
            let releasing = async {
                match permit.take() {
                    Some(permit) => permit.release().await,
                    None => semaphore.release(self.permits).await,
                }
            };
            let began = Instant::now();
            let released = if drops {
                timeout(Duration::ZERO, releasing).await.unwrap_or(Ok(()))
            } else {
                releasing.await
            };
            let took = began.elapsed();
            let actor = self.actor;
            let settings = &actor.settings;
            if took > settings.retry_window + settings.response_timeout * 2 + Duration::from_secs(2)
            {
                let host = actor.host;
                actor
                    .judge()
                    .accuse("ends", format!("a release of c{host} took {took:?}"));
            }
            let Err(error) = released else { return };
            actor.judge().failed(actor.host, "release", &error);
            if error.effect() == Effect::Unknown {
                return;
            }
            // Nothing has been given back.
            actor
                .judge()
                .keeps(self.object, actor.host, self.permits.into());
            self.in_hand = true;
            if matches!(error, Error::ShutDown { .. }) {
                self.in_hand = false;
                return;
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let actor = self.actor;
        if !self.in_hand {
            return;
        }
        match self.permit.take() {
            // After the end nothing can be given back.
            Some(permit) if !actor.judge().has_ended(actor.host) => {
                self.lets_go();
                drop(permit);
            }
            // Without a guard they stay taken; somebody has to know of them.
            permit => {
                if let Some(permit) = permit {
                    permit.forget();
                }
                self.in_hand = false;
                actor.kept.lock().unwrap().push((self.object, self.permits));
            }
        }
    }
}

/// A call that changes something, until it has ended.
struct Asked<'a> {
    actor: &'a Actor,
    number: u64,
    /// Nothing could be sent when it was made, and nobody would carry it out later.
    cut_off: bool,
}

impl Asked<'_> {
    fn ends(self, ended: Ended) {
        self.actor
            .judge()
            .admin_ends(self.actor.host, self.number, ended);
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let actor = self.actor;
        let mut judge = actor.judge();
        // What was never sent is not wanted any more.
        let never_sent = self.cut_off && judge.is_cut_off(actor.host);
        let ended = if never_sent {
            Ended::Not
        } else {
            Ended::Unknown
        };
        judge.admin_ends(actor.host, self.number, ended);
    }
}

/// A lock in hand.
struct HeldLock<'a> {
    actor: &'a Actor,
    number: u64,
    guard: Option<LockGuard>,
}

impl<'a> HeldLock<'a> {
    fn new(actor: &'a Actor, call: u64, object: usize, lock: &RLock, guard: LockGuard) -> Self {
        let lease = guard.lease().clone();
        let number = actor
            .judge()
            .locks(call, object, actor.host, lock.owner(), lease);
        HeldLock {
            actor,
            number,
            guard: Some(guard),
        }
    }

    async fn lost(&self) {
        self.guard.as_ref().expect("held").lost().await;
    }

    async fn unlock(mut self, lock: &RLock) {
        self.actor.judge().unlocks(self.number);
        let mut guard = self.guard.take();
        loop {
            let unlocked = match guard.take() {
                Some(guard) => guard.unlock().await,
                None => lock.unlock().await,
            };
            let error = match unlocked {
                Ok(()) | Err(Error::NotHeld { .. }) => return,
                Err(error) => error,
            };
            self.actor.judge().failed(self.actor.host, "unlock", &error);
            if error.effect() == Effect::Unknown || matches!(error, Error::ShutDown { .. }) {
                return;
            }
            // It is held, and renewed.
            sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Drop for HeldLock<'_> {
    fn drop(&mut self) {
        if self.guard.is_some() {
            self.actor.judge().unlocks(self.number);
        }
    }
}

/// A future that is not polled for a while.
struct Stalling<F> {
    inner: Pin<Box<F>>,
    stall: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<F: Future> Stalling<F> {
    fn new(inner: F, stall: Option<(Duration, Duration)>) -> Self {
        let now = Instant::now();
        Stalling {
            inner: Box::pin(inner),
            stall: stall.map(|(after, time)| {
                let from = now + after;
                (from, Box::pin(tokio::time::sleep_until(from + time)))
            }),
        }
    }
}

impl<F: Future> Future for Stalling<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if let Some((from, end)) = &mut self.stall {
            if end.as_mut().poll(cx).is_ready() {
                self.stall = None;
            } else if Instant::now() >= *from {
                return Poll::Pending;
            }
        }
        self.inner.as_mut().poll(cx)
    }
}
