//! The search for the latest map.
//!
//! The nodes are asked one after the other until one confirms the known map, or has one of a higher rank ([`Map::rank`]: the highest
//! epoch wins). The first map is the best of all nodes. A map with a lower rank, or of another cluster at a reused address, is taken
//! only if no node has confirmed the known map for [`TRUST_UNCONFIRMED`], and at least half of the known addresses tell it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::time::{sleep, timeout};

use super::Cluster;
use crate::transport::address::Address;
use crate::transport::failure::Reason;
use crate::transport::live::Live;
use crate::transport::map::Map;
use crate::transport::{Command, Failure, Refusal, TRUST_UNCONFIRMED, Value};

/// If one has not answered by then, the next one is asked, too.
const HEDGE: Duration = Duration::from_millis(100);
/// One may take this long to answer.
const PATIENCE: Duration = Duration::from_secs(2);

impl Cluster {
    /// The map to go on with: the known one if a node confirms it, or a later one.
    pub(super) async fn latest(&self) -> Result<Map, Refusal> {
        let candidates = self.candidates();
        let count = candidates.len();
        let (known, stale) = {
            let state = self.state.lock();
            let stale = state.confirmed.elapsed() >= TRUST_UNCONFIRMED;
            (Arc::clone(&state.map), stale)
        };
        let weight = |map: &Map| (map.is_related(&known), map.rank());
        let least = (true, known.rank());
        // A first map may be that of a node that was cut off: all are asked at once, and the best is taken.
        let is_known = !known.masters().is_empty();
        let pause = if is_known { HEDGE } else { Duration::ZERO };
        let asking = candidates.into_iter().zip(0..);
        let asking = asking.map(|((address, live), turn)| async move {
            sleep(pause * turn).await;
            self.ask(&address, live).await
        });
        let mut asking: FuturesUnordered<_> = asking.collect();
        let mut maps: Vec<Map> = Vec::new();
        let mut refused: Option<Refusal> = None;
        loop {
            // When there is an answer, others have only little time left.
            let limit = match maps.is_empty() {
                true => Duration::MAX,
                false => 2 * HEDGE,
            };
            match timeout(limit, asking.next()).await {
                Ok(Some(Ok(map))) if is_known && map.serves && weight(&map) >= least => {
                    return Ok(map);
                }
                Ok(Some(Ok(map))) => maps.push(map),
                // A password that is wrong does not become right by trying again.
                Ok(Some(Err(refusal))) => match &refused {
                    Some(old) if old.reason != Reason::Unreachable => {}
                    _ => refused = Some(refusal),
                },
                Ok(None) | Err(_) => break,
            }
        }
        let votes = |map| maps.iter().filter(|other| weight(other) == map).count();
        match maps.iter().max_by_key(|map| weight(map)) {
            Some(best) if weight(best) >= least => Ok(best.clone()),
            Some(best) if stale && 2 * votes(weight(best)) >= count => Ok(best.clone()),
            _ => Err(refused.unwrap_or_else(|| {
                let detail = "the nodes that answer are cut off, or of another cluster";
                Refusal::unreachable(detail)
            })),
        }
    }

    /// The nodes to ask, in any order, as a node that has been cut off goes on answering with the known map; those that are connected come
    /// first.
    fn candidates(&self) -> Vec<(Address, Option<Arc<Live>>)> {
        let state = self.state.lock();
        let seeds = self.endpoint.seeds().unwrap_or_default();
        let known: BTreeSet<&Address> = state.links.keys().chain(seeds).collect();
        let live = |address| state.links.get(address)?.live().ok();
        let mut all: Vec<_> = (known.into_iter())
            .map(|address| (address.clone(), live(address)))
            .collect();
        fastrand::shuffle(&mut all);
        all.sort_by_key(|(_, live)| live.is_none());
        all
    }

    async fn ask(&self, address: &Address, live: Option<Arc<Live>>) -> Result<Map, Refusal> {
        let mut questions = vec![
            Command::new("CLUSTER").arg("SLOTS"),
            Command::new("CLUSTER").arg("INFO"),
        ];
        if self.sharded.get().is_none() {
            questions.push(Command::new("PUBSUB").arg("SHARDNUMSUB").arg("0"));
        }
        let asking = async {
            match live {
                Some(live) => {
                    try_join_all(questions.iter().map(|question| ask(&live, question))).await
                }
                None => self.endpoint.at(address).ask(&questions).await,
            }
        };
        let answers = timeout(PATIENCE, asking).await;
        let answers = answers.unwrap_or_else(|_| Err(Refusal::silent(PATIENCE)));
        let answers = answers.map_err(|refusal| refusal.by(address))?;
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
async fn ask(live: &Live, question: &Command) -> Result<Result<Value, Refusal>, Refusal> {
    match live.send(question, false).await {
        Ok(value) => Ok(Ok(value)),
        Err(Failure::Refused(refusal)) => Ok(Err(refusal)),
        Err(Failure::NoConnection(refusal)) => Err(refusal),
        Err(Failure::Unanswered { detail, .. }) => Err(Refusal::unreachable(detail)),
    }
}
