//! Clients: when something is wrong with them, how they end, and which errors they may report.

use std::collections::BTreeMap;
use std::time::Duration;

use redisson_semaphore::{Effect, Error};
use tokio::time::Instant;

use super::{Host, Judge};

/// Everything that is known of a client.
#[derive(Default)]
pub(super) struct Client {
    /// The client died, or its shutdown failed: nothing is known for certain.
    pub(super) excused: bool,
    /// Its shutdown has begun.
    pub(super) closing: bool,
    /// From when until when the client can send nothing.
    pub(super) cut_off: Option<(Instant, Instant)>,
    /// When the client last dialled.
    dialled: Option<Instant>,
    pub(super) ended: bool,
    pub(super) ended_at: Option<Instant>,
    /// Until when locks may be held for calls of unknown outcome.
    pub(super) locks_in_doubt: BTreeMap<usize, Instant>,
    /// Its shutdown has succeeded: everything that guards let go has been released.
    settled: bool,
    /// Nothing was wrong when its shutdown began.
    closes_well: bool,
    /// Since when nothing is wrong with the client and its connections.
    pub(super) well_since: Option<Instant>,
    /// How many permits of each semaphore callers let go after the client's shutdown.
    pub(super) stranded: BTreeMap<usize, i64>,
}

/// A client repeats calls of unknown outcome for longer than this.
const REPEATED: Duration = Duration::from_secs(240);

impl Judge {
    pub fn starts(&mut self, host: Host) {
        self.trace.note(format_args!("c{host} starts"));
        self.unwell(host, Instant::now());
    }

    /// Notes the id of a client. The names of its lock owners begin with it.
    pub fn is_called(&mut self, host: Host, id: &str) {
        self.ids.insert(id.to_owned(), host);
    }

    /// Whether a key contains an id of this client.
    pub fn is_id_in(&self, host: Host, key: &str) -> bool {
        let mut ids = self.ids.iter();
        ids.any(|(id, of)| *of == host && key.contains(id.as_str()))
    }

    /// Returns the client of a lock owner.
    pub fn client_of(&self, owner: &str) -> Option<Host> {
        let (id, _) = owner.split_once(':')?;
        self.client_called(id)
    }

    pub fn client_called(&self, id: &str) -> Option<Host> {
        self.ids.get(id).copied()
    }

    /// A client has used a master that was replaced without knowing it. The client is at fault if nothing has been wrong with it lately.
    pub fn strays(&mut self, host: Host) {
        let well = self.clients.get(&host).and_then(|client| client.well_since);
        if !self.has_ended(host) && well.is_some_and(|well| well < Instant::now()) {
            let detail = format!("c{host} goes on with a master that has been replaced");
            self.accuse("strays", detail);
        }
        // Grants of that master are on no valid record. The client learns that before its leases end.
        self.robs_records();
        self.latch_may_be_open();
    }

    /// Something is wrong with the client or its connections, until then.
    pub fn unwell(&mut self, host: Host, until: Instant) {
        self.settle_doubts(host);
        let client = self.clients.entry(host).or_default();
        client.well_since = client.well_since.max(Some(until));
    }

    /// Nothing that the client sends arrives until then.
    pub fn cuts_off(&mut self, host: Host, until: Instant) {
        let now = Instant::now();
        let client = self.clients.entry(host).or_default();
        let still = client.cut_off.filter(|(_, until)| now < *until);
        let (from, before) = still.unwrap_or((now, until));
        client.cut_off = Some((from, until.max(before)));
        if self.gives_up(host) {
            self.loses_what_is_under_way(host);
        }
    }

    /// Whether the client is cut off for longer than it repeats the calls that were under way.
    pub(super) fn gives_up(&self, host: Host) -> bool {
        let cut_off = self.clients.get(&host).and_then(|client| client.cut_off);
        cut_off.is_some_and(|(from, until)| until - from > REPEATED)
    }

    /// The same for a call that begins now: it is sent on a connection of whose end the client does not know, as it has not dialled since.
    pub(super) fn gives_up_what_begins(&self, host: Host) -> bool {
        let Some(client) = self.clients.get(&host) else {
            return false;
        };
        client.cut_off.is_some_and(|(from, until)| {
            let left = until.saturating_duration_since(Instant::now());
            left > REPEATED && client.dialled < Some(from)
        })
    }

    /// The client makes a connection.
    pub fn dials(&mut self, host: Host) {
        self.clients.entry(host).or_default().dialled = Some(Instant::now());
    }

    pub fn has_healed(&self) -> bool {
        self.healed.is_some()
    }

    /// All clients can send again.
    pub fn heals(&mut self) {
        self.healed = Some(Instant::now());
        for client in self.clients.values_mut() {
            client.cut_off = None;
        }
    }

    /// The client's process is gone.
    pub fn dies(&mut self, host: Host) {
        self.trace.note(format_args!("c{host} dies"));
        let client = self.clients.entry(host).or_default();
        (client.excused, client.ended) = (true, true);
        client.ended_at = Some(Instant::now());
        self.locks.retain(|_, held| held.holder.host != host);
        self.forgets_permits(host);
        self.forgets_records(host);
    }

    /// The client's process stops for good.
    pub fn freezes(&mut self, host: Host) {
        self.dies(host);
        self.waiting
            .retain(|_, waiting| waiting.wanted.host != host);
        for number in 0..self.ledgers.len() {
            self.look_at(number);
        }
    }

    /// The client's shutdown begins.
    pub fn shuts_down(&mut self, host: Host) {
        self.trace.note(format_args!("c{host} shuts down"));
        self.something_happens();
        let client = self.clients.entry(host).or_default();
        client.closing = true;
        client.closes_well = client.well_since.is_some_and(|well| well < Instant::now());
    }

    /// The client has been shut down. `in_haste`: its time was limited.
    pub fn has_shut_down(&mut self, host: Host, result: &Result<(), Error>, in_haste: bool) {
        self.trace
            .note(format_args!("c{host} has shut down: {result:?}"));
        let client = self.clients.entry(host).or_default();
        client.ended = true;
        client.ended_at = Some(Instant::now());
        client.excused |= result.is_err();
        let still_well = client.well_since.is_some_and(|well| well < Instant::now());
        let well = client.closes_well && still_well;
        client.settled = result.is_ok();
        if well && result.is_err() && !in_haste {
            self.accuse("ends", format!("the shutdown of c{host}: {result:?}"));
        }
        self.settle(host, well);
    }

    /// Whether nothing of the client is left, except permits that callers keep without a guard.
    pub(super) fn is_settled(&self, host: Host) -> bool {
        self.clients.get(&host).is_some_and(|client| client.settled)
    }

    pub fn has_ended(&self, host: Host) -> bool {
        self.clients.get(&host).is_some_and(|client| client.ended)
    }

    pub(super) fn closing(&self, host: Host) -> bool {
        self.clients
            .get(&host)
            .is_some_and(|client| client.closing || client.ended)
    }

    /// A call has failed. Judges its error.
    pub fn failed(&mut self, host: Host, call: &str, error: &Error) {
        let unknown = error.effect() == Effect::Unknown;
        self.trace.note(format_args!(
            "c{host} {call} failed ({}): {error}",
            if unknown { "unknown" } else { "none" }
        ));
        let expected = matches!(
            error,
            Error::OutcomeUnknown { .. }
                | Error::Unavailable { .. }
                | Error::RefusedForNow { .. }
                | Error::ShutDown { .. }
        ) || self.rules.meddled;
        let told = matches!(error, Error::ShutDown { .. }) && !self.closing(host);
        let early = match error {
            // A client knows that too few replicas have confirmed as soon as it has asked them.
            Error::Unavailable { waited, detail, .. } => {
                *waited < self.rules.gives_up_after && !detail.contains("too few replicas")
            }
            // The same here. Besides, a script ends in the middle where it deletes a key whose slot is moving.
            Error::OutcomeUnknown { waited, detail, .. } => {
                *waited < self.rules.gives_up_after
                    && !self.rules.replicated
                    && !detail.contains("non local key")
            }
            _ => false,
        };
        // A call that is refused because an earlier outcome is unknown reports for how long that has been so.
        let early = early && call != "connect" && !self.closing(host) && !self.rules.meddled;
        if !expected || told || early {
            self.accuse("errors", format!("c{host}: {call}: {error:?}"));
        }
    }
}
