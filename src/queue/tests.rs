//! Two clients of a few callers each against a model of the script, under random orders of all that can happen: no permit is doubled at
//! any time, none is lost, and no caller sleeps in the end.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::time::Instant;

use super::answer::Said;
use super::batch::{Batch, Queued};
use super::entries::Entry;
use super::held::Leases;
use super::object::QueueKeys;
use super::outcome::{Amount, Grant, Outcome, Taken, Ticket, Want};
use super::primitive::{self, Held, Primitive};
use super::results::Results;
use super::state::State;
use crate::clock::Moment;
use crate::config::Config;
use crate::engine::Core;
use crate::engine::keys::Keys;
use crate::engine::request::Arg;
use crate::error::Error;

const TOTAL: i64 = 3;
/// The server's clock in the beginning, in microseconds.
const CLOCK: u64 = 1_000_000_000;

struct Model;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Call {
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

    fn gives(&self) -> Option<(Grant<Amount>, bool)> {
        let want = |amount| Amount {
            amount,
            leased: false,
        };
        let grant = match self {
            Call::Release(amount) => Grant::new(want(*amount), 0),
            Call::GiveBack(grant) => *grant,
        };
        Some((grant, false))
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

type Place = (usize, Ticket);

fn text(ticket: Ticket, want: Amount) -> String {
    format!("{}{ticket}:{}:100", want.kind(), want.amount)
}

/// The script, and what it keeps.
struct Server {
    began: Instant,
    counter: i64,
    queue: Vec<(u64, Place, Amount)>,
    /// The grants; and their ends, while they are not confirmed.
    grants: BTreeMap<Place, (Amount, Option<Instant>)>,
    clock: u64,
}

impl Server {
    fn enter(&mut self, arrival: u64, place: Place, want: Amount) {
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
    fn carry_out(
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
    fn reclaim(&mut self, client: usize, index: usize) {
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

/// One client and its callers.
struct Client {
    state: State<Model>,
    callers: Vec<(
        u64,
        oneshot::Receiver<crate::error::Result<Outcome<Amount>>>,
    )>,
    held: Vec<Grant<Amount>>,
    /// The answer to the batch under way, on its way.
    answer: Option<String>,
    notifications: Vec<(Ticket, u64)>,
    hears: bool,
}

impl Client {
    /// Whether its caller does not know yet that it is lost.
    fn has(&self, grant: &Grant<Amount>) -> bool {
        let lease = Held::<Model>::lease(&self.state.held, grant.ticket);
        !grant.want.leased || lease.is_some_and(|lease| !lease.is_lost())
    }

    fn tell(&mut self) {
        let now = Instant::now();
        for grant in std::mem::take(&mut self.state.replies).send() {
            self.state.call(Model::give_back(grant), None, now);
        }
        let held = &mut self.held;
        self.callers
            .retain_mut(|(_, outcome)| match outcome.try_recv() {
                Ok(Ok(Outcome::Granted(grant))) => {
                    held.push(grant);
                    false
                }
                // A caller with an error goes.
                Ok(Err(_)) => false,
                Ok(other) => panic!("{other:?}"),
                Err(_) => true,
            });
    }

    fn depart(&mut self) {
        if self.state.under_way.is_none() && self.state.has_work() {
            self.state.depart(Moment::now());
        }
    }

    fn release(&mut self, index: usize) {
        if self.held.is_empty() {
            return;
        }
        let grant = self.held.swap_remove(index % self.held.len());
        let (call, now) = (Model::give_back(grant), Instant::now());
        let (freed, _) = primitive::Call::gives(&call).expect("each call frees");
        match self.state.hand_off(freed, now) {
            true => self.tell(),
            false => self.state.call(call, None, now),
        }
    }
}

fn queue() -> QueueKeys {
    QueueKeys {
        queue: "queue".into(),
        beside: "grants".into(),
        notes: "notes".into(),
        own_channel: "own".into(),
        client: "client".into(),
    }
}

struct World {
    server: Server,
    clients: Vec<Client>,
}

impl World {
    fn new() -> Self {
        let client = |_| {
            let core =
                Core::connect_lazy(Config::new("redis://127.0.0.1:1"), None).expect("it is lazy");
            let keys = Keys::new("m", "m".into(), "string", "m".into(), "m".into());
            let held = Leases::new(&core, &keys, &queue());
            Client {
                state: State::new(&core, "m", held, false),
                callers: Vec::new(),
                held: Vec::new(),
                answer: None,
                notifications: Vec::new(),
                hears: true,
            }
        };
        World {
            server: Server {
                began: Instant::now(),
                counter: TOTAL,
                queue: Vec::new(),
                grants: BTreeMap::new(),
                clock: CLOCK,
            },
            clients: (0..2).map(client).collect(),
        }
    }

    fn carry_out(&mut self, client: usize) {
        let hears = [self.clients[0].hears, self.clients[1].hears];
        let this = &mut self.clients[client];
        let (Some(under_way), None) = (&this.state.under_way, &this.answer) else {
            return;
        };
        let (text, notified) = self.server.carry_out(client, &under_way.batch, hears);
        this.answer = Some(text);
        for (other, ticket) in notified {
            self.clients[other]
                .notifications
                .push((ticket, self.server.clock));
        }
    }

    fn answer(&mut self, client: usize) {
        let client = &mut self.clients[client];
        let (Some(under_way), Some(text)) = (&client.state.under_way, client.answer.take()) else {
            return;
        };
        let Some(Said::Done(mut answer)) = Said::read(&text) else {
            panic!("{text}");
        };
        let results = Results::read("model", &under_way.batch, &mut answer);
        let results = results.expect("it is complete");
        client.state.answered(&answer, results, Instant::now());
        client.tell();
    }

    fn step(&mut self, event: Event, client: usize, index: usize) {
        let now = Instant::now();
        let this = &mut self.clients[client];
        match event {
            Event::Arrive if this.callers.len() < 3 => {
                let (reply, outcome) = oneshot::channel();
                let want = Amount {
                    amount: 1 + u32::from(index.is_multiple_of(4)),
                    leased: index.is_multiple_of(2),
                };
                let id = this.state.join(want, reply, None, now);
                this.callers.push((id, outcome));
            }
            Event::Go if !this.callers.is_empty() => {
                let (id, mut outcome) = this.callers.swap_remove(index % this.callers.len());
                outcome.close();
                match outcome.try_recv() {
                    Ok(Ok(Outcome::Granted(grant))) => {
                        this.state.call(Model::give_back(grant), None, now);
                    }
                    _ => drop(this.state.leave(id, now)),
                }
            }
            Event::Release => this.release(index),
            Event::Depart => this.depart(),
            Event::CarryOut => self.carry_out(client),
            Event::Answer => self.answer(client),
            Event::Refuse if this.state.under_way.is_some() && this.answer.is_none() => {
                let under_way = this.state.under_way.as_ref().expect("just seen");
                let refused: Vec<_> = (under_way.batch)
                    .calls
                    .iter()
                    .filter_map(Queued::call)
                    .copied()
                    .collect();
                this.state.failed(&forbidden(), None, now);
                this.tell();
                // Their callers try again.
                for call in refused {
                    this.state.call(call, None, now);
                }
            }
            Event::Notify if !this.notifications.is_empty() => {
                let (ticket, clock) = this.notifications.remove(0);
                this.state
                    .notified(&format!("grant x{ticket} {clock}"), now);
                this.tell();
            }
            Event::RunOut => self.server.reclaim(client, index % 2),
            Event::Deaf => {
                this.hears = false;
                this.notifications.clear();
            }
            Event::HearAgain if !this.hears => {
                this.hears = true;
                this.state.may_have_missed();
            }
            _ => {}
        }
    }

    /// The permits of callers and clients and the free ones are never more than there are.
    fn judge(&self) {
        let mut sum = self.server.counter;
        for ((client, ticket), (want, _)) in &self.server.grants {
            let mut held = self.clients[*client].held.iter();
            let is_held = held.any(|grant| grant.want.leased && grant.ticket == *ticket);
            sum += if is_held { 0 } else { i64::from(want.amount) };
        }
        for client in &self.clients {
            let held = client.held.iter().filter(|grant| client.has(grant));
            sum += held.map(|grant| i64::from(grant.want.amount)).sum::<i64>();
        }
        assert!(sum <= TOTAL, "doubled: {sum}");
    }

    fn settle(&mut self) {
        for round in 0..400 {
            for client in 0..2 {
                self.clients[client].hears = true;
                if round % 50 == 49 {
                    self.clients[client].state.may_have_missed();
                }
                for event in [
                    Event::Notify,
                    Event::Release,
                    Event::Depart,
                    Event::CarryOut,
                    Event::Answer,
                ] {
                    self.step(event, client, round);
                    self.judge();
                }
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Arrive,
    Go,
    Release,
    Depart,
    CarryOut,
    Answer,
    Refuse,
    Notify,
    RunOut,
    Deaf,
    HearAgain,
}

fn event() -> impl Strategy<Value = (Event, usize, usize, u64)> {
    let event = prop_oneof![
        4 => Just(Event::Arrive),
        1 => Just(Event::Go),
        4 => Just(Event::Release),
        6 => Just(Event::Depart),
        6 => Just(Event::CarryOut),
        6 => Just(Event::Answer),
        1 => Just(Event::Refuse),
        4 => Just(Event::Notify),
        1 => Just(Event::RunOut),
        1 => Just(Event::Deaf),
        2 => Just(Event::HearAgain),
    ];
    // Now and then a grant runs out.
    let pause = prop_oneof![9 => 0..20_u64, 1 => 0..1500_u64];
    (event, 0..2_usize, 0..8_usize, pause)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn no_permit_is_doubled_or_lost_and_nobody_sleeps(
        events in proptest::collection::vec(event(), 1..150),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let mut world = World::new();
            for (event, client, index, pause) in events {
                tokio::time::advance(Duration::from_millis(pause)).await;
                world.step(event, client, index);
                world.judge();
            }
            world.clients.iter_mut().for_each(|client| client.hears = true);
            world.clients.iter_mut().for_each(|client| client.state.may_have_missed());
            for _ in 0..8 {
                tokio::time::advance(Duration::from_millis(200)).await;
                for client in &mut world.clients {
                    client.state.tick(Instant::now());
                    client.tell();
                }
                world.settle();
            }
            // A leave that is refused alone is not repeated. Its grant runs out.
            tokio::time::advance(Duration::from_secs(3)).await;
            for client in [0, 1].repeat(8) {
                world.server.reclaim(client, 0);
            }
            world.settle();
            for client in &world.clients {
                assert!(client.callers.is_empty(), "a caller sleeps");
                assert!(client.held.is_empty() && client.state.under_way.is_none());
            }
            assert_eq!(world.server.grants, BTreeMap::new());
            assert_eq!(world.server.counter, TOTAL);
        });
    }
}

fn one(leased: bool) -> Amount {
    Amount { amount: 1, leased }
}

fn entry(want: Amount) -> Entry<Amount> {
    Entry {
        want,
        arrival: 0,
        life: 3000,
    }
}

fn forbidden() -> Error {
    Error::PermissionDenied {
        name: "model".to_owned(),
        detail: "not now".to_owned(),
    }
}

/// A grant that a guard uses is confirmed soon, also where the first batch that says so is refused.
#[tokio::test(start_paused = true)]
async fn a_confirmation_is_repeated_behind_a_refused_batch() {
    let state = &mut World::new().clients[0].state;
    let want = one(true);
    let until = Moment::now() + Duration::from_secs(3);
    let _grant = state.granted(want, 7, Taken::default(), 3000, until);
    state.unconfirmed.insert(7, (entry(want), CLOCK));
    state.call(Call::Release(1), None, Instant::now());
    for _ in 0..2 {
        let Some(batch) = state.depart(Moment::now()) else {
            panic!("nothing departs");
        };
        assert_eq!(batch.extends.len(), 1);
        state.failed(&forbidden(), None, Instant::now());
        tokio::time::advance(Duration::from_millis(100)).await;
        state.tick(Instant::now());
    }
}

/// A waiter asks whether its entry is still there, behind a script that has failed after a change.
#[tokio::test(start_paused = true)]
async fn a_waiter_asks_behind_changes_that_stay() {
    let state = &mut World::new().clients[0].state;
    let want = one(false);
    state.entries.insert(7, entry(want));
    let (reply, mut waits) = oneshot::channel();
    state.join(want, reply, None, Instant::now());
    for unknown in [None, Some("not now")] {
        state.call(Call::Release(1), None, Instant::now());
        let Some(batch) = state.depart(Moment::now()) else {
            panic!("nothing departs");
        };
        assert!(!batch.check);
        state.failed(&forbidden(), unknown, Instant::now());
        assert_eq!(state.confirm_all, unknown.is_some());
    }
    let Some(batch) = state.depart(Moment::now()) else {
        panic!("nothing departs");
    };
    assert!(batch.check && batch.confirms.len() == 1);
    let passing = Error::RefusedForNow {
        name: "model".to_owned(),
        detail: "a slot moves".to_owned(),
    };
    state.failed(&passing, Some("not now"), Instant::now());
    assert!(state.confirm_all);
    assert_eq!(waits.try_recv().err(), Some(TryRecvError::Empty));
}

/// The subscription may be confirmed before the answer to the batch that has queued the entry.
#[tokio::test(start_paused = true)]
async fn an_entry_is_confirmed_behind_a_subscription_that_came_before_its_answer() {
    let state = &mut World::new().clients[0].state;
    let want = one(false);
    let (reply, _waits) = oneshot::channel();
    state.join(want, reply, None, Instant::now());
    assert!(state.depart(Moment::now()).is_some());
    state.may_have_missed();
    state.entries.insert(7, entry(want));
    state.under_way = None;
    let Some(batch) = state.depart(Moment::now()) else {
        panic!("nothing departs");
    };
    assert!(batch.check && batch.confirms.len() == 1);
}

/// As the model, beside peers that free permits without a message.
struct Paced;

struct Hourly;

impl Held<Paced> for Hourly {
    fn header(&mut self, _: &mut dyn Iterator<Item = Amount>) -> Arc<str> {
        Arc::default()
    }

    fn lease_time(&self, _: Amount) -> Duration {
        Duration::ZERO
    }

    fn pace(&self) -> Option<Duration> {
        Some(Duration::from_secs(3600))
    }
}

impl Primitive for Paced {
    const KIND: &'static str = "paced";
    const WAIT: &'static str = "acquire";
    type Want = Amount;
    type Call = Call;
    type Held = Hourly;

    fn give_back(grant: Grant<Amount>) -> Call {
        Call::Release(grant.want.amount)
    }
}

/// The script of a batch has seen an older state than a notification that comes before its answer tells.
#[tokio::test(start_paused = true)]
async fn the_first_client_looks_though_an_older_answer_comes_later() {
    let core = Core::connect_lazy(Config::new("redis://127.0.0.1:1"), None).expect("it is lazy");
    let mut state: State<Paced> = State::new(&core, "paced", Hourly, false);
    let (reply, _outcome) = oneshot::channel();
    let want = Amount {
        amount: 1,
        leased: false,
    };
    state.join(want, reply, None, Instant::now());
    assert!(state.depart(Moment::now()).is_some(), "it asks");
    state.notified("first 3000", Instant::now());
    let text = format!("done 0 -1 -1 0 1 {CLOCK} 0 |");
    let Some(Said::Done(mut answer)) = Said::read(&text) else {
        panic!("{text}");
    };
    let batch = &state.under_way.as_ref().expect("it asks").batch;
    let results = Results::read("paced", batch, &mut answer).expect("it is complete");
    state.answered(&answer, results, Instant::now());
    assert!(state.has_work());
}

/// An object without handles is kept for a look that it has promised, also where a later answer does not speak of it.
#[tokio::test(start_paused = true)]
async fn a_promised_look_keeps_the_object() {
    let state = &mut World::new().clients[0].state;
    for look in [1_000_000, -1] {
        state.call(Call::Release(1), None, Instant::now());
        let batch = state.depart(Moment::now()).expect("it departs");
        let text = format!("done 0 {look} -1 0 0 {CLOCK} 1 |");
        let Some(Said::Done(mut answer)) = Said::read(&text) else {
            panic!("{text}");
        };
        let results = Results::read("model", batch, &mut answer).expect("it is complete");
        state.answered(&answer, results, Instant::now());
        assert!(state.stays(), "{text}");
    }
    tokio::time::advance(Duration::from_millis(1100)).await;
    state.tick(Instant::now());
    assert!(state.has_work());
}

/// The example in the description of the queue.
#[tokio::test(start_paused = true)]
async fn a_batch_reads_so() {
    let state = &mut World::new().clients[0].state;
    state.call(Call::Release(1), None, Instant::now());
    let want = Amount {
        amount: 2,
        leased: false,
    };
    let (reply, _waits) = oneshot::channel();
    state.join(want, reply, None, Instant::now());
    tokio::time::advance(Duration::from_micros(1500)).await;
    let mut args = Vec::new();
    let batch = state.depart(Moment::now()).expect("it departs");
    batch.encode(&mut args);
    let ticket = batch.runs[0].ticket;
    let words = args.iter().skip(2).map(|arg| match arg {
        Arg::Word(word) => (*word).to_owned(),
        Arg::Text(text) => text.to_string(),
        Arg::Number(number) => number.to_string(),
        Arg::Bytes(_) | Arg::Sequence(_) => unreachable!("no step has these"),
    });
    let steps = format!("release 1 1 wait 2 1 a {ticket} 1500 0 3000 1");
    assert_eq!(words.collect::<Vec<_>>().join(" "), steps);
    let text = format!("done 1 -1 -1 0 0 {CLOCK} 1 0 |");
    let Some(Said::Done(mut answer)) = Said::read(&text) else {
        panic!("{text}");
    };
    let results = Results::read("model", batch, &mut answer).expect("it is complete");
    assert_eq!((results.calls.len(), results.runs[0].0), (1, 0));
    state.answered(&answer, results, Instant::now());
    assert!(state.entries.has(ticket));
}
