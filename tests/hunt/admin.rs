//! Calls that change a semaphore once, and hold nothing: each change in the server is one of theirs, and each of them that
//! has succeeded has changed it once.

use std::collections::{BTreeMap, BTreeSet};

use super::judge::Host;
use super::plan::AdminCall;

/// The semaphore that they change.
pub const KEY: &str = "a0";
/// The latch.
pub const LATCH: &str = "p0";

/// What may have happened so far: which calls have taken effect. Several are possible where two calls make the same change.
type World = BTreeSet<u64>;

/// Of each client the calls that have, or may have, or may yet take effect, by their numbers.
#[derive(Debug, Default)]
pub struct Ledger {
    value: Option<i64>,
    clients: BTreeMap<Host, Client>,
    last_number: u64,
}

#[derive(Debug)]
struct Client {
    made: BTreeMap<u64, AdminCall>,
    worlds: BTreeSet<World>,
    /// The calls beside which there was nothing to change at some time.
    void: BTreeSet<u64>,
}

impl Default for Client {
    fn default() -> Self {
        Client {
            made: BTreeMap::new(),
            void: BTreeSet::new(),
            worlds: BTreeSet::from([World::new()]),
        }
    }
}

/// What is left of a latch; nothing once it is open.
fn down(value: i64, by: i64) -> Option<i64> {
    Some(value - by).filter(|left| *left > 0)
}

/// How a call has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It has taken effect, or would have if there had been anything to do.
    Done,
    /// It has not, and will not.
    Not,
    /// Either may be.
    Unknown,
}

impl AdminCall {
    /// What becomes of `value`.
    fn makes(self, value: Option<i64>) -> Option<i64> {
        match self {
            AdminCall::Set(permits) => value.or(Some(permits.into())),
            AdminCall::Add(delta) => Some(value.unwrap_or_default() + i64::from(delta)),
            AdminCall::Drain => value.map(|_| 0),
            AdminCall::Release(permits) => Some(value.unwrap_or_default() + i64::from(permits)),
            AdminCall::ReleaseIfExists(permits) => value.map(|value| value + i64::from(permits)),
            AdminCall::Delete => None,
            AdminCall::Look => value,
            AdminCall::CountDown => value.and_then(|value| down(value, 1)),
        }
    }

    /// It is carried out, whatever becomes of its caller.
    pub fn is_owed(self) -> bool {
        matches!(
            self,
            AdminCall::Release(_) | AdminCall::ReleaseIfExists(_) | AdminCall::CountDown
        )
    }
}

impl Ledger {
    pub fn begins(&mut self, host: Host, call: AdminCall) -> u64 {
        self.last_number += 1;
        let client = self.clients.entry(host).or_default();
        client.made.insert(self.last_number, call);
        if self.value.is_none() {
            client.void.insert(self.last_number);
        }
        self.last_number
    }

    /// A call has ended; or why that can't be.
    pub fn ends(&mut self, host: Host, number: u64, ended: Ended) -> Result<(), String> {
        let client = self.clients.entry(host).or_default();
        let Some(call) = client.made.get(&number).copied() else {
            return Ok(());
        };
        let must = match call {
            AdminCall::Release(_) | AdminCall::Add(1..) => true,
            // Of a latch that is open it changes nothing.
            AdminCall::CountDown => !client.void.contains(&number),
            _ => false,
        };
        match ended {
            Ended::Done if must => client.worlds.retain(|world| world.contains(&number)),
            Ended::Not => client.worlds.retain(|world| !world.contains(&number)),
            Ended::Done | Ended::Unknown => {}
        }
        // What may come yet stays.
        if ended != Ended::Unknown {
            client.made.remove(&number);
        }
        if client.worlds.is_empty() {
            return Err(format!(
                "{call:?} of c{host} has ended as {ended:?}, and that can't be"
            ));
        }
        Ok(())
    }

    /// A command of `host`, or nobody, has been carried out, and the value is this now.
    pub fn becomes(&mut self, host: Option<Host>, value: Option<i64>) -> Result<(), String> {
        let before = std::mem::replace(&mut self.value, value);
        if value.is_none() || before.is_none() {
            for client in self.clients.values_mut() {
                client.void.extend(client.made.keys());
            }
        }
        let Some(host) = host.filter(|_| before != value) else {
            return Ok(());
        };
        let client = self.clients.entry(host).or_default();
        let worlds = client.worlds.iter();
        let worlds = worlds.flat_map(|world| client.after(world, before, value));
        client.worlds = worlds.collect();
        if client.worlds.is_empty() {
            let made = &client.made;
            return Err(format!(
                "c{host} has made {value:?} of {before:?}, and nobody has asked for that: {made:?}"
            ));
        }
        Ok(())
    }
}

impl Client {
    /// All the ways in which one script may have made `after` of `before`: one call, and any number of releases, as those
    /// whose callers have gone are added up.
    fn after(&self, world: &World, before: Option<i64>, after: Option<i64>) -> Vec<World> {
        const MOST_RELEASES: usize = 8;
        let open = || {
            self.made
                .iter()
                .rev()
                .filter(|(number, _)| !world.contains(number))
        };
        let releases: Vec<(u64, i64)> = open()
            .filter_map(|(number, call)| match call {
                AdminCall::Release(permits) | AdminCall::ReleaseIfExists(permits) => {
                    Some((*number, i64::from(*permits)))
                }
                AdminCall::CountDown => Some((*number, -1)),
                _ => None,
            })
            .take(MOST_RELEASES)
            .collect();
        let mut worlds = Vec::new();
        for some in 0..1_usize << releases.len() {
            let chosen = releases
                .iter()
                .enumerate()
                .filter(|(bit, _)| some >> bit & 1 == 1);
            let (numbers, permits): (Vec<u64>, Vec<i64>) = chosen.map(|(_, one)| *one).unzip();
            let sum: i64 = permits.iter().sum();
            let released = |value: Option<i64>| match sum {
                0 => value,
                ..0 => value.and_then(|value| down(value, -sum)),
                _ => Some(value.unwrap_or_default() + sum),
            };
            let mut done = world.clone();
            done.extend(&numbers);
            if released(before) == after {
                worlds.push(done.clone());
            }
            for (number, call) in open().filter(|(number, _)| !numbers.contains(number)) {
                if call.makes(released(before)) == after || released(call.makes(before)) == after {
                    let mut done = done.clone();
                    done.insert(*number);
                    worlds.push(done);
                }
            }
        }
        worlds
    }
}
