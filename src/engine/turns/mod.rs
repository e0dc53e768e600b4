//! Turns between processes, of locks and of semaphores whose permits have ids: first come, first served, to within a few milliseconds.
//!
//! # The rule
//!
//! The clients of a semaphore whose callers wait stand in one *line*, ordered by the arrival of each one's first caller.
//! *Walk the line from the earliest. What is free and does for a client's first caller is kept for it, and it is told, on
//! a channel of its own. If it does not do, the client stops the line for a while, or is passed. End where nothing is
//! left.* A caller takes what the walk leaves to its client. So a script reads the first few of the line, and costs by
//! what is free and not by who waits.
//!
//! Only callers elsewhere who came *clearly before* count: more than 5 ms and a tenth of a wait earlier.
//!
//! *Alone nobody stands in line.* Who asks while nobody else listens takes what there may have been of a line away, and begins none, unless it has
//! heard in the last 5 s from somebody who gave permits back: who always finds enough never waits, and would pass for ever whoever does.
//! Who finds itself alone in line calls the others, each time it asks: `new`. So does, ten times a second, whoever is served while others
//! listen and nobody stands in line: its callers may go on for ever by themselves. Whoever hears that from another while its callers
//! wait asks, even if it has just been told that it stands there, as that place may have been lost with the line before; and who begins to wait without having
//! told so, believing that nobody listens, asks at once whether that is still so.
//!
//! *Nothing is kept for ever.* Who was told and comes in its *patience*, 5 ms, takes what is kept for it, unless somebody may stop the line; who does not is taken out of it, and enters
//! again, at its true place, when it asks. Whoever has told it looks after that time, which where
//! nothing is free any more is the reading of a counter, and tells the next, until all have come or are out. As it may have seen that
//! the permit was taken, and look no more, so does whoever makes one free again, or hears that a stranger has, meanwhile. Who does
//! not listen any more is out at once. A client that comes late because it is far away, and not just once, is given the time it needed and half
//! as much again, 150 ms at the most, or 1 s once its first caller has waited for 5 s. What is kept for it lies idle meanwhile: therefore those that need more than 20 ms
//! take turns in being told, and rest for three times as long as they have made others wait.
//!
//! *A large request* stops the line for 5 ms, or a sixteenth of its wait, and is then passed for four times as long. So it
//! is served when it has waited some twenty times as long as permits are held. When it has waited for 5 s, it stops the line for
//! 5 s and a quarter of its wait, of a minute at the most, and is passed for as long as it has waited, or ten minutes; behind a minute of these another one may
//! stop it. So one request for more than there ever is costs the other clients less and less of their time, 20 s of ten minutes in the end, and several 20 s of eighty;
//! one that becomes possible late may wait as long again as it has until then. Who leaves while it stops it is passed for four times as long all the
//! same, by all others; behind one that has stopped it before another one may in 5 s.
//! Its own client's callers wait behind it, as it does not know how many there are. Who stops the line must have come since it began to, and is told again
//! after an eighth of the time for which it has, or 20 ms, or 250 ms at the most: who does not come then in its patience stops it no more. Whoever
//! sets something free meanwhile sees to that. Who could use what is free but
//! for that looks, too, within 40 ms for each who stands there, as those who would look sooner may be frozen. One stops it at a time, the earliest of those whom it does not do for, if only by a moment: a line that stands still costs some 50 to 150 scripts a second, and as many again for each 256 who stand in it.
//!
//! *No herd.* A message on the semaphore's own channel is sent for the sake of strangers only, and marked (`+8`, which
//! Java reads as 8): clients that take part pass it over. Any other message there is a stranger's release, and is answered by
//! the first three of the line, and by some three of all who wait, as one is enough to tell whose turn it is; so are permits that nobody in
//! line can use. Who leaves the line tells the one who is the third then that its turn comes `soon`. Whoever releases and knows of no line looks
//! whether somebody has come, as those three may be dead. By
//! themselves all together look some 50 times a second, each at most once in `safety_interval`.
//!
//! *Strangers*, listeners that do not take part (JVMs, clients without turns), have one account together. For each caller of
//! ours that is served they are owed as many permits as they are for one client in line, 8 at the most. So many are kept
//! free; what they have taken, by the counter and by their messages, is subtracted, below zero, too. If 5 ms bring
//! nothing the debt is forgotten, and grows half as fast from then on, and twice as fast again when they take some. The next
//! time they have twice as long, 40 ms at the most, and less again when they come sooner: a JVM on a busy machine, or far away, has its
//! share, and one that takes nothing costs no more.
//!
//! When they have had more than seven permits more than that, a release of ours is not announced to them, where it is kept for the
//! first in line and at least two stand there: so permits go from ours to ours, and who releases looks whether they were
//! taken. Where they have taken or released some just before,
//! they take what is free before the first comes: the first three are told, and it is for whoever stands in line and asks, which
//! costs a part of the order. For every sixteen permits of ours, or fewer, they are owed one then, as a JVM may have many threads. So
//! ours have a share beside a JVM whose threads take again at once, and it has one beside a crowd of ours.
//!
//! Who only tries (`try_acquire`) takes what is free; and so does a client's first call on an object, as it has not heard yet that anybody
//! waits: beside processes that live for one call each a large request may wait for ever.
//!
//! To all this a lock is a semaphore of one permit, of which its owner's unlock is the release.
//!
//! What a client knows of others it keeps for 5 s behind the last handle: another one may be made for each call.
//!
//! # What is stored
//!
//! Written by `lua/engine/line.lua` and, field `*`, `lua/semaphore/strangers.lua` where others listen, and only then. It vanishes within a minute
//! of its last use, the line with the last who stands in it. Times are microseconds since 1970 by the server's clock.
//!
//! | Where | What |
//! |---|---|
//! | zset `redisson_sc_leased_turns:{name}` (`redisson_sc_leased_turns::name` where the name has braces of its own; of locks `redisson_lock_turns:{name}`) | the line: a client's id; when its first caller came |
//! | hash `redisson_sc_leased_turns_notes:{name}`, field of a client's id | six numbers: how many permits its first caller wants; when it last asked; since when it has been told, or 0; its patience; since when, or from when on, it stops the line, or 0; its first caller's ticket |
//! | field `+` | when somebody who is far away may be told again |
//! | field `=` | when somebody may stop the line again |
//! | field `!` | of permits with ids: when the one that was given back last would have ended, in milliseconds; 0 once somebody has taken one |
//! | field `*` | the counter behind the last script; what strangers are owed; how fast that grows (1/32 to 1; less where permits are kept longer, or they are more than the clients); since when permits are kept for them, or 0; how many they have taken and not announced; for how long permits are kept for them |
//! | channel `redisson_sc_leased_turns:{name}:<client id>` | `turn`: this client is to come, `own` where it has found that itself; `soon`: it has come among the first three |
//! | channel `redisson_sc_leased_turns:{name}` | heard by all who take part, and counted; `new` and a client's id: that one stands there alone, or is served while nobody does, whoever waits is to come; `all`, it may not be kept: the same; `+` and a client's id: nobody in line can use what that one has set free, or has found free when it looked |
//!
//! What is not in this form counts as missing. Deleting all of it, or writing nonsense into it, costs the order of a few
//! callers, and a script of each client that waits; permits and answers do not depend on it: once-only execution has a key of its own
//! ([`once`](super::once)). A key of another type in the line's place, or the notes', is deleted by the next who waits. Where the server does not let it be written, or expire, there are no turns, and callers take
//! what is free; every ten seconds that is tried again. A script reads 256 of a line at the most; where what is free does for none of them, whoever
//! runs it goes on behind them in another script, at once, and takes nothing meanwhile that is due to those behind. The notes hold
//! 10,000 clients: the next one that comes deletes line and notes, and all come anew.
//!
//! | File | What it holds |
//! |---|---|
//! | `mod.rs` | what a client knows of the others, and what that allows it |
//! | `place.rs` | a client's place: which channels it hears, what a message means to it, what it tells with its batches |
//! | `report.rs` | what travels with a batch, and what comes back |

mod place;
mod report;
#[cfg(test)]
mod tests;

use std::time::Duration;

use tokio::time::Instant;

pub(crate) use place::{Place, Said, Standing};
pub(crate) use report::{Report, Verdict};

use super::primitive::Look;

/// How a message begins that is meant for JVMs, and for those who are not told in another way.
pub(crate) const FOR_OTHERS: &[u8] = b"+";

/// Who has heard from others who take turns is not alone for this long, though nobody else listens.
const COMPANY: Duration = Duration::from_secs(5);
/// What a client knows of others is believed for this long while its callers wait.
const FRESH: Duration = Duration::from_millis(20);
/// So long those have time to come at least who were told.
const PATIENCE: Duration = Duration::from_millis(5);
/// Those who have lost their places are called once in this time at the most.
const CALLS: Duration = Duration::from_millis(100);
/// Nobody looks sooner than this again.
const SHORTEST_PAUSE: Duration = Duration::from_micros(500);
/// A line that may not be kept is tried again after this.
const REFUSED: Duration = Duration::from_secs(10);
/// A message that is for everybody is answered by so many of those who wait, more or less.
const ANSWERS: f64 = 3.0;
/// Without any message so many of them look in a second, if each looked less often by itself.
const LOOKS: f64 = 50.0;
/// Who leaves a message to others looks within this time for each client that it knows of.
const LATE: Duration = Duration::from_millis(40);

/// Whose turn it is, as far as this process knows.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    off: bool,
    /// The server has refused the line: none is kept until then.
    refused_until: Option<Instant>,
    others: u64,
    /// When `others` was learned.
    learned: Option<Instant>,
    /// When this client has heard last from another one that takes turns.
    heard_from_others: Option<Instant>,
    /// This client stands in line.
    in_line: bool,
    /// How many clients do.
    clients: u32,
    /// When they were counted.
    counted: Option<Instant>,
    /// By then it may have missed that a line has begun, that its turn has come, or that something is free, and no later question has
    /// been answered.
    missed: Option<Instant>,
    /// This client is one of the first of them.
    near: bool,
    /// When it could call those last who have lost their places.
    called: Option<Instant>,
    /// How many messages of strangers were heard since then.
    heard: i64,
    /// When this client looks whether those came who were told.
    look_at: Option<Instant>,
    /// It may have told them, by an answer that was lost.
    may_have_told: bool,
    /// That look goes on behind so many who stand in line, for whom what is free does not do.
    look_from: u32,
    /// It was to look, behind so many, and the batch that does is under way.
    looking: Option<u32>,
    /// When the last of those must have come whom it has told.
    told_until: Option<Instant>,
    /// It does not hear any more when its turn has come, as the line might not be kept.
    has_left: bool,
    /// It looks later at a message that others were to answer; when that was heard.
    late_look: Option<Instant>,
}

impl Turns {
    /// From now on this client takes what it can get.
    pub(crate) fn switch_off(&mut self) {
        self.off = true;
        self.missed = None;
    }

    /// Whether turns are kept.
    pub(crate) fn are_kept(&self, now: Instant) -> bool {
        !self.off && self.refused_until.is_none_or(|until| until <= now)
    }

    /// Whether it hears when its turn has come; else each message is for this client, too.
    pub(crate) fn takes_part(&self, now: Instant) -> bool {
        self.are_kept(now) && !self.has_left
    }

    /// Whether it is to hear that from now on, where it has not until now.
    pub(crate) fn comes_back(&mut self, now: Instant) -> bool {
        self.are_kept(now) && std::mem::take(&mut self.has_left)
    }

    /// Whether the next batch carries a report. `answered`: the server has told some that they have to wait.
    pub(crate) fn wants_report(&self, now: Instant, answered: bool) -> bool {
        let reason = self.in_line || self.is_to_ask() || self.others > 0;
        self.are_kept(now) && (reason || self.may_have_told || answered && !self.knows(now))
    }

    /// Whether a question asked without a report at `now` leaves nothing open: nobody else listens, or turns are not kept.
    pub(crate) fn knows_enough(&self, now: Instant) -> bool {
        !self.are_kept(now) || self.knows(now)
    }

    /// Whether what it knows of others is believed.
    fn knows(&self, now: Instant) -> bool {
        let fresh = |at| now.saturating_duration_since(at) < FRESH;
        self.learned.is_some_and(fresh)
    }

    /// Whether the rule is to be kept.
    pub(crate) fn others_listen(&self) -> bool {
        !self.off && self.others > 0
    }

    /// Until when that counts where no caller is there.
    pub(crate) fn remembers(&self) -> Option<Instant> {
        self.learned
            .filter(|_| self.others_listen())
            .map(|learned| learned + COMPANY)
    }

    /// Somebody else who takes turns has sent a message.
    pub(crate) fn heard_from_others(&mut self, now: Instant) {
        self.heard_from_others = Some(now);
    }

    /// Whether there are others who take turns, even if nobody else listens: who never has to wait does not.
    pub(crate) fn has_company(&self, now: Instant) -> bool {
        let recent = |at| now.saturating_duration_since(at) < COMPANY;
        self.heard_from_others.is_some_and(recent)
    }

    /// Somebody who does not take part has released permits.
    pub(crate) fn heard(&mut self) {
        self.heard += 1;
    }

    /// Messages may have been missed.
    pub(crate) fn deaf(&mut self) {
        self.heard = 0;
    }

    /// Whether this client stands in line.
    pub(crate) fn is_in_line(&self) -> bool {
        self.in_line && !self.off
    }

    /// What is known of others may not be so any more.
    pub(crate) fn forget(&mut self) {
        self.learned = None;
    }

    /// Few stand before this client by now.
    pub(crate) fn comes_near(&mut self) {
        self.near = true;
    }

    /// Somebody has set free what nobody in line can use: some of all who wait are to look.
    pub(crate) fn left_over(&mut self, asks: bool, now: Instant) -> Look {
        if self.in_line && !self.answers(now) {
            return self.looks_late(now);
        }
        self.asks_once_more(asks, now)
    }

    /// It has begun to hear when its turn has come, and may have been told so before; or it has just heard that something is free, or that
    /// another client finds itself alone in line. It asks once more: what is on its way may be older, whatever it says of its place.
    /// `asks`: that is a question whose answer says so.
    pub(crate) fn asks_once_more(&mut self, asks: bool, now: Instant) -> Look {
        // Where no line is kept, no answer would ever count for it.
        self.missed = self.are_kept(now).then_some(now);
        if asks { Look::No } else { Look::Now }
    }

    /// A message is for everybody: some answer it at once.
    pub(crate) fn message(&mut self, now: Instant) -> Look {
        if self.answers(now) {
            return Look::Now;
        }
        self.looks_late(now)
    }

    /// Whether it is still to ask for one of these reasons.
    pub(crate) fn is_to_ask(&self) -> bool {
        self.missed.is_some()
    }

    /// Completes what a batch reports; `own` is [`Report::own`].
    pub(crate) fn report(&mut self, of_waiters: Report, own: u64, now: Instant) -> Report {
        let stood = self.in_line;
        let calls = self.calls(now);
        // It leaves with it; if that fails, it is not tried again: who is told in vain is out.
        self.in_line &= of_waiters.waiting > 0;
        Report {
            own,
            looks: self.looking.is_some(),
            stood,
            calls,
            heard: std::mem::take(&mut self.heard),
            from: self.looking.unwrap_or(0),
            ..of_waiters
        }
    }

    /// Whether it may call those who have lost their places, which costs a message each time.
    fn calls(&mut self, now: Instant) -> bool {
        let recent = |at| now.saturating_duration_since(at) < CALLS;
        let calls = self.others > 0 && !self.called.is_some_and(recent);
        if calls {
            self.called = Some(now);
        }
        calls
    }

    /// Whether it is to be looked by `now` whether others came: no answer has said that they did. It is asked once.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let due = self.look_at.take_if(|at| *at <= now).is_some();
        if due {
            self.looking = Some(std::mem::take(&mut self.look_from));
        }
        due
    }

    /// Whether this client is one of the few who look when any of them may.
    fn answers(&self, now: Instant) -> bool {
        let by_chance = || fastrand::f64() * f64::from(self.clients) < ANSWERS;
        !self.takes_part(now) || self.near || by_chance()
    }

    /// When this client looks at a message that others are to answer, in case that they are not there any more; unless it
    /// does so anyway. All together some fifty times a second.
    fn looks_late(&mut self, now: Instant) -> Look {
        if self.late_look.is_some() {
            return Look::No;
        }
        self.late_look = Some(now);
        Look::After(self.late(now))
    }

    /// Of those who were counted fewer may be left with each second.
    fn late(&self, now: Instant) -> Duration {
        let left = 1.0 / (1.0 + self.age_of_count(now).as_secs_f64());
        (LATE * self.clients).mul_f64(fastrand::f64() * left)
    }

    fn age_of_count(&self, now: Instant) -> Duration {
        let counted = self.counted.unwrap_or(now);
        now.saturating_duration_since(counted)
    }

    /// By how much it comes later than others with what any of them may do; a few come at once.
    pub(crate) fn delay(&self, now: Instant) -> Duration {
        if self.answers(now) {
            return Duration::ZERO;
        }
        self.late(now)
    }

    /// Others may have been told, by an answer that was lost: it is looked whether they came.
    pub(crate) fn may_have_told(&mut self, now: Instant) {
        self.may_have_told = true;
        self.look_at.get_or_insert(now + PATIENCE);
    }

    /// When this client looks whether those came who were told.
    pub(crate) fn look_at(&self) -> Option<Instant> {
        self.look_at
    }

    /// This client looks, whatever others do.
    pub(crate) fn looks_now(&mut self) {
        self.late_look = None;
    }

    /// Whether this client looks by itself, once in `interval`. It does where it has not asked for three of them: the others may
    /// have gone.
    pub(crate) fn looks(&self, interval: Duration, now: Instant) -> bool {
        let by_chance = fastrand::f64() * f64::from(self.clients) < LOOKS * interval.as_secs_f64();
        by_chance || self.age_of_count(now) > 3 * interval
    }

    /// How many other listeners a batch has seen.
    pub(crate) fn seen(&mut self, others: u64, now: Instant) {
        self.others = others;
        self.learned = Some(now);
    }

    /// The server's answer to a batch with a report, sent at `sent`, in which callers who wait have `asked` or not,
    /// and that leaves some of those `waiting` who were reported, or none. Says when it is to be looked, if that is new.
    pub(crate) fn answered(
        &mut self,
        verdict: Option<Verdict>,
        asked: bool,
        waiting: bool,
        sent: Instant,
        now: Instant,
    ) -> Option<Instant> {
        self.in_line = verdict.is_some() && waiting && (asked || self.in_line);
        self.missed
            .take_if(|until| !waiting || asked && *until <= sent);
        if asked {
            self.near = false;
            // The answer may be older than the message, and the others may not be there any more.
            if let Some(heard) = self.late_look.take_if(|heard| *heard > sent) {
                self.missed = Some(heard).filter(|_| waiting);
            }
            self.late_look = None;
        }
        // Nobody else listens.
        if verdict.is_none() {
            (self.may_have_told, self.look_from) = (false, 0);
        }
        let seen = match verdict? {
            Verdict::Off => {
                self.refused_until = Some(now + REFUSED);
                self.missed = None;
                self.may_have_told = false;
                self.in_line = false;
                self.has_left = true;
                self.look_at = None;
                self.looking = None;
                self.look_from = 0;
                self.told_until = None;
                return None;
            }
            Verdict::Seen(seen) => seen,
        };
        self.clients = seen.clients;
        self.counted = Some(now);
        self.near |= seen.near;
        let looked = self.looking.take();
        if seen.from > 0 {
            self.look_from = seen.from;
        }
        let Some(pause) = seen.pause else {
            self.may_have_told = false;
            // It has not seen those in front of where it went on.
            self.told_until
                .take_if(|until| looked.is_none_or(|from| from == 0) || *until <= now);
            if self.look_from == 0 {
                self.look_at = self.told_until;
            }
            return None;
        };
        self.told_until = self.told_until.max(seen.told.map(|time| now + time));
        // One of those it has told may have come later than another, or have more time.
        let soonest = now + SHORTEST_PAUSE;
        let watches = looked.is_some() && seen.from == 0;
        let goes_on = self.told_until.filter(|until| watches && *until > soonest);
        let due = goes_on.unwrap_or(now + pause.max(SHORTEST_PAUSE));
        // Whoever has told them does, and a few of those who wait, as that one may be gone. The others do later, if there is something
        // for them as soon as nobody is waited for: those few may be gone, too.
        let looks = seen.told.is_some()
            || goes_on.is_some()
            || self.may_have_told
            || waiting && self.answers(now);
        let due = match looks {
            true => due,
            false if waiting && seen.held => due + self.late(now),
            false => return None,
        };
        if self.look_at.is_some_and(|at| at <= due) {
            return None;
        }
        Some(*self.look_at.insert(due))
    }
}
