//! `rsem` in a cluster: it asks each master for what only that master knows.

mod program;
#[path = "../../tests/support/mod.rs"]
mod support;

use std::collections::BTreeSet;

use program::{Program, rsem};
use serde_json::Value;
use support::cluster::{Cluster, allow, ask, until_heard};
use support::waiters::channel;

/// A name at each of the masters.
async fn names(cluster: &Cluster) -> Vec<String> {
    let names = (0..3).map(|master| cluster.name_at(master, "seats"));
    futures::future::join_all(names).await
}

async fn json(url: &str, arguments: &[&str]) -> (i32, Vec<Value>) {
    let ended = rsem(url, &[arguments, &["--json"]].concat()).await;
    let all = serde_json::from_str(&ended.out);
    (ended.status, all.unwrap_or_else(|_| panic!("{ended:?}")))
}

/// The findings about `about`, of every level.
fn about<'a>(all: &'a [Value], about: &str) -> Vec<(&'a str, &'a str)> {
    let found = all.iter().filter(|finding| finding["about"] == about);
    found
        .map(|finding| {
            let text = |field: &str| finding[field].as_str().expect("text");
            (text("level"), text("found"))
        })
        .collect()
}

#[tokio::test]
async fn each_master_is_looked_at() {
    let cluster = Cluster::start().await;
    let (status, all) = json(&cluster.url(), &["doctor"]).await;
    assert_eq!(status, 0, "{all:?}");
    let expected: BTreeSet<String> = (cluster.servers[..3].iter())
        .map(|server| format!("127.0.0.1:{}: a primary of a cluster", server.port()))
        .collect();
    let roles = about(&all, "role");
    assert!(roles.iter().all(|(level, _)| *level == "fine"), "{all:?}");
    let found = roles.iter().map(|(_, found)| (*found).to_owned());
    assert_eq!(found.collect::<BTreeSet<_>>(), expected);
    let last = &cluster.servers[2];
    ask::<()>(last, &["CONFIG", "SET", "maxmemory", "100mb"]).await;
    ask::<()>(last, &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
    let (status, all) = json(&cluster.url(), &["doctor"]).await;
    let eviction = about(&all, "eviction");
    let wrong: Vec<_> = (eviction.iter())
        .filter(|(level, _)| *level == "wrong")
        .collect();
    let place = format!("127.0.0.1:{}: ", last.port());
    assert_eq!((status, wrong.len()), (1, 1), "{all:?}");
    assert!(wrong[0].1.starts_with(&place), "{all:?}");
    // A master of a cluster is no single server: its users would miss the keys of the other masters.
    let (status, all) = json(&cluster.servers[0].url(), &["doctor"]).await;
    assert_eq!((status, about(&all, "role")[0].0), (1, "wrong"), "{all:?}");
}

/// For waiters at every master, and with both kinds of messages.
#[tokio::test]
async fn who_waits_is_counted_wherever_that_is() {
    let cluster = Cluster::start().await;
    let url = cluster.url();
    let plain = cluster.servers[0].directory().join("plain.yaml");
    let text = format!(
        "clusterServersConfig:\n  nodeAddresses: [{}]\n  shardedSubscriptionMode: OFF\n",
        cluster.java_url()
    );
    std::fs::write(&plain, text).unwrap();
    let kinds: [(&str, &[&str]); 2] = [
        ("SHARDNUMSUB", &[]),
        ("NUMSUB", &["--redisson-yaml", plain.to_str().unwrap()]),
    ];
    for (counting, options) in kinds {
        for (master, name) in names(&cluster).await.iter().enumerate() {
            let set = rsem(&url, &["set", name, "0", "--yes"]).await;
            assert_eq!(set.status, 0, "{set:?}");
            let run = [&["run", "-s", name], options, &["true"]].concat();
            let waiting = Program::start(&url, &run);
            let server = &cluster.servers[master];
            until_heard(server, counting, &channel(name), 1).await;
            let (_, shown) = json(&url, &[&["show", name], options].concat()).await;
            assert_eq!(shown[0]["listening"], 1, "{counting}: {shown:?}");
            let released = rsem(&url, &[&["release", name, "--yes"], options].concat()).await;
            assert_eq!(released.status, 0, "{released:?}");
            assert_eq!(waiting.ended().await.status, 0);
        }
    }
}

#[tokio::test]
async fn what_stands_beside_is_found_at_all_masters() {
    let cluster = Cluster::start().await;
    let url = cluster.url();
    let names = names(&cluster).await;
    for (name, server) in names.iter().zip(&cluster.servers) {
        let record = format!("redisson_sc_once:{{{name}}}:a-client");
        ask::<()>(server, &["SET", &record, "1"]).await;
        let grants = format!("redisson_sc_grants:{{{name}}}");
        let entry = "dead0000-0000-0000-0000-000000000000:g1:2:500";
        ask::<()>(server, &["ZADD", &grants, "1", entry]).await;
        let shown = rsem(&url, &["show", "--records", name]).await.out;
        assert!(shown.contains(&record), "{shown}");
    }
    let (_, all) = json(&url, &["doctor"]).await;
    let records = about(&all, "records");
    assert!(records[0].1.starts_with("6, some "), "{records:?}");
    let watched = about(&all, "watched");
    for name in &names {
        let told = format!("{name}: 2 permits of clients that are gone");
        assert!(
            watched.iter().any(|(_, found)| found.starts_with(&told)),
            "{told}: {watched:?}"
        );
    }
}

/// The test follows the advice to the letter, and then it works.
#[tokio::test]
async fn grants_for_a_cluster_are_asked_for_at_each_master() {
    let cluster = Cluster::start().await;
    allow(&cluster.servers, "app", "on >p +ping").await;
    let name = &names(&cluster).await[1];
    let door = format!("{name}-door");
    let set = rsem(&cluster.url(), &["set", name, "1"]).await;
    assert_eq!(set.status, 0, "{set:?}");
    let arguments = [
        "doctor",
        "--no-scan",
        "--acl-user",
        "app",
        "-s",
        name,
        "-l",
        &door,
    ];
    let (status, all) = json(&cluster.url(), &arguments).await;
    assert_eq!(status, 1);
    let advice = all.iter().filter(|finding| finding["about"] == "grants");
    let advice: BTreeSet<&str> = advice
        .filter_map(|finding| finding["advice"].as_str())
        .collect();
    assert!(!advice.is_empty());
    let rules: Vec<&str> = (advice.iter())
        .map(|advice| advice.strip_prefix("ACL SETUSER app ").expect("what to do"))
        .collect();
    let rules = rules.join(" ");
    allow(&cluster.servers[..2], "app", &rules).await;
    // One of the masters does not have the rules yet.
    let (status, all) = json(&cluster.url(), &arguments).await;
    assert_eq!(status, 1);
    let place = format!("127.0.0.1:{}: ", cluster.servers[2].port());
    for (level, found) in about(&all, "grants") {
        assert_eq!(level != "fine", found.starts_with(&place), "{found}");
    }
    allow(&cluster.servers[2..], "app", &rules).await;
    let (_, all) = json(&cluster.url(), &arguments).await;
    let grants = about(&all, "grants");
    assert!(grants.iter().all(|(level, _)| *level == "fine"), "{all:?}");
    let url = cluster.url().replace("://", "://app:p@");
    for (target, name) in [("-s", name), ("-l", &door)] {
        let ended = rsem(&url, &["run", target, name, "true"]).await;
        assert_eq!(ended.status, 0, "{target}: {ended:?}");
    }
}
