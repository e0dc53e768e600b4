//! What is held is to last longer. That travels in a script of its own and in nobody's turn: it may be repeated as it is, and
//! nobody is to lose what he holds while another call of his line has no answer.

use std::sync::Arc;
use std::time::Duration;

use super::outcome::read_bits;
use super::scripts;
use super::settings::Settings;
use crate::clock::Moment;
use crate::engine::Core;
use crate::engine::command::Command;
use crate::engine::keys::Keys;
use crate::engine::once::unexpected_answer;
use crate::engine::request::{Arg, Request};
use crate::error::{Error, Result};
use crate::transport::Value;

/// One script call refreshes so many at the most: it bounds the script's time.
pub(super) const MOST_REFRESHED: usize = 256;

/// The operation, in errors and in the log.
const REFRESH: &str = "refresh";

/// What came of it.
pub(super) struct Refreshed {
    /// Which of them are held.
    pub(super) held: Vec<bool>,
    /// Those last until then at least; `None`: for ever.
    pub(super) until: Option<Moment>,
}

/// Whose holders they are.
#[derive(Clone, Copy)]
pub(super) struct Refreshing<'a> {
    core: &'a Arc<Core>,
    keys: &'a Keys,
    settings: &'a Settings,
}

impl<'a> Refreshing<'a> {
    pub(super) fn new(core: &'a Arc<Core>, keys: &'a Keys, settings: &'a Settings) -> Self {
        Refreshing {
            core,
            keys,
            settings,
        }
    }

    /// `ids` are to last for `lasts`, a caller says, who wants to know whether they do.
    pub(super) async fn for_caller(self, ids: &[Arc<str>], lasts: Duration) -> Result<Refreshed> {
        let until = self.until(lasts);
        let (command, answer) = Command::new(REFRESH, self.request(ids, lasts));
        let (core, keys) = (Arc::clone(self.core), self.keys.clone());
        self.core.runtime.spawn(async move {
            core.carry_out_command(&keys, command, |_| {}).await;
        });
        let Ok(answer) = answer.await else {
            let name = self.settings.name.clone();
            return Err(Error::ShutDown { name });
        };
        let held = self.read(ids, &answer?)?;
        Ok(Refreshed { held, until })
    }

    /// The same in the background, tried once.
    pub(super) async fn once(self, ids: &[Arc<str>], lasts: Duration) -> Result<Refreshed, String> {
        let until = self.until(lasts);
        let answer = self.core.try_once(&self.request(ids, lasts)).await;
        let answer = answer.map_err(|failure| failure.to_string())?;
        let held = self.read(ids, &answer).map_err(|error| error.to_string())?;
        Ok(Refreshed { held, until })
    }

    /// Until when those are sure to last that are refreshed by what is sent from now on.
    fn until(self, lasts: Duration) -> Option<Moment> {
        Moment::now().checked_add(self.settings.sure_lease(lasts)?)
    }

    fn request(self, ids: &[Arc<str>], lasts: Duration) -> Request {
        let settings = self.settings;
        let keys = self.keys.own().into_iter().chain(self.keys.parts());
        let mut args = vec![
            Arg::Number(settings.limit.into()),
            Arg::millis(lasts),
            Arg::Word(settings.flags()),
            Arg::millis(settings.timeout_of_all()),
        ];
        args.extend(ids.iter().map(|id| Arg::Text(Arc::clone(id))));
        Request::renewal(
            scripts::refreshing(settings.layout),
            keys.cloned().collect(),
            args,
        )
    }

    fn read(self, ids: &[Arc<str>], answer: &Value) -> Result<Vec<bool>> {
        let unexpected = || unexpected_answer(self.keys.name(), answer, None);
        let Value::BulkString(bytes) = answer else {
            return Err(unexpected());
        };
        let text = String::from_utf8_lossy(bytes);
        match read_bits(&text) {
            Some(held) if held.len() == ids.len() => Ok(held),
            None if text.starts_with("units ") => Err(self.settings.unreadable(&text)),
            _ => Err(unexpected()),
        }
    }
}
