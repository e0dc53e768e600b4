//! The channels that a line hears, as long as somebody waits.

use std::collections::BTreeMap;
use std::sync::Weak;

use crate::engine::listening::Listening;
use crate::engine::wakeups::{Listener, Wake, Wakeups};

/// How a line stands to each of its channels.
#[derive(Default)]
pub(super) struct Channels(BTreeMap<String, Listening>);

impl Channels {
    /// Those whose messages are heard.
    pub(super) fn heard(&self) -> Vec<String> {
        let confirmed = |(name, listening): (&String, &Listening)| {
            listening.is_confirmed().then(|| name.clone())
        };
        self.0.iter().filter_map(confirmed).collect()
    }

    /// Whether there are any.
    pub(super) fn are_wanted(&self) -> bool {
        self.0.values().any(Listening::is_wanted)
    }

    /// Hears `wanted` from now on, and no others. `true` if a message may have been missed since those who wait asked
    /// last, when `heard` were heard.
    pub(super) fn set(
        &mut self,
        wakeups: &Wakeups,
        listener: &Weak<dyn Listener>,
        wanted: Vec<String>,
        heard: &[String],
    ) -> bool {
        for (name, listening) in &mut self.0 {
            if !wanted.contains(name) {
                listening.end(wakeups, name, listener);
            }
        }
        let mut missed = false;
        for name in wanted {
            let confirmed = heard.contains(&name);
            let listening = self.0.entry(name.clone()).or_default();
            missed |= listening.begin(wakeups, &name, listener, confirmed);
        }
        missed
    }

    /// Whether what is told of `channel` is a reason to look.
    pub(super) fn hear(&mut self, channel: &str, wake: &Wake) -> bool {
        let Some(listening) = self.0.get_mut(channel) else {
            return false;
        };
        let look = listening.hear(wake);
        // Who has come in this very moment hears of another beginning.
        let over = !listening.is_confirmed() && !listening.is_wanted();
        if matches!(wake, Wake::Ended) && over {
            self.0.remove(channel);
        }
        look
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::transport::{Connection, Endpoint};

    struct Deaf;

    impl Listener for Deaf {
        fn wake(&self, _: &str, _: &Wake) {}
    }

    #[tokio::test]
    async fn who_comes_while_a_channel_is_given_up_hears_of_its_next_beginning() {
        let config = crate::config::Config::new("redis://127.0.0.1:1");
        let endpoint = Endpoint::new(&config).expect("a valid URL");
        let connection = Connection::lazy(endpoint, config.sharded_pubsub);
        let wakeups = Wakeups::new(connection.layout(), Duration::from_secs(5));
        let listener: Arc<dyn Listener> = Arc::new(Deaf);
        let listener = Arc::downgrade(&listener);
        let wanted = || vec!["c".to_owned()];
        let mut channels = Channels::default();
        channels.set(&wakeups, &listener, wanted(), &[]);
        assert!(channels.hear("c", &Wake::Confirmed));
        channels.set(&wakeups, &listener, Vec::new(), &[]);
        // It has been given up, which is told only behind who comes now.
        channels.set(&wakeups, &listener, wanted(), &[]);
        assert!(!channels.hear("c", &Wake::Ended));
        assert!(channels.hear("c", &Wake::Confirmed));
        assert_eq!(channels.heard(), ["c"]);
        channels.set(&wakeups, &listener, Vec::new(), &[]);
        channels.hear("c", &Wake::Ended);
        assert!(!channels.hear("c", &Wake::Look), "nobody wants it");
    }
}
