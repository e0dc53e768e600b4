//! Whom to believe of the nodes that are asked: who knows of the latest configuration.
//!
//! One that was cut off knows of fewer configurations than are known already, or of fewer slots. It counts only when all
//! nodes say so.

use super::map::Map;
use crate::transport::Refusal;
use crate::transport::failure::Reason;

/// What the nodes say that are asked.
pub(super) struct Search {
    known: (u64, usize),
    best: Option<Map>,
    refusal: Option<Refusal>,
}

impl Search {
    /// For a map that tells as much as the one that is `known`.
    pub(super) fn of(known: &Map) -> Self {
        Search {
            known: known.rank(),
            best: None,
            refusal: None,
        }
    }

    pub(super) fn weigh(&mut self, answer: Result<Map, Refusal>) {
        match answer {
            Ok(map) => {
                if self
                    .best
                    .as_ref()
                    .is_none_or(|best| best.rank() < map.rank())
                {
                    self.best = Some(map);
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
        let is_new = |map: &Map| map.rank() >= self.known;
        self.known.0 > 0 && self.best.as_ref().is_some_and(is_new)
    }

    /// Whether the others need not be waited for as long as they like: it is the first map of all.
    pub(super) fn will_do(&self) -> bool {
        self.known.0 == 0 && self.best.is_some()
    }

    pub(super) fn result(self) -> Result<Map, Refusal> {
        match (self.best, self.refusal) {
            (Some(map), _) if map.rank() >= self.known => Ok(map),
            // All of them say so: they have been set up anew.
            (Some(map), None) => Ok(map),
            (Some(_), Some(Refusal { detail, .. })) => Err(Refusal::unreachable(format!(
                "the nodes that answer have been left behind by others: {detail}"
            ))),
            (None, Some(refusal)) => Err(refusal),
            (None, None) => Err(Refusal::unreachable("nobody to ask")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::address::Address;

    fn map(epoch: u64) -> Result<Map, Refusal> {
        Ok(Map {
            epoch,
            ..Map::default()
        })
    }

    fn silent() -> Result<Map, Refusal> {
        Err(Refusal::unreachable("no answer"))
    }

    fn forbidden() -> Result<Map, Refusal> {
        Err(Refusal::from_text("NOPERM this user"))
    }

    #[test]
    fn who_knows_of_fewer_slots_has_been_cut_off() {
        let here = Address::tcp("h", 1);
        let mut known = map(5).unwrap();
        known.assign(7, &here);
        let mut search = Search::of(&known);
        search.weigh(map(5));
        assert!(!search.is_over());
        search.weigh(Ok(known.clone()));
        assert!(search.is_over());
        assert_eq!(search.result().unwrap(), known);
    }

    /// After how many of `answers` the search was over, if it was, and what came of it.
    fn search(known: u64, answers: Vec<Result<Map, Refusal>>) -> (usize, Result<u64, Reason>) {
        let mut search = Search::of(&map(known).unwrap());
        let mut asked = 0;
        for answer in answers {
            if search.is_over() {
                break;
            }
            search.weigh(answer);
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
            assert_eq!(search(known, answers), (asked, result), "{shown}");
        }
    }
}
