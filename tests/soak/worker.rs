//! One Rust process of the run: callers under random load, which tell each step before and after it.

use std::io::BufRead;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use redisson_semaphore::{Client, Error, RSemaphore, Result};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::caller::{Caller, hold};
use crate::journal::{Line, Step};
use crate::leased::Leased;
use crate::{
    CALLERS, FIRST_LEASED, FIRST_WATCHED, LEASED, MOST_PERMITS, RING, WATCHDOG_TIMEOUT, name_for,
};

/// The argument that makes this program a worker; the server's URL and the place in the ring follow.
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
        // Whoever wants it to end before it is done closes the input.
        let _ = std::io::stdin().lock().read_line(&mut line);
        std::process::exit(1);
    });
    let client = Client::builder(url)
        .response_timeout(RESPONSE_TIMEOUT)
        .safety_interval(NEVER)
        .lock_watchdog_timeout(WATCHDOG_TIMEOUT)
        .client_name(client_name(std::process::id()))
        .connect()
        .await?;
    Line::Client(client.id().to_owned()).tell();
    let tasks: Vec<_> = (0..CALLERS)
        .map(|number| {
            if (FIRST_LEASED..FIRST_WATCHED).contains(&number) {
                let leased = Leased::new(number, client.permit_expirable_semaphore(LEASED));
                return tokio::spawn(leased.work(stopping.clone()));
            }
            let semaphore = client.semaphore(name_for(number, place));
            let semaphore = match number {
                FIRST_WATCHED.. => semaphore.watched(),
                _ => semaphore.unwatched(),
            };
            let next = client.semaphore(RING[(place + 1) % RING.len()]);
            let caller = Plain { number, semaphore };
            let mut stopping = stopping.clone();
            tokio::spawn(async move {
                while !*stopping.borrow() {
                    if number == 0 {
                        caller.pass_on(&next, &mut stopping).await;
                    } else {
                        caller.turn().await;
                    }
                    sleep(Duration::from_micros(fastrand::u64(0..15_000))).await;
                }
                caller.settle().await;
            })
        })
        .collect();
    for task in tasks {
        task.await?;
    }
    client.shutdown().await?;
    Line::End.tell();
    Ok(())
}

/// What the command connection of a process is called.
pub(crate) fn client_name(process: u32) -> String {
    format!("soak-{process}")
}

struct Plain {
    number: usize,
    semaphore: RSemaphore,
}

impl Caller for Plain {
    fn number(&self) -> usize {
        self.number
    }

    async fn look(&self) -> Result<()> {
        self.semaphore.available_permits().await.map(drop)
    }
}

impl Plain {
    /// Takes the ring's permit when it comes and hands it on; gives up now and then, and when it is time.
    async fn pass_on(&self, next: &RSemaphore, stopping: &mut watch::Receiver<bool>) {
        self.tell(Step::Ask(1));
        // Mostly it waits for as long as it takes.
        let patience = match fastrand::u8(0..4) {
            0 => Duration::from_millis(fastrand::u64(0..40)),
            _ => NEVER,
        };
        tokio::select! {
            answer = self.semaphore.acquire(1) => match answer {
                Ok(()) => {
                    self.tell(Step::Got(1));
                    self.tell(Step::Return(1));
                    match next.release(1).await {
                        Ok(()) => self.tell(Step::Returned(1)),
                        Err(error) => self.tell(Step::Failed(error.to_string())),
                    }
                }
                Err(error) => self.failed(1, &error),
            },
            () = sleep(patience) => self.dropped().await,
            _ = stopping.changed() => self.dropped().await,
        }
    }

    /// Asks for permits in one way or another, holds them, and gives them back in one way or another.
    async fn turn(&self) {
        let permits = fastrand::u32(1..=MOST_PERMITS);
        let patience = Duration::from_millis(fastrand::u64(0..30));
        self.tell(Step::Ask(permits));
        let way = match self.number {
            // Those that are by guards.
            FIRST_WATCHED.. => [5, 6, 8, 9][fastrand::usize(0..4)],
            _ => fastrand::u8(0..10),
        };
        let asked = match way {
            0..3 => self.semaphore.acquire(permits).await.map(|()| true),
            3 => self.semaphore.try_acquire(permits).await,
            4 => self.semaphore.try_acquire_for(permits, patience).await,
            5..7 => return self.guard(permits).await,
            7 => return self.dropped_after_a_while(permits).await,
            8 => return self.dropped_after_polls(permits).await,
            _ => return self.aborted(permits).await,
        };
        match asked {
            Ok(true) => {
                self.tell(Step::Got(permits));
                hold().await;
                self.give_back(permits).await;
            }
            Ok(false) => self.tell(Step::Refused(permits)),
            Err(error) => self.failed(permits, &error),
        }
    }

    async fn guard(&self, permits: u32) {
        match self.semaphore.permit(permits).await {
            Ok(guard) => {
                self.tell(Step::Got(permits));
                tokio::select! {
                    () = hold() => {}
                    () = guard.lost() => {}
                }
                self.tell(Step::Return(permits));
                if fastrand::bool() {
                    drop(guard);
                    return self.dropped().await;
                }
                match guard.release().await {
                    // What was lost is back by itself, or will be.
                    Ok(()) | Err(Error::NotHeld { .. }) => self.tell(Step::Returned(permits)),
                    Err(error) => self.tell(Step::Failed(error.to_string())),
                }
            }
            Err(error) => self.failed(permits, &error),
        }
    }

    async fn dropped_after_a_while(&self, permits: u32) {
        let patience = Duration::from_micros(fastrand::u64(0..8_000));
        tokio::select! {
            answer = self.semaphore.acquire(permits) => match answer {
                Ok(()) => {
                    self.tell(Step::Got(permits));
                    self.give_back(permits).await;
                }
                Err(error) => self.failed(permits, &error),
            },
            () = sleep(patience) => self.dropped().await,
        }
    }

    async fn dropped_after_polls(&self, permits: u32) {
        {
            let mut guard = pin!(self.semaphore.permit(permits));
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

    async fn aborted(&self, permits: u32) {
        let semaphore = self.semaphore.clone();
        let task = tokio::spawn(async move {
            let guard = semaphore.permit(permits).await;
            sleep(Duration::from_millis(1)).await;
            drop(guard);
        });
        sleep(Duration::from_micros(fastrand::u64(0..8_000))).await;
        task.abort();
        let _ = task.await;
        self.dropped().await;
    }

    async fn give_back(&self, permits: u32) {
        self.tell(Step::Return(permits));
        if fastrand::u8(0..4) == 0 {
            // Once it has been polled it is on its way.
            let mut release = pin!(self.semaphore.release(permits));
            let polled =
                std::future::poll_fn(|cx| Poll::Ready(release.as_mut().poll(cx).is_ready()));
            let _ = polled.await;
            return self.dropped().await;
        }
        match self.semaphore.release(permits).await {
            Ok(()) => self.tell(Step::Returned(permits)),
            Err(error) => self.tell(Step::Failed(error.to_string())),
        }
    }
}
