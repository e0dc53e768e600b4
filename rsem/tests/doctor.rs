//! `rsem doctor`, completions and manual pages.

mod program;
#[path = "../../tests/support/mod.rs"]
mod support;

use std::collections::BTreeSet;

use program::rsem;
use redis::AsyncCommands;
use serde_json::Value;
use support::acl::{grants, set_user};
use support::server::RedisServer;
use support::waiters::until_linked;

/// The findings that are not fine, each as `level about`, and the status.
async fn doctor(url: &str, arguments: &[&str]) -> (i32, Vec<String>, Vec<Value>) {
    let ended = rsem(url, &[&["doctor", "--json"], arguments].concat()).await;
    let all: Vec<Value> = serde_json::from_str(&ended.out).expect("JSON");
    let short = |finding: &Value| {
        let text = |field: &str| finding[field].as_str().expect("text").to_owned();
        format!("{} {}", text("level"), text("about"))
    };
    let bad = all
        .iter()
        .filter(|finding| finding["level"] != "fine")
        // The distance is that of a machine that may be busy.
        .filter(|finding| finding["about"] != "distance")
        .map(short)
        .collect();
    (ended.status, bad, all)
}

fn advice<'a>(all: &'a [Value], about: &str) -> Vec<&'a str> {
    let about = all.iter().filter(|finding| finding["about"] == about);
    about
        .filter_map(|finding| finding["advice"].as_str())
        .collect()
}

#[tokio::test]
async fn a_server_that_is_fit_is_fine() {
    let server = RedisServer::options().appendonly().start().await;
    let (status, bad, all) = doctor(&server.url(), &["-s", "seats", "-l", "door"]).await;
    assert_eq!((status, bad), (0, vec![]), "{all:?}");
    let ended = rsem(&server.url(), &["doctor"]).await;
    assert_eq!(ended.status, 0);
    assert!(
        ended.out.contains("fine   eviction     noeviction\n"),
        "{}",
        ended.out
    );
}

/// The list in which waiters of `getFairLock` stand.
#[tokio::test]
async fn lock_that_is_a_fair_lock_of_jvms_is_told() {
    let server = RedisServer::options().appendonly().start().await;
    let mut control = server.connection().await;
    let arguments = ["-l", "door", "-l", "gate"];
    let (status, bad, _) = doctor(&server.url(), &arguments).await;
    assert_eq!((status, bad), (0, vec![]));
    let queue = "redisson_lock_queue:{gate}";
    let () = control.lpush(queue, "jvm:1").await.unwrap();
    let (status, bad, all) = doctor(&server.url(), &arguments).await;
    assert_eq!((status, bad), (1, vec!["wrong fair locks".to_owned()]));
    assert!(advice(&all, "fair locks")[0].contains("getLock"), "{all:?}");
}

#[tokio::test]
async fn what_is_wrong_with_a_server_is_told_with_what_to_do() {
    let evicting = RedisServer::options()
        .setting("maxmemory", "100mb")
        .setting("maxmemory-policy", "allkeys-lru")
        .start()
        .await;
    let (status, bad, all) = doctor(&evicting.url(), &[]).await;
    assert_eq!(
        (status, bad),
        (
            1,
            vec!["wrong eviction".to_owned(), "note persistence".to_owned()]
        )
    );
    assert!(advice(&all, "eviction")[0].contains("noeviction"));

    let primary = RedisServer::options().appendonly().start().await;
    let replica = RedisServer::options()
        .appendonly()
        .replica_of(&primary)
        .start()
        .await;
    until_linked(&mut replica.connection().await).await;
    assert_eq!(doctor(&replica.url(), &[]).await.1, ["wrong role"]);
    let (status, bad, all) = doctor(&primary.url(), &[]).await;
    assert_eq!((status, bad), (0, vec!["note replicas".to_owned()]));
    assert!(advice(&all, "replicas")[0].contains("min-replicas-to-write"));
}

/// An entry of a client whose id begins with `client`.
fn entry(client: &str, ticket_and_permits: &str) -> String {
    format!("{client}0000-0000-0000-0000-000000000000:{ticket_and_permits}:500")
}

#[tokio::test]
async fn clients_that_are_gone_with_permits_are_told() {
    let server = RedisServer::options().appendonly().start().await;
    let mut redis = server.connection().await;
    let () = redis::pipe()
        .set("seats", 1)
        .set("x{y}", 1)
        .zadd("redisson_sc_grants:{seats}", entry("dead", "g1:1"), 1)
        .zadd("redisson_sc_grants:{seats}", entry("dead", "a2:1"), 2)
        .zadd("redisson_sc_grants:{seats}", entry("live", "g1:1"), 4e15)
        .zadd("redisson_sc_grants::x{y}", entry("live", "g2:1"), 4e15)
        .query_async(&mut redis)
        .await
        .unwrap();
    let (status, bad, all) = doctor(&server.url(), &[]).await;
    assert_eq!((status, bad), (0, vec!["note watched".to_owned()]));
    let found = |finding: &&Value| finding["about"] == "watched";
    let found = all.iter().find(found).unwrap()["found"].as_str().unwrap();
    assert!(
        found.contains("seats: 2 permits of clients that are gone (1)"),
        "{found}"
    );
    let advice = advice(&all, "watched")[0].split_once(';').unwrap().0;
    let words: Vec<&str> = advice.split(' ').skip(1).collect();
    assert_eq!(rsem(&server.url(), &words).await.status, 0);
    let (status, bad, all) = doctor(&server.url(), &[]).await;
    assert_eq!((status, bad), (0, vec![]), "{all:?}");
}

/// The advice is followed to the letter, and then it works.
#[tokio::test]
async fn missing_grants_are_named_so_that_they_can_be_given() {
    let server = RedisServer::options().user("app on >p +ping").start().await;
    let url = server.url();
    let app = server.url_as("app", "p");
    let mut connection = server.connection().await;
    let arguments = [
        "--acl-user",
        "app",
        "-s",
        "seats",
        "-l",
        "door",
        "--no-scan",
    ];
    let (status, bad, all) = doctor(&url, &arguments).await;
    assert_eq!(status, 1);
    assert_eq!(bad, ["note persistence", "wrong grants", "wrong grants"]);
    assert_eq!(
        rsem(&app, &["run", "-s", "seats", "--create", "1", "true"])
            .await
            .status,
        77
    );
    for advice in advice(&all, "grants") {
        let words: Vec<&str> = advice.split(' ').collect();
        let () = redis::cmd(words[0])
            .arg(&words[1..])
            .query_async(&mut connection)
            .await
            .unwrap();
    }
    assert_eq!(doctor(&url, &arguments).await.1, ["note persistence"]);
    for target in [
        &["-s", "seats", "--create", "1"][..],
        &["-l", "door"],
        &["-l", "door", "--fenced"],
    ] {
        let ended = rsem(&app, &[&["run"], target, &["true"]].concat()).await;
        assert_eq!((ended.status, ended.err.as_str()), (0, ""), "{target:?}");
    }
}

/// A lock has more beside it than its record, and its queue asks for the time.
#[tokio::test]
async fn a_lock_needs_all_that_stands_beside_it() {
    let all = "app on >p +@all ~door ~redisson_lock_once:{door}:* ~redisson_lock_token:{door} \
        ~redisson_lock_notes:{door} &redisson_lock__channel:{door} &redisson_lock_waiters:{door}*";
    for (more, missing) in [
        ("~redisson_lock_waiters:{door} -time", Some("+time")),
        ("", Some("~redisson_lock_*:{door}*")),
        ("~redisson_lock_waiters:{door}", None),
    ] {
        let rules = format!("{all} {more}");
        let server = RedisServer::options().user(&rules).start().await;
        let arguments = ["--acl-user", "app", "-l", "door", "--no-scan"];
        let (_, _, found) = doctor(&server.url(), &arguments).await;
        let of_door = found.iter().filter(|finding| {
            let text = finding["found"].as_str().expect("text");
            text.contains("lock \"door\"")
        });
        let advice: Vec<_> = of_door
            .filter_map(|finding| finding["advice"].as_str())
            .collect();
        match missing {
            None => assert!(advice.is_empty(), "{advice:?}"),
            Some(missing) => assert!(advice[0].contains(missing), "{more}: {advice:?}"),
        }
    }
}

#[tokio::test]
async fn what_is_asked_for_is_what_the_guide_says() {
    let kinds = [
        "Everybody:",
        "For semaphores,",
        "For locks,",
        "For read-write locks,",
    ];
    let server = RedisServer::options().user("app on >p").start().await;
    for (more, kinds) in [(None, &kinds[..3]), (Some("prices"), &kinds[..])] {
        let more = more.map(|name| ["--read-write-lock", name]);
        let more = more.as_slice().as_flattened();
        let arguments = [&["--acl-user", "app", "--no-scan"], more].concat();
        let (_, _, all) = doctor(&server.url(), &arguments).await;
        let advice = advice(&all, "grants").join(" ");
        let asked = advice.split(' ').filter(|word| word.starts_with('+'));
        let granted = kinds.iter().flat_map(|kind| grants(kind));
        let granted = granted.flat_map(|rules| rules.split(' '));
        let granted = granted.filter(|rule| rule.starts_with('+'));
        assert_eq!(asked.collect::<BTreeSet<_>>(), granted.collect());
    }
}

/// With what the guide grants for read-write locks, and no more.
#[tokio::test]
async fn a_user_of_read_write_locks_is_fit() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    for rules in ["Everybody:", "For read-write locks,"].map(grants).concat() {
        let rules = rules.split(' ').filter(|rule| !rule.starts_with('>'));
        let words: Vec<_> = ["app"].into_iter().chain(rules).collect();
        set_user(&mut control, &words).await;
    }
    for (name, fit) in [("prices", true), ("others", false)] {
        let arguments = ["--acl-user", "app", "--read-write-lock", name];
        let (_, _, all) = doctor(&server.url(), &arguments).await;
        let about = |finding: &&Value| {
            let found = finding["found"].as_str().expect("text");
            finding["about"] == "grants" && found.contains("read-write lock")
        };
        let finding = all.iter().find(about).expect("it is looked at");
        assert_eq!(finding["level"] == "fine", fit, "{finding}");
    }
}

#[tokio::test]
async fn who_may_ask_nothing_is_told_so() {
    let server = RedisServer::options().user("app on >p +ping").start().await;
    let (status, bad, _) = doctor(&server.url_as("app", "p"), &[]).await;
    assert_eq!(status, 0);
    assert_eq!(
        bad,
        ["note server", "note clock", "note grants", "note records"]
    );
}

#[tokio::test]
async fn completions_and_manual_pages_are_made_without_redis() {
    let url = "redis://127.0.0.1:1";
    for shell in ["bash", "zsh", "fish"] {
        let ended = rsem(url, &["completions", shell]).await;
        assert!(ended.status == 0 && ended.out.contains("doctor"), "{shell}");
    }
    let directory = std::env::temp_dir().join(format!("rsem-man-{:016x}", fastrand::u64(..)));
    std::fs::create_dir(&directory).unwrap();
    let ended = rsem(url, &["man", directory.to_str().unwrap()]).await;
    let page = std::fs::read_to_string(directory.join("rsem-run.1"));
    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!(ended.status, 0, "{}", ended.err);
    assert!(page.unwrap().contains("COMMAND"));
}
