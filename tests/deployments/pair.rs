//! A master with a replica, which may take over.

use crate::support::clients::LIMIT;
use crate::support::server::{NOWHERE, RedisServer, replica_of};
use crate::support::waiters::{until, until_linked};
use redis::AsyncCommands;

pub(crate) struct Pair {
    pub(crate) master: RedisServer,
    pub(crate) replica: RedisServer,
}

impl Pair {
    pub(crate) async fn start() -> Pair {
        let master = RedisServer::start().await;
        let replica = RedisServer::options().replica_of(&master).start().await;
        until_linked(&mut replica.connection().await).await;
        Pair { master, replica }
    }

    /// Of the one of the two that is the master.
    pub(crate) fn url(&self) -> String {
        let ports = [self.master.port(), self.replica.port()];
        let [first, second] = ports.map(|port| format!("127.0.0.1:{port}"));
        format!("redis+replicated://{first},{second}")
    }

    /// Waits until the replica has what the master has: a mark that is written behind it.
    pub(crate) async fn until_across(&self) {
        let master = &mut self.master.connection().await;
        let mark: u64 = master.incr("mark", 1).await.unwrap();
        let mut replica = self.replica.connection().await;
        until("the mark gets across", LIMIT, async || {
            replica.get("mark").await == Ok(Some(mark))
        })
        .await;
    }

    /// The replica takes over; the old master goes on with what it has, and hears of nothing any more.
    pub(crate) async fn part_as_masters(&self) {
        replica_of(&mut self.replica.connection().await, None).await;
        replica_of(&mut self.master.connection().await, Some(NOWHERE)).await;
    }

    /// The two change places.
    pub(crate) async fn change_places(&mut self) {
        replica_of(&mut self.replica.connection().await, None).await;
        let old = &mut self.master.connection().await;
        replica_of(old, Some(self.replica.port())).await;
        until_linked(old).await;
        std::mem::swap(&mut self.master, &mut self.replica);
    }
}
