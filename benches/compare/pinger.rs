//! Something else for the server to do: a processor that falls asleep between scripts takes several times as long for each.

use redis::aio::MultiplexedConnection;
use tokio::task::JoinHandle;

/// Asks one `PING` after the other, which takes some third of the server's processor, until it is dropped.
pub(crate) struct Pinger(JoinHandle<()>);

impl Pinger {
    pub(crate) fn start(redis: &MultiplexedConnection) -> Pinger {
        Pinger(tokio::spawn(ping(redis.clone())))
    }
}

impl Drop for Pinger {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn ping(mut redis: MultiplexedConnection) {
    while redis::cmd("PING")
        .query_async::<()>(&mut redis)
        .await
        .is_ok()
    {}
}
