//! A release in one process serves a waiter in another one: from the release to the end of the waiter's call.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::Result;
use crate::contestant::Contestant::{
    self, FairLock, Guards, Lock, Ours, Plain, RedissonAsync, RedissonFairLock, RedissonLock,
    RedissonSync, RedissonWriteLock, WriteLock,
};
use crate::report::{Report, metric};
use crate::stage::Stage;
use crate::waits::Waits;

pub(crate) struct HandOver {
    pub(crate) name: &'static str,
    title: &'static str,
    contestants: &'static [Contestant],
}

const SEMAPHORES: &[Contestant] = &[Ours, Guards, Plain, RedissonSync, RedissonAsync];

pub(crate) const WAKE_UP: HandOver = HandOver {
    name: "wake-up",
    title: "wake-up of a caller by another process, from release to acquired",
    contestants: SEMAPHORES,
};
/// For a pinned stage.
pub(crate) const WAKE_UP_PINNED: HandOver = HandOver {
    name: "wake-up-pinned",
    title: "the same, server and processes on one core",
    contestants: SEMAPHORES,
};
pub(crate) const LOCK: HandOver = HandOver {
    name: "lock-hand-over",
    title: "a lock from one process to another, from unlock to locked",
    contestants: &[Lock, RedissonLock],
};
pub(crate) const FAIR_LOCK: HandOver = HandOver {
    name: "fair-lock-hand-over",
    title: "a fair lock from one process to another",
    contestants: &[FairLock, RedissonFairLock],
};
pub(crate) const WRITE_LOCK: HandOver = HandOver {
    name: "write-lock-hand-over",
    title: "a read-write lock from one writer to another in another process",
    contestants: &[WriteLock, RedissonWriteLock],
};

pub(crate) const ALL: [HandOver; 4] = [WAKE_UP, LOCK, FAIR_LOCK, WRITE_LOCK];

/// The contestants take turns this often.
const TURNS: usize = 4;
/// From the subscription to the release: by then the waiter has asked once more and sleeps.
const PAUSE: Duration = Duration::from_millis(5);

impl HandOver {
    pub(crate) async fn run(&self, stage: &mut Stage, report: &mut Report) -> Result<()> {
        report.begin(self.name, self.title);
        for contestant in self.contestants {
            stage.programs(contestant.make(), 2).await?;
            if !contestant.is_lock() {
                stage.set(&self.object(*contestant), 1).await?;
            }
        }
        let mut waits = vec![Waits::default(); self.contestants.len()];
        for turn in 0..=TURNS {
            for (contestant, waits) in self.contestants.iter().zip(&mut waits) {
                // The first turn is for practice.
                let times = match turn {
                    0 => stage.settings.wake_ups_before,
                    _ => stage.settings.wake_ups / TURNS,
                };
                let seen = self.pass_on(stage, *contestant, times).await?;
                if turn > 0 {
                    waits.merge(&seen);
                }
            }
        }
        for (contestant, waits) in self.contestants.iter().zip(&waits) {
            report.add(contestant.to_string(), metric::of_waits(waits));
        }
        report.end();
        Ok(())
    }

    fn object(&self, contestant: Contestant) -> String {
        format!(
            "bench:{}:{}-{}",
            self.name,
            contestant.make().word(),
            contestant.mode()
        )
    }

    async fn pass_on(
        &self,
        stage: &mut Stage,
        contestant: Contestant,
        times: usize,
    ) -> Result<Waits> {
        let (acquire, release) = match contestant {
            RedissonLock | RedissonFairLock | RedissonWriteLock => ("lock", "unlock"),
            _ => ("acquire", "release"),
        };
        let name = self.object(contestant);
        let mut fields = json!({ "name": name, "mode": contestant.mode(), "thread": "caller" });
        match contestant {
            RedissonFairLock => fields["fair"] = json!(true),
            RedissonWriteLock => fields["side"] = json!("write"),
            _ => {}
        }
        let programs = stage.programs(contestant.make(), 2).await?;
        let moment = |answer: &Value, field: &str| answer[field].as_u64().ok_or("no time");
        let mut waits = Waits::default();
        programs[0].call(acquire, fields.clone()).await?;
        for time in 0..times {
            let (holder, waiter) = (&programs[time % 2], &programs[1 - time % 2]);
            let acquired = waiter.call(acquire, fields.clone());
            let released = async {
                until_subscribed(&mut stage.redis, &name).await?;
                sleep(PAUSE).await;
                holder.call(release, fields.clone()).await
            };
            let (acquired, released) = tokio::try_join!(acquired, released)?;
            let (began, ended) = (moment(&released, "began")?, moment(&acquired, "ended")?);
            waits.add(ended.saturating_sub(began));
        }
        programs[times % 2].call(release, fields).await?;
        Ok(waits)
    }
}

/// Waits until a client listens to a channel of the object, whatever the channel is called.
async fn until_subscribed(redis: &mut MultiplexedConnection, name: &str) -> Result<()> {
    loop {
        let mut channels = redis::cmd("PUBSUB");
        channels.arg("CHANNELS").arg(format!("*{{{name}}}*"));
        let channels: Vec<String> = channels.query_async(redis).await?;
        if !channels.is_empty() {
            return Ok(());
        }
        sleep(Duration::from_millis(1)).await;
    }
}
