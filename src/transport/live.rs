//! One connection for commands, from its first command to its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::SetOnce;
use tokio::task::AbortHandle;

use super::confirm::Confirming;
use super::endpoint::Opened;
use super::failure::Reason;
use super::handshake::Server;
use super::role;
use super::wire::Wire;
use super::{Command, Endpoint, Failure, Refusal, Value};
use crate::clock::Moment;
use crate::outside;

/// How long it is from one question for the server's role to the next: less than the time between two slow checks of a waiter.
const ROLE_PERIOD: Duration = Duration::from_secs(4);

/// The end of a connection: it is not to be used any more.
#[derive(Debug)]
pub(super) struct End {
    pub(super) why: Refusal,
    /// Commands have been lost with it. An idle connection ends without a loss, and so does that to a server that has become a replica.
    pub(super) loss: bool,
}

/// A connection that can be used. It is closed when the last command that waits for it has gone.
pub(crate) struct Live {
    /// Where it leads.
    pub(super) server: Server,
    wire: Wire,
    /// Where replicas are waited for.
    confirming: Option<Arc<Confirming>>,
    end: Arc<SetOnce<End>>,
    /// A command was answered since the last check of the server's role.
    used: AtomicBool,
    /// The future that moves the bytes until the connection ends: an idle client notices the end by it.
    driver: AbortHandle,
}

impl Live {
    /// A connection to a server of `endpoint`.
    pub(super) fn start(opened: Opened, endpoint: &Endpoint) -> Arc<Self> {
        let Opened {
            wire,
            server,
            driver,
        } = opened;
        let confirming = |replicas| Arc::new(Confirming::new(wire.clone(), replicas));
        let confirming = endpoint.replicas.map(confirming);
        Arc::new_cyclic(|itself: &Weak<Self>| {
            let itself = Weak::clone(itself);
            let (endpoint, address) = (endpoint.clone(), server.address.clone());
            let driving = async move {
                tokio::select! {
                    biased;
                    () = driver => {}
                    // Calls under way get no answer; they are repeated at the new master.
                    () = endpoint.until_not(&address) => {}
                    () = watch_role(&itself), if endpoint.alone => {}
                }
                // Each command under way holds a reference. If there is one, its answer is lost, and its error gives the reason.
                let loss = itself.strong_count() > 1;
                if let Some(live) = itself.upgrade() {
                    let why = Refusal::unreachable("the server has closed the connection");
                    live.end(why, loss);
                }
            };
            Live {
                server,
                confirming,
                wire,
                end: Arc::default(),
                used: AtomicBool::new(false),
                driver: outside::spawn(driving).abort_handle(),
            }
        })
    }

    /// Its end, as soon as that is set.
    pub(super) fn ending(&self) -> &Arc<SetOnce<End>> {
        &self.end
    }

    /// It is not to be used any more. The first reason counts.
    fn end(&self, why: Refusal, loss: bool) {
        drop(self.end.set(End { why, loss }));
    }

    /// Ends the connection: what is under way stays unanswered.
    pub(super) fn cut(&self) {
        self.driver.abort();
    }

    /// Sends one command. `asking`: to a server that is taking over the key's slot, from the one that has sent us here.
    pub(super) async fn send(&self, command: &Command, asking: bool) -> Result<Value, Failure> {
        let sent = Moment::now();
        let answer = self.wire.send(command, asking).await;
        if answer.is_ok() {
            self.used.store(true, Ordering::Relaxed);
        }
        let answer = answer.and_then(redis::Value::extract_error);
        let answer = answer.map(Value::from).map_err(|error| {
            let failure = match Refusal::from_server(&error) {
                Some(refusal) => Failure::Refused(refusal.naming(|| command.names())),
                None => Failure::unanswered(error.to_string(), sent),
            };
            self.note(&failure);
            failure
        })?;
        match &self.confirming {
            Some(confirming) if command.is_confirmed() && !answer.is_of_no_change() => {
                Box::pin(self.confirm(confirming, answer, sent)).await
            }
            _ if command.is_confirmed() => Ok(answer.bare()),
            _ => Ok(answer),
        }
    }

    /// Returns an `answer` to what was `sent` then when replicas have what was done.
    async fn confirm(
        &self,
        confirming: &Arc<Confirming>,
        answer: Value,
        sent: Moment,
    ) -> Result<Value, Failure> {
        let wanted = confirming.replicas().count;
        let unconfirmed = |answer, detail| Failure::Unanswered {
            detail,
            sent,
            unconfirmed: Some(answer),
        };
        let error = match confirming.confirmed().await {
            Ok(count) if count >= i64::from(wanted) => return Ok(answer),
            Ok(count) => {
                let patience = confirming.replicas().patience;
                let detail =
                    format!("{count} of {wanted} replicas have confirmed it within {patience:?}");
                return Err(unconfirmed(answer, detail));
            }
            Err(error) => error,
        };
        match Refusal::from_server(&error) {
            // The user may not ask, or the server does not know the question.
            Some(refusal) if refusal.reason == Reason::Permission => {
                Err(unconfirmed(answer, refusal.detail))
            }
            // It may have become a replica meanwhile: what it has done may be lost.
            _ => {
                let failure = Failure::unanswered(format!("WAIT: {error}"), sent);
                self.note(&failure);
                Err(failure)
            }
        }
    }

    /// Asks the server for its role, if it has answered a command since the last time. `false`: the user may not ask.
    pub(super) async fn check_role(&self) -> bool {
        if !self.used.swap(false, Ordering::Relaxed) {
            return true;
        }
        let answer = self.wire.ask(&redis::cmd("ROLE")).await;
        match answer {
            Ok(answer) if role::is_replica(&answer) => {
                self.end(Refusal::no_master(&self.server.address), false);
                true
            }
            Ok(_) => true,
            Err(error) => Refusal::from_server(&error)
                .is_none_or(|refusal| refusal.reason != Reason::Permission),
        }
    }

    fn note(&self, failure: &Failure) {
        match failure {
            Failure::Unanswered { detail, .. } => self.end(Refusal::unreachable(detail), true),
            Failure::Refused(refusal) if refusal.reason == Reason::ReadOnly => {
                self.end(refusal.clone(), false);
            }
            Failure::Refused(_) | Failure::NoConnection(_) => {}
        }
    }
}

/// Ends `live` when its server has become a replica. A script that changes nothing is carried out by a replica, too, with its own data: a
/// client that only checks for permits would check the old master for ever.
async fn watch_role(live: &Weak<Live>) {
    loop {
        tokio::time::sleep(ROLE_PERIOD).await;
        let Some(live) = live.upgrade() else { break };
        if !live.check_role().await {
            break;
        }
    }
    std::future::pending().await
}

impl Drop for Live {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
