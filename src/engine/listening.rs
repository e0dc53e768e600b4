//! The subscription of an object to its channel, for as long as a caller waits.

use std::sync::Weak;

use super::wakeups::{Listener, Wake, Wakeups};

/// How an object stands to its channel.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    /// Asked for: there are waiters.
    wanted: bool,
    /// It is subscribed, or about to be: for a while after the last waiter, too.
    subscribed: bool,
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

    pub(crate) fn is_subscribed(&self) -> bool {
        self.subscribed
    }

    /// Somebody waits: the channel must be heard. `true` if a message may have been missed, as another object has heard it alone
    /// until now.
    pub(crate) fn begin(
        &mut self,
        wakeups: &Wakeups,
        channel: &str,
        listener: &Weak<dyn Listener>,
    ) -> bool {
        if self.wanted {
            return false;
        }
        (self.wanted, self.subscribed) = (true, true);
        let before = std::mem::replace(&mut self.confirmed, wakeups.listen(channel, listener));
        self.confirmed && !before
    }

    /// Nobody waits any more.
    pub(crate) fn end(&mut self, wakeups: &Wakeups, channel: &str, listener: &Weak<dyn Listener>) {
        if std::mem::take(&mut self.wanted) {
            wakeups.leave(channel, listener);
        }
    }

    pub(crate) fn hear(&mut self, wake: &Wake) {
        match wake {
            Wake::Confirmed => self.confirmed = true,
            Wake::Lost => self.confirmed = false,
            // Somebody may have asked for it again in this very moment.
            Wake::Ended => {
                self.confirmed &= self.wanted;
                self.subscribed = self.wanted;
            }
            Wake::Refused(_) => *self = Listening::default(),
            Wake::Look | Wake::Message(_) => {}
        }
    }
}
