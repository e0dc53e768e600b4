//! The nodes of a cluster: a connection to each master, and the slots of each.
//!
//! A node that does not have a key's slot says so, and names the node that has it: nothing was carried out, and the command goes there. The
//! map learns from that at once. A task asks for the whole map every few seconds, at once when something
//! was not where it should be, and again and again while a master is away, with pauses that grow.
//!
//! [`search`] has which answer counts. So an old master that goes on taking itself for one is left, even by a client that gets no
//! answers from it, and what it had not answered is asked about at the new one.
//!
//! Nothing is sent twice here: the engine repeats calls without an answer.

mod search;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use super::address::Address;
use super::failure::Reason;
use super::layout::Layout;
use super::link::{Events, Link, NOT_YET, closed, show};
use super::live::Live;
use super::map::{Map, Redirection};
use super::messages::Messages;
use super::slot::slot;
use super::{Backoff, Command, Endpoint, Failure, Refusal, Value, jittered};
use crate::config::ShardedPubSub;
use crate::outside::{self, Runtime};
use crate::state::ConnectionState;
use crate::sync::{Followed, Follower, Mutex};

/// The pauses behind a request for the map: they grow while nothing comes of it.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(400);
/// A command is sent from one node to the next so often at the most before that is for later.
const MOST_HOPS: usize = 5;

/// The cluster, as far as is known.
pub(super) struct Cluster {
    runtime: Runtime,
    endpoint: Endpoint,
    state: Mutex<State>,
    /// Of the links and the map.
    events: Arc<Events>,
    /// Something was not where it should be, or a node does not serve slots for now: the map is asked for.
    pub(super) recheck: Arc<Notify>,
    shown: watch::Sender<ConnectionState>,
    layout: Followed<Layout>,
    sharded: OnceLock<bool>,
}

struct State {
    map: Arc<Map>,
    /// When a node sent it, or confirmed it.
    confirmed: Instant,
    /// Why there is no map, while there is none.
    why: Refusal,
    /// To the masters, and to nodes that keys are on their way to.
    links: BTreeMap<Address, Arc<Link>>,
    keeper: Option<AbortHandle>,
    closed: bool,
}

impl Cluster {
    /// Nothing is asked before [`keep`](Self::keep).
    pub(super) fn new(
        endpoint: Endpoint,
        sharded: ShardedPubSub,
        events: Arc<Events>,
    ) -> Arc<Self> {
        let why = Refusal::unreachable(NOT_YET);
        let recheck = Arc::<Notify>::default();
        let layout =
            Layout::of_cluster(&BTreeMap::new(), Arc::default(), Messages::Plain, &recheck);
        Arc::new(Cluster {
            runtime: Runtime::current(),
            endpoint,
            shown: watch::Sender::new(why.shown()),
            state: Mutex::new(State {
                map: Arc::default(),
                confirmed: Instant::now(),
                why,
                links: BTreeMap::new(),
                keeper: None,
                closed: false,
            }),
            events,
            recheck,
            layout: Followed::new(layout),
            sharded: match sharded {
                ShardedPubSub::Auto => OnceLock::new(),
                ShardedPubSub::On => OnceLock::from(true),
                ShardedPubSub::Off => OnceLock::from(false),
            },
        })
    }

    /// Keeps the map up to date from now on, until [`close`](Self::close).
    pub(super) fn keep(self: &Arc<Self>) {
        let cluster = Arc::clone(self);
        let keeping = outside::spawn(async move {
            tokio::join!(cluster.show_changes(), cluster.keep_map());
        });
        self.state.lock().keeper = Some(keeping.abort_handle());
    }

    pub(super) fn shown(&self) -> watch::Receiver<ConnectionState> {
        self.shown.subscribe()
    }

    /// How many nodes are connected to.
    pub(super) fn count(&self) -> usize {
        self.state.lock().links.len()
    }

    pub(super) fn layout(&self) -> Follower<Layout> {
        self.layout.follow()
    }

    pub(super) fn messages(&self) -> Messages {
        match self.sharded.get() {
            Some(true) => Messages::Sharded,
            _ => Messages::Plain,
        }
    }

    /// The connection to the master that has `key`, or to any; or why there is none.
    pub(super) fn live_for(&self, key: Option<&str>) -> Result<Arc<Live>, Refusal> {
        let state = self.state.lock();
        if state.closed {
            return Err(closed());
        }
        let Some(key) = key else {
            return state.any();
        };
        let slot = slot(key);
        match state
            .map
            .owner(slot)
            .and_then(|owner| state.links.get(owner))
        {
            Some(link) => link.live(),
            None if state.map.masters().is_empty() => Err(state.why.clone()),
            None => Err(Refusal::unreachable(format!("no node has slot {slot}"))),
        }
    }

    /// Those that have slots.
    pub(super) fn masters(&self) -> Vec<String> {
        let state = self.state.lock();
        state.map.masters().iter().map(Address::to_string).collect()
    }

    /// The one that has `key`.
    pub(super) fn master_of(&self, key: &str) -> Option<String> {
        let state = self.state.lock();
        state.map.owner(slot(key)).map(Address::to_string)
    }

    /// The connection to the one of [`masters`](Self::masters) that is called so, or why there is none.
    pub(super) fn live_at(&self, master: &str) -> Result<Arc<Live>, Refusal> {
        let state = self.state.lock();
        if state.closed {
            return Err(closed());
        }
        let masters = &mut state.map.masters().iter();
        let link = masters
            .find(|address| address.to_string() == master)
            .and_then(|address| state.links.get(address));
        match link {
            Some(link) => link.live(),
            None => Err(Refusal::unreachable(format!(
                "{master} has no slot any more"
            ))),
        }
    }

    /// Whether all masters are connected to; then users see that.
    pub(super) fn is_complete(&self) -> bool {
        let complete = self.state.lock().trouble().is_none();
        if complete {
            self.show();
        }
        complete
    }

    async fn until_in_trouble(&self) {
        loop {
            let changed = self.events.changed.notified();
            // A change from here on is not missed.
            if self.state.lock().trouble().is_some() {
                return;
            }
            changed.await;
        }
    }

    /// Goes where `command` is sent by the node at `from`.
    pub(super) async fn follow(
        &self,
        from: &Address,
        command: &Command,
        mut refusal: Refusal,
    ) -> Result<Value, Failure> {
        let mut from = from.clone();
        for _ in 0..MOST_HOPS {
            let answer = match Redirection::read(&refusal.detail, &from) {
                None => {
                    self.recheck.notify_one();
                    return Err(not_now(refusal));
                }
                Some(Redirection::Moved(slot, address)) => {
                    self.recheck.notify_one();
                    let link = self.moved(slot, &address);
                    from = address;
                    link.live()
                        .map_err(Failure::NoConnection)?
                        .send(command, false)
                        .await
                }
                Some(Redirection::Ask(address)) => {
                    // The slot is on its way to there. Without a connection the call is not to be tried again at once.
                    let link = self.link(&mut self.state.lock(), &address);
                    let live = link.live().map_err(not_now)?;
                    from = address;
                    live.send(command, true).await
                }
            };
            match answer {
                Err(Failure::Refused(next)) if next.reason == Reason::Elsewhere => refusal = next,
                answer => return answer,
            }
        }
        Err(not_now(refusal))
    }

    /// Closes all connections for good.
    pub(super) fn close(&self) {
        let (links, keeper) = {
            let mut state = self.state.lock();
            state.closed = true;
            (std::mem::take(&mut state.links), state.keeper.take())
        };
        links.values().for_each(|link| link.close());
        self.show();
        self.events.changed.notify_waiters();
        if let Some(keeper) = keeper {
            keeper.abort();
        }
    }

    /// `slot` is at `address` now.
    fn moved(&self, slot: u16, address: &Address) -> Arc<Link> {
        let mut state = self.state.lock();
        let link = self.link(&mut state, address);
        if state.map.owner(slot) != Some(address) {
            Arc::make_mut(&mut state.map).assign(slot..=slot, address);
            drop(state);
            self.tell();
        }
        link
    }

    fn link(&self, state: &mut State, address: &Address) -> Arc<Link> {
        if let Some(link) = state.links.get(address) {
            return Arc::clone(link);
        }
        // A caller may be sent to a new node while it is polled by another runtime.
        let _runtime = self.runtime.enter();
        let link = Link::new(self.endpoint.at(address), Arc::clone(&self.events));
        let link = Arc::new(link);
        if !state.closed {
            state.links.insert(address.clone(), Arc::clone(&link));
        }
        link
    }

    /// Asks until a node has confirmed the known map, or sent a later one.
    async fn refresh(&self) -> Result<(), Refusal> {
        let latest = self.latest().await;
        if let Err(refusal) = &latest {
            self.state.lock().why = refusal.clone();
            self.events.changed.notify_waiters();
        }
        latest.map(|map| self.accept(map))
    }

    /// The map from now on. Connections to other nodes, which redirections have made, end with that.
    fn accept(&self, map: Map) {
        let masters = map.masters().iter().map(Address::to_string);
        let masters = masters.collect::<Vec<_>>().join(", ");
        let (gone, others) = {
            let mut state = self.state.lock();
            state.confirmed = Instant::now();
            if state.closed {
                return;
            }
            for master in map.masters() {
                self.link(&mut state, master);
            }
            let links = std::mem::take(&mut state.links).into_iter();
            let (kept, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
                links.partition(|(address, _)| map.masters().contains(address));
            state.links = kept;
            if *state.map == map && gone.is_empty() {
                return;
            }
            let others = state.map.masters() != map.masters();
            state.map = Arc::new(map);
            (gone, others)
        };
        if others {
            let cluster = self.endpoint.address();
            tracing::info!(cluster, masters, "the cluster's masters");
        }
        // A master that is none any more does not answer, or what it answers does not count.
        gone.values().for_each(|link| link.cut());
        self.tell();
    }

    fn tell(&self) {
        self.events.changed.notify_waiters();
        let messages = self.messages();
        // Under the mutex: a task with an earlier map must not be the last to announce one.
        let state = self.state.lock();
        let map = Arc::clone(&state.map);
        let layout = Layout::of_cluster(&state.links, map, messages, &self.recheck);
        self.layout.set(layout);
    }

    /// Shows users how things stand.
    fn show(&self) {
        show(&self.shown, || self.state.lock().shown());
    }

    /// Shows users each change at once, whatever is being asked meanwhile.
    async fn show_changes(&self) {
        loop {
            let change = self.events.changed.notified();
            self.show();
            change.await;
        }
    }

    async fn keep_map(&self) {
        let pauses = || Backoff::between(FIRST_PAUSE, LONGEST_PAUSE);
        let mut backoff = pauses();
        loop {
            tokio::select! {
                biased;
                () = self.recheck.notified() => {}
                () = self.until_in_trouble() => {}
                () = sleep(jittered(self.endpoint.scan_interval, 0.75, 1.25)) => {
                    backoff = pauses();
                }
            }
            let before = Arc::clone(&self.state.lock().map);
            if let Err(refusal) = self.refresh().await {
                let cluster = self.endpoint.address();
                tracing::debug!(cluster, detail = %refusal.detail, "no map of the cluster");
            }
            if before != self.state.lock().map {
                backoff = pauses();
            }
            // A slot that is on its way for long asks for the map again and again.
            sleep(backoff.next()).await;
        }
    }
}

impl State {
    fn any(&self) -> Result<Arc<Live>, Refusal> {
        let masters = self.map.masters().iter();
        let mut refusal = self.why.clone();
        for link in masters.filter_map(|master| self.links.get(master)) {
            match link.live() {
                Ok(live) => return Ok(live),
                Err(other) => refusal = other,
            }
        }
        Err(refusal)
    }

    fn shown(&self) -> ConnectionState {
        match self.trouble() {
            _ if self.closed => ConnectionState::ShutDown,
            None => ConnectionState::Connected,
            Some(refusal) => refusal.shown(),
        }
    }

    /// The reason why commands fail, if there is one.
    fn trouble(&self) -> Option<Refusal> {
        let mut masters = self.map.masters().iter();
        if masters.len() == 0 {
            return Some(self.why.clone());
        }
        masters.find_map(|master| {
            let refusal = self.links.get(master)?.live().err()?;
            Some(refusal.by(master))
        })
    }
}

/// A refusal that may pass.
fn not_now(refusal: Refusal) -> Failure {
    Failure::Refused(Refusal {
        reason: Reason::NotNow,
        ..refusal
    })
}

#[cfg(test)]
mod tests {
    use tokio::runtime;
    use tokio::time::timeout;

    use super::*;
    use crate::config::Config;

    const LIMIT: Duration = Duration::from_secs(10);

    #[test]
    fn a_link_outlives_the_runtime_of_the_caller_that_needed_it() {
        let runtime = || {
            runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime")
        };
        let (own, other) = (runtime(), runtime());
        let cluster = own.block_on(async {
            let config = Config::new("redis+cluster://127.0.0.1:1");
            let endpoint = Endpoint::new(&config).expect("a valid URL");
            Cluster::new(endpoint, ShardedPubSub::Auto, Arc::default())
        });
        let link = other.block_on(async {
            let address = Address::tcp("127.0.0.1", 1);
            cluster.link(&mut cluster.state.lock(), &address)
        });
        drop(other);
        // The link tries to connect and fails.
        own.block_on(async { timeout(LIMIT, link.shown().changed()).await })
            .expect("the link lives")
            .expect("and is not closed");
    }
}
