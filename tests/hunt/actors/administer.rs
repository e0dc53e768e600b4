//! Calls that change an object once, and hold nothing.

use redisson_semaphore::{Client, Effect, Error};
use tokio::time::timeout;

use super::Actor;
use crate::admin::{COUNT, Ended, LATCH, SEMAPHORE};
use crate::plan::{Admin, AdminCall};

impl Actor {
    pub(super) async fn administer(&self, admin: Admin) {
        let Admin { what, patience } = admin;
        let client = self.client().await;
        let mut asked = Asked {
            actor: self,
            what,
            number: self.judge().admin_begins(self.host, what),
            ended: Ended::Unknown,
        };
        let asking = carry_out(&client, what);
        let answer = match patience {
            Some(patience) => match timeout(patience, asking).await {
                Ok(answer) => answer,
                Err(_) => return,
            },
            None => asking.await,
        };
        match answer {
            Ok(()) => asked.ended = Ended::Done,
            Err(error) => {
                if error.effect() == Effect::NotApplied {
                    asked.ended = Ended::Not;
                }
                self.judge().failed(self.host, &format!("{what:?}"), &error);
            }
        }
    }
}

async fn carry_out(client: &Client, what: AdminCall) -> Result<(), Error> {
    let semaphore = client.semaphore(SEMAPHORE);
    let latch = client.count_down_latch(LATCH);
    match what {
        AdminCall::Release(permits) => semaphore.release(permits).await,
        AdminCall::Close => latch.try_set_count(COUNT).await.map(drop),
        AdminCall::CountDown => latch.count_down().await.map(drop),
    }
}

/// A call under way. The judges learn of its end when it is dropped.
struct Asked<'a> {
    actor: &'a Actor,
    what: AdminCall,
    number: u64,
    ended: Ended,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let host = self.actor.host;
        (self.actor.judge()).admin_ends(host, self.number, self.what, self.ended);
    }
}
