//! The actors: clients that start, die and shut down, and their callers.

mod administer;
mod callers;
mod held;
mod recipes;
mod stalling;
mod watched;

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use redisson_semaphore::{Client, RSemaphore, ShardedPubSub};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::judge::{Host, Judge, Object};
use crate::plan::{Admin, Call, FAIR_SHARE, Life, Settings};
use crate::process::Process;
use crate::tasks::within;
use crate::world::nodes::{ITS_PORT, Nodes};
use held::Held;

/// All clients, in their places.
pub struct Stage {
    settings: Settings,
    pub judge: Arc<Mutex<Judge>>,
    /// The client that is in each place now.
    places: Vec<Arc<Actor>>,
    /// How many clients have been started.
    started: usize,
}

/// A client, from its start to its end.
pub struct Actor {
    pub host: Host,
    judge: Arc<Mutex<Judge>>,
    settings: Settings,
    client: Mutex<Option<Client>>,
    /// Wakes callers in order of arrival, which other ways to wait do not.
    there: Notify,
    process: Arc<Process>,
    callers: Mutex<Vec<JoinHandle<()>>>,
    /// Permits that callers keep to the end.
    kept: Mutex<Vec<(usize, u32)>>,
}

impl Stage {
    pub fn new(settings: &Settings, judge: Arc<Mutex<Judge>>) -> Stage {
        Stage {
            settings: settings.clone(),
            judge,
            places: Vec::new(),
            started: 0,
        }
    }

    pub fn host(&self, place: usize) -> Host {
        self.places[place].host
    }

    /// Returns the clients that are there now.
    pub fn actors(&self) -> Vec<Arc<Actor>> {
        self.places.clone()
    }

    pub fn somebody_died(&self) -> bool {
        self.started > self.places.len()
    }

    /// Whether all callers have finished.
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
            client: Mutex::default(),
            there: Notify::new(),
            process: Arc::new(match self.settings.threads {
                Some(one_in) => Process::with_threads(one_in, Arc::clone(&self.judge)),
                None => Process::default(),
            }),
            callers: Mutex::default(),
            kept: Mutex::default(),
        });
        self.judge.lock().unwrap().starts(host);
        self.started += 1;
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

    /// Returns the process of a client.
    pub fn process(&self, place: usize) -> Arc<Process> {
        Arc::clone(&self.places[place].process)
    }

    pub fn end(&self, place: usize, life: Life) {
        let actor = Arc::clone(&self.places[place]);
        match life {
            Life::Freeze => {
                actor.process.stop();
                actor.judge().freezes(actor.host);
            }
            Life::Die => {
                actor.judge().dies(actor.host);
                actor.drop_callers();
                actor.put(None);
            }
            Life::ShutDown {
                drop_callers,
                limit,
            } => {
                tokio::spawn(async move { actor.shut_down(drop_callers, limit).await });
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
        let process = Arc::clone(&self.process);
        callers.push(tokio::spawn(within(process, task)));
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
            let sharded = match settings.sharded {
                true => ShardedPubSub::Auto,
                false => ShardedPubSub::Off,
            };
            let builder = Client::builder(self.url())
                .sharded_pubsub(sharded)
                .retry_window(settings.retry_window)
                .response_timeout(settings.response_timeout)
                .connect_timeout(settings.connect_timeout)
                .safety_interval(settings.safety_interval)
                .scan_interval(std::time::Duration::from_secs(1))
                .local_hand_off(settings.local_hand_off)
                .lock_watchdog_timeout(settings.watchdog)
                .fair_lock_wait_timeout(FAIR_SHARE)
                .wait_for_replicas(settings.replication.is_some().into());
            let builder = match settings.call_timeout {
                Some(timeout) => builder.call_timeout(timeout),
                None => builder,
            };
            match builder.connect().await {
                Ok(client) => {
                    self.judge()
                        .note(format_args!("c{} is connected", self.host));
                    self.judge().is_called(self.host, client.id());
                    self.put(Some(client));
                    return;
                }
                Err(error) => self.judge().failed(self.host, "connect", &error),
            }
        }
    }

    /// Returns how many entries of each kind the client keeps.
    pub fn entries(&self) -> Option<Vec<(&'static str, usize)>> {
        self.known().map(|client| client.entries())
    }

    fn url(&self) -> String {
        let ports = Nodes::ports(self.settings.masters);
        if ports.is_empty() {
            return format!("redis://c{}:{ITS_PORT}", self.host);
        }
        let seeds = ports.iter().map(|port| format!("c{}:{port}", self.host));
        format!("redis+cluster://{}", seeds.collect::<Vec<_>>().join(","))
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

    pub async fn shut_down(&self, drop_callers: bool, limit: Option<Duration>) {
        self.judge().shuts_down(self.host);
        // Without a client, the task that connects would go on trying.
        if drop_callers || self.known().is_none() {
            for caller in self.drop_callers() {
                let _ = caller.await;
            }
        }
        let client = self.known();
        if let Some(client) = client {
            let began = Instant::now();
            let result = match limit {
                Some(limit) => client.shutdown_for(limit).await,
                None => client.shutdown().await,
            };
            let took = began.elapsed();
            // A caller that was just served learns of that first.
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            let mut judge = self.judge();
            let window = self.settings.retry_window + self.settings.slack();
            // A limit holds whatever other processes do.
            let most = limit.map_or(window, |limit| window.min(limit + Duration::from_millis(5)));
            if took > most {
                judge.accuse(
                    "ends",
                    format!("the shutdown of c{} took {took:?}", self.host),
                );
            }
            judge.has_shut_down(self.host, &result, limit.is_some());
        } else {
            self.judge().has_shut_down(self.host, &Ok(()), false);
        }
        self.put(None);
    }

    /// Releases the permits that callers have kept.
    pub async fn give_kept(&self) {
        let kept = std::mem::take(&mut *self.kept.lock().unwrap());
        for (object, permits) in kept {
            let semaphore = self.semaphore(object).await;
            let held = Held::again(self, object, permits);
            held.release(&semaphore, None).await;
        }
    }

    async fn semaphore(&self, object: usize) -> RSemaphore {
        let client = self.client().await;
        client
            .semaphore(&Object::Semaphore(object).key())
            .unwatched()
    }
}
