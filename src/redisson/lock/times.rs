//! How often one owner has taken a lock without having lost it in between.

use crate::api::HoldId;
use std::sync::Weak;

/// Each time that the lock was taken, under a number of its own by which it is given back; the latest last.
#[derive(Default)]
pub(super) struct Times {
    all: Vec<Time>,
    /// No handle of the owner is left: it ends with its lease.
    abandoned: bool,
}

struct Time {
    number: u64,
    /// Whether somebody has its id, and will give this one back.
    /// `None`: it is on its way to its caller.
    claim: Option<Weak<u64>>,
    /// It is renewed for as long as it is held.
    watched: bool,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Held,
    /// It is about to be given back.
    Leaving,
    /// It could not be given back: it counts no more, unless it is given back after all.
    Spent,
}

impl Time {
    /// Whether nobody has its id.
    fn is_free(&self) -> bool {
        let claim = self.claim.as_ref();
        claim.is_some_and(|claim| claim.strong_count() == 0)
    }

    fn is_held(&self) -> bool {
        self.state == State::Held
    }
}

impl Times {
    /// It has been taken once more. The server counts what does, from now on.
    pub(super) fn add(&mut self, number: u64, watched: bool) {
        self.forget_spent();
        self.all.push(Time {
            number,
            claim: None,
            watched,
            state: State::Held,
        });
    }

    fn get(&mut self, number: Option<u64>) -> Option<&mut Time> {
        self.all.iter_mut().find(|time| Some(time.number) == number)
    }

    /// The caller of the one with this id has it, and will give it back, as long as somebody has the id; `false`: it has gone.
    pub(super) fn claim(&mut self, id: &HoldId) -> bool {
        let time = self.get(Some(id.number()));
        time.is_some_and(|time| {
            time.claim = Some(id.watch());
            true
        })
    }

    /// The one with this number has been given back; whether any are left.
    pub(super) fn remove(&mut self, number: Option<u64>) -> bool {
        self.all.retain(|time| Some(time.number) != number);
        !self.all.is_empty()
    }

    fn forget_spent(&mut self) {
        self.all.retain(|time| time.state != State::Spent);
    }

    pub(super) fn has(&self, number: u64) -> bool {
        self.all.iter().any(|time| time.number == number)
    }

    /// How often it is held.
    pub(super) fn count(&self) -> usize {
        let live = self.all.iter().filter(|time| time.state != State::Spent);
        live.count()
    }

    /// One of them is to be renewed; what is about to be given back is not.
    pub(super) fn is_watched(&self) -> bool {
        let watched = |time: &Time| time.is_held() && time.watched;
        !self.abandoned && self.all.iter().any(watched)
    }

    /// The one that is given back where nothing says which: the latest that nobody has the id of, one that could not be given back last among
    /// these; or the latest.
    pub(super) fn latest(&self) -> Option<u64> {
        let find = |is_it: fn(&Time) -> bool| self.all.iter().rev().find(|time| is_it(time));
        let free = find(|time| time.is_held() && time.is_free());
        let spent = || find(|time| time.state == State::Spent && time.is_free());
        let latest = free.or_else(spent).or_else(|| find(Time::is_held));
        latest.or(self.all.last()).map(|time| time.number)
    }

    /// The one with this number is about to be given back, or is not, after all.
    pub(super) fn leaves(&mut self, number: Option<u64>, leaving: bool) {
        if let Some(time) = self.get(number) {
            time.state = match time.state {
                _ if leaving => State::Leaving,
                State::Spent => State::Spent,
                State::Held | State::Leaving => State::Held,
            };
        }
    }

    /// The one with this number could not be given back, or nobody will know whether it was, and its guard has it no more: it may be left
    /// over until its lease ends, unless it is given back as one that is nobody's.
    pub(super) fn spend(&mut self, number: u64) {
        if let Some(time) = self.get(Some(number)) {
            time.state = State::Spent;
        }
    }

    /// No handle of the owner is left: nothing of it is renewed any more.
    pub(super) fn abandon(&mut self) {
        self.abandoned = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes the lock; its caller has the id.
    fn take(times: &mut Times, number: u64, watched: bool) -> HoldId {
        times.add(number, watched);
        let id = HoldId::new(number);
        assert!(times.claim(&id));
        id
    }

    fn taken_once(watched: bool) -> Times {
        let mut times = Times::default();
        times.add(1, watched);
        times
    }

    #[test]
    fn holds_are_counted_and_the_watched_ones_are_renewed() {
        let mut times = taken_once(true);
        times.add(2, false);
        assert_eq!(times.count(), 2);
        assert!(times.is_watched() && times.remove(Some(1)));
        assert!(!times.is_watched() && !times.remove(Some(2)));
    }

    #[test]
    fn without_a_number_the_latest_that_is_nobodys_is_meant() {
        let mut times = Times::default();
        assert_eq!(times.latest(), None);
        let first = take(&mut times, 1, false);
        drop(take(&mut times, 2, false));
        let third = take(&mut times, 3, false);
        assert_eq!(times.latest(), Some(2));
        assert!(times.remove(Some(2)));
        assert_eq!(times.latest(), Some(third.number()));
        drop(first);
        assert_eq!(times.latest(), Some(1));
        // One that was given back already does not stand for another.
        assert!(times.remove(Some(1)) && !times.has(1) && times.remove(Some(1)));
        assert_eq!(times.count(), 1);
    }

    #[test]
    fn each_of_several_that_could_not_be_given_back_is_spent() {
        let mut times = Times::default();
        let guarded = take(&mut times, 1, true);
        drop((take(&mut times, 2, true), take(&mut times, 3, true)));
        for left in [2, 1] {
            let latest = times.latest().expect("one is left");
            assert_ne!(latest, guarded.number(), "somebody has the id");
            times.spend(latest);
            assert_eq!(times.count(), left);
        }
        assert!(times.is_watched(), "somebody has the id");
        assert_ne!(
            times.latest(),
            Some(guarded.number()),
            "these could not be given back"
        );
        times.spend(guarded.number());
        assert!(!times.is_watched());
    }

    #[test]
    fn what_could_not_be_given_back_does_not_count() {
        let mut times = taken_once(false);
        times.add(2, true);
        times.spend(2);
        assert_eq!(times.count(), 1);
        assert!(!times.is_watched() && times.has(2));
        times.leaves(Some(2), false);
        assert!(!times.is_watched());
        times.spend(1);
        assert_eq!(times.count(), 0);
        assert_eq!(times.latest(), Some(2), "it may be left over");
        // It is given back after all.
        times.leaves(Some(1), true);
        assert_eq!(times.count(), 1);
        times.spend(1);
        // Taken anew, it is counted from one on.
        times.add(3, false);
        assert_eq!(times.count(), 1);
        assert!(times.has(3) && !times.has(1) && !times.has(2));
    }

    #[test]
    fn what_is_being_given_back_is_renewed_no_more_unless_it_stays() {
        let mut times = taken_once(true);
        times.leaves(Some(1), true);
        assert!(!times.is_watched() && times.count() == 1);
        times.leaves(Some(1), false);
        assert!(times.is_watched());
    }
}
