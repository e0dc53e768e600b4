//! What callers have in common, whatever their permits are: how they tell what they do.

use std::time::Duration;

use redisson_semaphore::{Effect, Error, Result};
use tokio::time::sleep;

use crate::journal::{Line, Step};

pub(crate) trait Caller: Sync {
    /// Its number in its process.
    fn number(&self) -> usize;

    /// A question about its semaphore that changes nothing.
    fn look(&self) -> impl Future<Output = Result<()>> + Send;

    fn tell(&self, step: Step) {
        Line::now(self.number(), step).tell();
    }

    /// It was told an error instead of being granted `permits`.
    fn failed(&self, permits: u32, error: &Error) {
        if error.effect() == Effect::NotApplied {
            self.tell(Step::Refused(permits));
        }
        self.tell(Step::Failed(error.to_string()));
    }

    /// Something has been dropped, and sooner or later it is settled.
    fn dropped(&self) -> impl Future<Output = ()> + Send {
        async {
            self.tell(Step::Dropped);
            if fastrand::bool() {
                self.settle().await;
            }
        }
    }

    /// A client's calls on one object keep their order: what was under way when the first question was asked is
    /// over with its answer, and what had to be given back because of it with that of the second.
    fn settle(&self) -> impl Future<Output = ()> + Send {
        async {
            for _ in 0..2 {
                if let Err(error) = self.look().await {
                    return self.tell(Step::Failed(error.to_string()));
                }
            }
            self.tell(Step::Settled);
        }
    }
}

/// Holds for a moment what it has.
pub(crate) async fn hold() {
    sleep(Duration::from_micros(fastrand::u64(0..4_000))).await;
}
