//! Whom to believe of the nodes that are asked: who knows of the latest configuration.
//!
//! One that was cut off knows of fewer configurations than are known already, or of fewer slots, or takes the cluster for unfit to
//! serve. It counts only when all nodes say so; or when for [`BELIEVED`] nobody has told what is known, and most of the masters
//! of what is told, at least two, say so themselves: who told more is gone, as a node that took itself for a master, or the
//! cluster was set up anew while one of the addresses belongs to nobody.
//!
//! Who tells of a cluster that has no node in common with the one that is known is a stranger, whatever it knows: an address
//! may belong to somebody else now. It is believed in the same way, but only where no other answers.

use std::sync::Arc;

use super::map::{Map, Rank};
use crate::transport::BELIEVED;
use crate::transport::Refusal;
use crate::transport::address::Address;
use crate::transport::failure::Reason;
use tokio::time::Instant;

/// What the nodes say that are asked.
pub(super) struct Search {
    known: Arc<Map>,
    /// For long nobody has told what is known.
    stale: bool,
    best: Option<Map>,
    /// The best of another cluster.
    strange: Option<Map>,
    asked: Vec<Address>,
    told: Vec<(Address, Rank)>,
    refusal: Option<Refusal>,
}

impl Search {
    /// For a map that tells as much as the one that is `known`, and was told last at `told`.
    pub(super) fn of(known: &Arc<Map>, told: Instant) -> Self {
        Search {
            known: Arc::clone(known),
            stale: told.elapsed() >= BELIEVED,
            best: None,
            strange: None,
            asked: Vec::new(),
            told: Vec::new(),
            refusal: None,
        }
    }

    /// The node at `address` is asked, too.
    pub(super) fn asks(&mut self, address: &Address) {
        self.asked.push(address.clone());
    }

    pub(super) fn weigh(&mut self, asked: Address, answer: Result<Map, Refusal>) {
        match answer {
            Ok(map) => {
                self.told.push((asked, map.rank()));
                let best = match map.is_related(&self.known) {
                    true => &mut self.best,
                    false => &mut self.strange,
                };
                if best.as_ref().is_none_or(|best| best.rank() < map.rank()) {
                    *best = Some(map);
                }
            }
            Err(refusal) => {
                // A password that is wrong does not become right by trying again.
                let lasting = |old: &Refusal| old.reason != Reason::Unreachable;
                if !self.refusal.as_ref().is_some_and(lasting) {
                    self.refusal = Some(refusal);
                }
            }
        }
    }

    /// Whether nobody else has to be heard: what is known tells that the answer is no old one.
    pub(super) fn is_over(&self) -> bool {
        self.known.epoch > 0 && self.best.as_ref().is_some_and(|map| self.is_new(map))
    }

    /// Whether the others need not be waited for as long as they like: it is the first map of all, or tells of no earlier
    /// configuration, and only that the cluster does not serve.
    pub(super) fn will_do(&self) -> bool {
        let known = self.known.extent();
        let best = self.best.as_ref().map(Map::extent);
        best.is_some_and(|best| self.known.epoch == 0 || best >= known)
    }

    /// Those who could say whether they are what others say of them, and have not been asked.
    pub(super) fn unheard(&self) -> Vec<Address> {
        let told = self.best.as_ref().or(self.strange.as_ref());
        let is_new = |map: &Map| map.is_related(&self.known) && self.is_new(map);
        let masters = told.filter(|map| self.stale && !is_new(map));
        let masters = masters.into_iter().flat_map(Map::masters);
        let unheard = masters.filter(|master| !self.asked.contains(master));
        unheard.cloned().collect()
    }

    fn is_new(&self, map: &Map) -> bool {
        map.rank() >= self.known.rank()
    }

    /// Those of the map's masters who have told it themselves.
    fn voters(&self, map: &Map) -> Vec<&Address> {
        let tellers = self.told.iter().filter(|(_, rank)| *rank == map.rank());
        let tellers = tellers.map(|(address, _)| address);
        tellers
            .filter(|teller| map.masters().contains(teller))
            .collect()
    }

    /// Whether it holds though it is no newer than what is known, of which nobody tells any more.
    fn is_agreed(&self, map: &Map) -> bool {
        let voters = self.voters(map).len();
        self.stale && map.serves && voters > 1 && voters > map.masters().len() / 2
    }

    pub(super) fn result(mut self) -> Result<Map, Refusal> {
        let strange = self.strange.take();
        let all_answer = self.refusal.is_none();
        match self.best.take().or(strange) {
            // All of them say so: they have been set up anew.
            Some(map) if all_answer || self.is_agreed(&map) => Ok(map),
            Some(map) if map.is_related(&self.known) && self.is_new(&map) => Ok(map),
            Some(map) => {
                let why = match map.is_related(&self.known) {
                    true => "the nodes that answer have been left behind by others",
                    false => "only nodes of another cluster answer",
                };
                let detail = self.refusal.map(|refusal| refusal.detail);
                let detail = format!("{why}: {}", detail.unwrap_or_default());
                Err(Refusal::unreachable(detail))
            }
            None => Err(self
                .refusal
                .unwrap_or_else(|| Refusal::unreachable("nobody to ask"))),
        }
    }
}

/// Which of `all` is asked first, behind the one that was asked first the last time: in turn, so that each of them is soon. Many clients
/// that start together begin with different ones.
pub(super) fn next_to(last: Option<&Address>, all: &[Address]) -> Option<usize> {
    let mut places: Vec<usize> = (0..all.len()).collect();
    let Some(last) = last else {
        return fastrand::choice(places);
    };
    places.sort_by_key(|place| &all[*place]);
    let behind = places.iter().find(|place| all[**place] > *last);
    behind.or(places.first()).copied()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn here(number: u16) -> Address {
        Address::tcp("h", number)
    }

    /// Of a cluster of so many masters, at ports from 1 on.
    fn cluster(name: &str, masters: u16, epoch: u64) -> Map {
        let mut map = Map {
            epoch,
            serves: true,
            ..Map::default()
        };
        for number in 1..=masters {
            map.assign(number, &here(number));
            map.nodes.insert(format!("{name}-{number}").into());
        }
        map
    }

    fn map(epoch: u64) -> Result<Map, Refusal> {
        Ok(cluster("ours", 3, epoch))
    }

    fn silent() -> Result<Map, Refusal> {
        Err(Refusal::unreachable("no answer"))
    }

    fn forbidden() -> Result<Map, Refusal> {
        Err(Refusal::from_text("NOPERM this user"))
    }

    fn started(known: Map) -> Search {
        Search::of(&Arc::new(known), Instant::now())
    }

    /// When nobody has told what is known for long.
    fn stale(known: Map) -> Search {
        let told = Instant::now().checked_sub(BELIEVED + Duration::from_secs(1));
        Search::of(&Arc::new(known), told.expect("the clock began before"))
    }

    #[test]
    fn each_node_is_asked_first_in_its_turn() {
        let all: Vec<_> = [3, 1, 4, 2].map(here).into();
        let first = next_to(None, &all).expect("one of them");
        let mut last = all[first].clone();
        let mut asked = Vec::new();
        for _ in 0..4 {
            last = all[next_to(Some(&last), &all).expect("one of them")].clone();
            asked.push(last.clone());
        }
        assert_eq!(last, all[first]);
        asked.sort();
        assert_eq!(asked, [1, 2, 3, 4].map(here));
        // Nodes come and go.
        assert_eq!(next_to(Some(&here(2)), &[here(1), here(5)]), Some(1));
        assert_eq!(next_to(Some(&here(7)), &[here(1), here(5)]), Some(0));
        assert_eq!(next_to(None, &[]), None);
        assert_eq!(next_to(Some(&here(1)), &[]), None);
    }

    #[test]
    fn who_knows_of_fewer_slots_has_been_cut_off() {
        let mut known = map(5).unwrap();
        known.assign(7, &here(1));
        let mut search = started(known.clone());
        search.weigh(here(1), map(5));
        assert!(!search.is_over());
        search.weigh(here(2), Ok(known.clone()));
        assert!(search.is_over());
        assert_eq!(search.result().unwrap(), known);
    }

    /// After how many of `answers` the search was over, if it was, and what came of it.
    fn search(
        mut search: Search,
        answers: Vec<Result<Map, Refusal>>,
    ) -> (usize, Result<u64, Reason>) {
        let mut asked = 0;
        for (answer, number) in answers.into_iter().zip(1..) {
            if search.is_over() {
                break;
            }
            search.asks(&here(number));
            search.weigh(here(number), answer);
            asked += 1;
        }
        let result = search.result();
        let result = result.map(|map| map.epoch);
        (asked, result.map_err(|refusal| refusal.reason))
    }

    #[test]
    fn who_knows_of_the_latest_configuration_is_believed() {
        for (known, answers, asked, result) in [
            (5, vec![map(5), map(9)], 1, Ok(5)),
            (5, vec![map(4), silent(), map(6), map(7)], 3, Ok(6)),
            // Nothing tells yet who has been cut off.
            (0, vec![map(4), map(6), map(5)], 3, Ok(6)),
            (0, vec![silent(), map(3)], 2, Ok(3)),
            // Cut off, or set up anew.
            (5, vec![map(4), silent()], 2, Err(Reason::Unreachable)),
            (5, vec![map(1), map(2)], 2, Ok(2)),
            (
                0,
                vec![silent(), forbidden(), silent()],
                3,
                Err(Reason::Permission),
            ),
            (0, vec![], 0, Err(Reason::Unreachable)),
        ] {
            let shown = format!("{known}: {answers:?}");
            let known = match known {
                0 => Map::default(),
                epoch => cluster("ours", 3, epoch),
            };
            assert_eq!(search(started(known), answers), (asked, result), "{shown}");
        }
    }

    #[test]
    fn what_nobody_tells_any_more_is_given_up_where_most_masters_agree() {
        let known = || cluster("ours", 3, 11);
        let lost = |answers| search(stale(known()), answers).1;
        assert_eq!(lost(vec![map(9), silent(), map(9)]), Ok(9));
        let unreachable = Err(Reason::Unreachable);
        assert_eq!(lost(vec![map(9), silent(), silent()]), unreachable);
        assert_eq!(lost(vec![map(9), silent(), map(8)]), unreachable);
        // Those behind it are no masters of what they tell.
        let behind = vec![silent(), silent(), silent(), map(9), map(9), map(9)];
        assert_eq!(lost(behind), unreachable);
        let unfit = || {
            let map = map(9).unwrap();
            let serves = false;
            Ok(Map { serves, ..map })
        };
        assert_eq!(lost(vec![unfit(), silent(), unfit()]), unreachable);
        let soon = search(started(known()), vec![map(9), silent(), map(9)]).1;
        assert_eq!(soon, unreachable);
        assert_eq!(lost(vec![map(9), silent(), map(12)]), Ok(12));
    }

    #[test]
    fn who_is_not_heard_of_what_it_is_said_to_be_is_asked() {
        let known = cluster("ours", 3, 11);
        for (mut search, unheard) in [
            (stale(known.clone()), vec![here(1), here(3)]),
            (started(known.clone()), vec![]),
        ] {
            search.asks(&here(2));
            search.weigh(here(2), map(9));
            assert_eq!(search.unheard(), unheard);
        }
    }

    #[test]
    fn another_cluster_is_not_followed() {
        let known = || cluster("ours", 3, 5);
        let other = |epoch| Ok(cluster("other", 3, epoch));
        let unreachable = Err(Reason::Unreachable);
        assert_eq!(
            search(started(known()), vec![other(50), map(5)]),
            (2, Ok(5))
        );
        assert_eq!(
            search(started(known()), vec![other(50), silent()]).1,
            unreachable
        );
        // They have been set up anew, or replaced one by one.
        let both = vec![other(50), other(50), silent()];
        assert_eq!(search(started(known()), both.clone()).1, unreachable);
        assert_eq!(search(stale(known()), both).1, Ok(50));
        assert_eq!(
            search(stale(known()), vec![other(50), silent(), silent()]).1,
            unreachable
        );
        let alone = || Ok(cluster("other", 1, 50));
        assert_eq!(
            search(stale(known()), vec![alone(), silent()]).1,
            unreachable
        );
        let some = vec![other(50), other(50), map(4)];
        assert_eq!(
            search(stale(known()), some).1,
            Ok(4),
            "all of ours that answer"
        );
    }

    #[test]
    fn who_was_known_before_is_no_stranger() {
        let mut old = cluster("old", 3, 5);
        old.nodes.extend(cluster("new", 3, 5).nodes);
        let mut known = cluster("old", 3, 6);
        known.follows(&old);
        let new = Ok(cluster("new", 3, 8));
        assert_eq!(search(started(known), vec![new]), (1, Ok(8)));
    }

    #[test]
    fn who_is_cut_off_from_most_is_not_believed_for_what_it_counts() {
        let unfit = |epoch| {
            Ok(Map {
                serves: false,
                ..cluster("ours", 3, epoch)
            })
        };
        let known = || cluster("ours", 3, 7);
        assert_eq!(
            search(started(known()), vec![unfit(16), map(7), map(7)]),
            (2, Ok(7))
        );
        assert_eq!(
            search(started(unfit(16).unwrap()), vec![map(7)]),
            (1, Ok(7))
        );
        let mut search = started(known());
        search.weigh(here(1), unfit(7));
        assert!(search.will_do() && !search.is_over());
    }

    #[test]
    fn one_voice_is_no_majority() {
        let known = || cluster("ours", 1, 5);
        let old = Ok(cluster("ours", 1, 4));
        let answers = vec![old, silent()];
        assert_eq!(search(stale(known()), answers).1, Err(Reason::Unreachable));
    }
}
