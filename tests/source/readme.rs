//! The guide's examples are those of `examples/services`, the README's links lead somewhere, the guide's figures are those of the run
//! that was kept, and the permissions that it names are those that are needed.

#[path = "../../benches/compare/figures/mod.rs"]
mod figures;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use crate::layouts::Shape;
use crate::support::acl::set_user;
use crate::support::channel::Channel;
use crate::support::clients::{LIMIT, builder, served};
use crate::support::proxy::{Fate, Proxy};
use crate::support::server::RedisServer;
use crate::support::waiters::{channel, until, until_in_queue, until_subscribers, waiter};
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, FromRedisValue};
use redisson_semaphore::{Client, Lock as _, NameMapper, RLock};
use tokio::time::timeout;

const README: &str = include_str!("../../README.md");
const LIB: &str = include_str!("../../src/lib.rs");
const EXAMPLES: &str = include_str!("../../src/guide/examples.md");
const OPERATIONS: &str = include_str!("../../src/guide/operations.md");

/// Waited for in vain.
const SHORT: Duration = Duration::from_millis(50);

#[test]
fn the_examples_are_those_that_are_run() {
    let shown: Vec<&str> = EXAMPLES
        .split("```rust")
        .skip(1)
        .filter_map(|rest| rest.split_once('\n')?.1.split("```").next())
        .collect();
    let run = [
        include_str!("../../examples/services/src/bin/limited.rs"),
        include_str!("../../examples/services/src/bin/worker.rs"),
        include_str!("../../examples/services/tests/without_redis.rs"),
    ];
    // Without what the file says of itself.
    let run = run.map(|file| file.split_once("\n\n").expect("a file's head").1);
    assert_eq!(shown, run);
}

/// A screen and a half, without the definitions of its links.
#[test]
fn the_front_page_is_short() {
    let lines = README.lines().filter(|line| !line.starts_with("[`"));
    assert!(lines.count() <= 90);
}

/// `[name]: address` at the beginning of lines.
fn links<'a>(text: &'a str, before: &str) -> Vec<(&'a str, &'a str)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(before));
    let links = lines.filter(|line| line.starts_with("[`"));
    links.filter_map(|line| line.split_once("]: ")).collect()
}

/// On a page of its own the README links to docs.rs, in the documentation to the very types: the same ones.
#[test]
fn each_link_of_the_readme_is_one_in_the_documentation() {
    let outside: BTreeSet<String> = links(README, "")
        .into_iter()
        .map(|(name, address)| {
            let path = address
                .strip_prefix("https://docs.rs/redisson-semaphore/latest/redisson_semaphore/")
                .expect("the documentation");
            let path = path
                .trim_end_matches("/index.html")
                .trim_end_matches(".html");
            format!("{name} {}", path.replace("struct.", "").replace('/', "::"))
        })
        .collect();
    let inside = links(LIB, "//! ");
    let inside = inside
        .into_iter()
        .map(|(name, path)| format!("{name} {path}"));
    assert_eq!(outside, inside.collect());
    for (name, _) in links(README, "") {
        assert!(README.matches(&format!("{name}]")).count() > 1, "{name}");
    }
}

/// Written by `make figures`, and by nobody else.
#[test]
fn the_figures_are_those_of_the_report() {
    let report = include_str!("../../benches/figures.json");
    let demo = include_str!("../../benches/demo.txt");
    let report = serde_json::from_str(report).expect("JSON");
    assert_eq!(figures::missing(&report), [""; 0]);
    let page = include_str!("../../src/guide/figures.md");
    assert_eq!(figures::chapter(page, &report), page);
    let drawn = [
        include_str!("../../src/guide/waits.svg"),
        include_str!("../../src/guide/throughput.svg"),
        include_str!("../../src/guide/demo.svg"),
    ];
    for ((name, picture), drawn) in figures::pictures(&report, demo).into_iter().zip(drawn) {
        assert!(picture == drawn, "{name} is not what the report says");
        // In the documentation it stands in Markdown, where an empty line would end it.
        assert!(!picture.contains("\n\n"), "{name}");
    }
}

/// The commands of the guide that grant what is needed for something, after the words that introduce it.
fn grants(introduction: &str) -> Vec<&'static str> {
    let (_, behind) = OPERATIONS.split_once(introduction).expect(introduction);
    let (_, block) = behind.split_once("```text\n").expect("a block");
    let (block, _) = block.split_once("```").expect("its end");
    let lines = block.lines().map(|line| {
        let rules = line.strip_prefix("ACL SETUSER app ");
        rules.expect("a command for the user `app`")
    });
    lines.collect()
}

/// A server whose user `app` has been granted what everybody needs, and this.
async fn granting(introductions: &[&str]) -> (RedisServer, MultiplexedConnection) {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let all = ["Everybody:"].iter().chain(introductions);
    for rules in all.flat_map(|introduction| grants(introduction)) {
        let words: Vec<_> = ["app"].into_iter().chain(rules.split(' ')).collect();
        set_user(&mut control, &words).await;
    }
    (server, control)
}

/// A client of that user.
async fn connect(server: &RedisServer) -> Client {
    let builder = builder(server.url_as("app", "secret")).client_name("app");
    builder.connect().await.unwrap()
}

/// Nobody has been refused anything.
async fn nothing_is_refused(control: &mut MultiplexedConnection) {
    let mut log = redis::cmd("ACL");
    let log: Vec<HashMap<String, redis::Value>> =
        log.arg("LOG").query_async(control).await.unwrap();
    let refused = log.iter().map(|entry| {
        let object = String::from_redis_value_ref(&entry["object"]);
        object.expect("a word")
    });
    // Who the client is, for the reader of `CLIENT LIST` only: not every server knows the command.
    let refused: Vec<String> = refused
        .filter(|object| !["client", "client|setinfo"].contains(&&**object))
        .collect();
    assert_eq!(refused, [""; 0]);
}

/// And nothing is granted that nobody has used.
async fn all_is_used(control: &mut MultiplexedConnection, introductions: &[&str]) {
    let stats = statistics(control).await;
    let granted = introductions.iter().flat_map(|words| grants(words));
    let granted = granted.flat_map(|rules| rules.split(' '));
    let commands = granted.filter_map(|rule| rule.strip_prefix('+'));
    let unused: Vec<&str> = commands
        .filter(|command| {
            // Of some only a part is granted, of some only a part is used: `pubsub|numsub`.
            let beginning = format!("cmdstat_{command}");
            let mut all = stats
                .lines()
                .filter_map(|line| line.strip_prefix(&beginning));
            !all.any(|rest| rest.starts_with([':', '|']))
        })
        .collect();
    assert_eq!(unused, [""; 0]);
}

/// How often each command has been used.
async fn statistics(control: &mut MultiplexedConnection) -> String {
    let mut info = redis::cmd("INFO");
    info.arg("commandstats").query_async(control).await.unwrap()
}

/// A second or two after their last waiter has gone.
async fn channels_are_left(control: &mut MultiplexedConnection) {
    until("channels are left", LIMIT, async || {
        statistics(control).await.contains("cmdstat_unsubscribe:")
    })
    .await;
}

/// When they have gone, nobody has been refused anything, and nothing was granted in vain.
async fn what_was_granted_was_enough_and_needed(
    control: &mut MultiplexedConnection,
    clients: impl IntoIterator<Item = Client>,
    introductions: &[&str],
) {
    channels_are_left(control).await;
    for client in clients {
        client.shutdown().await.unwrap();
    }
    nothing_is_refused(control).await;
    all_is_used(control, introductions).await;
}

/// Between two clients, with guards that are renewed and one that has died.
#[tokio::test]
async fn what_semaphores_need() {
    const THESE: &[&str] = &["For semaphores,"];
    let (server, mut control) = granting(THESE).await;
    // Guards are renewed every second.
    let connect = async || {
        let builder = builder(server.url_as("app", "secret"));
        let builder = builder.lock_watchdog_timeout(Duration::from_secs(3));
        builder.connect().await.unwrap()
    };
    let (client, other) = (connect().await, connect().await);
    let semaphore = client.semaphore("seats");
    semaphore.try_set_permits(1).await.unwrap();
    semaphore.acquire(1).await.unwrap();
    let waiting = other.semaphore("seats");
    let task = waiter(&mut control, &waiting, 1).await;
    semaphore.release(1).await.unwrap();
    served(task).await;
    // Each operation, and a caller that waits in vain beside others.
    assert_eq!(semaphore.try_acquire_for(2, SHORT).await, Ok(false));
    semaphore.add_permits(4).await.unwrap();
    assert_eq!(semaphore.release_if_exists(1).await, Ok(true));
    let (larger, large) = (waiter(&mut control, &waiting, 9).await, semaphore.clone());
    let large = tokio::spawn(async move { large.acquire(8).await });
    let jvm = Channel::subscribe(&server, &channel("seats")).await;
    until_in_queue(&mut control, "redisson_sc_queue:{seats}", 2).await;
    semaphore.release(12).await.unwrap();
    for task in [large, larger] {
        served(task).await;
    }
    drop(jvm);
    assert_eq!(semaphore.drain_permits().await, Ok(0));
    assert_eq!(semaphore.available_permits().await, Ok(0));
    semaphore.add_permits(4).await.unwrap();
    let mut two = semaphore.permit(2).await.unwrap();
    let one = two.split(1).unwrap();
    assert_eq!(semaphore.holders().await.unwrap().len(), 1);
    until("guards are renewed", LIMIT, async || {
        statistics(&mut control).await.contains("cmdstat_zmscore:")
    })
    .await;
    one.release().await.unwrap();
    assert_eq!(two.forget(), 1);
    drop(semaphore.try_permit(1).await.unwrap());
    let (all, next) = (semaphore.permit(3).await.unwrap(), waiting.clone());
    let waits = tokio::spawn(async move { next.permit(2).await?.release().await });
    until_subscribers(&mut control, "redisson_sc:{seats}", 1).await;
    all.release().await.unwrap();
    served(waits).await;
    let dead = "dead0000-0000-0000-0000-000000000000:g1:1:500:the%20late%20one";
    let _: () = redis::pipe()
        .zadd("redisson_sc_grants:{seats}", dead, 1)
        .query_async(&mut control)
        .await
        .unwrap();
    let found = async || semaphore.reclaim().await.unwrap().len();
    let back = async || semaphore.available_permits().await == Ok(4);
    until("it is given back", LIMIT, async || {
        found().await > 0 || back().await
    })
    .await;
    what_was_granted_was_enough_and_needed(&mut control, [client, other], THESE).await;
}

#[tokio::test]
async fn what_permits_with_ids_need() {
    const THESE: &[&str] = &["For semaphores whose permits have ids,"];
    let (server, mut control) = granting(THESE).await;
    // Guards are renewed every two seconds.
    let lease = Duration::from_secs(6);
    let client = builder(server.url_as("app", "secret")).lock_watchdog_timeout(lease);
    let client = client.connect().await.unwrap();
    let work = client.permit_expirable_semaphore("work");
    work.try_set_permits(2).await.unwrap();
    let guard = work.permit().await.unwrap();
    let held = work.clone().with_lease(LIMIT).acquire().await.unwrap();
    // Two wait, in two clients.
    let other = connect(&server).await;
    let waits = [&client, &other].map(|client| {
        let next = client.permit_expirable_semaphore("work");
        tokio::spawn(async move { next.permit().await?.release().await.map(drop) })
    });
    until_in_queue(&mut control, "redisson_sc_leased_queue:{work}", 2).await;
    assert_eq!(
        work.update_lease_time(held.id(), Some(LIMIT)).await,
        Ok(true)
    );
    work.lease_time(held.id()).await.unwrap();
    assert_eq!(work.try_release(held.id()).await, Ok(true));
    for task in waits {
        served(task).await;
    }
    work.add_permits(1).await.unwrap();
    work.set_permits(2).await.unwrap();
    assert_eq!(work.total_permits().await, Ok(2));
    assert_eq!(work.acquired_permits().await, Ok(1));
    assert_eq!(work.available_permits().await, Ok(1));
    assert_eq!(work.holders().await.unwrap().len(), 1);
    // One ends while another client waits.
    let brief = work.clone().with_lease(Duration::from_millis(200));
    let _ends = brief.acquire().await.unwrap();
    let next = other.permit_expirable_semaphore("work");
    served(tokio::spawn(async move {
        next.permit().await?.release().await.map(drop)
    }))
    .await;
    // More than one page of holders, of a semaphore that has a time to live.
    work.set_permits(400).await.unwrap();
    let _: bool = control.pexpire("work", 3_600_000).await.unwrap();
    let many = work.acquire_many(300).await.unwrap();
    assert_eq!(work.holders().await.unwrap().len(), 301);
    let ids: Vec<&str> = many.iter().map(|held| held.id()).collect();
    assert_eq!(work.try_release_many(&ids[1..]).await, Ok(299));
    work.release_many(&ids[..1]).await.unwrap();
    let end = guard.lease().remaining();
    until("guards are renewed", LIMIT, async || {
        guard.lease().remaining() > end
    })
    .await;
    guard.release().await.unwrap();
    work.release_all().await.unwrap();
    // Of an id that is not held.
    assert_eq!(work.try_release(held.id()).await, Ok(false));
    what_was_granted_was_enough_and_needed(&mut control, [client, other], THESE).await;
}

/// Two clients wait for a third one, one in vain, and one behind a waiter that is gone.
#[tokio::test]
async fn what_fair_locks_need() {
    const THESE: &[&str] = &["For fair locks:"];
    const QUEUE: &str = "redisson_lock_queue:{turn}";
    let (server, mut control) = granting(THESE).await;
    let clients = [(); 3];
    let [client, one, two] = clients.map(|()| connect(&server));
    let (client, one, two) = (client.await, one.await, two.await);
    let turn = client.fair_lock("turn");
    turn.lock().await.unwrap();
    let tasks = [&one, &two].map(|client| {
        let next = client.fair_lock("turn");
        tokio::spawn(async move { next.guard().await?.unlock().await })
    });
    until("both wait in the queue", LIMIT, async || {
        control.llen::<_, u64>(QUEUE).await.unwrap() == 2
    })
    .await;
    assert_eq!(one.fair_lock("turn").try_lock_for(SHORT).await, Ok(false));
    turn.lock().await.unwrap();
    turn.unlock().await.unwrap();
    turn.unlock().await.unwrap();
    for task in tasks {
        served(task).await;
    }
    let _: () = control.rpush(QUEUE, "gone:1").await.unwrap();
    let ends = control.zadd("redisson_lock_timeout:{turn}", "gone:1", 1);
    let _: () = ends.await.unwrap();
    assert_eq!(turn.try_lock().await, Ok(true));
    assert_eq!(turn.hold_count().await, Ok(1));
    assert_eq!(turn.as_lock().is_held().await, Ok(true));
    assert_eq!(one.fair_lock("turn").force_unlock().await, Ok(true));
    assert_eq!(turn.is_locked().await, Ok(false));
    what_was_granted_was_enough_and_needed(&mut control, [client, one, two], THESE).await;
}

#[tokio::test]
async fn what_locks_need() {
    const THESE: &[&str] = &["For locks,"];
    let (server, mut control) = granting(THESE).await;
    let (client, other) = (connect(&server).await, connect(&server).await);
    let channel = "redisson_lock__channel:{door}";
    let waits = |next: RLock| {
        tokio::spawn(async move {
            next.lock().await?;
            next.unlock().await
        })
    };
    // From one owner of a client to the next one; then, with nobody else there, to another client.
    let door = client.lock("door");
    for next in [client.lock("door"), other.lock("door")] {
        until_subscribers(&mut control, channel, 0).await;
        door.lock().await.unwrap();
        let task = waits(next);
        until_subscribers(&mut control, channel, 1).await;
        door.unlock().await.unwrap();
        served(task).await;
    }
    // And to the first of several clients that wait.
    let third = connect(&server).await;
    door.lock().await.unwrap();
    let tasks = [&other, &third].map(|client| waits(client.lock("door")));
    until_in_queue(&mut control, "redisson_lock_waiters:{door}", 2).await;
    door.unlock().await.unwrap();
    for task in tasks {
        served(task).await;
    }
    client
        .fenced_lock("door")
        .lock_and_get_token()
        .await
        .unwrap();
    assert_eq!(other.lock("door").try_lock_for(SHORT).await, Ok(false));
    assert_eq!(door.hold_count().await, Ok(0));
    assert_eq!(door.is_held().await, Ok(false));
    door.remaining_ttl().await.unwrap();
    assert_eq!(other.lock("door").force_unlock().await, Ok(true));
    assert_eq!(door.is_locked().await, Ok(false));
    let clients = [client, other, third];
    what_was_granted_was_enough_and_needed(&mut control, clients, THESE).await;
}

#[tokio::test]
async fn what_read_write_locks_need() {
    const THESE: &[&str] = &["For read-write locks,"];
    let (server, mut control) = granting(THESE).await;
    let (client, other) = (connect(&server).await, connect(&server).await);
    let (prices, next) = (
        client.read_write_lock("prices"),
        other.read_write_lock("prices"),
    );
    // From a writer to readers and on to a writer, of both clients; one that reads twice, and one that goes on as a reader.
    for (first, next) in [(&prices, &next), (&next, &prices)] {
        let writer = first.write().guard().await.unwrap();
        let reads = [first.read(), next.read()].map(|side| {
            tokio::spawn(async move {
                let guard = side.guard().await?;
                let again = guard.again().await?;
                guard.unlock().await?;
                again.unlock().await
            })
        });
        let writes = next.write();
        let writes = tokio::spawn(async move { writes.guard().await?.unlock().await });
        until_in_queue(&mut control, "redisson_rwlock_waiters:{prices}", 3).await;
        first
            .downgrade(writer)
            .await
            .unwrap()
            .unlock()
            .await
            .unwrap();
        for task in reads.into_iter().chain([writes]) {
            served(task).await;
        }
    }
    assert_eq!(prices.read().try_lock().await, Ok(true));
    assert_eq!(next.write().try_lock_for(SHORT).await, Ok(false));
    assert_eq!(next.read().is_locked().await, Ok(true));
    assert_eq!(prices.read().hold_count().await, Ok(1));
    prices.read().remaining_ttl().await.unwrap();
    assert_eq!(next.read().force_unlock().await, Ok(true));
    assert_eq!(next.write().is_held().await, Ok(false));
    assert_eq!(prices.write().try_lock().await, Ok(true));
    assert_eq!(prices.read().is_locked().await, Ok(false));
    what_was_granted_was_enough_and_needed(&mut control, [client, other], THESE).await;
}

#[tokio::test]
async fn what_latches_need() {
    const THESE: &[&str] = &["For latches:"];
    let (server, mut control) = granting(THESE).await;
    let proxy = Proxy::start(&server).await;
    let client = builder(proxy.url_as("app", "secret")).client_name("app");
    let client = client.connect().await.unwrap();
    let done = client.count_down_latch("done");
    assert_eq!(done.try_set_count(2).await, Ok(true));
    // Its record answers.
    proxy.at_script(1, Fate::LoseReplyAndClose);
    done.count_down().await.unwrap();
    let waits = done.clone();
    let task = tokio::spawn(async move { waits.wait().await });
    until_subscribers(&mut control, "redisson_countdownlatch__channel__{done}", 1).await;
    assert_eq!(done.count().await, Ok(1));
    done.count_down().await.unwrap();
    served(task).await;
    what_was_granted_was_enough_and_needed(&mut control, [client], THESE).await;
}

#[tokio::test]
async fn what_recipes_need() {
    let (server, mut control) = granting(&["For the recipes,"]).await;
    let (client, other) = (connect(&server).await, connect(&server).await);
    for layout in crate::layouts::ALL {
        let name = format!("jobs-{layout:?}");
        let one = layout.make(&client, &name, Shape::new(1));
        let two = layout.make(&other, &name, Shape::new(1));
        let permit = one.permit().await.unwrap();
        let waits = tokio::spawn(async move { two.permit().await?.release().await });
        assert_eq!(one.holders().await.unwrap().len(), 1);
        assert!(one.refresh(permit.id()).await.unwrap());
        assert!(permit.release().await.unwrap());
        timeout(LIMIT, waits).await.unwrap().unwrap().unwrap();
        one.release_all().await.unwrap();
    }
    let import = client.string_lock("jobs");
    import.lock().await.unwrap();
    assert_eq!(
        other.string_lock("jobs").try_lock_for(SHORT).await,
        Ok(false)
    );
    import.unlock().await.unwrap();
    for client in [client, other] {
        client.shutdown().await.unwrap();
    }
    nothing_is_refused(&mut control).await;
}

/// Everything that a tenant's objects leave behind, and hear.
async fn use_everything(server: &RedisServer, tenant: &str) {
    let mapped = async || {
        let mapper = NameMapper::prefix(format!("{tenant}:"));
        let builder = builder(server.url_as(tenant, "secret")).name_mapper(mapper);
        builder.connect().await.unwrap()
    };
    let (client, other) = (mapped().await, mapped().await);
    let (seats, lock) = (client.semaphore("seats"), client.lock("door"));
    seats.try_set_permits(1).await.unwrap();
    let guard = seats.permit(1).await.unwrap();
    let held = lock.guard().await.unwrap();
    let waiting = other.semaphore("seats");
    let waiting = tokio::spawn(async move { waiting.acquire(1).await });
    let next = other.fenced_lock("door");
    let locking = tokio::spawn(async move { next.lock_and_get_token().await });
    let done = client.count_down_latch("done");
    done.try_set_count(1).await.unwrap();
    let passing = other.count_down_latch("done");
    let passing = tokio::spawn(async move { passing.wait().await });
    let mut control = server.connection().await;
    for channel in [
        format!("redisson_sc:{{{tenant}:seats}}"),
        format!("redisson_lock__channel:{{{tenant}:door}}"),
        format!("redisson_countdownlatch__channel__{{{tenant}:done}}"),
    ] {
        until_subscribers(&mut control, &channel, 1).await;
    }
    guard.release().await.unwrap();
    held.unlock().await.unwrap();
    done.count_down().await.unwrap();
    for task in [waiting, passing] {
        served(task).await;
    }
    timeout(LIMIT, locking)
        .await
        .expect("served")
        .unwrap()
        .unwrap();
    let work = client.permit_expirable_semaphore("work");
    work.try_set_permits(3).await.unwrap();
    let _ = work.acquire().await.unwrap();
    for layout in crate::layouts::ALL {
        let one = layout.make(&client, &format!("jobs-{layout:?}"), Shape::new(1));
        let _ = one.acquire().await.unwrap();
        let two = layout.make(&other, &format!("jobs-{layout:?}"), Shape::new(1));
        assert!(two.try_acquire_for(SHORT).await.unwrap().is_none());
    }
    client.string_lock("import").lock().await.unwrap();
    // Left alone, they leave their records behind for now.
    std::mem::forget((client, other));
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
        use_everything(&server, tenant).await;
        nothing_is_refused(&mut control).await;
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
    let (server, mut control) = granting(&["For semaphores,", "Operations on the object"]).await;
    let client = connect(&server).await;
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
    set_user(&mut control, &rules).await;
    assert!(seats.object().copy("other").await.unwrap());
    assert!(seats.object().rename_nx("other").await.unwrap().is_none());
    let seats = seats.object().rename("other").await.unwrap();
    assert!(seats.object().unlink().await.unwrap());
    assert!(!seats.delete().await.unwrap());
    let _: () = control.rpush("seats", "no counter").await.unwrap();
    client.semaphore("seats").release(1).await.unwrap_err();
    // Some seconds after it was connected to the next call asks whether the server is a master still.
    until("the role is asked for", LIMIT, async || {
        client.ping().await.unwrap();
        statistics(&mut control).await.contains("cmdstat_role:")
    })
    .await;
    client.shutdown().await.unwrap();
    nothing_is_refused(&mut control).await;
    all_is_used(&mut control, &["Operations on the object", "Everybody:"]).await;
}
