//! The semaphore as a primitive: how its batches travel, who asks, and what an answer means.

use std::str::SplitAsciiWhitespace;
use std::sync::{Arc, LazyLock};

use tokio::time::Instant;

use super::answers::Answer;
use super::calls::{Call, Grant, Reply, Want};
use super::nudge;
use super::permits::{Behind, Permits};
use super::steps::Steps;
use crate::engine::coalesce::{LoneCall, Outcome};
use crate::engine::keys::Keys;
use crate::engine::primitive::{
    Ask, Batch, Line, Look, Primitive, Serves, Short, Ticket, Verdict, Waiters, Wire,
};
use crate::engine::request::{Arg, Request, Script};
use crate::engine::turns::{FOR_OTHERS, Report};
use crate::engine::wakeups::Wake;
use crate::error::Result;
use crate::lua;
use crate::transport::{Command, Value};

/// The script where calls are about permits on record.
static WATCHED: LazyLock<Script> = LazyLock::new(|| Script::new(lua::WATCHED));

impl Permits {
    /// Whether a batch does nothing but look after those who have been told that it is their turn. Where nothing is free there is
    /// nothing to be seen to.
    fn only_looks(&self, batch: &Batch<Self>) -> bool {
        let tends = matches!(batch.calls.as_slice(), [only] if only.call == Call::Tend);
        tends && self.place.tells_nothing()
    }

    fn report(&self, batch: &Batch<Self>) -> Report {
        Report {
            strict: self.crowd.strict,
            ..Report::of(batch, |want| want.since)
        }
    }
}

impl Primitive for Permits {
    const KIND: &'static str = "semaphore";
    const WAIT: &'static str = "acquire";
    const OVERTAKES: bool = true;
    const ANNOUNCES: bool = true;
    const MOST_CALLS: usize = 4096;
    type Call = Call;
    type Reply = Reply;
    type Want = Want;
    type Grant = Grant;
    type Steps = Steps;

    fn name(call: &Call) -> &'static str {
        call.name()
    }

    fn details(call: &Call) -> String {
        match call {
            Call::Available | Call::Tend => String::new(),
            call => call.to_string(),
        }
    }

    fn wait_details(want: &Want) -> String {
        format!("acquire({})", want.permits)
    }

    fn is_owed(call: &Call) -> bool {
        call.is_owed()
    }

    fn outlasts_refusals(call: &Call) -> bool {
        let releases = matches!(call, Call::Release(_) | Call::ReleaseIfExists(_));
        releases || call.off_record().is_some()
    }

    fn add_up(earlier: &mut Call, call: &Call) -> bool {
        earlier.add_up(*call)
    }

    fn bars(call: &Call) -> bool {
        !call.is_owed() && !call.tries()
    }

    fn frees(&self, call: &Call) -> bool {
        call.adds() || *call == Call::Tend
    }

    fn takes(_: &Want) -> bool {
        true
    }

    fn fits(&self, batch: &mut Batch<Self>, call: &Call) -> bool {
        batch.steps.note_call(*call)
    }

    fn fits_ask(&self, batch: &mut Batch<Self>, ask: &Ask<Self>) -> bool {
        batch.steps.note_ask(ask)
    }

    /// Behind others, and with nothing free that is known of, there is no reason to ask yet: whatever wakes those in front
    /// looks for the newcomer, too.
    fn joins(&mut self, want: &Want, others: &Waiters<Self>, _: Instant) -> Look {
        self.crowd.joined(want);
        let nothing_free = i64::from(want.permits) > self.available || self.place.turns().is_held();
        if others.somebody_stays() && self.place.hears() && nothing_free {
            Look::No
        } else {
            Look::Now
        }
    }

    fn went(&mut self, want: &Want) {
        self.crowd.went(want);
    }

    fn serves(
        &mut self,
        call: &Call,
        waiters: &Waiters<Self>,
        now: Instant,
    ) -> Option<Serves<Self>> {
        let (permits, life) = match *call {
            Call::Release(permits) => (permits, None),
            Call::GiveBack(permits, life) => (permits, Some(life)),
            _ => return None,
        };
        let grants = self.hand_over(Grant { permits, life }, waiters, now);
        (!grants.is_empty()).then_some(Serves {
            reply: Reply::Number(1),
            grants,
        })
    }

    /// What was lost is not given back.
    fn settled(&mut self, batch: &Batch<Self>, call: &Call, _: Instant) -> Option<Result<Reply>> {
        let is_over = |(_, life)| self.record.live() != Some(life);
        let now = batch.departed.timer();
        if call.off_record().is_some_and(is_over) {
            return Some(Ok(Reply::Number(0)));
        }
        let tends_in_vain =
            *call == Call::Tend && !self.place.would_report(now, batch.first_is_known);
        tends_in_vain.then_some(Ok(Reply::Number(1)))
    }

    fn asks<'a>(
        &mut self,
        batch: &Batch<Self>,
        waiters: &'a Waiters<Self>,
    ) -> Vec<(Ticket, &'a Want)> {
        if waiters.somebody_stays() {
            self.looking_unprompted = std::mem::take(&mut self.unprompted);
        }
        self.crowd.asks(waiters, batch.departed.timer())
    }

    fn would_serve(&mut self, waiters: &Waiters<Self>, now: Instant) -> bool {
        match std::mem::take(&mut self.behind) {
            Behind::Nothing => false,
            Behind::Answer(fared, held) => {
                self.crowd.looks(fared, waiters, self.available, now) && !held
            }
            Behind::HandOver(permits, age, window) => {
                let is_old = |part| age >= window / part;
                let others = waiters.somebody_stays() && self.place.turns().others_listen();
                // What is known of others is asked for again before it does not allow to go on.
                let due = is_old(2) || is_old(20) && !self.first_may_keep(waiters, permits);
                others && due || self.crowd.somebody_fits(waiters, self.available, now)
            }
        }
    }

    fn departs(&mut self, batch: &Batch<Self>) {
        let mut calls = batch.calls.iter().map(|queued| queued.call);
        if calls.any(|call| call == Call::Tend) {
            self.place.looks();
        }
        self.place.departs(batch, self.report(batch));
        if batch.steps.are_recorded() && self.record.departs(&self.core, self.keys.name()) {
            self.news().recorded = true;
        }
    }

    fn undone(&mut self) {
        self.record.ends();
    }

    fn given_up(&mut self, call: &Call) -> bool {
        self.record.spend(*call)
    }

    fn unknown(&mut self, _: &Batch<Self>) -> Vec<Call> {
        self.record.ends();
        Vec::new()
    }

    fn short(&self, batch: &Batch<Self>, _: &Wire<'_>) -> Option<Short> {
        if batch.doubtful {
            return None;
        }
        if self.place.reports() {
            let question = || Request::Plain(Command::new("GET").key(self.keys.object()));
            return self.only_looks(batch).then(|| Short::Look(question()));
        }
        let permits = match batch.steps.lone_call()? {
            Call::Release(permits) => i64::from(permits),
            Call::TryAcquire(permits) => -i64::from(permits),
            _ => return None,
        };
        Some(Short::Lone(LoneCall {
            semaphore: Arc::clone(self.keys.object()),
            channel: Arc::clone(self.keys.channel()),
            permits,
        }))
    }

    fn request(&mut self, batch: &Batch<Self>, wire: &Wire<'_>) -> Request {
        let Some(entry) = &self.record.entry else {
            return wire.request(self, batch);
        };
        let holder = Arg::Text(Arc::clone(&entry.holder));
        let may_be_with_its_holder = !entry.opens && !self.place.reports();
        let script = &WATCHED;
        let mut request = Wire { script, ..*wire }.request(self, batch);
        // A lone call is on record there.
        if may_be_with_its_holder {
            request.ask_with_all_keys(holder);
        }
        request
    }

    fn keys(&self, keys: &Keys) -> Vec<Arc<str>> {
        let mut all: Vec<_> = self.place.keys().cloned().collect();
        if let Some((entry, record)) = self.record.entry.as_ref().zip(keys.holders()) {
            all.push(Arc::clone(&record.held));
            all.extend(entry.opens.then(|| Arc::clone(&record.alive)));
        }
        all
    }

    fn encode(&mut self, batch: &Batch<Self>, args: &mut Vec<Arg>) {
        let words = if self.place.reports() {
            ["acquire_in_turn", "*acquire_in_turn"]
        } else if self.crowd.strict {
            ["acquire_in_line", "*acquire_in_line"]
        } else {
            ["acquire", "*acquire"]
        };
        batch.steps.write(words, args);
        self.place.write(batch.departed.timer(), args);
        if let Some(entry) = &self.record.entry {
            if entry.opens {
                args.push(Arg::millis(entry.time_out));
                args.push(Arg::Text(Arc::clone(&entry.client_name)));
            }
            args.push(Arg::Text(Arc::clone(&entry.holder)));
            args.push(Arg::Number(entry.opens.into()));
        }
    }

    fn decode(
        &mut self,
        batch: &Batch<Self>,
        words: &mut SplitAsciiWhitespace<'_>,
    ) -> Option<Verdict<Self>> {
        let first = words.next()?;
        if batch.unanswered.is_none() {
            self.record.is_as_sent(batch.sent);
        }
        let life = self.record.ends().map(|entry| entry.life);
        let listeners = match first {
            "gone" => return Some(self.gone(batch, life)),
            listeners => u64::try_from(listeners.parse::<i64>().ok()?).ok(),
        };
        let available = words.next()?.parse().ok()?;
        let results = batch.steps.read(words)?;
        let held = match life {
            Some(life) => Some((life, words.next()?.strip_prefix("held:")?.parse().ok()?)),
            None => None,
        };
        let answer = Answer {
            listeners,
            available: Some(available),
            results,
            held,
            turn: words.next(),
        };
        self.arrive(batch, answer)
    }

    fn looked(&mut self, batch: &Batch<Self>, value: &Value) -> Option<Verdict<Self>> {
        let nothing = matches!(value, Value::BulkString(text) if text == b"0");
        nothing.then(|| self.nothing_is_free(batch))
    }

    fn decode_lone(&mut self, batch: &Batch<Self>, outcome: Outcome) -> Option<Verdict<Self>> {
        let answer = Answer {
            listeners: outcome.listeners,
            available: outcome.available,
            results: batch.steps.read_lone(outcome.done),
            held: None,
            turn: None,
        };
        self.arrive(batch, answer)
    }

    fn gives_back_blindly(call: &Call) -> bool {
        matches!(call, Call::Release(_) | Call::GiveBack(..))
    }

    fn give_back(grant: Grant) -> Option<Call> {
        Some(grant.release())
    }

    fn take_back(reply: Reply) -> Option<Call> {
        match reply {
            Reply::Granted(grant) => Some(grant.release()),
            Reply::Number(_) => None,
        }
    }

    fn rest(&mut self) -> Option<Call> {
        self.place.leaves().then_some(Call::Tend)
    }

    fn channels(&self, _: &str, _: &Waiters<Self>) -> Vec<String> {
        self.place.channels()
    }

    fn heard(&mut self, channel: &str, wake: &Wake, now: Instant) -> Look {
        let look = self.place.heard(channel, wake, now);
        if *channel == **self.keys.channel() {
            match wake {
                Wake::Look => self.unprompted |= look == Look::Now,
                Wake::ConfirmedAgain => self.unprompted = true,
                // Whoever has sent it sees to the others.
                Wake::Message(payload) if !payload.starts_with(FOR_OTHERS) && payload != b"0" => {
                    (self.unprompted, self.looking_unprompted) = (false, false);
                }
                _ => {}
            }
        }
        look
    }

    fn remembers(&self) -> Option<Instant> {
        self.place.remembers()
    }

    fn does_without(&mut self, channel: &str) -> bool {
        self.place.does_without(channel)
    }

    fn after(&mut self) -> Option<fn(&Arc<Line<Self>>)> {
        self.news.is_some().then_some(nudge::tell)
    }
}
