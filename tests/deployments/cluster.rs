//! A cluster: each name is served by its master, and clients follow slots that move and masters that are replaced.

use std::time::{Duration, Instant};

use crate::support::clients::{LIMIT, NEVER, builder, commands, served};
use crate::support::cluster::{Cluster, allow, ask, until_heard, until_listeners, waiter};
use crate::support::peer::{JavaPeer, NEWEST};
use crate::support::proxy::Fate;
use crate::support::server::RedisServer;
use crate::support::waiters::{channel, until, until_it_rises};
use futures::future::join_all;
use redisson_semaphore::{
    Client, ClientBuilder, ConnectionState, Effect, Error, LeasedSemaphore as _, Lock as _,
    NameMapper, ShardedPubSub,
};
use serde_json::json;
use tokio::sync::OnceCell;
use tokio::time::timeout;

/// One cluster for the tests that leave it as it is. It ends with the process.
static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();

async fn shared() -> &'static Cluster {
    CLUSTER.get_or_init(Cluster::start).await
}

fn of(cluster: &Cluster) -> ClientBuilder {
    builder(cluster.url()).retry_window(Duration::from_secs(60))
}

async fn connect(cluster: &Cluster) -> Client {
    of(cluster).connect().await.expect("the cluster runs")
}

/// One permit more, with a message, as a single command of another client would do it.
async fn release_elsewhere(server: &RedisServer, name: &str) {
    let script = "redis.call('SPUBLISH', KEYS[2], redis.call('INCR', KEYS[1]))";
    ask::<()>(server, &["EVAL", script, "2", name, &channel(name)]).await;
}

#[tokio::test]
async fn each_name_is_served_by_its_master_on_two_connections() {
    let cluster = shared().await;
    let client = of(cluster).client_name("counted").connect().await.unwrap();
    let mut names = vec![];
    for master in 0..3 {
        for _ in 0..20 {
            let hint = format!("served-{}", names.len());
            names.push((master, cluster.name_at(master, &hint).await));
        }
    }
    // Each caller is alone at its semaphore.
    let calls = names.iter().map(|(_, name)| async {
        let semaphore = client.semaphore(name);
        assert!(semaphore.try_set_permits(2).await.unwrap());
        assert!(semaphore.try_acquire(2).await.unwrap());
    });
    join_all(calls).await;
    for (master, name) in &names {
        let stored: Option<String> = ask(&cluster.servers[*master], &["GET", name]).await;
        assert_eq!(stored.as_deref(), Some("0"), "{name}");
    }
    let mut waiters = vec![];
    for (master, name) in &names {
        waiters.push(waiter(&cluster.servers[*master], &client, name, 1).await);
    }
    for (master, name) in &names {
        release_elsewhere(&cluster.servers[*master], name).await;
    }
    for waiter in waiters {
        served(waiter).await;
    }
    for server in &cluster.servers[..3] {
        until("it has two connections", LIMIT, async || {
            let list: String = ask(server, &["CLIENT", "LIST"]).await;
            list.matches("name=counted ").count() == 2
        })
        .await;
    }
}

#[tokio::test]
async fn records_are_given_back_and_locks_are_renewed_in_all_slots() {
    let cluster = shared().await;
    let lease = Duration::from_secs(6);
    // A batch that is sent twice leaves its record until that expires.
    let client = of(cluster).response_timeout(LIMIT);
    let client = client.lock_watchdog_timeout(lease);
    let client = client.connect().await.unwrap();
    let mut guards = vec![];
    for master in 0..3 {
        for n in 0..4 {
            let name = cluster.name_at(master, &format!("renewed-{n}")).await;
            let guard = client.lock(&name).guard().await.unwrap();
            guards.push((&cluster.servers[master], name, guard));
        }
    }
    let mut names = vec![];
    for number in 0..100 {
        let name = format!("used-once-{number}");
        client.semaphore(&name).try_set_permits(1).await.unwrap();
        names.push(name);
    }
    let records = async || {
        let mut keys = vec![];
        for server in &cluster.servers[..3] {
            let pattern = format!("redisson_sc_once:*:{}", client.id());
            keys.extend(ask::<Vec<String>>(server, &["KEYS", &pattern]).await);
        }
        keys.len()
    };
    until("records are given back", LIMIT, async || {
        records().await < 64
    })
    .await;
    for (server, name, guard) in guards {
        let left = async || ask::<i64>(server, &["PTTL", &name]).await;
        until_it_rises(&format!("{name} is renewed"), LIMIT, left).await;
        assert!(!guard.is_lost());
        guard.unlock().await.unwrap();
    }
    client.shutdown().await.unwrap();
    assert_eq!(records().await, 0);
}

#[tokio::test]
async fn a_url_of_the_other_kind_is_told() {
    let cluster = shared().await;
    let single = RedisServer::start().await;
    let url = format!("redis+cluster://127.0.0.1:{}", single.port());
    let error = Client::connect(url).await.unwrap_err();
    assert!(matches!(error, Error::Server { .. }), "{error:?}");
    assert!(error.to_string().contains("its URL is redis://"), "{error}");

    let client = Client::connect(cluster.java_url()).await.unwrap();
    let elsewhere = client.semaphore(&cluster.name_at(1, "elsewhere").await);
    let error = elsewhere.try_acquire(1).await.unwrap_err();
    assert!(
        error.to_string().contains("its URL is redis+cluster://"),
        "{error}"
    );
    assert_eq!(error.effect(), Effect::NotApplied);

    for url in [
        "redis+cluster://",
        "redis+cluster://h,",
        "redis+cluster://h:port",
        "http+cluster://h",
        "redis+cluster://:secret@h:x",
    ] {
        let error = Client::connect(url).await.unwrap_err();
        assert!(matches!(error, Error::Configuration { .. }), "{error:?}");
        let error = error.to_string();
        assert!(error.contains("redis+cluster://"), "{url}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
    // Some clusters have several; here it is the server that says no.
    let third = Client::builder(cluster.url()).database(3).connect().await;
    let error = third.unwrap_err();
    assert!(error.to_string().contains("SELECT"), "{error}");
    assert_eq!(error.effect(), Effect::NotApplied);
    let both = Client::builder(cluster.url()).sentinels(["redis://127.0.0.1"]);
    let error = both.connect().await.unwrap_err();
    assert!(error.to_string().contains("have no sentinels"), "{error}");
}

#[tokio::test]
async fn nodes_that_are_away_are_not_needed_to_find_the_others() {
    let cluster = shared().await;
    let dead = RedisServer::start().await;
    let ports = [dead.port(), cluster.servers[4].port()];
    drop(dead);
    let url = format!(
        "redis+cluster://127.0.0.1:{},127.0.0.1:{}",
        ports[0], ports[1]
    );
    let client = Client::builder(url).connect_lazy().unwrap();
    let semaphore = client.semaphore("by-a-replica");
    semaphore.try_set_permits(1).await.unwrap();
    semaphore.acquire(1).await.unwrap();
    client.ping().await.unwrap();
    let mut state = client.connection_state();
    let connected = state.wait_for(|state| *state == ConnectionState::Connected);
    connected.await.unwrap();
}

#[tokio::test]
async fn who_may_not_ask_whether_messages_are_sharded_is_told() {
    let cluster = shared().await;
    let rules = "on >pw ~* &* +@all -pubsub";
    allow(&cluster.servers, "deaf", rules).await;
    let port = cluster.servers[0].port();
    let url = format!("redis+cluster://deaf:pw@127.0.0.1:{port}");
    let error = builder(url.clone()).connect().await.unwrap_err();
    let error = error.to_string();
    assert!(error.contains("SHARDNUMSUB"), "{error}");
    assert!(error.contains("sharded_pubsub"), "{error}");
    let told = builder(url).sharded_pubsub(ShardedPubSub::On);
    told.connect().await.unwrap();
}

/// A user with the permissions that the README lists, and no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_permissions_will_do() {
    let cluster = shared().await;
    let rules = "on >pw resetkeys resetchannels -@all ~allowed* ~{allowed*}* ~redisson_* &redisson_* +ping \
                 +client|setname +eval +evalsha +get +set +incr +incrby +exists +del +hset +hget +hmget +hgetall +hdel +hlen +hexists \
                 +pexpire +pttl +time +zadd +zrange +zrangebyscore +zrem +zcard +zscore +zmscore +pubsub +spublish +ssubscribe +sunsubscribe \
                 +cluster|slots +cluster|info +asking";
    allow(&cluster.servers, "app", rules).await;
    let port = cluster.servers[0].port();
    let url = format!("redis+cluster://app:pw@127.0.0.1:{port}");
    let [first, second] = [(); 2].map(|()| builder(url.clone()).connect());
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    let name = &cluster.name_at(1, "allowed").await;
    let semaphore = first.semaphore(name);
    semaphore.try_set_permits(1).await.unwrap();
    let guard = semaphore.permit(1).await.unwrap();
    let waiting = waiter(&cluster.servers[1], &second, name, 1).await;
    guard.release().await.unwrap();
    served(waiting).await;
    let lock = first.lock("allowed-lock");
    lock.guard().await.unwrap().unlock().await.unwrap();
}

/// Objects without a contract suite pass between clients that connected through different nodes.
#[tokio::test]
async fn latches_and_string_locks_are_handed_over_at_each_master() {
    let cluster = shared().await;
    for mode in [ShardedPubSub::On, ShardedPubSub::Off] {
        let [one, two] = [0, 4].map(|node| {
            let port = cluster.servers[node].port();
            let url = format!("redis+cluster://127.0.0.1:{port}");
            builder(url).sharded_pubsub(mode).connect()
        });
        let (one, two) = (one.await.unwrap(), two.await.unwrap());
        let until_listening = async |name: &str| {
            let listing = match mode {
                ShardedPubSub::On => "SHARDCHANNELS",
                _ => "CHANNELS",
            };
            let pattern = format!("*{{{name}}}*");
            until(&format!("{mode:?}: {name}"), LIMIT, async || {
                let mut channels = 0;
                for server in &cluster.servers {
                    let found: Vec<String> = ask(server, &["PUBSUB", listing, &pattern]).await;
                    channels += found.len();
                }
                channels == 1
            })
            .await;
        };
        for master in 0..3 {
            let name = &cluster.name_at(master, &format!("latch-{mode:?}")).await;
            let latch = one.count_down_latch(name);
            assert_eq!(latch.try_set_count(2).await, Ok(true));
            let other = two.count_down_latch(name);
            let waiting = tokio::spawn(async move { other.wait().await });
            until_listening(name).await;
            latch.count_down().await.unwrap();
            assert!(!waiting.is_finished());
            latch.count_down().await.unwrap();
            served(waiting).await;
            assert_eq!(latch.exists().await, Ok(false));

            let name = &cluster.name_at(master, &format!("door-{mode:?}")).await;
            let braced = format!("{{{name}}}");
            let [lock, other] = [&one, &two].map(|client| client.string_lock(&braced));
            let other = other.check_interval(NEVER);
            let guard = lock.guard().await.unwrap();
            let waiting = tokio::spawn(async move { other.guard().await?.unlock().await });
            until_listening(name).await;
            assert!(!waiting.is_finished());
            guard.unlock().await.unwrap();
            served(waiting).await;
            assert!(!lock.is_locked().await.unwrap());
        }
    }
}

/// A name mapper may put the keys of an object into several slots: calls on such an object are refused.
#[tokio::test]
async fn a_name_mapper_that_takes_keys_apart_is_refused() {
    let cluster = shared().await;
    let mapped = async |map: fn(&str) -> String| {
        let client = of(cluster).name_mapper(NameMapper::custom(map));
        client.connect().await.unwrap()
    };
    // Without braces the keys of a recipe are not kept together ...
    let client = mapped(|name| name.replace(['{', '}'], "")).await;
    let fair = client.fair_semaphore("{apart}", 1);
    let slots = client.slot_semaphore("{apart}", 2);
    let told = [
        fair.try_acquire().await.map(drop),
        fair.release("id").await.map(drop),
        slots.try_acquire().await.map(drop),
        client
            .fair_semaphore("{apart}", 1)
            .acquire()
            .await
            .map(drop),
    ];
    let unmapped = connect(cluster).await.fair_semaphore("apart", 1);
    let unmapped = unmapped.acquire().await.map(drop);
    // ... nor are keys with half a pair of braces, or with two pairs.
    let client = mapped(|name| format!("a{{{name}")).await;
    let latch = mapped(|name| format!("{{apart}}:{name}")).await;
    let more = [
        client.semaphore("apart").release(1).await,
        client.lock("apart").try_lock().await.map(drop),
        client
            .permit_expirable_semaphore("apart")
            .try_set_permits(1)
            .await
            .map(drop),
        latch
            .count_down_latch("latch")
            .try_set_count(1)
            .await
            .map(drop),
    ];
    for (number, told) in told.into_iter().chain(more).chain([unmapped]).enumerate() {
        let refused = matches!(told, Err(Error::InvalidName { .. }));
        assert!(refused, "call {number}: {told:?}");
        assert_eq!(told.unwrap_err().effect(), Effect::NotApplied);
    }
    for server in &cluster.servers {
        assert_eq!(
            ask::<Vec<String>>(server, &["KEYS", "*apart*"]).await,
            [""; 0]
        );
    }
    // A mapper that keeps the keys together works.
    let client = mapped(|name| format!("{{together}}:{name}")).await;
    let held = client.fair_semaphore("fair", 1).acquire().await.unwrap();
    client
        .fair_semaphore("fair", 1)
        .release(held.id())
        .await
        .unwrap();
    client.semaphore("plain").release(1).await.unwrap();
    let stored = cluster.stored("{together}:plain", 3).await;
    assert_eq!(stored.as_deref(), Some("1"));
}

/// Calls while a slot moves, when some of its keys are at one master and some at the other.
#[tokio::test]
async fn calls_wait_for_a_slot_that_is_on_its_way() {
    let cluster = shared().await;
    let name = &cluster.name_at(0, "on-its-way").await;
    let slot = cluster.slot(name).await;
    let client = connect(cluster).await;
    let other = connect(cluster).await;
    let semaphore = client.semaphore(name);
    // Set by hand: a client would announce the permits that it sets, and the announcement would wait for the slot ahead of its other calls.
    ask::<()>(&cluster.servers[0], &["SET", name, "5"]).await;
    let guard = semaphore.permit(2).await.unwrap();
    let waiting = waiter(&cluster.servers[0], &other, name, 4).await;
    cluster.begin_to_move(slot, 0, 1).await;
    cluster.move_keys(slot, 0, 1).await;
    // The client asks where the slot is going to be.
    assert_eq!(semaphore.exists().await, Ok(true));
    // A call with little time ends with the reason, and without effect, unless its last copy is on its way when the time ends.
    let hasty = of(cluster).call_timeout(Duration::from_millis(300));
    let hasty = hasty.connect().await.unwrap();
    let told = hasty.semaphore(name).try_acquire(1).await.unwrap_err();
    match told.effect() {
        Effect::NotApplied => {
            assert!(matches!(told, Error::RefusedForNow { .. }), "{told:?}");
            assert!(told.to_string().contains("TRYAGAIN"), "{told}");
        }
        _ => assert!(matches!(told, Error::OutcomeUnknown { .. }), "{told:?}"),
    }
    let call = tokio::spawn(async move { guard.release().await });
    // Its record may be on either side until the slot has arrived.
    until("it is told to come again", LIMIT, async || {
        let stats: String = ask(&cluster.servers[1], &["INFO", "errorstats"]).await;
        stats.contains("errorstat_TRYAGAIN")
    })
    .await;
    cluster.end_move(slot, 0, 1).await;
    served(call).await;
    served(waiting).await;
    until_listeners(&cluster.servers[0], name, 0).await;
    assert_eq!(semaphore.available_permits().await, Ok(1));
    // Messages arrive from the new master.
    let waiting = waiter(&cluster.servers[1], &other, name, 2).await;
    release_elsewhere(&cluster.servers[1], name).await;
    served(waiting).await;
    cluster.move_slot(slot, 1, 0).await;
    semaphore.release(2).await.unwrap();
    assert_eq!(cluster.stored(name, 1).await.as_deref(), Some("2"));
}

/// Locks are renewed key by key while some keys of the slot have moved and some have not.
#[tokio::test]
async fn locks_are_renewed_while_their_slot_is_on_its_way() {
    let cluster = shared().await;
    let tag = &cluster.name_at(0, "renewed").await;
    let slot = cluster.slot(tag).await;
    let lease = Duration::from_secs(6);
    let client = of(cluster).lock_watchdog_timeout(lease);
    let client = client.connect().await.unwrap();
    let names = ["moved", "left"].map(|name| format!("{{{tag}}}:{name}"));
    let mut guards = vec![];
    for name in &names {
        guards.push(client.lock(name).guard().await.unwrap());
    }
    cluster.begin_to_move(slot, 0, 1).await;
    cluster.move_key(&names[0], 0, 1).await;
    for (server, name) in [(1, &names[0]), (0, &names[1])] {
        let left = async || {
            let mut both = redis::pipe();
            both.cmd("ASKING").ignore().cmd("PTTL").arg(name);
            let connection = &mut cluster.servers[server].connection().await;
            let (left,): (i64,) = both.query_async(connection).await.unwrap();
            left
        };
        until_it_rises(&format!("{name} is renewed"), LIMIT, left).await;
    }
    cluster.move_keys(slot, 0, 1).await;
    cluster.end_move(slot, 0, 1).await;
    for guard in guards {
        assert!(!guard.is_lost());
        guard.unlock().await.unwrap();
    }
    cluster.move_slot(slot, 1, 0).await;
}

/// A reader's hold has a key of its own. It is renewed with its lock, and is not made a second time where the lock has arrived already.
#[tokio::test]
async fn a_read_lock_is_renewed_when_its_hold_has_arrived() {
    let cluster = shared().await;
    let name = &cluster.name_at(0, "read").await;
    let slot = cluster.slot(name).await;
    let client = of(cluster).lock_watchdog_timeout(Duration::from_secs(6));
    let client = client.connect().await.unwrap();
    let guard = client.read_write_lock(name).read().guard().await.unwrap();
    let words = ["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "10"];
    let keys: Vec<String> = ask(&cluster.servers[0], &words).await;
    let mut keys = keys.iter();
    let hold = keys.find(|key| key.contains("rwlock_timeout")).unwrap();
    cluster.begin_to_move(slot, 0, 1).await;
    cluster.move_key(name, 0, 1).await;
    until("a renewal was due a second ago", LIMIT, async || {
        ask::<i64>(&cluster.servers[0], &["PTTL", hold]).await < 3000
    })
    .await;
    cluster.move_keys(slot, 0, 1).await;
    cluster.end_move(slot, 0, 1).await;
    let left = async || ask::<i64>(&cluster.servers[1], &["PTTL", hold]).await;
    until_it_rises("the hold is renewed", LIMIT, left).await;
    assert!(!guard.is_lost());
    guard.unlock().await.unwrap();
    cluster.move_slot(slot, 1, 0).await;
}

/// One slot moves round the masters while three clients wait and hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_are_kept_while_their_slot_moves_under_load() {
    const PERMITS: u32 = 7;
    let cluster = shared().await;
    let name = &cluster.name_at(0, "moving").await;
    let slot = cluster.slot(name).await;
    for mode in [ShardedPubSub::On, ShardedPubSub::Off] {
        let mut callers = vec![];
        for _ in 0..3 {
            let client = of(cluster).sharded_pubsub(mode);
            // With plain messages a client does not learn that its slot was away meanwhile.
            let client = match mode {
                ShardedPubSub::Off => client.safety_interval(Duration::from_secs(2)),
                _ => client,
            };
            let client = client.connect().await.unwrap();
            let semaphore = client.semaphore(name);
            semaphore.try_set_permits(PERMITS).await.unwrap();
            for number in 0..20 {
                let semaphore = semaphore.clone();
                callers.push(tokio::spawn(async move {
                    for round in 0..40 {
                        let asked = semaphore.permit(1 + (number + round) % 3);
                        let guard = timeout(LIMIT, asked).await.expect("a waiter sleeps")?;
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        guard.release().await?;
                    }
                    Ok::<_, Error>(())
                }));
            }
        }
        for (from, to) in [(0, 1), (1, 2), (2, 1), (1, 0)] {
            cluster.move_slot(slot, from, to).await;
        }
        for caller in callers {
            caller
                .await
                .expect("a caller panicked")
                .expect("a caller is served");
        }
        let left = cluster.stored(name, 3).await;
        assert_eq!(left.as_deref(), Some("7"), "{mode:?}");
    }
}

/// The reply is lost, and the slot has moved by the time the client asks about it.
#[tokio::test]
async fn an_answer_that_was_lost_is_asked_for_where_the_slot_is_now() {
    let (cluster, proxy) = Cluster::start_behind_a_proxy().await;
    let url = format!("redis+cluster://127.0.0.1:{}", cluster.servers[1].port());
    let fates = [
        Fate::LoseReply,
        Fate::LoseReplyAndClose,
        Fate::LoseRequest,
        Fate::HoldRequest,
    ];
    for (round, fate) in fates.into_iter().enumerate() {
        let client = builder(url.clone())
            .response_timeout(Duration::from_secs(2))
            .retry_window(Duration::from_secs(60))
            .connect()
            .await
            .unwrap();
        let name = &cluster.name_at(0, &format!("lost-{round}")).await;
        let slot = cluster.slot(name).await;
        let semaphore = client.semaphore(name);
        semaphore.try_set_permits(5).await.unwrap();
        let struck = proxy.struck();
        proxy.at_script(1, fate);
        let call = semaphore.clone();
        let call = tokio::spawn(async move { call.acquire(2).await });
        proxy.until_struck(struck + 1).await;
        cluster.begin_to_move(slot, 0, 1).await;
        // Moved by the node itself, which goes by the true ports.
        cluster.move_keys(slot, 0, 1).await;
        cluster.end_move(slot, 0, 1).await;
        served(call).await;
        if fate == Fate::HoldRequest {
            // The first copy arrives late, at a node that no longer has the slot.
            proxy.deliver(1).await;
        }
        assert_eq!(semaphore.available_permits().await, Ok(3), "{fate:?}");
        let stored: String = ask(&cluster.servers[1], &["GET", name]).await;
        assert_eq!(stored, "3", "{fate:?}");
    }
}

#[tokio::test]
async fn a_master_that_is_replaced_is_left() {
    let mut cluster = Cluster::start_with(Duration::from_secs(2)).await;
    let name = &cluster.name_at(0, "replaced").await;
    let client = connect(&cluster).await;
    // A client that would wait for a reply for ever.
    let patient = of(&cluster)
        .response_timeout(NEVER)
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore(name);
    semaphore.try_set_permits(20).await.unwrap();

    // By an ordered failover.
    let guard = semaphore.permit(18).await.unwrap();
    let waiting = waiter(&cluster.servers[0], &patient, name, 3).await;
    cluster.fail_over(0).await;
    guard.release().await.unwrap();
    served(waiting).await;
    until_listeners(&cluster.servers[3], name, 0).await;
    let waiting = waiter(&cluster.servers[3], &patient, name, 18).await;
    release_elsewhere(&cluster.servers[3], name).await;
    served(waiting).await;
    client.semaphore(name).release(20).await.unwrap();
    let linked = async || {
        let info: String = ask(&cluster.servers[0], &["INFO", "replication"]).await;
        info.contains("master_link_status:up")
    };
    until("the old master follows the new one", LIMIT, linked).await;

    // By `kill -9`, with many callers.
    let guard = semaphore.permit(20).await.unwrap();
    let crowd: Vec<_> = (0..150)
        .flat_map(|_| [client.semaphore(name), patient.semaphore(name)])
        .map(|semaphore| {
            tokio::spawn(async move {
                semaphore.acquire(1).await?;
                semaphore.release(1).await
            })
        })
        .collect();
    cluster.until_copied(0, name, "0").await;
    cluster.servers[3].kill().await;
    drop(guard);
    let slot = cluster.slot(name).await;
    until("it is replaced", LIMIT, async || {
        cluster.master_of(slot, 3).await == 0
    })
    .await;
    let told = Instant::now();
    for task in crowd {
        served(task).await;
    }
    eprintln!(
        "a crowd of 300 served {:?} after the failover",
        told.elapsed()
    );
    assert_eq!(cluster.stored(name, 3).await.as_deref(), Some("20"));
}

/// A node joins, takes over a slot whose permits have a waiter, gives the slot back, and leaves.
#[tokio::test]
async fn a_node_that_comes_and_goes_is_followed() {
    let mut cluster = Cluster::start().await;
    let name = &cluster.name_at(0, "travelling").await;
    let slot = cluster.slot(name).await;
    let (client, other) = (connect(&cluster).await, connect(&cluster).await);
    let semaphore = client.semaphore(name);
    semaphore.try_set_permits(3).await.unwrap();
    let guard = semaphore.permit(3).await.unwrap();
    let waiting = waiter(&cluster.servers[0], &other, name, 1).await;

    let added = cluster.add().await;
    cluster.move_slot(slot, 0, added).await;
    until_listeners(&cluster.servers[added], name, 1).await;
    release_elsewhere(&cluster.servers[added], name).await;
    served(waiting).await;
    let waiting = waiter(&cluster.servers[added], &other, name, 3).await;

    cluster.move_slot(slot, added, 0).await;
    cluster.remove().await;
    until_listeners(&cluster.servers[0], name, 1).await;
    guard.release().await.unwrap();
    served(waiting).await;
    other.semaphore(name).release(4).await.unwrap();
    assert_eq!(cluster.stored(name, 3).await.as_deref(), Some("4"));
    // No client misses the node.
    for client in [client, other] {
        let mut state = client.connection_state();
        let connected = state.wait_for(|state| *state == ConnectionState::Connected);
        tokio::time::timeout(LIMIT, connected)
            .await
            .unwrap()
            .unwrap();
    }
}

/// A master and its replica are down: calls to them are not sent, and the errors say so, although other masters serve calls meanwhile.
#[tokio::test]
async fn what_was_not_sent_has_not_happened_though_others_are_served() {
    let mut cluster = Cluster::start().await;
    let (away, there) = (
        cluster.name_at(0, "away").await,
        cluster.name_at(1, "there").await,
    );
    let client = of(&cluster)
        .call_timeout(Duration::from_secs(3))
        .connect()
        .await
        .unwrap();
    let (semaphore, other) = (client.semaphore(&away), client.semaphore(&there));
    semaphore.try_set_permits(5).await.unwrap();
    other.try_set_permits(5).await.unwrap();
    let lock = client.lock(&format!("{{{away}}}:lock"));
    let leased = client.permit_expirable_semaphore(&format!("{{{away}}}:leased"));
    let latch = client.count_down_latch(&format!("{{{away}}}:latch"));

    for server in [3, 0] {
        cluster.servers[server].kill().await;
    }
    let mut state = client.connection_state();
    let disconnected = |state: &ConnectionState| *state != ConnectionState::Connected;
    state.wait_for(disconnected).await.unwrap();

    let mut served = 0;
    let busy = async {
        loop {
            other.permit(1).await.unwrap().release().await.unwrap();
            served += 1;
        }
    };
    let wait = Duration::from_millis(10);
    let calls = async {
        let told = tokio::join!(
            semaphore.permit_for(1, wait),
            lock.try_lock(),
            leased.permit_for(wait),
            latch.try_set_count(1),
        );
        [
            told.0.map(drop).unwrap_err(),
            told.1.map(drop).unwrap_err(),
            told.2.map(drop).unwrap_err(),
            told.3.map(drop).unwrap_err(),
        ]
    };
    let told = tokio::select! {
        told = calls => told,
        () = busy => unreachable!("it goes on"),
    };
    assert!(served > 0);
    for error in told {
        assert_eq!(error.effect(), Effect::NotApplied, "{error}");
        assert!(error.is_retryable(), "{error}");
    }
}

/// A host is gone, and only the other nodes say so.
#[tokio::test]
async fn a_master_that_falls_silent_is_left_by_idle_clients_too() {
    let mut cluster = Cluster::start_with(Duration::from_secs(2)).await;
    let name = &cluster.name_at(1, "silent").await;
    let patient = of(&cluster)
        .response_timeout(NEVER)
        .connect()
        .await
        .unwrap();
    let semaphore = patient.semaphore(name);
    semaphore.try_set_permits(3).await.unwrap();
    let guard = semaphore.permit(1).await.unwrap();
    let waiting = waiter(&cluster.servers[1], &patient, name, 3).await;
    cluster.until_copied(4, name, "2").await;
    cluster.servers[1].freeze();
    // The release goes to a server that does not answer.
    let release = tokio::spawn(async move { guard.release().await });
    served(release).await;
    served(waiting).await;
    semaphore.release(3).await.unwrap();
    assert_eq!(cluster.stored(name, 1).await.as_deref(), Some("3"));
    assert_eq!(cluster.master_of(cluster.slot(name).await, 1).await, 4);
    cluster.servers[1].thaw();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redisson_of_each_kind_is_woken_and_wakes() {
    let cluster = shared().await;
    let kinds = [
        ("AUTO", ShardedPubSub::Auto, "SHARDNUMSUB"),
        ("ON", ShardedPubSub::On, "SHARDNUMSUB"),
        ("OFF", ShardedPubSub::Off, "NUMSUB"),
    ];
    let beside = kinds.map(|(word, mode, counting)| async move {
        let arguments = ["--cluster", "--sharded", word];
        let peer = JavaPeer::start_with(NEWEST, &cluster.java_url(), &arguments).await;
        let client = of(cluster).sharded_pubsub(mode).connect().await.unwrap();
        for master in 0..3 {
            let name = &cluster.name_at(master, &format!("beside-{word}")).await;
            let heard = async |channel: String, count| {
                until_heard(&cluster.servers[master], counting, &channel, count).await;
            };
            beside_java(&client, &peer, name, heard).await;
            assert_eq!(
                cluster.stored(name, 3).await.as_deref(),
                Some("3"),
                "{name}"
            );
        }
        peer.shutdown().await;
    });
    join_all(beside).await;
}

/// `heard` waits until so many clients listen to a channel.
async fn beside_java(
    client: &Client,
    peer: &JavaPeer,
    name: &str,
    heard: impl AsyncFn(String, u64),
) {
    let semaphore = client.semaphore(name);
    let permits = |permits: u32| json!({ "name": name, "permits": permits });
    semaphore.try_set_permits(3).await.unwrap();
    // It waits for us ...
    let guard = semaphore.permit(3).await.unwrap();
    let call = peer.begin("acquire", permits(2));
    heard(channel(name), 1).await;
    guard.release().await.unwrap();
    call.await.unwrap();
    heard(channel(name), 0).await;
    // ... and we for it.
    let waiting = semaphore.clone();
    let waiting = tokio::spawn(async move { waiting.acquire(3).await });
    heard(channel(name), 1).await;
    peer.call("release", permits(2)).await.unwrap();
    served(waiting).await;
    semaphore.release(3).await.unwrap();
    // A lock, and a fair lock: each waiter of a fair lock has a channel of its own.
    let thread = peer.call("threadId", json!({ "thread": "t" })).await;
    let id = peer.call("clientId", json!({})).await.unwrap().value;
    let java_owner = format!("{}:{}", id.as_str().expect("a text"), thread.unwrap().value);
    let plain = client.lock(&format!("{{{name}}}-lock"));
    let fair = client.fair_lock(&format!("{{{name}}}-turn"));
    for (lock, is_fair) in [(&plain, false), (fair.as_lock(), true)] {
        let mut java = json!({ "name": lock.name(), "thread": "t" });
        if is_fair {
            java["fair"] = json!(true);
        }
        let channel = |owner: &str| {
            let all = format!("redisson_lock__channel:{}", lock.name());
            if is_fair {
                format!("{all}:{owner}")
            } else {
                all
            }
        };
        let guard = lock.guard().await.unwrap();
        let call = peer.begin("lock", java.clone());
        heard(channel(&java_owner), 1).await;
        guard.unlock().await.unwrap();
        call.await.unwrap();
        heard(channel(&java_owner), 0).await;
        let waiting = lock.clone();
        let waiting = tokio::spawn(async move { waiting.lock().await });
        heard(channel(lock.owner()), 1).await;
        peer.call("unlock", java).await.unwrap();
        served(waiting).await;
        lock.unlock().await.unwrap();
    }
    // A read-write lock, whose holds have keys of their own.
    let both = client.read_write_lock(&format!("{{{name}}}-prices"));
    let java = |side| json!({ "name": both.name(), "thread": "t", "side": side });
    let channel = format!("redisson_rwlock:{}", both.name());
    let reader = both.read().guard().await.unwrap();
    peer.call("lock", java("read")).await.unwrap();
    let writer = both.write();
    let waiting = tokio::spawn(async move { writer.guard().await });
    heard(channel.clone(), 1).await;
    reader.unlock().await.unwrap();
    peer.call("unlock", java("read")).await.unwrap();
    let writer = timeout(LIMIT, waiting).await.expect("it is woken");
    let writer = writer.unwrap().unwrap();
    let call = peer.begin("lock", java("write"));
    heard(channel, 1).await;
    writer.unlock().await.unwrap();
    call.await.unwrap();
    peer.call("unlock", java("write")).await.unwrap();
}

/// An idle client asks for the map at the interval that is set.
#[tokio::test]
async fn the_map_is_asked_for_at_the_pace_that_is_set() {
    let cluster = Cluster::start().await;
    let asked = async || {
        let mut sum = 0;
        for server in &cluster.servers[..3] {
            sum += commands(&mut server.connection().await, "cluster|slots:").await;
        }
        sum
    };
    let builder = || builder(cluster.url());
    let client = builder().scan_interval(NEVER).connect().await.unwrap();
    let seats = client.semaphore(&cluster.name_at(0, "seats").await);
    assert_eq!(seats.try_set_permits(1).await, Ok(true));
    let clock = cluster.name_at(0, "clock").await;
    let passes = async || {
        let () = ask(&cluster.servers[0], &["SET", &clock, "1", "PX", "1500"]).await;
        until("time passes", LIMIT, async || {
            ask::<i64>(&cluster.servers[0], &["EXISTS", &clock]).await == 0
        })
        .await;
    };
    // The client asks for the map once more after the connect.
    passes().await;
    let before = asked().await;
    passes().await;
    assert_eq!(asked().await, before);
    let quick = builder()
        .scan_interval(Duration::from_millis(100))
        .connect()
        .await
        .unwrap();
    let before = asked().await;
    until("it asks again and again", LIMIT, async || {
        asked().await >= before + 10
    })
    .await;
    drop(quick);
}
