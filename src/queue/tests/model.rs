//! A model of the script, and of a primitive: permits of which there are three.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::request::Arg;
use crate::error::Error;
use crate::queue::batch::Batch;
use crate::queue::held::Leases;
use crate::queue::object::QueueKeys;
use crate::queue::outcome::{Amount, Grant, Outcome, Ticket, Want};
use crate::queue::primitive::{self, Primitive};

pub(super) const TOTAL: i64 = 3;
/// The server's clock in the beginning, in microseconds.
pub(super) const CLOCK: u64 = 1_000_000_000;

pub(super) struct Model;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Call {
    Release(u32),
    GiveBack(Grant<Amount>),
}

impl Primitive for Model {
    const KIND: &'static str = "model";
    const WAIT: &'static str = "acquire";
    const TELLS_AGAIN: bool = true;
    type Want = Amount;
    type Call = Call;
    type Held = Leases<Self>;

    fn give_back(grant: Grant<Amount>) -> Call {
        if grant.want.leased {
            Call::GiveBack(grant)
        } else {
            Call::Release(grant.want.amount)
        }
    }
}

impl primitive::Call for Call {
    type Want = Amount;
    type Note = Option<String>;

    fn name(&self) -> &'static str {
        "release"
    }

    fn is_deferred(&self) -> bool {
        true
    }

    fn adds_up(&self) -> bool {
        matches!(self, Call::Release(_))
    }

    fn frees(&self) -> Option<Grant<Amount>> {
        let want = |amount| Amount {
            amount,
            leased: false,
        };
        Some(match self {
            Call::Release(amount) => Grant::new(want(*amount), 0),
            Call::GiveBack(grant) => *grant,
        })
    }

    fn ends(&self) -> Option<Grant<Amount>> {
        self.frees().filter(|grant| grant.want.leased)
    }

    fn adds(&self) -> bool {
        true
    }

    fn write(&self, count: usize, _: Ticket, _: &Option<String>, args: &mut Vec<Arg>) {
        args.extend([Arg::Word("release"), Arg::Number(1), Arg::number(count)]);
    }

    fn read(&self, _: &str, word: &str, index: usize) -> Option<primitive::Result<Amount>> {
        let done = word.parse::<usize>().ok()?;
        Some(Ok(Outcome::Number(i64::from(index < done))))
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

pub(super) type Place = (usize, Ticket);

pub(super) fn text(ticket: Ticket, want: Amount) -> String {
    format!("{}{ticket}:{}:100", want.kind(), want.amount)
}

/// The script, and what it keeps.
pub(super) struct Server {
    pub(super) began: Instant,
    pub(super) counter: i64,
    pub(super) queue: Vec<(u64, Place, Amount)>,
    /// The grants; and their ends, while they are not confirmed.
    pub(super) grants: BTreeMap<Place, (Amount, Option<Instant>)>,
    pub(super) clock: u64,
}

impl Server {
    pub(super) fn enter(&mut self, arrival: u64, place: Place, want: Amount) {
        if !self.queue.iter().any(|(_, known, _)| *known == place) {
            self.queue.push((arrival, place, want));
            self.queue
                .sort_by_key(|(arrival, place, _)| (*arrival, *place));
        }
    }

    /// The callers of `place` hold `want` from now on.
    fn hold(&mut self, place: Place, want: Amount) {
        if want.leased {
            self.grants.insert(place, (want, None));
        } else {
            self.grants.remove(&place);
        }
    }

    /// Gives back; 0 where it is not granted.
    fn leave(&mut self, place: Place, amount: u32) -> u32 {
        self.queue.retain(|(_, known, _)| *known != place);
        let Some((want, until)) = self.grants.remove(&place) else {
            return 0;
        };
        self.counter += i64::from(amount);
        if amount < want.amount {
            let amount = want.amount - amount;
            self.grants
                .insert(place, (Amount { amount, ..want }, until));
        }
        1
    }

    /// The answer to a batch, and the clients that it notifies.
    pub(super) fn carry_out(
        &mut self,
        client: usize,
        batch: &Batch<Model>,
        hears: [bool; 2],
    ) -> (String, Vec<Place>) {
        self.clock = CLOCK + self.began.elapsed().as_micros() as u64;
        let mut words = Vec::new();
        for (ticket, _) in &batch.extends {
            let place = (client, *ticket);
            let granted = self.grants.get(&place).map(|(want, _)| *want);
            granted.iter().for_each(|want| self.hold(place, *want));
            words.push(usize::from(granted.is_some()));
        }
        for (ticket, entry) in &batch.confirms {
            let place = (client, *ticket);
            let granted = self.grants.contains_key(&place);
            if granted {
                self.hold(place, entry.want);
            } else {
                self.enter(entry.arrival, place, entry.want);
            }
            words.push(usize::from(granted));
        }
        for (ticket, entry) in &batch.leaves {
            words.push(self.leave((client, *ticket), entry.want.amount) as usize);
        }
        for step in batch.steps() {
            match *step[0].call().expect("no request is made") {
                Call::Release(amount) => {
                    self.counter += i64::from(amount) * step.len() as i64;
                    words.push(step.len());
                }
                Call::GiveBack(grant) => {
                    let place = (client, grant.ticket);
                    words.push(self.leave(place, grant.want.amount) as usize);
                }
            }
        }
        let mut behind = batch.behind;
        for run in &batch.runs {
            let arrival = (self.clock - run.waited.as_micros() as u64).max(behind);
            let head = self.queue.first().map(|(arrival, ..)| *arrival);
            let mut served = 0;
            while head.is_none_or(|head| head > arrival)
                && served < run.count
                && self.counter >= run.want.amount.into()
            {
                self.counter -= i64::from(run.want.amount);
                self.hold((client, run.ticket + served as u64), run.want);
                served += 1;
            }
            for index in served..run.count.min(served + run.room) {
                let place = (client, run.ticket + index as u64);
                self.enter(arrival + index as u64, place, run.want);
                behind = arrival + index as u64 + 1;
            }
            words.push(served);
        }
        words.extend(std::iter::repeat_n(1, batch.flags().count()));
        let (own, notified) = self.serve(client, hears);
        let foreign = self
            .queue
            .iter()
            .find(|(_, (other, _), _)| *other != client);
        let foreign = foreign.map_or(-1, |(arrival, ..)| self.clock as i64 - *arrival as i64);
        let words: Vec<_> = words.iter().map(usize::to_string).collect();
        let own: Vec<_> = own
            .iter()
            .map(|(ticket, want)| text(*ticket, *want))
            .collect();
        let answer = format!(
            "done {} -1 {} 0 0 {} {} | {}",
            self.counter,
            foreign.max(-1),
            self.clock,
            words.join(" "),
            own.join(" ")
        );
        (answer, notified)
    }

    fn serve(&mut self, client: usize, hears: [bool; 2]) -> (Vec<(Ticket, Amount)>, Vec<Place>) {
        let (mut own, mut notified) = (Vec::new(), Vec::new());
        for (arrival, place, want) in std::mem::take(&mut self.queue) {
            if place.0 != client && !hears[place.0] {
                continue;
            }
            if self.counter < i64::from(want.amount) {
                self.queue.push((arrival, place, want));
                continue;
            }
            self.counter -= i64::from(want.amount);
            if place.0 == client {
                own.push((place.1, want));
                self.hold(place, want);
            } else {
                let life = Duration::from_millis(if want.leased { 3000 } else { 100 });
                self.grants
                    .insert(place, (want, Some(Instant::now() + life)));
                notified.push(place);
            }
        }
        (own, notified)
    }

    /// A grant runs out.
    pub(super) fn reclaim(&mut self, client: usize, index: usize) {
        let now = Instant::now();
        let all = self.grants.iter();
        let mut over = all.filter(|(place, (_, until))| {
            place.0 == client && until.is_some_and(|until| until <= now)
        });
        let Some((place, (want, _))) = over.nth(index) else {
            return;
        };
        let (place, want) = (*place, *want);
        self.grants.remove(&place);
        self.counter += i64::from(want.amount);
        self.queue.retain(|(_, (other, _), _)| *other != client);
    }
}

pub(super) fn queue() -> QueueKeys {
    QueueKeys {
        queue: "queue".into(),
        beside: "grants".into(),
        notes: "notes".into(),
        own_channel: "own".into(),
        client: "client".into(),
    }
}

pub(super) fn forbidden() -> Error {
    Error::PermissionDenied {
        name: "model".to_owned(),
        detail: "not now".to_owned(),
    }
}
