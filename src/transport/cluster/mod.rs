//! The nodes of a cluster: a connection to each master, and the slots of each.
//!
//! A node that does not have a key's slot says so, and names the node that has it: nothing was carried out, and the command goes there. The
//! map learns from that at once. A task asks one of the nodes for the whole of it: once a second, soon when something
//! was not where it should be (less soon when that was for nothing), and again and again while a master is away. An answer that knows of fewer
//! configurations than are known is that of a node that was cut off: [`search`] has when it counts all the same. So an old
//! master that goes on taking itself for one is left, even by a client that gets no answers from it, and what it
//! had not answered is asked about at the new one.
//!
//! Nothing is sent twice here: the engine repeats calls without an answer.

mod map;
mod search;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use redis::Cmd;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::address::Address;
use super::failure::Reason;
use super::layout::Layout;
use super::link::{Link, News, closed};
use super::live::Live;
use super::messages::Messages;
use super::slot::slot;
use super::{Backoff, Command, Endpoint, Failure, Refusal, Value, jittered};
use crate::config::ShardedPubSub;
use crate::outside::{self, Runtime};
use crate::state::ConnectionState;
use crate::sync::{Followed, Follower, Locking, Mutex};

pub(crate) use map::Map;
use map::Redirection;
use search::Search;

/// How often at the most: less often while nothing comes of it, up to the longest pause.
const PACE: Duration = Duration::from_millis(50);
/// The pauses while a master is away.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(400);
/// If one has not answered by then, the next one is asked, too.
const HEDGE: Duration = Duration::from_millis(100);
/// One may take this long to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// A command is sent from one node to the next so often at the most before that is for later.
const MOST_HOPS: usize = 5;
/// A node that keys are on their way to may have no slot yet; its connection stays for so long.
const VISIT: Duration = Duration::from_secs(30);

/// The cluster, as far as is known.
pub(super) struct Cluster {
    runtime: Runtime,
    endpoint: Endpoint,
    state: Mutex<State>,
    /// Of the links and the map.
    news: Arc<News>,
    /// Something was not where it should be.
    doubted: Arc<Notify>,
    shown: watch::Sender<ConnectionState>,
    layout: Followed<Layout>,
    sharded: OnceLock<bool>,
}

struct State {
    map: Arc<Map>,
    /// When a node sent it, or one of the same epoch.
    told: Instant,
    /// The node that was asked first for the last map.
    asked: Option<Address>,
    /// Why there is no map, while there is none.
    why: Refusal,
    links: BTreeMap<Address, Arc<Link>>,
    /// Nodes without a slot that keys are on their way to, and when we were sent there last.
    visited: BTreeMap<Address, Instant>,
    closed: bool,
}

impl Cluster {
    /// Nothing is asked before [`begin`](Self::begin).
    pub(super) fn new(endpoint: Endpoint, sharded: ShardedPubSub) -> Arc<Self> {
        let why = Refusal::unreachable("not connected yet");
        let doubted = Arc::<Notify>::default();
        let layout = Layout::of_cluster(
            endpoint.clone(),
            Arc::default(),
            Messages::Plain,
            Arc::clone(&doubted),
        );
        let decided = OnceLock::new();
        let decision = match sharded {
            ShardedPubSub::Auto => None,
            ShardedPubSub::On => Some(true),
            ShardedPubSub::Off => Some(false),
        };
        decision.map(|on| decided.set(on));
        Arc::new(Cluster {
            runtime: Runtime::current(),
            endpoint,
            shown: watch::Sender::new(down(&why)),
            state: Mutex::new(State {
                map: Arc::default(),
                told: Instant::now(),
                asked: None,
                why,
                links: BTreeMap::new(),
                visited: BTreeMap::new(),
                closed: false,
            }),
            news: Arc::default(),
            doubted,
            layout: Followed::new(layout),
            sharded: decided,
        })
    }

    /// Asks for the map, and connects to its nodes in the background.
    pub(super) async fn begin(&self) -> Result<(), Refusal> {
        self.refresh().await
    }

    /// Keeps the map up to date from now on.
    pub(super) fn keep(self: &Arc<Self>) -> AbortHandle {
        let cluster = Arc::downgrade(self);
        let shown = show_changes(Weak::clone(&cluster), Arc::clone(&self.news));
        let kept = async move {
            tokio::join!(shown, keep_map(cluster));
        };
        outside::spawn(kept).abort_handle()
    }

    pub(super) fn shown(&self) -> watch::Receiver<ConnectionState> {
        self.shown.subscribe()
    }

    pub(super) fn reconnects(&self) -> u64 {
        self.news.reconnects()
    }

    /// How many nodes are connected to, or known without having a slot.
    pub(super) fn count(&self) -> usize {
        let state = self.state.lock();
        state.links.len().max(state.visited.len())
    }

    pub(super) fn layout(&self) -> Follower<Layout> {
        self.layout.follow()
    }

    pub(super) fn server(&self) -> &str {
        self.endpoint.address()
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

    /// Ends when [`live_for`](Self::live_for) finds a connection, or will never find one.
    pub(super) async fn settled(&self, key: Option<&str>) {
        loop {
            let changed = self.news.changed.notified();
            // A change from here on is not missed.
            if self.live_for(key).is_ok() || self.state.lock().closed {
                return;
            }
            changed.await;
        }
    }

    /// Ends when all masters are connected to, and users see that.
    pub(super) async fn complete(&self) {
        loop {
            let changed = self.news.changed.notified();
            if self.state.lock().trouble().is_none() {
                return self.show();
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
                    self.doubted.notify_one();
                    return Err(not_now(refusal));
                }
                Some(Redirection::Moved(slot, address)) => {
                    self.doubted.notify_one();
                    let link = self.moved(slot, &address);
                    from = address;
                    link.live()
                        .map_err(Failure::NoConnection)?
                        .send(command)
                        .await
                }
                Some(Redirection::Ask(address)) => {
                    // Not to be tried again at once.
                    let live = self.visit(&address).live().map_err(not_now)?;
                    from = address;
                    live.send_asking(command).await
                }
            };
            match answer {
                Err(Failure::Refused(next)) if next.reason == Reason::Elsewhere => refusal = next,
                answer => return answer,
            }
        }
        Err(not_now(refusal))
    }

    /// A node says that it does not serve slots for now: another one may.
    pub(super) fn doubt(&self) {
        self.doubted.notify_one();
    }

    /// Closes all connections for good.
    pub(super) fn close(&self) {
        let links = {
            let mut state = self.state.lock();
            state.closed = true;
            std::mem::take(&mut state.links)
        };
        links.values().for_each(|link| link.close());
        self.news.changed.notify_waiters();
        self.show();
    }

    /// `slot` is at `address` now.
    fn moved(&self, slot: u16, address: &Address) -> Arc<Link> {
        let mut state = self.state.lock();
        let link = self.link(&mut state, address);
        if state.map.owner(slot) != Some(address) {
            Arc::make_mut(&mut state.map).assign(slot, address);
            drop(state);
            self.tell();
        }
        link
    }

    /// A key of a slot that is on its way may be at `address` already.
    fn visit(&self, address: &Address) -> Arc<Link> {
        let mut state = self.state.lock();
        state.visited.insert(address.clone(), Instant::now());
        self.link(&mut state, address)
    }

    fn link(&self, state: &mut State, address: &Address) -> Arc<Link> {
        let make = || {
            // A caller may be sent to a new node while it is polled by another runtime.
            let _runtime = self.runtime.enter();
            Link::lazy(self.endpoint.at(address), Arc::clone(&self.news))
        };
        match state.links.get(address) {
            Some(link) => Arc::clone(link),
            None => {
                let link = Arc::new(make());
                if !state.closed {
                    state.links.insert(address.clone(), Arc::clone(&link));
                }
                link
            }
        }
    }

    /// Asks until a node has confirmed the known map, or sent a later one.
    async fn refresh(&self) -> Result<(), Refusal> {
        let candidates = self.candidates();
        let mut search = {
            let state = self.state.lock();
            Search::of(&state.map, state.told, candidates.len())
        };
        let mut asking = FuturesUnordered::new();
        for address in candidates {
            asking.push(async move { self.ask(&address).await });
            let hedge = Instant::now() + HEDGE;
            while !search.is_over()
                && let Ok(Some(answer)) = timeout_at(hedge, asking.next()).await
            {
                search.weigh(answer);
            }
            if search.is_over() {
                break;
            }
        }
        while !search.is_over() {
            let answer = if search.will_do() {
                timeout(HEDGE, asking.next()).await.ok().flatten()
            } else {
                asking.next().await
            };
            let Some(answer) = answer else { break };
            search.weigh(answer);
        }
        let found = search.result();
        match found {
            Ok(map) => {
                self.accept(map);
                Ok(())
            }
            Err(refusal) => {
                self.state.lock().why = refusal.clone();
                Err(refusal)
            }
        }
    }

    /// The nodes to ask: one after the other, as a node that has been cut off goes on answering with the known map; then the nodes that are
    /// connected.
    fn candidates(&self) -> Vec<Address> {
        let mut state = self.state.lock();
        let mut known: Vec<_> = state.links.iter().collect();
        fastrand::shuffle(&mut known);
        known.sort_by_key(|(_, link)| link.live().is_err());
        let mut all: Vec<Address> = known
            .into_iter()
            .map(|(address, _)| address.clone())
            .collect();
        for seed in self.endpoint.seeds().unwrap_or_default() {
            if !all.contains(seed) {
                all.push(seed.clone());
            }
        }
        let first = search::next_to(state.asked.as_ref(), &all).cloned();
        all.sort_by_key(|address| Some(address) != first.as_ref());
        state.asked = first;
        all
    }

    async fn ask(&self, address: &Address) -> Result<Map, Refusal> {
        let mut words = vec![vec!["CLUSTER", "SLOTS"], vec!["CLUSTER", "INFO"]];
        if self.sharded.get().is_none() {
            words.push(vec!["PUBSUB", "SHARDNUMSUB", "0"]);
        }
        let live = self.state.lock().links.get(address).map(|link| link.live());
        let asking = async {
            match live {
                Some(Ok(live)) => {
                    let asking = words.iter().map(|words| ask_live(&live, words));
                    futures::future::try_join_all(asking).await
                }
                _ => self.ask_apart(address, &words).await,
            }
        };
        let answers = timeout(PATIENCE, asking).await;
        let answers = answers.unwrap_or_else(|_| {
            Err(Refusal::unreachable(format!(
                "{address}: no answer within {PATIENCE:?}"
            )))
        })?;
        let mut answers = answers.into_iter();
        let mut next = || answers.next().unwrap_or(Ok(Value::Nil));
        let (slots, info) = (next(), next());
        let slots = slots.map_err(|refusal| no_cluster(address, refusal))?;
        // It may not be allowed to tell.
        let info = info.unwrap_or(Value::Nil);
        let map = Map::read(&slots, &info, address)?;
        if let Some(probe) = answers.next() {
            self.decide(probe)?;
        }
        Ok(map)
    }

    /// Whether messages are sharded ones, by the answer to a question about them: Redisson decides it in the same way.
    fn decide(&self, probe: Result<Value, Refusal>) -> Result<(), Refusal> {
        if let Err(refusal) = &probe
            && refusal.reason == Reason::Permission
        {
            // A wrong guess would have no listener.
            let detail = format!(
                "PUBSUB SHARDNUMSUB is forbidden, which tells whether the cluster's messages are sharded: \
                 allow it, or say so by the setting `sharded_pubsub`: {}",
                refusal.detail
            );
            return Err(Refusal {
                detail,
                ..refusal.clone()
            });
        }
        let _ = self.sharded.set(probe.is_ok());
        Ok(())
    }

    /// The same of a node that there is no connection to.
    async fn ask_apart(
        &self,
        address: &Address,
        words: &[Vec<&str>],
    ) -> Result<Vec<Result<Value, Refusal>>, Refusal> {
        let questions: Vec<Cmd> = words
            .iter()
            .map(|words| {
                let mut question = Cmd::new();
                question.arg(words);
                question
            })
            .collect();
        let answers = self.endpoint.at(address).ask(&questions).await;
        let answers = answers.map_err(|refusal| Refusal {
            detail: format!("{address}: {}", refusal.detail),
            ..refusal
        })?;
        let answer = |answer: redis::RedisResult<redis::Value>| {
            answer
                .map(Value::from)
                .map_err(|error| Refusal::at_connect(&error))
        };
        Ok(answers.into_iter().map(answer).collect())
    }

    /// The map from now on.
    fn accept(&self, mut map: Map) {
        let (gone, news): (Vec<Arc<Link>>, bool) = {
            let mut state = self.state.lock();
            if state.closed {
                return;
            }
            state.told = Instant::now();
            map.follows(&state.map);
            for master in map.masters() {
                self.link(&mut state, master);
            }
            let State { links, visited, .. } = &mut *state;
            visited.retain(|_, when| when.elapsed() < VISIT);
            let is_gone = |address: &Address| {
                !map.masters().contains(address) && !visited.contains_key(address)
            };
            let gone: Vec<Address> = links
                .keys()
                .filter(|address| is_gone(address))
                .cloned()
                .collect();
            let gone = gone
                .iter()
                .filter_map(|address| links.remove(address))
                .collect();
            if state.map.masters() != map.masters() {
                let masters: Vec<_> = map.masters().iter().map(Address::to_string).collect();
                tracing::info!(
                    cluster = self.server(),
                    masters = masters.join(", "),
                    "the cluster's masters"
                );
            }
            let news = *state.map != map;
            if news {
                state.map = Arc::new(map);
            }
            (gone, news)
        };
        // A master that is none any more does not answer, or what it answers does not count.
        gone.iter().for_each(|link| link.cut());
        if news {
            self.tell();
        }
    }

    fn tell(&self) {
        self.news.changed.notify_waiters();
        let messages = self.messages();
        // Under the mutex: a task with an earlier map must not be the last to announce one.
        let state = self.state.lock();
        self.layout.set(Layout::of_cluster(
            self.endpoint.clone(),
            Arc::clone(&state.map),
            messages,
            Arc::clone(&self.doubted),
        ));
    }

    /// Shows users how things stand.
    fn show(&self) {
        // The watch is locked meanwhile.
        let _locking = Locking::begin();
        self.shown.send_if_modified(|known| {
            let new = self.state.lock().shown();
            let changed = *known != new;
            *known = new;
            changed
        });
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
            Some(refusal) => down(&refusal),
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
            let detail = format!("{master}: {}", refusal.detail);
            Some(Refusal { detail, ..refusal })
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

fn down(refusal: &Refusal) -> ConnectionState {
    ConnectionState::Disconnected {
        detail: refusal.detail.clone(),
    }
}

fn no_cluster(address: &Address, refusal: Refusal) -> Refusal {
    let hint = if refusal.detail.contains("cluster support disabled") {
        "; its URL is redis://, not redis+cluster://"
    } else {
        ""
    };
    let detail = format!(
        "{address} tells nothing of a cluster: {}{hint}",
        refusal.detail
    );
    Refusal { detail, ..refusal }
}

/// The answer, which may be a refusal; the outer error: there is none.
async fn ask_live(live: &Live, words: &[&str]) -> Result<Result<Value, Refusal>, Refusal> {
    let (name, rest) = words.split_first().unwrap_or((&"PING", &[]));
    let command = rest
        .iter()
        .fold(Command::new(name), |command, word| command.arg(word));
    match live.send(&command).await {
        Ok(value) => Ok(Ok(value)),
        Err(Failure::Refused(refusal)) => Ok(Err(refusal)),
        Err(Failure::NoConnection(refusal)) => Err(refusal),
        Err(Failure::Unanswered { detail, .. }) => Err(Refusal::unreachable(detail)),
    }
}

/// Shows users each change at once, whatever is being asked meanwhile, for as long as there is a client.
async fn show_changes(cluster: Weak<Cluster>, news: Arc<News>) {
    loop {
        let change = news.changed.notified();
        match cluster.upgrade() {
            Some(cluster) => cluster.show(),
            None => return,
        }
        change.await;
    }
}

/// Keeps the map up to date, for as long as there is a client.
async fn keep_map(cluster: Weak<Cluster>) {
    let (news, doubted, period) = match cluster.upgrade() {
        Some(cluster) => (
            Arc::clone(&cluster.news),
            Arc::clone(&cluster.doubted),
            cluster.endpoint.scan_interval(),
        ),
        None => return,
    };
    let new_backoff = || Backoff::between(FIRST_PAUSE, LONGEST_PAUSE);
    let mut pace = PACE;
    let mut backoff: Option<Backoff> = None;
    let mut due = Instant::now();
    loop {
        let change = news.changed.notified();
        let Some(known) = cluster.upgrade() else {
            return;
        };
        if known.state.lock().trouble().is_none() {
            backoff = None;
        } else if backoff.is_none() {
            // A master has just been lost.
            due = due.min(Instant::now() + backoff.insert(new_backoff()).next());
        }
        drop(known);
        let in_doubt = tokio::select! {
            biased;
            () = doubted.notified() => true,
            () = tokio::time::sleep_until(due) => false,
            () = change => continue,
        };
        let Some(known) = cluster.upgrade() else {
            return;
        };
        let before = Arc::clone(&known.state.lock().map);
        if let Err(refusal) = known.refresh().await {
            tracing::debug!(cluster = known.server(), detail = %refusal.detail, "no map of the cluster");
        }
        // A slot that is on its way for long gives rise to doubts again and again.
        let in_vain = in_doubt && backoff.is_none() && before == known.state.lock().map;
        pace = if in_vain {
            LONGEST_PAUSE.min(2 * pace)
        } else {
            PACE
        };
        drop(known);
        tokio::time::sleep(pace).await;
        due = Instant::now()
            + match &mut backoff {
                Some(backoff) => backoff.next(),
                None => jittered(period, 0.75, 1.25),
            };
    }
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
            Cluster::new(endpoint, ShardedPubSub::Auto)
        });
        let link = other.block_on(async { cluster.visit(&Address::tcp("127.0.0.1", 1)) });
        drop(other);
        // The link tries to connect and fails.
        own.block_on(async { timeout(LIMIT, link.shown().changed()).await })
            .expect("the link lives")
            .expect("and is not closed");
    }
}
