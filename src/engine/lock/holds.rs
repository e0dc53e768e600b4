//! What the owners of one client hold of one lock, as far as is known here.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::calls::Term;
use crate::lease::Lease;

/// The holds of one lock by owner.
#[derive(Default)]
pub(crate) struct Holds {
    by_owner: HashMap<Arc<str>, Holding>,
}

/// What one owner holds.
struct Holding {
    /// One for each time that it has taken the lock, the latest last.
    terms: Vec<Term>,
    lease: Lease,
}

impl Holds {
    /// How often `owner` holds the lock.
    pub(crate) fn count(&self, owner: &str) -> u32 {
        let count = self.by_owner.get(owner).map_or(0, |held| held.terms.len());
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Whether somebody here holds it, as far as is known.
    pub(crate) fn is_held(&self) -> bool {
        self.by_owner.values().any(|held| !held.lease.is_lost())
    }

    /// The lease of `owner`'s holds.
    pub(crate) fn lease(&self, owner: &str) -> Option<Lease> {
        Some(self.by_owner.get(owner)?.lease.clone())
    }

    /// Whether one of `owner`'s holds is to be renewed.
    pub(crate) fn is_watched(&self, owner: &str) -> bool {
        let held = self.by_owner.get(owner);
        held.is_some_and(|held| held.terms.contains(&Term::Watched))
    }

    /// The term that counts when the latest hold of `owner` is given back; `None` when it is the only one.
    pub(crate) fn term_below(&self, owner: &str) -> Option<Term> {
        let terms = &self.by_owner.get(owner)?.terms;
        let below = &terms[..terms.len().checked_sub(1)?];
        // A hold that is renewed stays so, whatever was taken on top of it.
        if below.contains(&Term::Watched) {
            return Some(Term::Watched);
        }
        below.last().copied()
    }

    /// `owner` has taken the lock for `term` and holds it `count` times now, until `until` for the time being.
    pub(crate) fn taken(
        &mut self,
        owner: &Arc<str>,
        count: u32,
        term: Term,
        until: Option<Instant>,
    ) -> Lease {
        let count = count as usize;
        if let Some(held) = self.by_owner.get_mut(owner) {
            if held.terms.len() + 1 == count && !held.lease.is_lost() {
                held.terms.push(term);
                held.lease.extend(until);
                return held.lease.clone();
            }
            // It had been lost in between.
            held.lease.lose();
        }
        let lease = Lease::until(until);
        let held = Holding {
            terms: vec![term; count],
            lease: lease.clone(),
        };
        self.by_owner.insert(Arc::clone(owner), held);
        lease
    }

    /// `owner` has given a hold back, and has `left`, which end at `until` for the time being.
    pub(crate) fn released(&mut self, owner: &str, left: u32, until: Option<Instant>) {
        if left == 0 {
            if let Some(held) = self.by_owner.remove(owner) {
                held.lease.end();
            }
        } else if let Some(held) = self.by_owner.get_mut(owner) {
            held.terms.truncate(left as usize);
            held.lease.extend(until);
        }
    }

    /// The server says that `owner` holds the lock `count` times. What is not known here was taken for `term`.
    pub(crate) fn correct(&mut self, owner: &Arc<str>, count: u32, term: Term) {
        if count == 0 {
            self.lost(owner);
            return;
        }
        let held = self.by_owner.entry(Arc::clone(owner));
        let held = held.or_insert_with(|| Holding {
            terms: Vec::new(),
            lease: Lease::until(None),
        });
        held.terms.resize(count as usize, term);
    }

    /// The server says that `owner` does not hold the lock.
    pub(crate) fn lost(&mut self, owner: &str) {
        if let Some(held) = self.by_owner.remove(owner) {
            held.lease.lose();
        }
    }

    /// Whoever held it holds it no more. Returns the owners.
    pub(crate) fn all_lost(&mut self) -> Vec<Arc<str>> {
        let all = std::mem::take(&mut self.by_owner);
        for held in all.values() {
            held.lease.lose();
        }
        all.into_keys().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SHORT: Term = Term::Limited(Duration::from_secs(1));

    fn later() -> Option<Instant> {
        Some(Instant::now() + Duration::from_secs(60))
    }

    #[test]
    fn holds_are_counted_and_end_together() {
        let owner: Arc<str> = "a".into();
        let mut holds = Holds::default();
        let lease = holds.taken(&owner, 1, Term::Watched, later());
        holds.taken(&owner, 2, SHORT, later());
        assert_eq!(holds.count("a"), 2);
        assert!(holds.is_watched("a"));
        assert_eq!(holds.term_below("a"), Some(Term::Watched));
        holds.released("a", 1, later());
        assert_eq!((holds.count("a"), holds.term_below("a")), (1, None));
        assert!(holds.is_watched("a") && holds.is_held());
        holds.released("a", 0, None);
        assert!(!holds.is_held() && !lease.is_lost());
        assert_eq!(holds.count("a"), 0);
    }

    #[test]
    fn a_count_that_starts_anew_tells_that_the_old_holds_were_lost() {
        let owner: Arc<str> = "a".into();
        let mut holds = Holds::default();
        let old = holds.taken(&owner, 1, Term::Watched, later());
        let new = holds.taken(&owner, 1, SHORT, later());
        assert!(old.is_lost() && !new.is_lost());
        assert_eq!(holds.count("a"), 1);
        assert!(!holds.is_watched("a"));
        holds.lost("a");
        assert!(new.is_lost());
    }

    #[test]
    fn the_server_knows_better() {
        let owner: Arc<str> = "a".into();
        let mut holds = Holds::default();
        let lease = holds.taken(&owner, 1, SHORT, later());
        holds.correct(&owner, 0, SHORT);
        assert!(lease.is_lost());
        assert_eq!(holds.count("a"), 0);
        holds.correct(&owner, 2, Term::Watched);
        assert_eq!(holds.count("a"), 2);
        assert!(holds.is_watched("a"));
        let lease = holds.taken(&owner, 3, SHORT, later());
        assert!(!lease.is_lost());
        assert_eq!(holds.term_below("a"), Some(Term::Watched));
    }

    #[test]
    fn force_takes_it_from_everybody() {
        let mut holds = Holds::default();
        let lease = holds.taken(&"a".into(), 1, SHORT, later());
        assert_eq!(holds.all_lost(), [Arc::<str>::from("a")]);
        assert!(lease.is_lost() && !holds.is_held());
    }
}
