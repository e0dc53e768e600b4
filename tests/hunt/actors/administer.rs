//! Calls that change a semaphore and hold nothing.

use redisson_semaphore::Effect;
use tokio::time::{Instant, timeout};

use super::Actor;
use crate::admin::{self, Ended};
use crate::plan::{Admin, AdminCall};

impl Actor {
    pub(super) async fn administer(&self, admin: Admin, latch: bool) {
        let _alone = self.administers.lock().await;
        let client = self.client().await;
        let semaphore = client.semaphore(admin::KEY);
        let party = client.count_down_latch(admin::LATCH);
        let number = {
            let mut judge = self.judge();
            judge.note(format_args!("c{} asks for {:?}", self.host, admin.what));
            judge.ledger(latch).begins(self.host, admin.what)
        };
        let asked = Asked {
            actor: self,
            latch,
            number,
            since: Instant::now(),
            is_owed: admin.what.is_owed(),
        };
        let asking = async {
            match admin.what {
                AdminCall::Set(count) if latch => party.try_set_count(count).await.map(drop),
                AdminCall::Delete if latch => party.delete().await.map(drop),
                AdminCall::CountDown => party.count_down().await,
                AdminCall::Set(permits) => semaphore.try_set_permits(permits).await.map(drop),
                AdminCall::Add(delta) => semaphore.add_permits(delta).await,
                AdminCall::Drain => semaphore.drain_permits().await.map(drop),
                AdminCall::Release(permits) => semaphore.release(permits).await,
                AdminCall::ReleaseIfExists(permits) => {
                    semaphore.release_if_exists(permits).await.map(drop)
                }
                AdminCall::Delete => semaphore.delete().await.map(drop),
                AdminCall::Look => semaphore.available_permits().await.map(drop),
            }
        };
        let answer = match admin.patience {
            Some(patience) => match timeout(patience, asking).await {
                Ok(answer) => answer,
                // Told when it is dropped.
                Err(_) => return,
            },
            None => asking.await,
        };
        match answer {
            Ok(()) => asked.ends(Ended::Done),
            Err(error) => {
                self.judge()
                    .failed(self.host, &format!("{:?}", admin.what), &error);
                asked.ends(match error.effect() {
                    Effect::None => Ended::Not,
                    _ => Ended::Unknown,
                });
            }
        }
    }
}

/// A call that changes something, until it has ended.
struct Asked<'a> {
    actor: &'a Actor,
    latch: bool,
    number: u64,
    since: Instant,
    /// It is carried out later, though its caller has gone.
    is_owed: bool,
}

impl Asked<'_> {
    fn ends(self, ended: Ended) {
        self.actor
            .judge()
            .admin_ends(self.latch, self.actor.host, self.number, ended);
        std::mem::forget(self);
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let actor = self.actor;
        let mut judge = actor.judge();
        // What was never sent is not wanted any more.
        let cut_off = judge.cut_off_since(actor.host);
        let never_sent = cut_off.is_some_and(|from| from <= self.since);
        let ended = if never_sent && !self.is_owed {
            Ended::Not
        } else {
            Ended::Unknown
        };
        judge.admin_ends(self.latch, actor.host, self.number, ended);
    }
}
