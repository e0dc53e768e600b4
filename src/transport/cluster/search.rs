//! Which of the maps that nodes tell is taken.
//!
//! The map with the highest rank wins: the maps of nodes that take the cluster for fit to serve come first, then the highest
//! epoch counts, then the number of slots. A node that was cut off has a lower rank than that of the known map. A
//! map without a common node id is of another cluster, at a reused address. Such a map is taken only if no node has confirmed the
//! known map for [`BELIEVED`], and at least half of the known addresses tell it.

use std::sync::Arc;

use tokio::time::Instant;

use super::map::{Map, Rank};
use crate::transport::BELIEVED;
use crate::transport::Refusal;
use crate::transport::address::Address;
use crate::transport::failure::Reason;

/// The answers of the nodes that are asked.
pub(super) struct Search {
    known: Arc<Map>,
    /// No node has confirmed the known map for [`BELIEVED`].
    stale: bool,
    addresses: usize,
    told: Vec<Map>,
    refusal: Option<Refusal>,
}

impl Search {
    /// Begins to ask so many `addresses`. The map `known` was confirmed last at `told`.
    pub(super) fn of(known: &Arc<Map>, told: Instant, addresses: usize) -> Self {
        Search {
            known: Arc::clone(known),
            stale: told.elapsed() >= BELIEVED,
            addresses,
            told: Vec::new(),
            refusal: None,
        }
    }

    pub(super) fn weigh(&mut self, answer: Result<Map, Refusal>) {
        match answer {
            Ok(map) => self.told.push(map),
            Err(refusal) => {
                // A password that is wrong does not become right by trying again.
                let lasting = |old: &Refusal| old.reason != Reason::Unreachable;
                if !self.refusal.as_ref().is_some_and(lasting) {
                    self.refusal = Some(refusal);
                }
            }
        }
    }

    /// Whether the other nodes need not be asked. The first map of all is the best of all nodes.
    pub(super) fn is_over(&self) -> bool {
        self.known.epoch > 0 && self.best().is_some_and(|map| self.is_new(map))
    }

    /// Whether the other nodes have only little time left: a map is no older than the known one, fit to serve or not.
    pub(super) fn will_do(&self) -> bool {
        let extent = (self.known.epoch > 0).then(|| self.known.extent());
        let mut best = self.best().into_iter();
        best.any(|map| map.is_related(&self.known) && Some(map.extent()) >= extent)
    }

    fn best(&self) -> Option<&Map> {
        self.told.iter().max_by_key(|map| self.weight(map))
    }

    fn weight(&self, map: &Map) -> (bool, Rank) {
        (map.is_related(&self.known), map.rank())
    }

    fn is_new(&self, map: &Map) -> bool {
        self.weight(map) >= (true, self.known.rank())
    }

    /// Whether the map is taken though it is older than the known one, or of another cluster.
    fn is_agreed(&self, map: &Map) -> bool {
        let same = |other: &&Map| self.weight(other) == self.weight(map);
        self.stale && 2 * self.told.iter().filter(same).count() >= self.addresses
    }

    pub(super) fn result(mut self) -> Result<Map, Refusal> {
        let refusal = self.refusal.take();
        match self.best() {
            None => Err(refusal.unwrap_or_else(|| Refusal::unreachable("nobody to ask"))),
            Some(map) if self.is_new(map) || self.is_agreed(map) => Ok(map.clone()),
            Some(_) => {
                let detail = refusal.map(|refusal| refusal.detail).unwrap_or_default();
                Err(Refusal::unreachable(format!(
                    "the nodes that answer were cut off, or are of another cluster: {detail}"
                )))
            }
        }
    }
}

/// The one of `all` that is asked first: in turn, behind the one that was asked first the last time. A new client begins anywhere.
pub(super) fn next_to<'a>(last: Option<&Address>, all: &'a [Address]) -> Option<&'a Address> {
    let Some(last) = last else {
        return fastrand::choice(all);
    };
    let behind = all.iter().filter(|address| *address > last).min();
    behind.or_else(|| all.iter().min())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_node_is_asked_first_in_its_turn() {
        let [one, two, three] = [1, 2, 3].map(|port| Address::tcp("h", port));
        let all = [three.clone(), one.clone(), two.clone()];
        for (last, next) in [(&one, &two), (&two, &three), (&three, &one)] {
            assert_eq!(next_to(Some(last), &all), Some(next));
        }
        assert_eq!(next_to(Some(&two), &all[1..]), Some(&one));
        assert!(next_to(None, &all).is_some() && next_to(Some(&one), &[]).is_none());
    }

    /// The map of a node: of this epoch, of another cluster (`o`), or unfit to serve (`u`). `-` is silence, `!` a refusal.
    fn answer(word: &str) -> Result<Map, Refusal> {
        match word {
            "-" => return Err(Refusal::unreachable("no answer")),
            "!" => return Err(Refusal::from_text("NOPERM this user")),
            _ => {}
        }
        let mut map = Map {
            epoch: word.trim_start_matches(['o', 'u']).parse().unwrap(),
            serves: !word.starts_with('u'),
            ..Map::default()
        };
        map.assign(1, &Address::tcp("h", 1));
        map.nodes.insert(word.contains('o').to_string().into());
        Ok(map)
    }

    /// After how many answers the search is over, and the epoch that it ends with, where `known` was confirmed last `age` ago.
    fn search(known: &str, age: Duration, answers: &str) -> (usize, Result<u64, Reason>) {
        let known = Arc::new(answer(known).unwrap_or_default());
        let told = Instant::now().checked_sub(age).unwrap();
        let mut answers = answers.split_whitespace().zip(1..);
        let mut search = Search::of(&known, told, answers.clone().count());
        let mut asked = 0;
        while !search.is_over()
            && let Some((word, number)) = answers.next()
        {
            search.weigh(answer(word));
            asked = number;
        }
        let result = search.result().map(|map| map.epoch);
        (asked, result.map_err(|refusal| refusal.reason))
    }

    const UNREACHABLE: Result<u64, Reason> = Err(Reason::Unreachable);

    #[test]
    fn the_highest_epoch_wins() {
        for (known, answers, asked, result) in [
            ("-", "4 6 5", 3, Ok(6)),
            ("-", "- 3", 2, Ok(3)),
            ("-", "", 0, UNREACHABLE),
            ("-", "- ! -", 3, Err(Reason::Permission)),
            ("5", "5 9", 1, Ok(5)),
            ("5", "4 - 6 7", 3, Ok(6)),
            ("5", "4 4 4", 3, UNREACHABLE),
            // A node that is cut off from most masters counts its own epochs.
            ("7", "u16 7 7", 2, Ok(7)),
            ("u16", "7", 1, Ok(7)),
            ("5", "o50 5", 2, Ok(5)),
            ("5", "o50 o50", 2, UNREACHABLE),
        ] {
            let found = search(known, Duration::ZERO, answers);
            assert_eq!(found, (asked, result), "{known}: {answers}");
        }
    }

    #[test]
    fn half_of_the_addresses_replace_a_map_that_nobody_tells() {
        for (answers, result) in [
            ("9 - 9", Ok(9)),
            ("9 -", Ok(9)),
            ("9 - -", UNREACHABLE),
            ("9 - 8", UNREACHABLE),
            ("9 - 12", Ok(12)),
            ("o50 o50 -", Ok(50)),
            ("o50 - -", UNREACHABLE),
            ("o50 o50 4", UNREACHABLE),
        ] {
            assert_eq!(search("11", BELIEVED, answers).1, result, "{answers}");
        }
    }

    #[test]
    fn more_slots_win_at_equal_epochs_and_former_nodes_are_known() {
        let mut known = answer("5").unwrap();
        known.assign(7, &Address::tcp("h", 1));
        let mut search = Search::of(&Arc::new(known.clone()), Instant::now(), 2);
        search.weigh(answer("5"));
        assert!(!search.is_over() && !search.will_do());
        search.weigh(Ok(known.clone()));
        assert_eq!(search.result().unwrap(), known);
        let mut renewed = answer("o6").unwrap();
        renewed.nodes.extend(known.nodes.clone());
        let mut later = answer("o7").unwrap();
        later.follows(&renewed);
        assert!(later.is_related(&known));
    }
}
