//! Calls that change an object once, and hold nothing: releases of a semaphore from which no call takes, and count-downs of a latch. Each change in
//! the server belongs to one of the calls, and each successful call has changed the server once.

use std::collections::BTreeMap;

use super::judge::Host;
use super::plan::AdminCall;

/// The names of the semaphore and of the latch.
pub const SEMAPHORE: &str = "a0";
pub const LATCH: &str = "p0";

/// The count that closes the latch.
pub const COUNT: u32 = 5;

/// How a call has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The call has taken effect, or would have if there had been anything to do.
    Done,
    /// The call has had no effect, and will have none.
    Not,
    /// Either may be true.
    Unknown,
}

/// The known and the possible effects of calls.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The counter of the semaphore. Each release adds another power of two, so the counter says which releases have taken effect.
    semaphore: i64,
    /// All releases that may take effect.
    releases: i64,
    latch: i64,
    clients: BTreeMap<Host, CountDowns>,
}

/// The count-downs of a client.
#[derive(Debug, Default)]
struct CountDowns {
    /// Calls without a reply so far; `false`: the latch may have been open meanwhile.
    open: BTreeMap<u64, bool>,
    /// How many may have taken effect, how many must have, and how many have been seen.
    at_most: i64,
    at_least: i64,
    seen: i64,
    /// How many calls that close the latch are under way.
    closing: u32,
}

impl CountDowns {
    fn are_void(&mut self) {
        self.open.values_mut().for_each(|exact| *exact = false);
    }
}

impl Ledger {
    pub fn begins(&mut self, host: Host, number: u64, call: AdminCall) {
        let client = self.clients.entry(host).or_default();
        match call {
            AdminCall::Release(permits) => self.releases |= i64::from(permits),
            AdminCall::Close => {
                client.closing += 1;
                client.are_void();
            }
            AdminCall::CountDown => {
                client.at_most += 1;
                let exact = self.latch > 0 && client.closing == 0;
                client.open.insert(number, exact);
            }
        }
    }

    /// A call has ended. Returns an error if it can't have ended like that.
    pub fn ends(
        &mut self,
        host: Host,
        number: u64,
        call: AdminCall,
        ended: Ended,
    ) -> Result<(), String> {
        let client = self.clients.entry(host).or_default();
        let mut possible = true;
        match call {
            AdminCall::Release(permits) => {
                let done = self.semaphore & i64::from(permits) != 0;
                match ended {
                    Ended::Done => possible = done,
                    Ended::Not => {
                        possible = !done;
                        self.releases &= !i64::from(permits);
                    }
                    Ended::Unknown => {}
                }
            }
            // A call of unknown outcome may be carried out later.
            AdminCall::Close => client.closing -= u32::from(ended != Ended::Unknown),
            AdminCall::CountDown => {
                let exact = client.open.remove(&number).unwrap_or_default();
                client.at_most -= i64::from(ended == Ended::Not);
                client.at_least += i64::from(ended == Ended::Done && exact);
                possible = client.at_least <= client.seen && client.seen <= client.at_most;
            }
        }
        match possible {
            true => Ok(()),
            false => Err(format!(
                "{call:?} of c{host} has ended as {ended:?}, and that can't be"
            )),
        }
    }

    /// A command of `host`, or of no client (`None`), has been carried out, and the counter is `count` now.
    pub fn semaphore_is(&mut self, host: Option<Host>, count: i64) -> Result<(), String> {
        let before = std::mem::replace(&mut self.semaphore, count);
        let lost = before & !count;
        let nobody_s = count & !self.releases;
        match host {
            Some(host) if lost != 0 || nobody_s != 0 => Err(format!(
                "c{host} has made {count:#b} of {before:#b}, and nobody has asked for that"
            )),
            _ => Ok(()),
        }
    }

    /// The same for the latch; 0: it is open.
    pub fn latch_is(&mut self, host: Option<Host>, count: i64) -> Result<(), String> {
        let before = std::mem::replace(&mut self.latch, count);
        if count == 0 && before > 0 {
            self.clients.values_mut().for_each(CountDowns::are_void);
        }
        let Some(host) = host else { return Ok(()) };
        let client = self.clients.entry(host).or_default();
        client.seen += match count > before {
            true => before + i64::from(COUNT) - count,
            false => before - count,
        };
        match client.seen <= client.at_most {
            true => Ok(()),
            false => Err(format!(
                "c{host} has made {count} of {before}, and has counted down {} times at the most",
                client.at_most
            )),
        }
    }
}
