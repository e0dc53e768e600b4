//! One connection for commands, from its first command to its end.

use std::sync::{Arc, Weak};

use redis::RedisResult;
use redis::aio::MultiplexedConnection;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::address::Address;
use super::confirm::Confirming;
use super::endpoint::Opened;
use super::failure::Reason;
use super::role::{RoleCheck, is_replica};
use super::{Command, Failure, Refusal, Value};
use crate::clock::Moment;
use crate::outside;

/// Why a connection ended by itself.
pub(super) const CLOSED: &str = "the server has closed the connection";

/// Why a connection is not to be used any more.
#[derive(Debug)]
pub(super) enum End {
    /// A command was not answered on it.
    Failed(Refusal),
    /// It has ended with nothing under way, as an idle connection may.
    Idle,
    /// The server has become a replica: the same address may lead to another one.
    Moved(Refusal),
}

/// The task that replaces connections that have ended.
pub(super) trait Keeper: Send + Sync + 'static {
    /// The connection of this number is not to be used any more. Sent once or more.
    fn ended(&self, generation: u64, end: End);
}

/// A connection that can be used. It is closed when the last command that waits for it has gone.
pub(crate) struct Live {
    /// Tells one connection from its successor.
    pub(super) generation: u64,
    /// Where it leads.
    pub(super) address: Address,
    connection: MultiplexedConnection,
    /// Where replicas are waited for.
    confirming: Option<Arc<Confirming>>,
    keeper: Weak<dyn Keeper>,
    role: Arc<RoleCheck>,
    /// The future that moves the bytes until the connection ends: an idle client notices the end by it.
    driver: AbortHandle,
}

impl Live {
    /// The keeper learns of its end when the second returned value has been used, or dropped.
    pub(super) fn start<D>(
        generation: u64,
        opened: Opened<D>,
        keeper: &Weak<dyn Keeper>,
    ) -> (Arc<Self>, oneshot::Sender<()>)
    where
        D: Future<Output = ()> + Send + 'static,
    {
        let (kept, is_kept) = oneshot::channel();
        let live = Arc::new_cyclic(|itself: &Weak<Self>| {
            let (itself, told) = (itself.clone(), keeper.clone());
            let driving = async move {
                opened.driver.await;
                let _ = is_kept.await;
                // Commands under way hold it, too; they tell why.
                let end = match itself.strong_count() {
                    0 | 1 => End::Idle,
                    _ => End::Failed(Refusal::unreachable(CLOSED)),
                };
                if let Some(keeper) = told.upgrade() {
                    keeper.ended(generation, end);
                }
            };
            Live {
                generation,
                address: opened.address,
                confirming: opened
                    .replicas
                    .map(|replicas| Confirming::new(opened.connection.clone(), replicas)),
                connection: opened.connection,
                keeper: keeper.clone(),
                role: Arc::new(RoleCheck::new(opened.alone)),
                driver: outside::spawn(driving).abort_handle(),
            }
        });
        (live, kept)
    }

    /// Sends one command.
    pub(super) async fn send(&self, command: &Command) -> Result<Value, Failure> {
        self.exchange(command, false).await
    }

    /// The same to a server that is taking over the key's slot, from the one that has sent us here.
    pub(super) async fn send_asking(&self, command: &Command) -> Result<Value, Failure> {
        self.exchange(command, true).await
    }

    /// Ends the connection: what is under way stays unanswered.
    pub(super) fn cut(&self) {
        self.driver.abort();
    }

    async fn exchange(&self, command: &Command, asking: bool) -> Result<Value, Failure> {
        let sent = Moment::now();
        let answer = self.answered(command, asking).await?;
        match &self.confirming {
            Some(confirming) if command.is_confirmed() && !answer.is_of_no_change() => {
                Box::pin(self.confirm(confirming, answer, sent)).await
            }
            _ => Ok(answer),
        }
    }

    /// Returns an `answer` to what was `sent` then when replicas have what was done.
    async fn confirm(
        &self,
        confirming: &Confirming,
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
            Some(refusal) if matches!(refusal.reason, Reason::Permission) => {
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

    async fn answered(&self, command: &Command, asking: bool) -> Result<Value, Failure> {
        let sent = Moment::now();
        let connection = self.connection.clone();
        let answer = hand_over(connection, command, asking).await;
        if answer.is_ok() && self.role.is_due() {
            self.look_at_role();
        }
        let answer = answer.and_then(redis::Value::extract_error);
        answer.map(Value::from).map_err(|error| {
            let failure = match Refusal::from_server(&error) {
                Some(refusal) => Failure::Refused(refusal.naming(|| command.names())),
                None => Failure::unanswered(error.to_string(), sent),
            };
            self.note(&failure);
            failure
        })
    }

    /// In the background; a server that has become a replica is left.
    fn look_at_role(&self) {
        let mut connection = self.connection.clone();
        let (address, generation) = (self.address.clone(), self.generation);
        let (keeper, role) = (self.keeper.clone(), Arc::clone(&self.role));
        outside::spawn(async move {
            let answer: RedisResult<redis::Value> =
                redis::cmd("ROLE").query_async(&mut connection).await;
            match answer {
                Ok(answer) if is_replica(&answer) => {
                    if let Some(keeper) = keeper.upgrade() {
                        keeper.ended(generation, End::Moved(Refusal::no_master(&address)));
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    let refusal = Refusal::from_server(&error);
                    if refusal.is_some_and(|refusal| refusal.reason == Reason::Permission) {
                        role.forbid();
                    }
                }
            }
        });
    }

    fn note(&self, failure: &Failure) {
        let end = match failure {
            Failure::Unanswered { detail, .. } => End::Failed(Refusal::unreachable(detail)),
            Failure::NoConnection(refusal) => End::Failed(refusal.clone()),
            Failure::Refused(refusal) if refusal.reason == Reason::ReadOnly => {
                End::Moved(refusal.clone())
            }
            Failure::Refused(_) => return,
        };
        if let Some(keeper) = self.keeper.upgrade() {
            keeper.ended(self.generation, end);
        }
    }
}

async fn hand_over(
    mut connection: MultiplexedConnection,
    command: &Command,
    asking: bool,
) -> RedisResult<redis::Value> {
    if !asking {
        return connection.send_packed_command(command.packed()).await;
    }
    // The server lets the very next command in, so they must not be parted.
    let mut both = redis::pipe();
    both.cmd("ASKING").add_command(command.packed().clone());
    let answers = connection.send_packed_commands(&both, 1, 1).await?;
    Ok(answers.into_iter().next().unwrap_or(redis::Value::Nil))
}

impl Drop for Live {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
