//! Log entries about a server that answers but refuses for now: one at the beginning, one at the end, and one a
//! minute between. Callers get errors; the log is for operators.

use tokio::time::Instant;

use super::latest::Latest;
use super::log::SILENCE;
use crate::sync::Mutex;
use crate::transport::Refusal;

/// Whether the server refuses.
#[derive(Default)]
pub(crate) struct Refusing {
    episode: Mutex<Option<Episode>>,
    pub(crate) latest: Latest<Refusal>,
}

struct Episode {
    began: Instant,
    /// The time of its last refusal. The refused callers may have given up, and then no call notices the end.
    refused: Instant,
    /// When the last line was written.
    logged: Instant,
}

impl Refusing {
    /// The server has refused a request that it may carry out later.
    pub(crate) fn note(&self, server: &str, refusal: &Refusal) {
        let now = Instant::now();
        self.latest.note(refusal.clone());
        let mut episode = self.episode.lock();
        let is_over = |then: Instant| now.saturating_duration_since(then) >= SILENCE;
        episode.take_if(|known| is_over(std::mem::replace(&mut known.refused, now)));
        let began = match &mut *episode {
            Some(known) if !is_over(known.logged) => return,
            Some(known) => {
                known.logged = now;
                known.began
            }
            None => {
                *episode = Some(Episode {
                    began: now,
                    refused: now,
                    logged: now,
                });
                now
            }
        };
        drop(episode);
        let since = now.saturating_duration_since(began);
        let why = &refusal.detail;
        tracing::warn!(%server, %why, ?since, "the server refuses for now");
    }

    /// A request has been carried out that it had refused.
    pub(crate) fn end(&self, server: &str) {
        let episode = self.episode.lock().take();
        if let Some(episode) = episode {
            let after = episode.began.elapsed();
            tracing::info!(%server, ?after, "the server accepts again");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::transport::Reason;

    #[tokio::test(start_paused = true)]
    async fn it_is_over_when_nobody_has_been_refused_for_long() {
        let refusing = Refusing::default();
        let refusal = Refusal {
            reason: Reason::NotNow,
            detail: "no room".to_owned(),
        };
        let began = || {
            refusing
                .episode
                .lock()
                .as_ref()
                .map(|episode| episode.began)
        };
        let first = Instant::now();
        for _ in 0..4 {
            refusing.note("server", &refusal);
            assert_eq!(began(), Some(first));
            tokio::time::advance(SILENCE / 2).await;
        }
        tokio::time::advance(SILENCE + Duration::from_secs(1)).await;
        refusing.note("server", &refusal);
        assert_eq!(began(), Some(Instant::now()));
        refusing.end("server");
        assert_eq!(began(), None);
    }
}
