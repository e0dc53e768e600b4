//! Semaphores with ids, and the string lock, as a primitive: what travels, who asks, and when those who wait look again.
//!
//! Those who wait look when they are told that it is their turn, and by the clock, as nobody tells what other programs
//! release: when the first holder expires, when a peer's lock should be free, and at a pace. The first of all clients in
//! line does that at the pace of the setting, the others the more seldom the more of them there are, so that somebody
//! looks some fifty times a second: whoever looks tells the first that there is something.
//!
//! The order within a batch: releases, those who wait, those who only try.

use std::str::SplitAsciiWhitespace;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::arrivals::Arrivals;
use super::calls::{Call, MOST_CALLS, Page, Reply, Want};
use super::ends::Ends;
use super::ids::Ids;
use super::keeping::Keeping;
use super::names::{Names, Unnumbered};
use super::numbers::{Number, Numbers};
use super::outcome::{Outcome, Rank};
use super::peers_lock::PeersLock;
use super::scripts;
use super::settings::Settings;
use super::steps::{Parts, Steps};
use crate::api::Held;
use crate::clock::Moment;
use crate::engine::Core;
use crate::engine::once::refused;
use crate::engine::primitive::{
    Ask, Batch, Done, Got, Line, Look, Primitive, Ticket, Verdict, Waiters,
};
use crate::engine::request::Arg;
use crate::engine::wakeups::Wake;
use crate::error::Error;
use crate::transport::{Refusal, jittered};

/// A batch takes this many questions at the most.
pub(super) const MOST_ASKS: usize = 2 * MOST_CALLS;

/// How long others wait for a client that has been told that it is its turn, besides its round trips.
const LEAST_PATIENCE: Duration = Duration::from_millis(20);

/// All who wait together look once in this time.
const PACE_OF_ALL: Duration = Duration::from_millis(20);

/// One semaphore of one client.
pub(super) struct Recipe {
    settings: Settings,
    names: Names,
    /// Taken as long as this is there.
    _number: Number,
    pub(super) keeping: Arc<Keeping>,
    /// Of the batch under way.
    ids: Ids,
    arrivals: Arrivals,
    /// This client stands in the line that all clients see.
    in_line: bool,
    /// When holders expire.
    ends: Ends,
    /// From which slot on the batch under way finds that out.
    ends_from: u32,
    peers_lock: PeersLock,
    /// How long the server takes to answer: the longest of late.
    round_trip: Duration,
    /// How often each looks at the least.
    safety_interval: Duration,
}

impl Recipe {
    /// The one line of this client with these settings.
    pub(super) fn line(core: &Arc<Core>, settings: &Settings) -> Arc<Line<Recipe>> {
        let settings = settings.shared();
        let place: Arc<str> = format!("{settings:?}").into();
        // The mapper is the user's code: not under the registry's lock.
        let unnumbered = Unnumbered::new(&settings, &core.config.name_mapper);
        let numbers = Numbers::of(core, unnumbered.base());
        Line::at(core, &place, || {
            let number = numbers.take();
            let names = unnumbered.names(core.id(), number.value());
            let keys = names.keys(&settings);
            let script = scripts::of(settings.layout);
            let recipe = Recipe {
                keeping: Keeping::new(settings.clone()),
                settings,
                names,
                _number: number,
                ids: Ids::new(),
                arrivals: Arrivals::default(),
                in_line: false,
                ends: Ends::default(),
                ends_from: 1,
                peers_lock: PeersLock::default(),
                round_trip: Duration::ZERO,
                safety_interval: core.config.safety_interval,
            };
            (keys, script, recipe)
        })
    }

    /// Why nothing could be granted.
    fn failure(&self, text: &str) -> Error {
        let name = self.settings.name.clone();
        if let Some(found) = text.strip_prefix("unreadable ") {
            return Error::NotANumber {
                name: self.names.own[2].to_string(),
                found: found.to_owned(),
            };
        }
        // One of many slots, by its number.
        let slot = text.strip_prefix("notastring ");
        let slot = slot.and_then(|slot| slot.parse::<usize>().ok()?.checked_sub(1));
        match slot.and_then(|slot| self.names.own.get(slot)) {
            Some(key) => Error::WrongType {
                name,
                key: key.to_string(),
                found: None,
            },
            None => refused(&name, &Refusal::from_text(text)),
        }
    }

    /// When those look again of whom so many wait behind `outcome`, and so many only try.
    fn next_look(
        &mut self,
        outcome: &Outcome,
        waiting: usize,
        trying: usize,
        now: Instant,
    ) -> Look {
        let (settings, locked) = (&self.settings, outcome.locked.as_ref());
        let mut more_pages = false;
        if waiting > 0 {
            let left = outcome.first_end;
            more_pages = self.ends.note(settings, self.ends_from, left, now);
        }
        self.peers_lock.note(locked, now);
        let usual = self.pace(outcome.rank, now);
        let is_first = outcome.rank.before == 0 || trying > 0;
        let settings = &self.settings;
        let for_lock = if is_first {
            self.peers_lock
                .look(settings, locked, waiting + trying, now)
        } else {
            None
        };
        match for_lock {
            _ if more_pages => Look::Now,
            Some(Look::After(pause)) => Look::After(pause.min(usual)),
            Some(look) => look,
            None => Look::After(usual),
        }
    }

    /// After how long one looks who hears nothing.
    fn pace(&self, rank: Rank, now: Instant) -> Duration {
        let check = self.settings.check_interval;
        let check = match rank.before {
            // One that dies takes nobody's place for long.
            0 | 1 => check,
            _ => check.min(self.safety_interval).max(PACE_OF_ALL * rank.of),
        };
        let pause = jittered(check, 0.75, 1.0);
        // One after the other, as those in front may have gone by then.
        let end = self
            .ends
            .first()
            .map(|end| end.saturating_duration_since(now));
        end.map_or(pause, |end| {
            pause.min(end.saturating_add(PACE_OF_ALL * rank.before))
        })
    }
}

impl Primitive for Recipe {
    const KIND: &'static str = "recipe";
    const WAIT: &'static str = "acquire";
    type Call = Call;
    type Reply = Reply;
    type Want = Want;
    type Grant = Held;

    fn name(call: &Call) -> &'static str {
        call.name()
    }

    fn details(call: &Call) -> String {
        match call {
            Call::Release(id) => format!("release({id})"),
            _ => call.name().to_owned(),
        }
    }

    fn wait(want: &Want) -> &'static str {
        if want.tries {
            "try_acquire"
        } else {
            Self::WAIT
        }
    }

    fn is_owed(call: &Call) -> bool {
        matches!(call, Call::Release(_) | Call::Tend)
    }

    /// Of some no time runs out, and nobody gets an id again.
    fn outlasts_refusals(call: &Call) -> bool {
        matches!(call, Call::Release(_))
    }

    fn add_up(earlier: &mut Call, call: &Call) -> bool {
        *earlier == Call::Tend && *call == Call::Tend
    }

    fn frees(&self, call: &Call) -> bool {
        !matches!(call, Call::List(_))
    }

    fn takes(_: &Want) -> bool {
        true
    }

    fn fits(&self, batch: &mut Batch<Self>, call: &Call) -> bool {
        call.fits(batch)
    }

    /// Those who wait are named with the next batch, if this one lists the holders.
    fn fits_ask(&self, batch: &mut Batch<Self>, _: &Ask<Self>) -> bool {
        let list = batch.calls.first();
        let list = list.is_some_and(|queued| matches!(queued.call, Call::List(_)));
        !list && batch.asks.len() < MOST_ASKS
    }

    /// As many as there can be permits for, and the next one, who then stands for all others in the line that all clients
    /// see; and those who try, and wait for a lock of peers.
    fn asks<'a>(
        &mut self,
        _batch: &Batch<Self>,
        waiters: &'a Waiters<Self>,
    ) -> Vec<(Ticket, &'a Want)> {
        let most = MOST_CALLS.min((self.settings.limit as usize).saturating_add(1));
        let waiting = waiters.iter().filter(|(_, want)| !want.tries).take(most);
        let trying = waiters.iter().filter(|(_, want)| want.tries);
        let trying = trying.take(if self.settings.lock.is_some() {
            MOST_CALLS
        } else {
            0
        });
        waiting.chain(trying).collect()
    }

    fn encode(&mut self, batch: &Batch<Self>, args: &mut Vec<Arg>) {
        self.ids = Ids::new();
        self.ends_from = self.ends.from(batch.departed.timer());
        if let Some(first) = batch.asks.iter().map(|ask| ask.ticket).min() {
            self.arrivals.forget_before(first);
        }
        let steps = Steps {
            settings: &self.settings,
            ids: &self.ids,
            arrivals: &self.arrivals,
            ends_from: self.ends_from,
            patience: LEAST_PATIENCE + 2 * self.round_trip,
        };
        steps.write(batch, args);
    }

    fn decode(
        &mut self,
        batch: &Batch<Self>,
        words: &mut SplitAsciiWhitespace<'_>,
    ) -> Option<Verdict<Self>> {
        if let Some(Call::List(_)) = batch.calls.first().map(|queued| &queued.call) {
            let page = Reply::Holders(Page::read(words)?);
            return Some(Verdict::new(vec![page], [], Look::No));
        }
        let outcome = Outcome::read(words)?;
        let parts = Parts::of(batch);
        let (waits, tries) = (parts.waits.len(), parts.tries.len());
        let (served, tried) = (outcome.served, outcome.tried);
        let slots = outcome.slots.len();
        if served > waits
            || tried > tries
            || slots != 0 && slots != served + tried
            || outcome.released.len() != parts.releases.len()
        {
            return None;
        }
        self.arrivals.note(batch.end, outcome.now);
        let took = batch
            .answered
            .saturating_duration_since(batch.departed.timer());
        self.round_trip = took.max(self.round_trip * 7 / 8);

        let until = |lasts| batch.departed.checked_add(self.settings.sure_lease(lasts)?);
        let mut released = outcome.released.iter();
        let replies = batch.calls.iter().map(|queued| match &queued.call {
            Call::Release(_) => Reply::Released(released.next() == Some(&true)),
            Call::Clear => Reply::Count(outcome.cleared),
            Call::List(_) | Call::Tend => Reply::Tended,
        });
        let replies = replies.map(Done::Reply).collect();

        let waiting = batch.waiting - tries - served;
        // A try waits for a peer's lock.
        let locked = self.settings.lock.is_some() && outcome.locked.is_some();
        let (mut place, mut granted_tries) = (0, 0);
        let mut grant = |ask: &Ask<Self>| {
            let number = if ask.want.tries {
                &mut granted_tries
            } else {
                &mut place
            };
            *number += 1;
            let (index, granted) = match ask.want.tries {
                true => (served + *number - 1, *number <= tried),
                false => (*number - 1, *number <= served),
            };
            if granted {
                return Got::Granted(Held {
                    id: self.ids.get(index),
                    slot: outcome.slots.get(index).copied(),
                    until: until(ask.want.lasts),
                });
            }
            match outcome.more {
                true => Got::Again,
                false if ask.want.tries && !locked => Got::InVain,
                false => Got::Nothing,
            }
        };
        let grants: Vec<_> = batch.asks.iter().map(&mut grant).collect();
        let nothing = |got: &&Got<Held>| matches!(got, Got::Nothing);
        let left_waiting = grants.iter().filter(nothing).count();
        let trying = if locked {
            left_waiting.saturating_sub(waits - served)
        } else {
            0
        };

        let look = if batch.asks.is_empty() {
            self.in_line &= batch.waiting > 0;
            Look::No
        } else {
            self.in_line = waiting > 0;
            if served == waits && waiting > 0 {
                // There may be something left for those behind.
                Look::Now
            } else if waiting + trying > 0 {
                self.next_look(&outcome, waiting, trying, batch.answered)
            } else {
                Look::No
            }
        };
        if !self.in_line {
            // What is known gets old.
            self.ends = Ends::default();
        }
        Some(Verdict {
            replies,
            grants,
            look,
            stopped: outcome.failure.as_deref().map(|text| self.failure(text)),
            later: outcome.tend.map(|pause| (pause, Call::Tend)),
            owed: None,
        })
    }

    fn unreadable(&self, _: &str, found: &str) -> Error {
        self.settings.unreadable(found)
    }

    fn ends(held: &Held) -> Option<Moment> {
        held.until
    }

    fn give_back(held: Held) -> Option<Call> {
        Some(Call::Release(held.id))
    }

    /// A place in the line that nobody stands in holds others up.
    fn rest(&mut self) -> Option<Call> {
        std::mem::take(&mut self.in_line).then_some(Call::Tend)
    }

    /// What may have been taken, and what should have been released: no id is given out twice.
    fn unknown(&mut self, batch: &Batch<Self>) -> Vec<Call> {
        let taken = (0..batch.asks.len()).map(|index| self.ids.get(index));
        let parts = Parts::of(batch);
        let released = parts.releases.into_iter().map(Arc::clone);
        taken.chain(released).map(Call::Release).collect()
    }

    /// Each answer names the time of the next look, so that the one that all take now and then is not needed.
    fn heard(&mut self, _: &str, wake: &Wake, _: Instant) -> Look {
        match wake {
            Wake::Look => Look::No,
            _ => Look::Now,
        }
    }

    /// Who only tries is answered at once, or waits for a lock that nobody tells of.
    fn channels(&self, own: &str, waiters: &Waiters<Self>) -> Vec<String> {
        let waits = waiters.iter().any(|(_, want)| !want.tries);
        waits.then(|| own.to_owned()).into_iter().collect()
    }
}
