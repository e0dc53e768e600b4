//! A caller of the semaphore whose permits have ids and leases.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use redisson_semaphore::{Held, RPermitExpirableSemaphore, Result};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::caller::{Caller, hold};
use crate::journal::Step;
use crate::{MOST_PERMITS, WATCHDOG_TIMEOUT};

pub(crate) struct Leased {
    number: usize,
    semaphore: RPermitExpirableSemaphore,
}

impl Caller for Leased {
    fn number(&self) -> usize {
        self.number
    }

    async fn look(&self) -> Result<()> {
        self.semaphore.available_permits().await.map(drop)
    }
}

impl Leased {
    pub(crate) fn new(number: usize, semaphore: RPermitExpirableSemaphore) -> Leased {
        Leased {
            number,
            semaphore: semaphore.with_lease(WATCHDOG_TIMEOUT),
        }
    }

    pub(crate) async fn work(self, stopping: watch::Receiver<bool>) {
        while !*stopping.borrow() {
            self.turn().await;
            sleep(Duration::from_micros(fastrand::u64(0..15_000))).await;
        }
        self.settle().await;
    }

    /// Asks for permits in one way or another, holds them, and gives them back in one way or another.
    async fn turn(&self) {
        let patience = Duration::from_millis(fastrand::u64(0..30));
        let permits = fastrand::u32(1..=MOST_PERMITS);
        match fastrand::u8(0..8) {
            0 | 1 => self.by_id(permits, None).await,
            2 => self.by_id(permits, Some(Duration::ZERO)).await,
            3 => self.by_id(permits, Some(patience)).await,
            4 | 5 => self.guard().await,
            6 => self.dropped_after_polls().await,
            _ => self.aborted().await,
        }
    }

    async fn by_id(&self, permits: u32, wait: Option<Duration>) {
        self.tell(Step::Ask(permits));
        let asked = match wait {
            None => self.semaphore.acquire_many(permits).await.map(Some),
            Some(wait) => self.semaphore.try_acquire_many_for(permits, wait).await,
        };
        match asked {
            Ok(Some(held)) => {
                self.tell(Step::Got(permits));
                hold().await;
                self.tell(Step::Return(permits));
                let released = self.give_back(&held).await;
                self.gave_back(permits, released);
            }
            Ok(None) => self.tell(Step::Refused(permits)),
            Err(error) => self.failed(permits, &error),
        }
    }

    /// Together or one by one; some are prolonged before.
    async fn give_back(&self, held: &[Held]) -> Result<bool> {
        let ids: Vec<&str> = held.iter().map(Held::id).collect();
        if fastrand::bool() {
            return Ok(self.semaphore.try_release_many(&ids).await? > 0);
        }
        let mut all = true;
        for id in ids {
            if fastrand::u8(0..4) == 0 {
                let lease = Some(WATCHDOG_TIMEOUT);
                self.semaphore.update_lease_time(id, lease).await?;
            }
            all &= self.semaphore.try_release(id).await?;
        }
        Ok(all)
    }

    async fn guard(&self) {
        self.tell(Step::Ask(1));
        match self.semaphore.permit().await {
            Ok(guard) => {
                self.tell(Step::Got(1));
                tokio::select! {
                    () = hold() => {}
                    () = guard.lost() => {}
                }
                self.tell(Step::Return(1));
                if fastrand::bool() {
                    drop(guard);
                    return self.dropped().await;
                }
                let released = guard.release().await;
                self.gave_back(1, released);
            }
            Err(error) => self.failed(1, &error),
        }
    }

    async fn dropped_after_polls(&self) {
        self.tell(Step::Ask(1));
        {
            let mut guard = pin!(self.semaphore.permit());
            for _ in 0..fastrand::u8(1..12) {
                let polled =
                    std::future::poll_fn(|cx| Poll::Ready(guard.as_mut().poll(cx).is_ready()));
                if polled.await {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        self.dropped().await;
    }

    async fn aborted(&self) {
        self.tell(Step::Ask(1));
        let semaphore = self.semaphore.clone();
        let task = tokio::spawn(async move {
            let guard = semaphore.permit().await;
            sleep(Duration::from_millis(1)).await;
            drop(guard);
        });
        sleep(Duration::from_micros(fastrand::u64(0..8_000))).await;
        task.abort();
        let _ = task.await;
        self.dropped().await;
    }

    fn gave_back(&self, permits: u32, released: Result<bool>) {
        match released {
            // One whose lease is over is back by itself, or will be.
            Ok(_) => self.tell(Step::Returned(permits)),
            Err(error) => self.tell(Step::Failed(error.to_string())),
        }
    }
}
