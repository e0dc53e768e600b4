//! Calls that change an object once, and hold nothing: each change in the server is one of theirs, and each of them that
//! has succeeded has changed it once, and says so.

use std::collections::{BTreeMap, BTreeSet};

use super::judge::Host;
use super::plan::{AdminCall, Subject};

impl Subject {
    pub const ALL: [Subject; 3] = [Subject::Semaphore, Subject::Latch, Subject::Expirable];

    pub fn key(self) -> &'static str {
        match self {
            Subject::Semaphore => "a0",
            Subject::Latch => "p0",
            Subject::Expirable => "e0",
        }
    }

    /// The other name that it has at times.
    pub fn aside(self) -> &'static str {
        match self {
            Subject::Semaphore => "x{a0}",
            Subject::Latch => "x{p0}",
            Subject::Expirable => "x{e0}",
        }
    }
}

/// What stands in the server under one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    pub count: i64,
    /// How many ids of permits that are held.
    pub held: i64,
    /// When it expires, in milliseconds by the server's clock.
    pub until: Option<i64>,
}

/// An object, and what has its other name.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct State {
    pub here: Option<Standing>,
    pub aside: Option<Standing>,
}

impl State {
    /// How many there are for whoever looks.
    fn count(self) -> i64 {
        self.here.map_or(0, |here| here.count)
    }

    /// What is added is added to what there is, which lasts as long as before.
    fn plus(self, delta: i64) -> State {
        let before = self.here.unwrap_or(FOR_EVER);
        State {
            here: Some(Standing {
                count: before.count + delta,
                ..before
            }),
            ..self
        }
    }

    /// So many permits with ids are taken; below 0 they are given back.
    fn take(self, permits: i64) -> State {
        let after = |here: Standing| Standing {
            count: here.count - permits,
            held: here.held + permits,
            ..here
        };
        let possible = |here: &Standing| match permits {
            ..0 => here.held > 0,
            _ => here.count > 0,
        };
        let taken = self.here.filter(possible).map(after);
        State {
            here: taken.or(self.here),
            ..self
        }
    }

    fn or(self, count: u32, until: Option<i64>) -> State {
        let set = Standing {
            count: count.into(),
            held: 0,
            until,
        };
        State {
            here: self.here.or(Some(set)),
            ..self
        }
    }

    fn until(self, until: Option<i64>) -> State {
        let here = self.here.map(|here| Standing { until, ..here });
        State { here, ..self }
    }

    /// One less of a latch, which is gone once it is open.
    fn down(self, by: i64) -> State {
        let left = self.here.map(|here| Standing {
            count: here.count - by,
            ..here
        });
        let here = left.filter(|left| left.count > 0);
        State { here, ..self }
    }
}

const FOR_EVER: Standing = Standing {
    count: 0,
    held: 0,
    until: None,
};

/// What may have happened so far: which calls have taken effect. Several are possible where two calls make the same change.
type World = BTreeSet<u64>;

/// Of each client the calls that have, or may have, or may yet take effect, by their numbers.
#[derive(Debug, Default)]
pub struct Ledger {
    state: State,
    clients: BTreeMap<Host, Client>,
    last_number: u64,
}

#[derive(Debug)]
struct Client {
    made: BTreeMap<u64, AdminCall>,
    /// Those of them of which nobody will hear: where they do the same it does not matter which of them have taken effect.
    unheard: BTreeSet<u64>,
    worlds: BTreeSet<World>,
    /// The calls beside which there was nothing to change at some time.
    void: BTreeSet<u64>,
    /// How many there were beside those that look.
    seen: BTreeMap<u64, BTreeSet<i64>>,
}

impl Default for Client {
    fn default() -> Self {
        Client {
            made: BTreeMap::new(),
            unheard: BTreeSet::new(),
            void: BTreeSet::new(),
            seen: BTreeMap::new(),
            worlds: BTreeSet::from([World::new()]),
        }
    }
}

/// How a call has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It has taken effect, or would have if there had been anything to do.
    Done,
    /// It says whether it has changed anything.
    Changed(bool),
    /// It says how many there are.
    Read(i64),
    /// It says that there is no such object.
    Missing,
    /// It has not, and will not.
    Not,
    /// Either may be.
    Unknown,
}

impl AdminCall {
    /// What becomes of `state` at `now`.
    fn makes(self, state: State, now: i64) -> State {
        let after = |life: std::time::Duration| {
            Some(now + i64::try_from(life.as_millis()).expect("seconds"))
        };
        let State { here, aside } = state;
        match self {
            AdminCall::Set(permits) => state.or(permits, None),
            AdminCall::SetFor(permits, life) => state.or(permits, after(life)),
            AdminCall::Put(permits) => {
                let here = here.unwrap_or(FOR_EVER);
                let count = i64::from(permits) - here.held;
                let here = Some(Standing { count, ..here });
                State { here, aside }
            }
            AdminCall::Take => state.take(1),
            AdminCall::Give => state.take(-1),
            AdminCall::Add(delta) => state.plus(delta.into()),
            AdminCall::Drain => State {
                here: here.map(|here| Standing { count: 0, ..here }),
                aside,
            },
            AdminCall::Release(permits) => state.plus(permits.into()),
            AdminCall::ReleaseIfExists(permits) => {
                here.map_or(state, |_| state.plus(permits.into()))
            }
            AdminCall::Delete => State { here: None, aside },
            AdminCall::Look => state,
            AdminCall::Expire(life) => state.until(after(life)),
            AdminCall::ClearExpire => state.until(None),
            AdminCall::RenameNx if aside.is_some() => state,
            AdminCall::Rename | AdminCall::RenameNx => here.map_or(state, |_| State {
                here: None,
                aside: here,
            }),
            AdminCall::RenameBack => aside.map_or(state, |_| State {
                here: aside,
                aside: None,
            }),
            AdminCall::Copy(replace) if replace || aside.is_none() => State {
                here,
                aside: here.or(aside),
            },
            AdminCall::Copy(_) => state,
            AdminCall::CountDown => state.down(1),
        }
    }

    /// It is carried out, whatever becomes of its caller.
    pub fn is_owed(self) -> bool {
        matches!(
            self,
            AdminCall::Release(_)
                | AdminCall::ReleaseIfExists(_)
                | AdminCall::Give
                | AdminCall::CountDown
        )
    }

    /// Whether it can be seen in the server that it has changed something.
    fn shows(self) -> bool {
        match self {
            // Until the same moment as before; by the same.
            AdminCall::Expire(_) | AdminCall::Copy(true) => false,
            AdminCall::ReleaseIfExists(permits) => permits > 0,
            _ => true,
        }
    }
}

impl Ledger {
    pub fn begins(&mut self, host: Host, call: AdminCall) -> u64 {
        self.last_number += 1;
        let client = self.clients.entry(host).or_default();
        client.made.insert(self.last_number, call);
        if self.state.here.is_none() {
            client.void.insert(self.last_number);
        }
        if call == AdminCall::Look {
            let seen = BTreeSet::from([self.state.count()]);
            client.seen.insert(self.last_number, seen);
        }
        self.last_number
    }

    /// A call has ended; or why that can't be.
    pub fn ends(&mut self, host: Host, number: u64, ended: Ended) -> Result<(), String> {
        let client = self.clients.entry(host).or_default();
        let Some(call) = client.made.get(&number).copied() else {
            return Ok(());
        };
        let impossible =
            || format!("{call:?} of c{host} has ended as {ended:?}, and that can't be");
        let must = match call {
            AdminCall::Release(_) | AdminCall::Add(1..) | AdminCall::Rename => true,
            // Of a latch that is open it changes nothing.
            AdminCall::CountDown => !client.void.contains(&number),
            _ => false,
        };
        let seen = client.seen.remove(&number).unwrap_or_default();
        if call == AdminCall::CountDown && ended == Ended::Done && must {
            client.may_be(number);
        }
        match ended {
            Ended::Done if must => client.worlds.retain(|world| world.contains(&number)),
            Ended::Changed(true) if call.shows() => {
                client.worlds.retain(|world| world.contains(&number));
            }
            Ended::Not | Ended::Missing | Ended::Changed(false) => {
                client.worlds.retain(|world| !world.contains(&number));
            }
            Ended::Read(count) if !seen.contains(&count) => return Err(impossible()),
            Ended::Done | Ended::Changed(true) | Ended::Read(_) | Ended::Unknown => {}
        }
        let about_here = call != AdminCall::RenameBack;
        if ended == Ended::Missing && about_here && !client.void.contains(&number) {
            return Err(impossible());
        }
        // What may come yet stays; what a caller who has gone is granted is given back.
        if ended == Ended::Unknown {
            client.unheard.insert(number);
            if call == AdminCall::Take {
                self.last_number += 1;
                client.made.insert(self.last_number, AdminCall::Give);
                client.unheard.insert(self.last_number);
            }
        } else {
            client.made.remove(&number);
        }
        client.worlds = client
            .worlds
            .iter()
            .map(|world| client.same(world))
            .collect();
        if client.worlds.is_empty() {
            return Err(impossible());
        }
        Ok(())
    }

    /// A script of `host` about this has been carried out at `now`: what it has done may come to nothing.
    pub fn is_asked(&mut self, host: Host, now: i64) {
        /// Where so much may have happened nothing is told apart any more.
        const MOST_WORLDS: usize = 4096;
        let state = self.state;
        let Some(client) = self.clients.get_mut(&host) else {
            return;
        };
        if client.worlds.len() > MOST_WORLDS {
            return;
        }
        let worlds = client.worlds.iter();
        let more: Vec<World> = worlds
            .flat_map(|world| client.round_trips(world, state, now))
            .collect();
        // In between it may have been gone.
        if !more.is_empty() {
            client.void.extend(client.made.keys());
        }
        client.worlds.extend(more);
    }

    /// A command of `host`, or nobody, has been carried out at `now`, and this stands there since.
    pub fn becomes(&mut self, host: Option<Host>, state: State, now: i64) -> Result<(), String> {
        let before = std::mem::replace(&mut self.state, state);
        if before == state {
            return Ok(());
        }
        for client in self.clients.values_mut() {
            if state.here.is_none() || before.here.is_none() {
                client.void.extend(client.made.keys());
            }
            for seen in client.seen.values_mut() {
                seen.insert(state.count());
            }
        }
        let Some(host) = host else {
            return Ok(());
        };
        let client = self.clients.entry(host).or_default();
        let worlds = client.worlds.iter();
        let worlds = worlds.flat_map(|world| client.after(world, before, state, now));
        client.worlds = worlds.collect();
        if client.worlds.is_empty() {
            let made = &client.made;
            return Err(format!(
                "c{host} has made {state:?} of {before:?}, and nobody has asked for that: {made:?}"
            ));
        }
        Ok(())
    }
}

impl Client {
    /// What one script may have done: any number of releases, as those whose callers have gone are added up, and among them another
    /// call.
    fn ways(&self, world: &World) -> Vec<Vec<(u64, AdminCall)>> {
        const MOST_CHOICES: usize = 256;
        /// Of more count-downs it is taken that they are carried out in their order.
        const FEW: usize = 6;
        let open = self.made.iter();
        let open = open.filter(|(number, _)| !world.contains(number));
        let open = open.map(|(number, call)| (*number, *call));
        let (releases, others): (Vec<_>, Vec<_>) = open.partition(|(_, call)| call.is_owed());
        // Of those that do the same, and of which nobody will hear, so many; of many count-downs the first ones.
        let mut kinds: Vec<Vec<(u64, AdminCall)>> = Vec::new();
        for one in &releases {
            let unheard = |number: &u64| self.unheard.contains(number);
            let counts_down = one.1 == AdminCall::CountDown && releases.len() > FEW;
            let alike = |kind: &&mut Vec<(u64, _)>| {
                let (number, call) = kind[0];
                call == one.1 && unheard(&number) == unheard(&one.0)
            };
            match kinds.iter_mut().find(alike) {
                Some(kind) if counts_down || unheard(&one.0) => kind.push(*one),
                _ => kinds.push(vec![*one]),
            }
        }
        let mut choices = vec![Vec::new()];
        for kind in kinds.iter().rev() {
            if choices.len() * (kind.len() + 1) > MOST_CHOICES {
                break;
            }
            let counts = |chosen: &Vec<_>| {
                let chosen = chosen.clone();
                (0..=kind.len()).map(move |count| [&kind[..count], &chosen].concat())
            };
            choices = choices.iter().flat_map(counts).collect();
        }
        // After an outage they are made together; some may have found nothing then.
        let conditional = |(_, call): &(u64, _)| matches!(call, AdminCall::ReleaseIfExists(_));
        choices.push(
            releases
                .iter()
                .copied()
                .filter(|one| !conditional(one))
                .collect(),
        );
        choices.push(releases);
        let mut ways = Vec::new();
        for chosen in choices {
            for other in &others {
                for place in 0..=chosen.len() {
                    let mut calls = chosen.clone();
                    calls.insert(place, *other);
                    ways.push(calls);
                }
            }
            ways.push(chosen);
        }
        ways
    }

    /// All the ways in which one script may have changed `state` so that it is the same again, and nothing of it was for nothing.
    fn round_trips(&self, world: &World, state: State, now: i64) -> Vec<World> {
        let comes_back = |calls: &Vec<(u64, AdminCall)>| {
            let end = calls.iter().try_fold(state, |before, (_, call)| {
                Some(call.makes(before, now)).filter(|after| *after != before)
            });
            calls.len() > 1 && end == Some(state)
        };
        let ways = self.ways(world).into_iter().filter(comes_back);
        ways.map(|calls| self.with(world, &calls)).collect()
    }

    /// All the ways in which one script may have made `after` of `before`.
    fn after(&self, world: &World, before: State, after: State, now: i64) -> Vec<World> {
        let makes = |calls: &Vec<(u64, AdminCall)>| {
            let one = |state: State, (_, call): &(u64, AdminCall)| match call {
                // There may be something by then.
                AdminCall::ReleaseIfExists(permits) => state.plus((*permits).into()),
                call => call.makes(state, now),
            };
            calls.iter().fold(before, one) == after
        };
        let ways = self.ways(world).into_iter().filter(makes);
        ways.map(|calls| self.with(world, &calls)).collect()
    }

    fn with(&self, world: &World, calls: &[(u64, AdminCall)]) -> World {
        let done = calls.iter().map(|(number, _)| *number);
        self.same(&world.iter().copied().chain(done).collect())
    }

    /// Where one like it has been carried out that nobody has been told of, it may be this one that was.
    fn may_be(&mut self, number: u64) {
        let alike = |other: &&u64| {
            let count_down = self.made.get(other) == Some(&AdminCall::CountDown);
            count_down && !self.unheard.contains(other)
        };
        let with = |world: &World| {
            let mut world = world.clone();
            if !world.contains(&number)
                && let Some(other) = world.iter().find(alike).copied()
            {
                world.remove(&other);
                world.insert(number);
            }
            world
        };
        self.worlds = self.worlds.iter().map(with).collect();
    }

    /// The one that stands for all that are the same from now on: of calls that do the same, and of which nobody will hear, the first
    /// have taken effect, and what became of those that have ended is settled.
    fn same(&self, world: &World) -> World {
        let mut left: Vec<(AdminCall, usize)> = Vec::new();
        let mut same = World::new();
        for number in world {
            match self.made.get(number) {
                Some(call) if self.unheard.contains(number) => {
                    match left.iter_mut().find(|(known, _)| known == call) {
                        Some((_, count)) => *count += 1,
                        None => left.push((*call, 1)),
                    }
                }
                Some(_) => drop(same.insert(*number)),
                None => {}
            }
        }
        for number in &self.unheard {
            let call = &self.made[number];
            let left = left
                .iter_mut()
                .find(|(known, count)| known == call && *count > 0);
            if let Some((_, count)) = left {
                *count -= 1;
                same.insert(*number);
            }
        }
        same
    }
}
