//! How a batch is written for `lua/recipes/batch.lua`.

use std::sync::Arc;
use std::time::Duration;

use super::arrivals::Arrivals;
use super::calls::Call;
use super::ids::Ids;
use super::recipe::Recipe;
use super::settings::Settings;
use crate::engine::primitive::{Ask, Batch};
use crate::engine::request::Arg;

/// What is written besides the batch.
pub(super) struct Steps<'a> {
    pub(super) settings: &'a Settings,
    pub(super) ids: &'a Ids,
    pub(super) arrivals: &'a Arrivals,
    /// From which slot on it is found out when one expires.
    pub(super) ends_from: u32,
    /// For how long the others wait for this client when it has been told that it is its turn.
    pub(super) patience: Duration,
}

impl Steps<'_> {
    pub(super) fn write(&self, batch: &Batch<Recipe>, args: &mut Vec<Arg>) {
        let settings = self.settings;
        let parts = Parts::of(batch);
        let from = Arg::Number(self.ends_from.into());
        let (what, from) = match batch.calls.first().map(|queued| &queued.call) {
            Some(Call::List(from)) => ("list", Arg::Text(Arc::clone(from))),
            Some(Call::Clear) => ("clear", from),
            _ if parts.tends => ("tend", from),
            _ => ("batch", from),
        };
        args.extend([
            Arg::Word(what),
            Arg::Number(settings.limit.into()),
            Arg::millis(settings.timeout_of_all()),
            Arg::Word(settings.flags()),
            match settings.lock {
                Some(_) => Arg::millis(settings.lock_timeout),
                None => Arg::Number(0),
            },
            Arg::millis(line_life(settings)),
            Arg::number(batch.waiting - parts.tries.len()),
            Arg::Text(self.ids.prefix()),
            Arg::number(parts.releases.len()),
            Arg::number(parts.tries.len()),
            from,
            Arg::micros(self.patience),
        ]);
        let ids = parts.releases.iter();
        args.extend(ids.map(|id| Arg::Text(Arc::clone(id))));
        if settings.layout.has_own_times() {
            let tries = parts.tries.iter().map(|ask| ask.want.lasts);
            args.extend(tries.map(Arg::millis));
        }
        // Neighbours who came together, for permits that last equally long.
        let of = |ask: &&Ask<Recipe>| (self.arrivals.of(ask.ticket), ask.want.lasts);
        for run in parts.waits.chunk_by(|one, two| of(one) == of(two)) {
            let (came, lasts) = of(&run[0]);
            args.extend([
                Arg::Number(came.unwrap_or_default().cast_signed()),
                Arg::number(run.len()),
                Arg::millis(lasts),
            ]);
        }
    }
}

/// A batch in the order of its script.
pub(super) struct Parts<'a> {
    pub(super) releases: Vec<&'a Arc<str>>,
    pub(super) waits: Vec<&'a Ask<Recipe>>,
    pub(super) tries: Vec<&'a Ask<Recipe>>,
    /// The line of all clients is seen to.
    tends: bool,
}

impl<'a> Parts<'a> {
    pub(super) fn of(batch: &'a Batch<Recipe>) -> Self {
        let (mut releases, mut tends) = (Vec::new(), false);
        for queued in &batch.calls {
            match &queued.call {
                Call::Release(id) => releases.push(id),
                Call::Tend => tends = true,
                Call::List(_) | Call::Clear => {}
            }
        }
        let (tries, waits) = batch.asks.iter().partition(|ask| ask.want.tries);
        Parts {
            releases,
            waits,
            tries,
            tends,
        }
    }
}

/// How long the line is kept when nobody looks: for several looks of whoever looks least.
fn line_life(settings: &Settings) -> Duration {
    let life = settings.check_interval.saturating_mul(3);
    life.clamp(Duration::from_secs(60), Duration::from_secs(24 * 60 * 60))
}
