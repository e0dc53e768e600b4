//! Calls that hold nothing: they change objects, or take what others have.

use redisson_semaphore::{Client, Effect, Error};
use tokio::time::{Instant, timeout};

use super::Actor;
use super::recipes::{self, Handle};
use crate::admin::Ended;
use crate::judge::Object;
use crate::plan::{Admin, AdminCall, Call, Subject};

impl Actor {
    pub(super) async fn administer(&self, admin: Admin) {
        let Admin {
            subject,
            what,
            patience,
        } = admin;
        // Count-downs travel together.
        let _alone = match what {
            AdminCall::CountDown => None,
            _ => Some(self.administers.lock().await),
        };
        let client = self.client().await;
        let number = self.judge().admin_begins(subject, self.host, what);
        let asked = Asked {
            actor: self,
            subject,
            number,
            since: Instant::now(),
            is_owed: what.is_owed(),
        };
        let asking = async {
            match subject {
                Subject::Semaphore => of_a_semaphore(&client, what).await,
                Subject::Latch => of_a_latch(&client, what).await,
                Subject::Expirable => self.of_permits_with_ids(&client, what).await,
            }
        };
        let answer = match patience {
            Some(patience) => match timeout(patience, asking).await {
                Ok(answer) => answer,
                // Told when it is dropped.
                Err(_) => return,
            },
            None => asking.await,
        };
        match answer {
            Ok(ended) => asked.ends(ended),
            Err(Error::NoSuchObject { .. }) => asked.ends(Ended::Missing),
            Err(error) => {
                self.judge().failed(self.host, &format!("{what:?}"), &error);
                asked.ends(match error.effect() {
                    Effect::NotApplied => Ended::Not,
                    _ => Ended::Unknown,
                });
            }
        }
    }
}

async fn of_a_semaphore(client: &Client, what: AdminCall) -> Result<Ended, Error> {
    let subject = Subject::Semaphore;
    let semaphore = client.semaphore(subject.key());
    let aside = subject.aside();
    let changed = match what {
        AdminCall::Set(permits) => semaphore.try_set_permits(permits).await?,
        AdminCall::SetFor(permits, life) => semaphore.try_set_permits_for(permits, life).await?,
        AdminCall::ReleaseIfExists(permits) => semaphore.release_if_exists(permits).await?,
        AdminCall::Delete => semaphore.delete().await?,
        AdminCall::Expire(life) => semaphore.expire(life).await?,
        AdminCall::ClearExpire => semaphore.clear_expire().await?,
        AdminCall::RenameNx => semaphore.object().rename_nx(aside).await?.is_some(),
        AdminCall::Copy(true) => semaphore.object().copy_and_replace(aside).await?,
        AdminCall::Copy(false) => semaphore.object().copy(aside).await?,
        AdminCall::Look => return semaphore.available_permits().await.map(Ended::Read),
        AdminCall::Rename => return semaphore.object().rename(aside).await.map(done),
        AdminCall::RenameBack => {
            let aside = client.semaphore(aside);
            return aside.object().rename(subject.key()).await.map(done);
        }
        AdminCall::Add(delta) => return semaphore.add_permits(delta).await.map(done),
        AdminCall::Drain => return semaphore.drain_permits().await.map(done),
        AdminCall::Release(permits) => return semaphore.release(permits).await.map(done),
        AdminCall::Put(_) | AdminCall::Take | AdminCall::Give | AdminCall::CountDown => {
            unreachable!("not of a semaphore")
        }
    };
    Ok(Ended::Changed(changed))
}

async fn of_a_latch(client: &Client, what: AdminCall) -> Result<Ended, Error> {
    let latch = client.count_down_latch(Subject::Latch.key());
    let aside = Subject::Latch.aside();
    let changed = match what {
        AdminCall::Set(count) => latch.try_set_count(count).await?,
        AdminCall::Delete => latch.delete().await?,
        AdminCall::CountDown => return latch.count_down().await.map(done),
        AdminCall::Rename => return latch.object().rename(aside).await.map(done),
        AdminCall::RenameBack => {
            let aside = client.count_down_latch(aside);
            return aside.object().rename(Subject::Latch.key()).await.map(done);
        }
        AdminCall::Copy(true) => latch.object().copy_and_replace(aside).await?,
        AdminCall::Copy(false) => latch.object().copy(aside).await?,
        _ => unreachable!("not of a latch"),
    };
    Ok(Ended::Changed(changed))
}

fn done<T>(_: T) -> Ended {
    Ended::Done
}

impl Actor {
    async fn of_permits_with_ids(&self, client: &Client, what: AdminCall) -> Result<Ended, Error> {
        let subject = Subject::Expirable;
        let semaphore = client.permit_expirable_semaphore(subject.key());
        let aside = subject.aside();
        let changed = match what {
            AdminCall::Set(permits) => semaphore.try_set_permits(permits).await?,
            AdminCall::Delete => semaphore.delete().await?,
            AdminCall::Expire(life) => semaphore.expire(life).await?,
            AdminCall::ClearExpire => semaphore.clear_expire().await?,
            AdminCall::RenameNx => semaphore.object().rename_nx(aside).await?.is_some(),
            AdminCall::Look => return semaphore.available_permits().await.map(Ended::Read),
            AdminCall::Rename => return semaphore.object().rename(aside).await.map(done),
            AdminCall::RenameBack => {
                let aside = client.permit_expirable_semaphore(aside);
                return aside.object().rename(subject.key()).await.map(done);
            }
            AdminCall::Put(permits) => return semaphore.set_permits(permits).await.map(done),
            AdminCall::Add(delta) => return semaphore.add_permits(delta).await.map(done),
            AdminCall::Take => {
                let taken = semaphore.try_acquire().await?;
                let id = taken.map(|held| held.id().to_owned());
                let taken = id.is_some();
                self.ids.lock().unwrap().extend(id);
                taken
            }
            AdminCall::Give => {
                let id = self.ids.lock().unwrap().pop();
                match id {
                    Some(id) => semaphore.try_release(&id).await?,
                    None => false,
                }
            }
            _ => unreachable!("not of permits with ids"),
        };
        Ok(Ended::Changed(changed))
    }

    /// Takes from whoever has some, as far as there is a call for that; the judges see it carried out.
    pub(super) async fn clears(&self, object: Object) {
        let client = self.client().await;
        self.judge()
            .note(format_args!("c{} clears {}", self.host, object.key()));
        let cleared = match object {
            Object::Lock(number) => {
                let call = Call::looking_in(object);
                let lock = self.lock(&client, number, &call);
                lock.force_unlock().await.map(drop)
            }
            Object::Semaphore(_) => client.semaphore(&object.key()).reclaim().await.map(drop),
            Object::Recipe(number) => {
                match recipes::handle(&client, number, &self.settings.recipes[number]) {
                    Handle::Semaphore(semaphore) => semaphore.release_all().await.map(drop),
                    Handle::Lock(lock) => lock.force_unlock().await.map(drop),
                }
            }
            Object::Latch => Ok(()),
        };
        if let Err(error) = cleared {
            self.judge().failed(self.host, "clear", &error);
        }
    }
}

/// A call that changes something, until it has ended.
struct Asked<'a> {
    actor: &'a Actor,
    subject: Subject,
    number: u64,
    since: Instant,
    /// It is carried out later, though its caller has gone.
    is_owed: bool,
}

impl Asked<'_> {
    fn ends(self, ended: Ended) {
        self.actor
            .judge()
            .admin_ends(self.subject, self.actor.host, self.number, ended);
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
        judge.admin_ends(self.subject, actor.host, self.number, ended);
    }
}
