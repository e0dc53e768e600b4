//! What the log says of a server that answers but refuses for now: a line at the beginning, one at the end, and one a
//! minute between. Who makes a call is told by its error; this is for those who run the service.

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
    /// When the last line was written.
    told: Instant,
}

impl Refusing {
    /// The server has refused a request that it may carry out later.
    pub(crate) fn note(&self, server: &str, refusal: &Refusal) {
        let now = Instant::now();
        self.latest.note(refusal.clone());
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

    /// A request has been carried out that it had refused.
    pub(crate) fn end(&self, server: &str) {
        if let Some(episode) = self.episode.lock().take() {
            let after = episode.began.elapsed();
            tracing::info!(%server, ?after, "the server accepts again");
        }
    }
}
