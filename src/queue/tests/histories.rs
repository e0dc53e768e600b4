//! Two clients of a few callers each against the model, under random orders of all that can happen: no permit is doubled at any time, none
//! is lost, and no caller sleeps in the end.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::model::{CLOCK, Model, Server, TOTAL, forbidden, queue};
use crate::clock::Moment;
use crate::config::Config;
use crate::engine::Core;
use crate::engine::keys::Keys;
use crate::queue::answer::{Results, Said};
use crate::queue::batch::Queued;
use crate::queue::held::Leases;
use crate::queue::outcome::{Amount, Grant, Outcome, Ticket};
use crate::queue::primitive::{Held, Primitive};
use crate::queue::state::State;

/// One client and its callers.
pub(super) struct Client {
    pub(super) state: State<Model>,
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
        match self.state.hand_off(&call, now) {
            true => self.tell(),
            false => self.state.call(call, None, now),
        }
    }
}

pub(super) struct World {
    server: Server,
    pub(super) clients: Vec<Client>,
}

impl World {
    pub(super) fn new() -> Self {
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
