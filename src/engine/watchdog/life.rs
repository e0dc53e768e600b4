//! One life of a client at a semaphore: what is on record under one name.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::lease::Lease;

/// What is granted has at least all but this part of its lease before it.
const A_TENTH: u32 = 10;

/// How a batch names the record to the server.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The number of the life.
    pub(crate) life: u64,
    pub(crate) holder: Arc<str>,
    /// It is put on record where it is not.
    pub(crate) opens: bool,
    /// No batch has named it before.
    pub(crate) begins: bool,
    /// For how long it is believed alive from then on.
    pub(crate) time_out: Duration,
    pub(crate) client_name: Arc<str>,
}

/// What is known of a life here.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) number: u64,
    holder: Arc<str>,
    pub(crate) lease: Lease,
    began: Moment,
    /// It is on record, as far as the server has answered.
    is_on_record: bool,
    /// How many permits must be on record by the answers so far.
    held: u64,
    /// Of what is there too much so many stay taken when they go off the record.
    forgotten: u64,
    /// Another one as soon as a batch departs or is answered.
    changes: u64,
    /// A batch that may change it is under way.
    pub(crate) under_way: bool,
}

/// What the server's answer says of the books.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Balance {
    Right,
    /// So many too much are on record.
    Excess(u32),
    /// The life has ended.
    Lost,
}

/// What a renewal is about.
#[derive(Debug, Clone)]
pub(crate) struct Renewal {
    pub(crate) life: u64,
    pub(super) holder: Arc<str>,
    /// Nothing is held: the record may go.
    pub(super) may_go: bool,
    changes: u64,
    /// No batch was under way.
    at_rest: bool,
}

impl Life {
    /// A life that begins with a batch that is sent after `now`.
    pub(crate) fn begin(client_id: &str, number: u64, now: Moment, time_out: Duration) -> Self {
        Life {
            number,
            holder: format!("{client_id}:{number}").into(),
            lease: Lease::granted(now + time_out),
            began: now,
            is_on_record: false,
            held: 0,
            forgotten: 0,
            changes: 0,
            under_way: false,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.lease.is_lost()
    }

    /// Nobody holds anything under it, and what were granted now would have less of its lease than there should be: nothing
    /// puts it off before it is on record.
    pub(crate) fn is_stale(&self, time_out: Duration) -> bool {
        !self.is_on_record && !self.under_way && self.began.age() > time_out / A_TENTH
    }

    /// Whether nobody would miss it.
    pub(crate) fn may_go(&self) -> bool {
        self.held == 0 && !self.under_way
    }

    /// Whether anybody loses something with it.
    pub(crate) fn holds(&self) -> u64 {
        self.held
    }

    /// A batch departs.
    pub(crate) fn departs(&mut self, time_out: Duration, client_name: &Arc<str>) -> Entry {
        self.changes += 1;
        self.under_way = true;
        Entry {
            life: self.number,
            holder: Arc::clone(&self.holder),
            opens: !self.is_on_record,
            begins: self.changes == 1,
            time_out,
            client_name: Arc::clone(client_name),
        }
    }

    /// The batch that begins it was not carried out before `sent`; nobody has its lease yet.
    pub(crate) fn begins(&mut self, sent: Moment, time_out: Duration) {
        self.began = sent;
        let until = sent + time_out;
        // Where its answer was looked at late it has been put off already.
        if self.lease.remaining() < Some(until.remaining()) {
            self.lease = Lease::granted(until);
        }
    }

    /// Nobody has these permits any more, whatever is on record.
    pub(crate) fn spend(&mut self, permits: u64) {
        self.held = self.held.saturating_sub(permits);
    }

    /// The same, and they stay taken.
    pub(crate) fn forget(&mut self, permits: u64) {
        self.spend(permits);
        self.forgotten += permits;
    }

    /// So many are on record too much, and are about to go: those that stay taken, if there are any, or all. How many of those there are.
    pub(crate) fn adopt(&mut self, permits: u32) -> u32 {
        let forgotten = u32::try_from(self.forgotten)
            .unwrap_or(u32::MAX)
            .min(permits);
        self.forgotten -= u64::from(forgotten);
        let adopted = if forgotten > 0 { forgotten } else { permits };
        self.held += u64::from(adopted);
        forgotten
    }

    /// A batch has been answered by which guards have `taken` permits and `given` some; `on_record` are there now.
    pub(crate) fn answered(&mut self, taken: u64, given: u64, on_record: u64) -> Balance {
        self.changes += 1;
        self.held += taken;
        self.spend(given);
        self.is_on_record |= on_record > 0;
        self.compare(on_record)
    }

    fn compare(&mut self, on_record: u64) -> Balance {
        if on_record == self.held {
            self.forgotten = 0;
        }
        if on_record < self.held {
            return Balance::Lost;
        }
        match u32::try_from(on_record - self.held).unwrap_or(u32::MAX) {
            0 => Balance::Right,
            excess => Balance::Excess(excess.min(crate::api::MAX_PERMITS)),
        }
    }

    /// What there is to be put off, unless it is over.
    pub(crate) fn renewal(&self) -> Option<Renewal> {
        (!self.is_over()).then(|| Renewal {
            life: self.number,
            holder: Arc::clone(&self.holder),
            may_go: self.may_go(),
            changes: self.changes,
            at_rest: !self.under_way,
        })
    }

    /// It has been put off; `on_record` permits are there, or it is not.
    pub(crate) fn renewed(&mut self, renewal: &Renewal, on_record: Option<u64>) -> Balance {
        // A batch that has come in between has an answer of its own.
        if !renewal.at_rest || renewal.changes != self.changes {
            return Balance::Right;
        }
        match on_record {
            Some(on_record) => self.compare(on_record),
            None if self.is_on_record => Balance::Lost,
            None => Balance::Right,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME_OUT: Duration = Duration::from_secs(30);

    fn life() -> Life {
        Life::begin("id", 7, Moment::now(), TIME_OUT)
    }

    #[tokio::test(start_paused = true)]
    async fn the_books_are_compared_with_each_answer() {
        let mut life = life();
        let entry = life.departs(TIME_OUT, &"".into());
        assert!(entry.opens && &*entry.holder == "id:7");
        assert_eq!(life.answered(0, 0, 0), Balance::Right);
        assert!(
            life.departs(TIME_OUT, &"".into()).opens,
            "nothing was taken"
        );
        assert_eq!(life.answered(3, 0, 3), Balance::Right);
        assert!(!life.departs(TIME_OUT, &"".into()).opens);
        assert_eq!(life.answered(1, 2, 2), Balance::Right);
        // A release that was given up.
        life.spend(1);
        assert_eq!(life.answered(0, 0, 2), Balance::Excess(1));
        // A write that was lost.
        assert_eq!(life.answered(1, 0, 1), Balance::Lost);
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_granted_nothing_for_long_begins_anew() {
        let mut life = life();
        tokio::time::sleep(TIME_OUT / 5).await;
        assert!(life.is_stale(TIME_OUT));
        life.departs(TIME_OUT, &"".into());
        assert!(!life.is_stale(TIME_OUT), "it may be on record");
        assert_eq!(life.answered(1, 0, 1), Balance::Right);
        life.under_way = false;
        assert!(!life.is_stale(TIME_OUT), "it is put off");
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_says_nothing_of_what_has_changed_meanwhile() {
        let mut life = life();
        let early = life.renewal().unwrap();
        life.departs(TIME_OUT, &"".into());
        let meanwhile = life.renewal().unwrap();
        assert!(early.may_go && !meanwhile.may_go);
        assert_eq!(life.answered(1, 0, 1), Balance::Right);
        life.under_way = false;
        for renewal in [early, meanwhile] {
            assert_eq!(life.renewed(&renewal, None), Balance::Right);
        }
        let renewal = life.renewal().unwrap();
        assert_eq!(life.renewed(&renewal, Some(1)), Balance::Right);
        assert_eq!(life.renewed(&renewal, Some(3)), Balance::Excess(2));
        assert_eq!(life.renewed(&renewal, None), Balance::Lost);
        tokio::time::sleep(TIME_OUT).await;
        assert!(life.renewal().is_none(), "it is over");
    }
}
