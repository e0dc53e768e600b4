//! The permissions that the guide names are enough for each call of a primitive, and all of them are needed.

use std::collections::HashMap;
use std::time::Duration;

use crate::subject::{Subject, in_time};
use crate::subjects::{
    Fair, Fenced, Latch, Leased, Lock, Permits, ReadWrite, Semaphore, StringLock, Unwatched,
    Watched,
};
use crate::support::acl::{grants, set_user};
use crate::support::channel::Channel;
use crate::support::clients::{LIMIT, builder, served};
use crate::support::proxy::{Fate, Proxy};
use crate::support::server::RedisServer;
use crate::support::waiters::{channel, until, until_in_queue};
use futures::future::LocalBoxFuture;
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, FromRedisValue};
use redisson_semaphore::{Client, Lock as _, NameMapper};

/// Nobody has been refused anything.
async fn nothing_is_refused(control: &mut MultiplexedConnection) {
    let mut log = redis::cmd("ACL");
    let log: Vec<HashMap<String, redis::Value>> =
        log.arg("LOG").query_async(control).await.unwrap();
    let refused = log.iter().map(|entry| {
        let object = String::from_redis_value_ref(&entry["object"]);
        object.expect("a word")
    });
    // The name of the client, for the reader of `CLIENT LIST` only: not every server knows the command.
    let refused: Vec<String> = refused
        .filter(|object| !["client", "client|setinfo"].contains(&&**object))
        .collect();
    assert_eq!(refused, [""; 0]);
}

/// Makes each call of a primitive with the first client. Then a caller of each client waits until the first one's holder is done;
/// `channels` are those of their object.
async fn use_all<S: Subject>(
    clients: &[Client; 2],
    control: &mut MultiplexedConnection,
    name: &str,
    channels: usize,
) {
    for (number, (call, _)) in S::CALLS.iter().enumerate() {
        let subject = S::new(&clients[0], &format!("{name}-{}-{number}", S::NAME));
        subject.prepare(call).await.unwrap();
        assert_eq!(in_time(&subject, call).await, Ok(true), "{call}");
    }
    let name = format!("{name}-{}", S::NAME);
    let holder = S::new(&clients[0], &name);
    holder.close().await.unwrap();
    let waiting = clients.each_ref().map(|client| {
        let subject = S::new(client, &name);
        tokio::spawn(async move {
            subject.take(None).await?;
            subject.give().await
        })
    });
    let pattern = format!("*{name}*");
    until("both wait", LIMIT, async || {
        let mut command = redis::cmd("PUBSUB");
        command.arg(&["CHANNELS", &pattern]);
        let heard: Vec<String> = command.query_async(control).await.unwrap();
        heard.len() >= channels
    })
    .await;
    holder.open().await.unwrap();
    for task in waiting {
        served(task).await;
    }
}

/// Two clients of a user that may do what the guide says.
struct Granted {
    server: RedisServer,
    control: MultiplexedConnection,
    clients: [Client; 2],
    introductions: &'static [&'static str],
}

impl Granted {
    /// The names of all objects begin with `object`, which the guide has instead.
    async fn start(object: &str, introductions: &'static [&'static str]) -> Granted {
        let server = RedisServer::start().await;
        let mut control = server.connection().await;
        let all = ["Everybody:"].iter().chain(introductions);
        for rules in all.flat_map(|introduction| grants(introduction)) {
            let rules = rules.replace(object, &format!("{object}*"));
            let words: Vec<_> = ["app"].into_iter().chain(rules.split(' ')).collect();
            set_user(&mut control, &words).await;
        }
        let connect = async || {
            let builder = builder(server.url_as("app", "secret")).client_name("app");
            // Guards are renewed every two seconds.
            let builder = builder.lock_watchdog_timeout(Duration::from_secs(6));
            builder.connect().await.unwrap()
        };
        let clients = [connect().await, connect().await];
        Granted {
            server,
            control,
            clients,
            introductions,
        }
    }

    /// How often each command has been used.
    async fn statistics(&mut self) -> String {
        let mut info = redis::cmd("INFO");
        let info = info.arg("commandstats");
        info.query_async(&mut self.control).await.unwrap()
    }

    /// A second or two after their last use the channels are left, for one.
    async fn until_used(&mut self, command: &str) {
        let used = format!("cmdstat_{command}:");
        until(&format!("{command} is used"), LIMIT, async || {
            self.statistics().await.contains(&used)
        })
        .await;
    }

    /// When the clients have gone, nobody has been refused anything, and nothing is granted that nobody has used.
    async fn was_enough_and_needed(mut self) {
        for client in self.clients.clone() {
            client.shutdown().await.unwrap();
        }
        nothing_is_refused(&mut self.control).await;
        let stats = self.statistics().await;
        let granted = self.introductions.iter().flat_map(|words| grants(words));
        let granted = granted.flat_map(|rules| rules.split(' '));
        let commands = granted.filter_map(|rule| rule.strip_prefix('+'));
        let unused = commands.filter(|command| {
            // Of some only a part is granted, of some only a part is used: `pubsub|numsub`.
            let beginning = format!("cmdstat_{command}");
            let mut all = stats
                .lines()
                .filter_map(|line| line.strip_prefix(&beginning));
            !all.any(|rest| rest.starts_with([':', '|']))
        });
        assert_eq!(unused.collect::<Vec<_>>(), [""; 0]);
    }
}

/// The words that introduce the rules for some primitives, an object of the rules, and how many channels it has when two clients wait;
/// then the primitives, and what else needs a command.
macro_rules! introductions {
    ($($test:ident: $words:literal, $object:literal, $channels:literal, [$($subject:ty),+], $more:expr;)+) => {
        $(
            #[tokio::test]
            async fn $test() {
                let mut granted = Granted::start($object, &[$words]).await;
                let Granted { clients, control, .. } = &mut granted;
                $(use_all::<$subject>(clients, control, $object, $channels).await;)+
                let more: fn(&mut Granted) -> LocalBoxFuture<'_, ()> = $more;
                more(&mut granted).await;
                granted.until_used("unsubscribe").await;
                granted.was_enough_and_needed().await;
            }
        )+

        async fn use_everything(clients: &[Client; 2], control: &mut MultiplexedConnection) {
            $($(use_all::<$subject>(clients, control, $object, $channels).await;)+)+
        }
    };
}

introductions! {
    what_semaphores_need: "For semaphores,", "seats", 2, [Semaphore, Unwatched, Watched],
        |granted| Box::pin(of_semaphores(granted));
    what_permits_with_ids_need: "For semaphores whose permits have ids,", "work", 2, [Permits],
        |granted| Box::pin(of_permits_with_ids(granted));
    what_fair_locks_need: "For fair locks:", "turn", 2, [Fair],
        |granted| Box::pin(of_fair_locks(granted));
    what_locks_need: "For locks,", "door", 2, [Lock, Fenced], |granted| Box::pin(of_locks(granted));
    what_read_write_locks_need: "For read-write locks,", "prices", 2, [ReadWrite],
        |granted| Box::pin(of_read_write_locks(granted));
    what_latches_need: "For latches:", "done", 1, [Latch], |granted| Box::pin(of_latches(granted));
    what_recipes_need: "For the recipes,", "jobs", 2,
        [Leased<0>, Leased<1>, Leased<2>, Leased<3>, Leased<4>, Leased<5>, Leased<6>, StringLock],
        // Some commands are for counters and tokens that peers have changed.
        |granted| Box::pin(async { granted.introductions = &[] });
}

/// Guards are renewed, one died, one was split, and a caller behind one that wants more than there is hears a JVM's channel.
async fn of_semaphores(granted: &mut Granted) {
    let [client, other] = granted.clients.clone();
    let semaphore = client.semaphore("seats");
    semaphore.try_set_permits(4).await.unwrap();
    let mut two = semaphore.permit(2).await.unwrap();
    let one = two.split(1).unwrap();
    assert_eq!(semaphore.holders().await.unwrap().len(), 1);
    granted.until_used("zmscore").await;
    one.release().await.unwrap();
    assert_eq!(two.forget(), 1);
    let dead = "dead0000-0000-0000-0000-000000000000:g1:1:500:the%20late%20one";
    let control = &mut granted.control;
    let _: () = control
        .zadd("redisson_sc_grants:{seats}", dead, 1)
        .await
        .unwrap();
    let found = async || semaphore.reclaim().await.unwrap().len();
    let back = async || semaphore.available_permits().await == Ok(4);
    until("it is given back", LIMIT, async || {
        found().await > 0 || back().await
    })
    .await;
    let waits = [(&client, 8), (&other, 9)].map(|(client, permits)| {
        let semaphore = client.semaphore("seats");
        tokio::spawn(async move { semaphore.acquire(permits).await })
    });
    let _jvm = Channel::subscribe(&granted.server, &channel("seats")).await;
    until_in_queue(control, "redisson_sc_queue:{seats}", 2).await;
    semaphore.release(13).await.unwrap();
    for task in waits {
        served(task).await;
    }
}

/// A guard is renewed, and there is more than one page of holders, of a semaphore with a time to live.
async fn of_permits_with_ids(granted: &mut Granted) {
    let work = granted.clients[0].permit_expirable_semaphore("work");
    work.set_permits(400).await.unwrap();
    let guard = work.permit().await.unwrap();
    assert_eq!(work.total_permits().await, Ok(400));
    assert_eq!(work.acquired_permits().await, Ok(1));
    let _: bool = granted.control.pexpire("work", 3_600_000).await.unwrap();
    let many = work.acquire_many(300).await.unwrap();
    work.lease_time(many[0].id()).await.unwrap();
    assert_eq!(work.holders().await.unwrap().len(), 301);
    let end = guard.lease().remaining();
    until("the guard is renewed", LIMIT, async || {
        guard.lease().remaining() > end
    })
    .await;
    guard.release().await.unwrap();
    work.release_all().await.unwrap();
    assert_eq!(work.try_release(many[0].id()).await, Ok(false));
}

/// A caller of a process that died waits before this one.
async fn of_fair_locks(granted: &mut Granted) {
    let (turn, control) = (granted.clients[0].fair_lock("turn"), &mut granted.control);
    let _: () = control
        .rpush("redisson_lock_queue:{turn}", "gone:1")
        .await
        .unwrap();
    let ends = control.zadd("redisson_lock_timeout:{turn}", "gone:1", 1);
    let _: () = ends.await.unwrap();
    assert_eq!(turn.try_lock().await, Ok(true));
    assert_eq!(turn.as_lock().is_held().await, Ok(true));
    turn.unlock().await.unwrap();
}

async fn of_locks(granted: &mut Granted) {
    let door = granted.clients[0].lock("door");
    assert_eq!(door.is_held().await, Ok(false));
    door.remaining_ttl().await.unwrap();
}

/// A writer goes on as a reader, from one client to the other.
async fn of_read_write_locks(granted: &mut Granted) {
    let prices = granted
        .clients
        .each_ref()
        .map(|client| client.read_write_lock("prices"));
    let writer = prices[0].write().guard().await.unwrap();
    let reads = prices.each_ref().map(|lock| {
        let side = lock.read();
        tokio::spawn(async move { side.guard().await?.unlock().await })
    });
    until_in_queue(&mut granted.control, "redisson_rwlock_waiters:{prices}", 2).await;
    let reader = prices[0].downgrade(writer).await.unwrap();
    reader.unlock().await.unwrap();
    for task in reads {
        served(task).await;
    }
    prices[0].read().remaining_ttl().await.unwrap();
}

/// The record answers when a reply was lost.
async fn of_latches(granted: &mut Granted) {
    let proxy = Proxy::start(&granted.server).await;
    let client = builder(proxy.url_as("app", "secret"))
        .connect()
        .await
        .unwrap();
    let done = client.count_down_latch("done");
    assert_eq!(done.try_set_count(1).await, Ok(true));
    proxy.at_script(1, Fate::LoseReplyAndClose);
    done.count_down().await.unwrap();
    client.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_tenant_has_its_own_objects_and_those_of_no_other() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    for tenant in ["shop", "mall"] {
        let rules = ["Everybody:", "These are\nall keys"].map(grants).concat();
        let rules = rules.iter().flat_map(|rules| rules.split(' '));
        let rules = rules.map(|rule| rule.replace("shop:", &format!("{tenant}:")));
        set_user(&mut control, &[tenant, "+@all"]).await;
        for rule in rules {
            set_user(&mut control, &[tenant, &rule]).await;
        }
        let connect = async || {
            let mapper = NameMapper::prefix(format!("{tenant}:"));
            let builder = builder(server.url_as(tenant, "secret")).name_mapper(mapper);
            builder.connect().await.unwrap()
        };
        let clients = [connect().await, connect().await];
        use_everything(&clients, &mut control).await;
        nothing_is_refused(&mut control).await;
        // Left alone, they leave their records behind for now.
        std::mem::forget(clients);
    }
    let keys: Vec<String> = control.keys("*").await.unwrap();
    assert!(keys.len() > 30, "{keys:?}");
    for key in keys {
        let own = if key.contains("shop:") {
            "shop"
        } else {
            "mall"
        };
        for tenant in ["shop", "mall"] {
            let mut command = redis::cmd("ACL");
            let tried: String = command
                .arg(&["DRYRUN", tenant, "DEL", &key])
                .query_async(&mut control)
                .await
                .unwrap();
            assert_eq!(tried == "OK", tenant == own, "{key} for {tenant}: {tried}");
        }
    }
}

#[tokio::test]
async fn what_operations_on_objects_need() {
    const THESE: &[&str] = &["For semaphores,", "Operations on the object"];
    let mut granted = Granted::start("seats", THESE).await;
    let client = granted.clients[0].clone();
    let seats = client.semaphore("seats");
    seats.release(3).await.unwrap();
    seats.exists().await.unwrap();
    seats.object().touch().await.unwrap();
    seats.expire(LIMIT).await.unwrap();
    seats.remaining_ttl().await.unwrap();
    seats.object().expire_time().await.unwrap();
    seats.clear_expire().await.unwrap();
    let tomorrow = std::time::SystemTime::now() + Duration::from_secs(86_400);
    seats.expire_at(tomorrow).await.unwrap();
    seats.object().size_in_memory().await.unwrap();
    let rules = [
        "app",
        "~other",
        "~redisson_sc*:{other}*",
        "&redisson_sc:{other}",
    ];
    set_user(&mut granted.control, &rules).await;
    assert!(seats.object().copy("other").await.unwrap());
    assert!(seats.object().rename_nx("other").await.unwrap().is_none());
    let seats = seats.object().rename("other").await.unwrap();
    assert!(seats.object().unlink().await.unwrap());
    assert!(!seats.delete().await.unwrap());
    let _: () = granted.control.rpush("seats", "no counter").await.unwrap();
    client.semaphore("seats").release(1).await.unwrap_err();
    // Some seconds after it was connected to the next call asks whether the server is a master still.
    until("the role is asked for", LIMIT, async || {
        client.ping().await.is_ok() && granted.statistics().await.contains("cmdstat_role:")
    })
    .await;
    granted.introductions = &["Operations on the object", "Everybody:"];
    granted.was_enough_and_needed().await;
}
