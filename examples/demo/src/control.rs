//! The demo's own look at Redis, on a connection of its own: to the server, or to one node of a cluster.

use std::time::Duration;

use redisson_semaphore::{Answer, Client};

use crate::Result;
use crate::support::waiters::until;

const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone)]
pub(crate) struct Control {
    client: Client,
    /// One node of a cluster: what is looked up has to be there.
    is_node: bool,
}

impl Control {
    pub(crate) fn of(client: Client, is_node: bool) -> Control {
        Control { client, is_node }
    }

    pub(crate) async fn ask(&self, words: &[&str]) -> Result<Answer> {
        let answer = self.client.ask(None, words).await;
        answer.map_err(|error| format!("{}: {error}", words[0]).into())
    }

    /// `prefix`, or in a cluster a name that begins so and is this node's.
    pub(crate) async fn name(&self, prefix: &str) -> Result<String> {
        if !self.is_node {
            return Ok(prefix.to_owned());
        }
        for number in 0..100 {
            let name = format!("{prefix}:{number}");
            if self.ask(&["EXISTS", &name]).await.is_ok() {
                return Ok(name);
            }
        }
        Err("the first node of the URL is to be a master that has slots".into())
    }

    /// Waits until so many listen to a channel.
    pub(crate) async fn until_listeners(&self, channel: &str, count: i64) {
        // As the clients of a cluster, which know it since Redis 7.
        let questions: &[&str] = if self.is_node {
            &["SHARDNUMSUB", "NUMSUB"]
        } else {
            &["NUMSUB"]
        };
        let what = format!("{count} listen to {channel:?}");
        until(&what, PATIENCE, async || {
            let mut listeners = 0;
            for question in questions {
                if let Ok(Answer::Array(answer)) = self.ask(&["PUBSUB", question, channel]).await
                    && let [_, Answer::Int(count)] = answer[..]
                {
                    listeners += count;
                }
            }
            listeners == count
        })
        .await;
    }

    /// As the server tells it: `7.0.15`.
    pub(crate) async fn version(&self) -> Result<String> {
        let info = text(self.ask(&["INFO", "server"]).await?);
        let version = info
            .lines()
            .find_map(|line| line.strip_prefix("redis_version:"));
        Ok(version.unwrap_or("of unknown version").trim().to_owned())
    }
}

/// An answer that is no text is empty.
fn text(answer: Answer) -> String {
    match answer {
        Answer::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        _ => String::new(),
    }
}

/// A number as scripts hand it back, or as it is stored; 0 where there is none.
pub(crate) fn number(answer: Answer) -> i64 {
    match answer {
        Answer::Int(number) => number,
        answer => text(answer).parse().unwrap_or(0),
    }
}
