//! The subscription of an object to its channel, for as long as a caller waits.

use std::sync::Weak;

use super::wakeups::{Listener, Wake, Wakeups};

/// How an object stands to its channel.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    /// Asked for: there are waiters.
    wanted: bool,
    /// Messages are heard.
    confirmed: bool,
}

impl Listening {
    pub(crate) fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Somebody waits: the channel must be heard. `true` if a message may have been missed since they asked last,
    /// when it was `confirmed_then` that it is heard.
    pub(crate) fn begin(
        &mut self,
        wakeups: &Wakeups,
        channel: &str,
        listener: &Weak<dyn Listener>,
        confirmed_then: bool,
    ) -> bool {
        if self.wanted {
            return false;
        }
        self.wanted = true;
        self.confirmed = wakeups.listen(channel, listener);
        self.confirmed && !confirmed_then
    }

    /// Nobody waits any more.
    pub(crate) fn end(&mut self, wakeups: &Wakeups, channel: &str, listener: &Weak<dyn Listener>) {
        if std::mem::take(&mut self.wanted) {
            wakeups.leave(channel, listener);
        }
    }

    /// Whether what is heard is a reason to look.
    pub(crate) fn hear(&mut self, wake: &Wake) -> bool {
        match wake {
            Wake::Confirmed | Wake::ConfirmedAgain => {
                self.confirmed = true;
                true
            }
            Wake::Look | Wake::Message(_) => true,
            Wake::Lost => {
                self.confirmed = false;
                false
            }
            Wake::Ended => {
                // Somebody may have asked for it again in this very moment.
                self.confirmed &= self.wanted;
                false
            }
            Wake::Refused(_) => {
                *self = Listening::default();
                false
            }
        }
    }
}
