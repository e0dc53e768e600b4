//! The Redisson JVM of the run.
//!
//! Redisson loses permits by itself when a reply is lost or the server restarts. Its losses must not be taken for
//! ours, and must not use up the permits: every few seconds its threads finish their turns, and what the
//! server says that it has taken and not given back by then is lost, is counted, and is put back. What it has lost of permits with
//! ids comes back by itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, timeout, timeout_at};

use crate::books::Books;
use crate::journal::Step;
use crate::restorer::Restorer;
use crate::support::peer::{JavaPeer, PendingCall};
use crate::{BUSY, LEASED, Result};

pub(crate) const REDISSON: &str = "4.7.0";

const THREADS: usize = 4;
const SHIFT: Duration = Duration::from_secs(4);
/// Threads that have not finished their turn by then wait for ever.
const PATIENCE: Duration = Duration::from_secs(15);

/// What became of Redisson's part.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) turns: u64,
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) lost: i64,
    /// How many times threads waited although permits were free, so that the JVM had to be killed.
    pub(crate) hung: u64,
}

pub(crate) struct Java {
    pub(crate) url: String,
    pub(crate) books: Arc<Books>,
    pub(crate) restorer: Arc<Mutex<Restorer>>,
    /// Nothing goes wrong while it is held.
    pub(crate) calm: Arc<Mutex<()>>,
}

impl Java {
    /// Works until it is told to stop.
    pub(crate) async fn work(self, mut stopping: watch::Receiver<bool>) -> Result<Account> {
        let mut account = Account::default();
        let mut peer = self.start().await;
        let mut crowd = None;
        while !*stopping.borrow() {
            lease(&peer, &mut crowd);
            let finished = self.shift(&mut peer, &mut stopping, &mut account).await?;
            if !finished {
                account.hung += 1;
                peer.kill().await;
                peer = self.start().await;
                crowd = None;
            }
            let threads: Vec<usize> = (1..=THREADS).collect();
            for thread in threads {
                self.books
                    .enter_java(crate::journal::now(), thread, &Step::Settled);
            }
            account.lost += self.restorer.lock().await.restore_java().await?;
        }
        peer.shutdown().await;
        let entries = self.books.open();
        account.turns = entries.java.turns;
        account.errors = entries.java.errors.clone();
        Ok(account)
    }

    async fn start(&self) -> JavaPeer {
        let _calm = self.calm.lock().await;
        JavaPeer::start(REDISSON, &self.url).await
    }

    /// The threads work for a while and finish their turns; whether they did.
    async fn shift(
        &self,
        peer: &mut JavaPeer,
        stopping: &mut watch::Receiver<bool>,
        account: &mut Account,
    ) -> Result<bool> {
        let work = json!({
            "name": BUSY, "threads": THREADS, "permits": 1, "holdMillisMin": 0, "holdMillisMax": 4,
            "keepOn": true,
        });
        peer.call("workers", work).await?;
        let end = Instant::now() + SHIFT;
        loop {
            tokio::select! {
                _ = stopping.changed() => break,
                event = timeout_at(end, peer.event()) => match event {
                    Ok(Some(event)) => self.enter(&event, account),
                    Ok(None) => return Err("the JVM has ended".into()),
                    Err(_) => break,
                },
            }
        }
        let mut stopped = peer.begin("stopWorkers", json!({}));
        let end = Instant::now() + PATIENCE;
        let finished = loop {
            tokio::select! {
                event = peer.event() => match event {
                    Some(event) => self.enter(&event, account),
                    None => return Err("the JVM has ended".into()),
                },
                _ = &mut stopped => break true,
                () = tokio::time::sleep_until(end) => break false,
            }
        };
        while let Ok(Some(event)) = timeout(Duration::ZERO, peer.event()).await {
            self.enter(&event, account);
        }
        Ok(finished)
    }

    fn enter(&self, event: &Value, account: &mut Account) {
        let (Some(at), Some(thread)) = (event["at"].as_u64(), event["worker"].as_u64()) else {
            return;
        };
        let thread = thread as usize;
        let permits = event["permits"].as_u64().unwrap_or(1) as u32;
        let step = match event["event"].as_str() {
            Some("waiting") => Step::Ask(permits),
            Some("held") => Step::Got(permits),
            Some("released") => Step::Return(permits),
            Some("failed") => {
                let error = event["error"].as_str().unwrap_or_default();
                let class = error.split(':').next().unwrap_or_default();
                *account.errors.entry(class.to_owned()).or_default() += 1;
                Step::Failed(class.to_owned())
            }
            _ => return,
        };
        self.books.enter_java(at, thread, &step);
    }
}

/// Callers of the semaphore whose permits have ids work for a shift; an error ends them, and those of the last time may hang.
fn lease(peer: &JavaPeer, crowd: &mut Option<PendingCall>) {
    if crowd.as_mut().is_none_or(PendingCall::is_finished) {
        let work = json!({
            "name": LEASED, "object": "leased", "mode": "sync", "callers": 2, "permits": 1, "holdMicros": 2000,
            "millis": SHIFT.as_millis() as u64, "leaseMs": SHIFT.as_millis() as u64,
        });
        *crowd = Some(peer.begin("crowd", work));
    }
}
