//! A client's place in the line of all clients, for a primitive whose callers wait in turn: which channels it hears, what a
//! message means to it, and what travels with its batches.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{FOR_OTHERS, Report, Turns, Verdict};
use crate::engine::keys::{Keys, TurnKeys};
use crate::engine::primitive::{Batch, Look, Primitive};
use crate::engine::request::Arg;
use crate::engine::wakeups::Wake;

/// One client at one object.
pub(crate) struct Place {
    turns: Turns,
    names: TurnKeys,
    /// The object's own channel.
    object: Arc<str>,
    /// How often it looks by itself, where no others do.
    safety_interval: Duration,
    /// What travels with the batch under way.
    report: Option<Report>,
    /// The first caller's ticket as the line of all clients has it, 0 where this client does not stand there; nothing where that
    /// is not known.
    first: Option<u64>,
    /// There is a reason to ask that an earlier answer has not had: it may have been told that it is its turn.
    woken: bool,
    /// This client was one of those who listened when it departed.
    listened: bool,
    /// Messages on the object's channel are heard.
    hears: bool,
    /// It is about to leave the line of all clients.
    leaves: bool,
}

/// What the server has said of a batch.
pub(crate) struct Said<'a> {
    /// How many listen to the object's channel, this client included, where that is known.
    pub(crate) listeners: Option<u64>,
    /// The word about turns.
    pub(crate) word: Option<&'a str>,
    /// Something is free behind it.
    pub(crate) free: bool,
    /// Somebody asked, and somebody waits on.
    pub(crate) asked: bool,
    pub(crate) waiting: bool,
    /// It was sent more than once: the answer may be one on record, which says nothing about turns.
    pub(crate) again: bool,
    pub(crate) sent: Instant,
    pub(crate) now: Instant,
}

/// How the turns stand behind an answer.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// Callers of this client were held back from what is free.
    pub(crate) held: bool,
    /// Somebody may have begun a line since it was asked: it is to ask at once, to stand in it.
    pub(crate) comes: bool,
    /// After how long it is to be seen whether others have come who were told.
    pub(crate) look: Option<Duration>,
}

impl Place {
    /// `None` for an object whose clients keep no turns.
    pub(crate) fn of(keys: &Keys, safety_interval: Duration) -> Option<Self> {
        Some(Place {
            turns: Turns::default(),
            names: keys.turns()?.clone(),
            object: Arc::clone(keys.channel()),
            safety_interval,
            report: None,
            first: None,
            woken: false,
            listened: false,
            hears: false,
            leaves: false,
        })
    }

    /// From now on this client takes what it can get.
    pub(crate) fn switch_off(&mut self) {
        self.turns.switch_off();
    }

    /// Whether the clients that wait take turns, and this one with them.
    pub(crate) fn is_kept(&self, now: Instant) -> bool {
        self.turns.takes_part(now)
    }

    /// The channel of all comes last, behind which it asks once more: then it hears when its turn has come. Until then it is taken for
    /// somebody who takes no turns, which costs less than one who is not known to listen.
    pub(crate) fn channels(&self) -> Vec<String> {
        if !self.is_kept(Instant::now()) {
            return vec![self.object.to_string()];
        }
        let TurnKeys {
            line, own_channel, ..
        } = &self.names;
        [own_channel, &self.object, line]
            .map(|name| name.to_string())
            .into()
    }

    /// What is told of a channel: a reason to look, now or later.
    pub(crate) fn heard(&mut self, channel: &str, wake: &Wake, now: Instant) -> Look {
        let look = self.reason(channel, wake, now);
        self.woken |= look == Look::Now;
        look
    }

    fn reason(&mut self, channel: &str, wake: &Wake, now: Instant) -> Look {
        let of_all = *channel == *self.names.line;
        if *channel == *self.object {
            match wake {
                Wake::Confirmed | Wake::ConfirmedAgain => self.hears = true,
                Wake::Lost | Wake::Ended | Wake::Refused(_) => self.hears = false,
                Wake::Message(_) | Wake::Look => {}
            }
        }
        if let Wake::Message(payload) = wake
            && self.is_of_another(channel, payload)
        {
            self.turns.heard_from_others(now);
        }
        match wake {
            Wake::Message(payload) if *channel == *self.names.own_channel && payload == b"soon" => {
                self.turns.comes_near();
                Look::No
            }
            Wake::Message(_) if *channel == *self.names.own_channel => Look::Now,
            _ if *channel == *self.names.own_channel => Look::No,
            Wake::Message(payload) if of_all && payload.starts_with(FOR_OTHERS) => {
                self.turns.left_over(self.asks(), now)
            }
            Wake::Message(payload) if of_all && self.is_alone_itself(payload) => Look::No,
            Wake::Message(_) if of_all => self.turns.asks_once_more(self.asks(), now),
            Wake::Confirmed | Wake::ConfirmedAgain if of_all => {
                self.turns.asks_once_more(self.asks(), now)
            }
            _ if of_all => Look::No,
            Wake::Message(payload) if payload.starts_with(FOR_OTHERS) => {
                if self.is_kept(now) {
                    Look::No
                } else {
                    Look::Now
                }
            }
            Wake::Message(payload) => {
                if payload != b"0" {
                    self.turns.heard();
                }
                self.turns.message(now)
            }
            Wake::Look if self.turns.looks(self.safety_interval, now) => Look::Now,
            Wake::Confirmed => {
                self.turns.forget();
                Look::Now
            }
            Wake::ConfirmedAgain => Look::Now,
            Wake::Lost | Wake::Ended => {
                self.turns.deaf();
                Look::No
            }
            Wake::Look | Wake::Refused(_) => Look::No,
        }
    }

    /// Until when it counts what is known of others, though nobody may wait.
    pub(crate) fn remembers(&self) -> Option<Instant> {
        self.turns.remembers()
    }

    /// Who can't be told can't take part. Whether that is what `channel` is for.
    pub(crate) fn does_without(&mut self, channel: &str) -> bool {
        let of_turns = [&self.names.own_channel, &self.names.line];
        let of_turns = of_turns.into_iter().any(|name| **name == *channel);
        if of_turns {
            self.turns.switch_off();
        }
        of_turns
    }

    /// Whether a message about turns is one that another client has sent: that it is this one's turn, or that something is free.
    fn is_of_another(&self, channel: &str, payload: &[u8]) -> bool {
        match payload.strip_prefix(FOR_OTHERS) {
            Some(sender) => *channel == *self.names.line && !self.is_own_id(sender),
            None => *channel == *self.names.own_channel && payload == b"turn",
        }
    }

    /// Whether it is this client that calls the others into line.
    fn is_alone_itself(&self, payload: &[u8]) -> bool {
        payload
            .strip_prefix(b"new")
            .is_some_and(|sender| self.is_own_id(sender))
    }

    /// Its own channel is called like the line and this client.
    fn is_own_id(&self, sender: &[u8]) -> bool {
        let of_line = self.names.own_channel.as_bytes().strip_suffix(sender);
        of_line.is_some_and(|line| line.ends_with(b":"))
    }

    /// Whether a question is under way whose answer tells how it stands.
    fn asks(&self) -> bool {
        self.report.is_some_and(|report| report.named > 0)
    }

    /// By how much this client comes later than others who know the same, so that some do and not all.
    pub(crate) fn delay(&self, now: Instant) -> Duration {
        self.turns.delay(now)
    }

    /// `batch` departs, `of_waiters` being what there is to say of those who wait.
    pub(crate) fn departs<P: Primitive>(&mut self, batch: &Batch<P>, of_waiters: Report) {
        let now = batch.departed.timer();
        self.turns.comes_back(now);
        self.listened = batch.hears(&self.object);
        (self.hears, self.leaves) = (self.listened, false);
        if of_waiters.named > 0 {
            self.turns.looks_now();
        }
        let own = match (self.listened, batch.hears(&self.names.line)) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) if self.turns.has_company(now) => 3,
            (true, true) => 2,
        };
        self.first = None;
        self.woken &= of_waiters.named == 0;
        let reports = self.turns.wants_report(now, batch.first_is_known);
        self.report = reports.then(|| self.turns.report(of_waiters, own, now));
    }

    /// The keys that the report of the batch needs, behind the object's own.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Arc<str>> {
        let names = [&self.names.line, &self.names.notes];
        names.into_iter().filter(|_| self.report.is_some())
    }

    /// The numbers of the report, at the end of the arguments of the batch that has `departed` then.
    pub(crate) fn write(&self, departed: Instant, args: &mut Vec<Arg>) {
        if let Some(report) = self.report {
            // Behind a look that was no use it is later.
            report.later(departed.elapsed()).write(args);
        }
    }

    /// The batch has been answered; `None` if the word about turns is none.
    pub(crate) fn answered(&mut self, said: Said<'_>) -> Option<Standing> {
        let Said { sent, now, .. } = said;
        let verdict = match said.word {
            Some(word) => Some(Verdict::read(word)?),
            None => None,
        };
        if let Some(listeners) = said.listeners {
            let others = listeners.saturating_sub(self.listened.into());
            self.turns.seen(others, now);
        }
        let report = self.report.take();
        let reported = report.is_some();
        if let Some(report) = &report {
            self.turns
                .answered(verdict, said.asked, said.waiting, sent, now);
            self.first = match (verdict, self.turns.is_in_line()) {
                (Some(_), false) => Some(0),
                // Who has not asked stands there as before.
                (Some(_), true) if report.named > 0 => Some(report.ticket),
                _ => None,
            };
            if said.again && verdict.is_none() {
                self.turns.may_have_told(now);
            }
        }
        // Those who are to answer what everybody hears may be dead: who has told nobody in line sees to it.
        if !reported && said.free && self.turns.others_listen() && self.turns.are_kept(now) {
            self.turns.may_have_told(now);
        }
        let look = self.turns.look_at();
        // Where it has not been subscribed yet, it asks when it is.
        let believes = said.waiting && self.listened && !reported && !self.turns.knows_enough(now);
        let seen = match verdict {
            Some(Verdict::Seen(seen)) => Some(seen),
            _ => None,
        };
        // It was held back by the order of a line that may not be kept: without one it takes what is free.
        let is_off = said.asked && matches!(verdict, Some(Verdict::Off));
        Some(Standing {
            comes: believes || said.waiting && (is_off || self.turns.is_to_ask()),
            held: seen.is_some_and(|seen| seen.held),
            look: look.map(|at| at.saturating_duration_since(now)),
        })
    }

    /// That look is made.
    pub(crate) fn looks(&mut self) {
        if let Some(at) = self.turns.look_at() {
            self.turns.is_due(at);
        }
    }

    /// Whether it stands in line, and is to leave it from now on.
    pub(crate) fn leaves(&mut self) -> bool {
        self.turns.is_in_line() && !std::mem::replace(&mut self.leaves, true)
    }
}
