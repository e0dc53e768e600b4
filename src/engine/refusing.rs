//! What the log says of a server that answers but refuses for now: a line at the beginning, one at the end, and one a
//! minute between. Who makes a call is told by its error; this is for those who run the service.

use std::time::Duration;

use tokio::time::Instant;

use crate::sync::Mutex;
use crate::transport::Refusal;

/// How long the log is silent while nothing changes.
const SILENCE: Duration = Duration::from_secs(60);

/// Whether the server refuses.
#[derive(Default)]
pub(crate) struct Refusing {
    episode: Mutex<Option<Episode>>,
    last: Mutex<Option<(Instant, Refusal)>>,
}

struct Episode {
    began: Instant,
    /// When the last line was written.
    told: Instant,
}

impl Refusing {
    /// The server has refused a request that it may carry out later.
    pub(crate) fn note(&self, server: &str, refusal: &Refusal) {
        let now = Instant::now();
        *self.last.lock() = Some((now, refusal.clone()));
        let mut episode = self.episode.lock();
        let began = match &mut *episode {
            Some(known) if now.saturating_duration_since(known.told) < SILENCE => return,
            Some(known) => {
                known.told = now;
                known.began
            }
            None => {
                let (began, told) = (now, now);
                *episode = Some(Episode { began, told });
                now
            }
        };
        drop(episode);
        let since = now.saturating_duration_since(began);
        let why = &refusal.detail;
        tracing::warn!(%server, %why, ?since, "the server refuses for now");
    }

    /// What it has said last, if that was after `since`.
    pub(crate) fn last_since(&self, since: Instant) -> Option<Refusal> {
        let last = self.last.lock();
        let (_, refusal) = last.as_ref().filter(|(at, _)| *at >= since)?;
        Some(refusal.clone())
    }

    /// A request has been carried out that it had refused.
    pub(crate) fn end(&self, server: &str) {
        if let Some(episode) = self.episode.lock().take() {
            let after = episode.began.elapsed();
            tracing::info!(%server, ?after, "the server accepts again");
        }
    }
}
