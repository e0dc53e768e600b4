//! The master moves, and the sentinels say where: waiters are served there, and holds are kept there.

use std::time::{Duration, Instant};

use crate::sentinels::{Deployment, MASTER, asked, until_has, waiter};
use crate::support::clients::{LIMIT, NEVER, builder, release_as_redisson, served, stored};
use crate::support::peer::{JavaPeer, NEWEST};
use crate::support::server::RedisServer;
use crate::support::waiters::{until, until_linked};
use redisson_semaphore::{Effect, Error, RedissonYaml};
use serde_json::json;
use tokio::time::timeout;

async fn is_master(server: &RedisServer) -> Option<bool> {
    let role: Vec<redis::Value> = asked(server, &["ROLE"]).await?;
    Some(role[0] == redis::Value::BulkString(b"master".to_vec()))
}

async fn until_demoted(server: &RedisServer) {
    until("it is demoted", LIMIT, async || {
        is_master(server).await == Some(false)
    })
    .await;
}

/// Waits until no client of the test is connected to the server.
async fn until_left(server: &RedisServer) {
    let ours = format!("name={} ", crate::sentinels::CLIENT);
    until("the old master is left", LIMIT, async || {
        let list: Option<String> = asked(server, &["CLIENT", "LIST"]).await;
        list.is_some_and(|list| !list.contains(&ours))
    })
    .await;
}

#[tokio::test]
async fn a_failover_on_order_is_followed_with_waiters_and_guards() {
    let deployment = Deployment::start().await;
    let client = deployment.builder().connect().await.unwrap();
    let semaphore = client.semaphore("seats");
    semaphore.try_set_permits(5).await.unwrap();
    let guard = semaphore.permit(2).await.unwrap();
    let task = waiter(&deployment.servers[0], &semaphore, 4).await;
    deployment.until_all_have("seats", "3").await;
    deployment.fail_over().await;
    let new = deployment.until_failed_over().await;
    // A change that the old master still accepts is lost.
    until_left(&deployment.servers[0]).await;
    guard.release().await.unwrap();
    served(task).await;
    semaphore.release(4).await.unwrap();
    deployment.until_all_have("seats", "5").await;
    // Messages arrive from there, too.
    let task = waiter(&deployment.servers[new], &semaphore, 6).await;
    release_as_redisson(&mut deployment.servers[new].connection().await, "seats", 1).await;
    served(task).await;
    deployment.until_all_have("seats", "0").await;
    // The client has the connections that it needs, and no more.
    let ours = async |server, mark: &str| {
        let list: String = asked(server, &["CLIENT", "LIST"]).await.unwrap();
        list.matches(mark).count()
    };
    let named = format!("name={} ", crate::sentinels::CLIENT);
    until("it has two connections", LIMIT, async || {
        ours(&deployment.servers[new], &named).await == 2
    })
    .await;
    for sentinel in &deployment.sentinels {
        assert!(ours(sentinel, "user=reader ").await <= 2);
    }
}

#[tokio::test]
async fn a_master_that_is_killed_is_replaced() {
    let mut deployment = Deployment::start().await;
    let client = deployment.builder().connect().await.unwrap();
    let other = deployment.builder().connect().await.unwrap();
    let semaphore = client.semaphore("seats");
    semaphore.try_set_permits(20).await.unwrap();
    let guard = semaphore.permit(20).await.unwrap();
    let waiting = waiter(&deployment.servers[0], &semaphore, 1).await;
    let crowd: Vec<_> = (0..150)
        .flat_map(|_| [client.semaphore("seats"), other.semaphore("seats")])
        .map(|semaphore| {
            tokio::spawn(async move {
                semaphore.acquire(1).await?;
                semaphore.release(1).await
            })
        })
        .collect();
    deployment.until_all_have("seats", "0").await;
    deployment.servers[0].kill().await;
    drop(guard);
    deployment.until_failed_over().await;
    let told = Instant::now();
    served(waiting).await;
    let after = told.elapsed();
    semaphore.release(1).await.unwrap();
    for task in crowd {
        served(task).await;
    }
    eprintln!(
        "first waiter {after:?}, all {:?} after the failover",
        told.elapsed()
    );
    // The old master comes back as a replica: no client goes there.
    deployment.servers[0].restart().await;
    until_demoted(&deployment.servers[0]).await;
    deployment.until_all_have("seats", "20").await;
    semaphore.acquire(3).await.unwrap();
    deployment.until_all_have("seats", "17").await;
    until_left(&deployment.servers[0]).await;
}

/// The old master goes on taking itself for the master, and the client could go on talking to it.
#[tokio::test]
async fn a_master_that_is_cut_off_is_left_by_idle_clients_too() {
    let deployment = Deployment::start().await;
    let client = deployment.builder().connect().await.unwrap();
    let semaphore = client.semaphore("seats");
    semaphore.try_set_permits(3).await.unwrap();
    let guard = semaphore.permit(1).await.unwrap();
    let old = &deployment.servers[0];
    let task = waiter(old, &semaphore, 3).await;
    deployment.until_all_have("seats", "2").await;
    deployment.cut_off(true).await;
    let new = &deployment.servers[deployment.until_failed_over().await];
    until_left(old).await;
    assert_eq!(is_master(old).await, Some(true));
    guard.release().await.unwrap();
    served(task).await;
    until_has(new, "seats", "0").await;
    assert_eq!(stored(old, "seats").await, ["2"]);
    // A sentinel on the old master's side has another opinion, and the other sentinels have a later one.
    let hermit = crate::sentinels::sentinel().start().await;
    crate::sentinels::monitor(&hermit, MASTER, old.port(), "harness", 1).await;
    let urls = [&hermit].into_iter().chain(&deployment.sentinels);
    let asking = deployment
        .builder()
        .sentinels(urls.map(crate::sentinels::url));
    let fresh = asking.connect().await.unwrap();
    fresh.semaphore("seats").release(3).await.unwrap();
    until_has(new, "seats", "3").await;
    assert_eq!(stored(old, "seats").await, ["2"]);
    drop(hermit);
    deployment.cut_off(false).await;
    until_demoted(old).await;
    semaphore.acquire(3).await.unwrap();
    deployment.until_all_have("seats", "0").await;
}

/// There is no failover, and the old master goes on as before: only the sentinels were given another master.
#[tokio::test]
async fn a_master_that_the_sentinels_are_told_anew_is_followed() {
    let servers = [RedisServer::start().await, RedisServer::start().await];
    let mut all = vec![];
    for _ in 0..3 {
        let sentinel = crate::sentinels::sentinel().start().await;
        crate::sentinels::monitor(&sentinel, "moved", servers[0].port(), "harness", 2).await;
        all.push(sentinel);
    }
    let connecting = builder("redis://moved".to_owned())
        .sentinels(all.iter().map(crate::sentinels::url))
        .client_name(crate::sentinels::CLIENT);
    let client = connecting.connect().await.unwrap();
    let semaphore = client.semaphore("seats");
    semaphore.try_set_permits(0).await.unwrap();
    let task = waiter(&servers[0], &semaphore, 1).await;
    for sentinel in &all {
        let _: Option<()> = asked(sentinel, &["SENTINEL", "REMOVE", "moved"]).await;
        crate::sentinels::monitor(sentinel, "moved", servers[1].port(), "harness", 2).await;
    }
    until_left(&servers[0]).await;
    release_as_redisson(&mut servers[1].connection().await, "seats", 1).await;
    served(task).await;
}

/// A host is gone, and only the sentinels say so.
#[tokio::test]
async fn a_master_that_falls_silent_is_replaced() {
    let mut deployment = Deployment::start().await;
    let never = Duration::from_secs(3600);
    let patient = || deployment.builder().response_timeout(never).connect();
    let client = patient().await.unwrap();
    let semaphore = client.semaphore("seats");
    semaphore.try_set_permits(3).await.unwrap();
    let guard = semaphore.permit(1).await.unwrap();
    let task = waiter(&deployment.servers[0], &semaphore, 3).await;
    deployment.until_all_have("seats", "2").await;
    deployment.servers[0].freeze();
    let release = tokio::spawn(async move { guard.release().await });
    served(release).await;
    served(task).await;
    // The old master carries out the requests in its socket now, and loses their effects.
    deployment.servers[0].thaw();
    until_demoted(&deployment.servers[0]).await;
    deployment.until_all_have("seats", "0").await;
    semaphore.release(2).await.unwrap();
    deployment.until_all_have("seats", "2").await;
}

#[tokio::test]
async fn a_replica_is_not_taken_for_the_master_whatever_the_sentinel_says() {
    let primary = RedisServer::start().await;
    let replica = RedisServer::options().replica_of(&primary).start().await;
    until_linked(&mut replica.connection().await).await;
    let sentinel = crate::sentinels::sentinel().start().await;
    crate::sentinels::monitor(&sentinel, "misled", replica.port(), "harness", 1).await;
    let connecting = builder("redis://misled".to_owned())
        .sentinels([crate::sentinels::url(&sentinel)])
        .connect_timeout(Duration::from_millis(600));
    let error = connecting.connect().await.expect_err("it is a replica");
    let Error::RefusedForNow { name, detail, .. } = &error else {
        panic!("{error}");
    };
    assert!(
        name.starts_with("misled of the sentinels 127.0.0.1:"),
        "{name}"
    );
    assert!(detail.starts_with("READONLY 127.0.0.1:"), "{detail}");
}

#[tokio::test]
async fn what_cannot_work_is_told() {
    let sentinel = crate::sentinels::sentinel().start().await;
    crate::sentinels::monitor(&sentinel, MASTER, 1, "harness", 1).await;
    let good = || crate::sentinels::url(&sentinel);
    let long = 4 * LIMIT;
    let to = |name: &str, urls: Vec<String>| {
        builder(format!("redis://{name}"))
            .sentinels(urls)
            .connect_timeout(long)
    };
    let at_once = async |connecting: redisson_semaphore::ClientBuilder| {
        let connected = timeout(LIMIT, connecting.connect()).await;
        let error = connected.expect("at once").expect_err("it cannot work");
        assert_eq!(error.effect(), Effect::NotApplied);
        error
    };
    let error = at_once(to("nobody", vec![good()])).await;
    let Error::Server { detail, .. } = &error else {
        panic!("{error}");
    };
    assert!(detail.contains("a master called \"nobody\""), "{detail}");
    for url in [sentinel.url(), sentinel.url_as("reader", "wrong-secret")] {
        let error = at_once(to(MASTER, vec![url])).await;
        let Error::Authentication { detail, .. } = &error else {
            panic!("{error}");
        };
        assert!(detail.contains(&sentinel.port().to_string()), "{detail}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    for (name, urls) in [
        ("m", vec![]),
        ("m:6379", vec![good()]),
        ("m", vec![format!("{}/3", good())]),
        ("m", vec!["http://s".to_owned()]),
    ] {
        let error = at_once(to(name, urls.clone())).await;
        assert!(
            matches!(error, Error::Configuration { .. }),
            "{urls:?}: {error}"
        );
    }
    let short = Duration::from_millis(400);
    let dead = ["redis://127.0.0.1:1", "redis://127.0.0.1:2"].map(str::to_owned);
    let connecting = to(MASTER, dead.to_vec()).connect_timeout(short);
    let error = connecting.connect().await.expect_err("nobody is there");
    let Error::Unavailable { detail, .. } = &error else {
        panic!("{error}");
    };
    assert!(detail.contains("no sentinel answers"), "{detail}");
    assert!(
        detail.contains("127.0.0.1:1") && detail.contains("127.0.0.1:2"),
        "{detail}"
    );
    // The client works as soon as one sentinel answers.
    let one = [dead[0].clone(), dead[1].clone(), good()].to_vec();
    let connecting = to(MASTER, one).connect_timeout(short);
    let error = connecting.connect().await.expect_err("no master is there");
    assert!(!error.to_string().contains("no sentinel"), "{error}");
}

#[tokio::test]
async fn a_jvm_follows_the_same_sentinels_by_the_same_file() {
    let deployment = Deployment::start().await;
    let file = deployment.sentinels[0].directory().join("redisson.yaml");
    std::fs::write(&file, deployment.yaml()).expect("the directory is ours");
    let file = file.to_str().expect("plain characters");
    let (connecting, _) = RedissonYaml::file(file).unwrap().builder().unwrap();
    let connecting = connecting.retry_window(2 * LIMIT).safety_interval(NEVER);
    let client = connecting.connect().await.unwrap();
    let peer = JavaPeer::start_with(NEWEST, "redis://", &["--yaml", file]).await;
    let semaphore = client.semaphore("seats");
    let one = || json!({ "name": "seats", "permits": 1 });
    let task = waiter(&deployment.servers[0], &semaphore, 1).await;
    peer.call("release", one()).await.unwrap();
    served(task).await;
    deployment.until_all_have("seats", "0").await;
    let task = waiter(&deployment.servers[0], &semaphore, 1).await;
    deployment.fail_over().await;
    deployment.until_failed_over().await;
    // A change that the old master still accepts is lost. Redisson returns errors for a while.
    until_demoted(&deployment.servers[0]).await;
    until("Redisson follows", LIMIT, async || {
        peer.call("release", one()).await.is_ok()
    })
    .await;
    served(task).await;
    semaphore.release(1).await.unwrap();
    until("Redisson acquires", LIMIT, async || {
        let got = peer.call("tryAcquire", one()).await;
        got.is_ok_and(|answer| answer.value == json!(true))
    })
    .await;
    deployment.until_all_have("seats", "0").await;
    peer.shutdown().await;
}
