//! One Rust process of the run: callers under random load, which tell each step before and after it.

use std::future::Future;
use std::io::BufRead;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use redisson_semaphore::{Client, Error, Held, RPermitExpirableSemaphore, RSemaphore, Result};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::books::{Line, Step, next_in_ring, now};
use crate::{CALLERS, LEASED, MOST_PERMITS, RING, WATCHDOG_TIMEOUT, WATCHED, name_for};

/// The argument that makes this program a worker; the server's URL and the place of the process follow.
pub(crate) const ARGUMENT: &str = "worker";

/// Lost replies are noticed this soon, so that many calls are repeated.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);
/// Nothing is found by slow looking: a wake-up that is missed shows.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

/// Works until standard input says `stop`; without that, its end ends the process at once.
pub(crate) async fn work(url: &str, place: usize) -> crate::Result<()> {
    let (stop, stopping) = watch::channel(false);
    std::thread::spawn(move || {
        let mut line = String::new();
        match std::io::stdin().lock().read_line(&mut line) {
            Ok(read) if read > 0 => drop(stop.send_replace(true)),
            _ => std::process::exit(1),
        }
        // The driver closes the input of a process that is to end before it is done.
        let _ = std::io::stdin().lock().read_line(&mut line);
        std::process::exit(1);
    });
    let client = Client::builder(url)
        .response_timeout(RESPONSE_TIMEOUT)
        .safety_interval(NEVER)
        .lock_watchdog_timeout(WATCHDOG_TIMEOUT)
        .connect()
        .await?;
    let tasks = (0..CALLERS).map(|number| {
        let name = name_for(place, number);
        let semaphore = client.semaphore(name);
        let caller = Caller {
            number,
            semaphore: match name == WATCHED {
                true => semaphore.watched(),
                false => semaphore.unwatched(),
            },
            leased: client
                .permit_expirable_semaphore(LEASED)
                .with_lease(WATCHDOG_TIMEOUT),
            next: client.semaphore(next_in_ring(place)),
        };
        tokio::spawn(caller.work(name, stopping.clone()))
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await?;
    }
    client.shutdown().await?;
    Line::End.tell();
    Ok(())
}

struct Caller {
    number: usize,
    semaphore: RSemaphore,
    leased: RPermitExpirableSemaphore,
    /// The semaphore that the ring's permit goes to.
    next: RSemaphore,
}

impl Caller {
    async fn work(self, name: &str, mut stopping: watch::Receiver<bool>) {
        while !*stopping.borrow() {
            self.tell(Step::Asks);
            let patience = Duration::from_millis(fastrand::u64(0..30));
            let permits = fastrand::u32(1..=MOST_PERMITS);
            let done = match name {
                _ if RING.contains(&name) => self.pass_on(&mut stopping).await,
                LEASED => self.with_ids(permits, patience).await,
                WATCHED => self.by_guard(permits).await,
                _ if fastrand::bool() => self.by_guard(permits).await,
                _ => self.without_guard(permits, patience).await,
            };
            match done {
                // A lost permit comes back by itself.
                Ok(()) | Err(Error::NotHeld { .. }) => self.tell(Step::Rests),
                Err(error) => self.tell(Step::Failed(error.to_string())),
            }
            sleep(Duration::from_micros(fastrand::u64(0..15_000))).await;
        }
    }

    fn tell(&self, step: Step) {
        Line::Step(now(), self.number, step).tell();
    }

    /// It has got permits, holds them for a moment and is about to give them back.
    async fn holds(&self, permits: u32, lost: impl Future<Output = ()>) {
        self.tell(Step::Has(permits.into()));
        tokio::select! {
            () = sleep(Duration::from_micros(fastrand::u64(0..4_000))) => {}
            () = lost => {}
        }
        self.tell(Step::Gives);
    }

    /// Takes the ring's permit when it comes and hands it on; gives up now and then, and when it is time.
    async fn pass_on(&self, stopping: &mut watch::Receiver<bool>) -> Result<()> {
        // Mostly it waits for as long as it takes.
        let patience = match fastrand::u8(0..4) {
            0 => Duration::from_millis(fastrand::u64(0..40)),
            _ => NEVER,
        };
        tokio::select! {
            answer = self.semaphore.acquire(1) => {
                answer?;
                self.holds(1, std::future::ready(())).await;
                self.next.release(1).await
            }
            () = sleep(patience) => Ok(()),
            _ = stopping.changed() => Ok(()),
        }
    }

    async fn without_guard(&self, permits: u32, patience: Duration) -> Result<()> {
        let taken = match fastrand::u8(0..4) {
            0 => self.semaphore.try_acquire(permits).await?,
            1 => self.semaphore.try_acquire_for(permits, patience).await?,
            2 => tokio::select! {
                answer = self.semaphore.acquire(permits) => answer.map(|()| true)?,
                () = sleep(patience) => false,
            },
            _ => self.semaphore.acquire(permits).await.map(|()| true)?,
        };
        if !taken {
            return Ok(());
        }
        self.holds(permits, std::future::pending()).await;
        match fastrand::u8(0..4) {
            // Once it has been polled it is on its way.
            0 => {
                polled(self.semaphore.release(permits), 1).await;
                Ok(())
            }
            _ => self.semaphore.release(permits).await,
        }
    }

    async fn by_guard(&self, permits: u32) -> Result<()> {
        match fastrand::u8(0..4) {
            0 => polled(self.semaphore.permit(permits), fastrand::u8(1..12)).await,
            1 => {
                let semaphore = self.semaphore.clone();
                aborted(async move { semaphore.permit(permits).await }).await;
            }
            way => {
                let guard = self.semaphore.permit(permits).await?;
                self.holds(permits, guard.lost()).await;
                if way == 2 {
                    return guard.release().await;
                }
            }
        }
        Ok(())
    }

    async fn with_ids(&self, permits: u32, patience: Duration) -> Result<()> {
        let semaphore = &self.leased;
        let wait = match fastrand::u8(0..8) {
            0 => {
                polled(semaphore.permit(), fastrand::u8(1..12)).await;
                return Ok(());
            }
            1 => {
                let semaphore = semaphore.clone();
                aborted(async move { semaphore.permit().await }).await;
                return Ok(());
            }
            2 | 3 => {
                let guard = semaphore.permit().await?;
                self.holds(1, guard.lost()).await;
                return match fastrand::bool() {
                    true => guard.release().await.map(drop),
                    false => Ok(()),
                };
            }
            4 => Some(Duration::ZERO),
            5 => Some(patience),
            _ => None,
        };
        let held = match wait {
            None => Some(semaphore.acquire_many(permits).await?),
            Some(wait) => semaphore.try_acquire_many_for(permits, wait).await?,
        };
        let Some(held) = held else { return Ok(()) };
        self.holds(permits, std::future::pending()).await;
        let ids: Vec<&str> = held.iter().map(Held::id).collect();
        // Together, or one by one and some prolonged before.
        if fastrand::bool() {
            return semaphore.try_release_many(&ids).await.map(drop);
        }
        for id in ids {
            if fastrand::u8(0..4) == 0 {
                semaphore
                    .update_lease_time(id, Some(WATCHDOG_TIMEOUT))
                    .await?;
            }
            semaphore.try_release(id).await?;
        }
        Ok(())
    }
}

/// Polls a call so often, and drops it.
async fn polled<T>(call: impl Future<Output = T>, times: u8) {
    let mut call = pin!(call);
    for _ in 0..times {
        let ready = std::future::poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_ready()));
        if ready.await {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// Aborts a task after a while that makes a call and keeps its answer for a moment.
async fn aborted<T: Send + 'static>(call: impl Future<Output = T> + Send + 'static) {
    let task = tokio::spawn(async move {
        let answer = call.await;
        sleep(Duration::from_millis(1)).await;
        drop(answer);
    });
    sleep(Duration::from_micros(fastrand::u64(0..8_000))).await;
    task.abort();
    let _ = task.await;
}
