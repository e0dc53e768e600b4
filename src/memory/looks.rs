//! When those who wait look by themselves, as something comes to its end then.

use tokio::time::Instant;

/// The end that they have been told of; without one they do not look by themselves.
#[derive(Debug, Default)]
pub(super) struct Looks(Option<Instant>);

impl Looks {
    /// The end is this from now on, for whatever reason. Whether it has come nearer: then all of them look anew, as the first may be
    /// left unpolled. To those who look too early nothing happens.
    pub(super) fn come_nearer(&mut self, end: Option<Instant>) -> bool {
        let before = std::mem::replace(&mut self.0, end);
        end.is_some_and(|end| before.is_none_or(|before| end < before))
    }
}
