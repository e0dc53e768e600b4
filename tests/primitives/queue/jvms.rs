//! The share of JVMs, which do not stand in the queue: a late one gets its permits, and those that take nothing cost little.

use std::time::Duration;

use crate::support::channel::Channel;
use crate::support::clients::{connect, release_as_redisson};
use crate::support::crowd::Crowd;
use crate::support::server::RedisServer;
use crate::support::waiters::channel;

const NAME: &str = "jvms";
/// As Redisson acquires.
const TAKE: &str = "if tonumber(redis.call('GET', KEYS[1])) < 1 then return 0 end
    redis.call('DECR', KEYS[1]) return 1";

/// On a busy machine, or far away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_jvm_has_its_share() {
    const TIMES: usize = 40;
    const LATE: Duration = Duration::from_millis(15);
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let mut jvm = Channel::subscribe(&server, &channel(NAME)).await;
    let client = connect(server.url()).await.semaphore(NAME);
    assert!(client.try_set_permits(2).await.unwrap());
    let crowd = Crowd::start(&client, 8, 1, Duration::from_millis(5));
    for taken in 0..TIMES {
        loop {
            jvm.next().await;
            tokio::time::sleep(LATE).await;
            jvm.until_marker().await;
            let ours = crowd.served();
            assert!(ours < 16 * TIMES, "{taken} beside {ours}");
            let take = redis::Script::new(TAKE);
            if take.key(NAME).invoke_async(&mut connection).await.unwrap() {
                break;
            }
        }
        release_as_redisson(&mut connection, NAME, 1).await;
    }
    crowd.stop().await;
}
