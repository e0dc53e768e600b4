//! Commands that are sent once: they are not repeated, and do not wait for a connection.

use tokio::time::Instant;

use super::core::Core;
use crate::error::{Error, Result};
use crate::transport::{Command, Failure, Reason, Refusal, Value};

impl Core {
    /// Asks the server whether it is there.
    pub(crate) async fn ping(&self) -> Result<()> {
        match self.send_once(None, "PING", &[]).await {
            // It answers.
            Ok(_) | Err(Error::PermissionDenied { .. }) => Ok(()),
            Err(error) => Err(self.stats.failed(error)),
        }
    }

    /// Sends a command and hands the answer back; to that master of a cluster, if one is named.
    pub(crate) async fn ask(&self, master: Option<&str>, words: &[&str]) -> Result<Value> {
        let Some((name, rest)) = words.split_first() else {
            return Err(Error::Configuration {
                reason: "a command without a word".to_owned(),
            });
        };
        let answer = self.send_once(master, name, rest).await;
        answer.map_err(|error| self.stats.failed(error))
    }

    async fn send_once(&self, master: Option<&str>, name: &str, rest: &[&str]) -> Result<Value> {
        let command = rest
            .iter()
            .fold(Command::new(name), |command, word| command.arg(word));
        let began = Instant::now();
        let route = match master {
            Some(master) => self.connection.route_to(master),
            None => self.connection.route(None),
        };
        let refusal = match route {
            Err(refusal) => refusal,
            Ok(route) => match route.send(&command).await {
                Ok(value) => return Ok(value),
                Err(Failure::Refused(refusal) | Failure::NoConnection(refusal)) => refusal,
                Err(Failure::Unanswered { detail, .. }) => Refusal::unreachable(detail),
            },
        };
        let server = self.connection.server();
        let has_ended = self.is_finished() || self.runtime.has_ended();
        Err(match refusal.reason {
            reason if has_ended && reason != Reason::Permission => self.gone(server),
            _ => refusal.error(server, began.elapsed()),
        })
    }
}
