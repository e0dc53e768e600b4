//! `rsem show`, `set`, `add`, `drain`, `release`, `reclaim` and `unlock`.

mod program;
#[path = "../../tests/support/mod.rs"]
mod support;

use std::process::Stdio;

use program::terminal::Terminal;
use program::{Program, command, rsem};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, RemainingTtl};
use serde_json::{Value, json};
use support::acl::grants;
use support::clients::{LIMIT, NEVER, served};
use support::server::RedisServer;
use support::waiters::{channel, until, until_subscribers};

async fn show(url: &str, name: &str) -> Value {
    let ended = rsem(url, &["show", "--json", name]).await;
    let all: Value = serde_json::from_str(&ended.out).expect("JSON");
    all[0].clone()
}

async fn available(connection: &mut MultiplexedConnection, name: &str) -> Option<i64> {
    connection.get(name).await.expect("a number")
}

#[tokio::test]
async fn each_kind_is_shown_for_what_it_is() {
    let server = RedisServer::start().await;
    let url = server.url();
    let mut connection = server.connection().await;
    let owner = "12e1ee62-5cda-4d59-8592-fd41bffb9937:7";
    let mut pipe = redis::pipe();
    pipe.pset_ex("seats", 4, 600_000);
    pipe.set("leased", 1).zadd("{leased}:timeout", "id", 1);
    pipe.hset("door", owner, 2);
    pipe.hset("ledger", owner, 1)
        .set("redisson_lock_token:{ledger}", 12);
    pipe.hset("fair", owner, 1)
        .rpush("redisson_lock_queue:{fair}", "other:1");
    pipe.hset("book", "mode", "read").hset("book", owner, 1);
    pipe.zadd("zset", "a", 5)
        .zadd("zset", "b", 6)
        .sadd("set", "a");
    pipe.set("text", "an owner")
        .rpush("list", 1)
        .hset("hash", "field", "value");
    let () = pipe.query_async(&mut connection).await.unwrap();
    let holder = json!([{"owner": owner, "count": 1}]);
    let cases = [
        (
            "seats",
            json!({"kind": "semaphore", "available": 4, "leases": null, "listening": 0}),
        ),
        (
            "leased",
            json!({"kind": "permit-expirable semaphore", "available": 1, "leases": 1}),
        ),
        (
            "door",
            json!({"kind": "lock", "holders": [{"owner": owner, "count": 2}]}),
        ),
        (
            "ledger",
            json!({"kind": "fenced lock", "holders": holder, "token": 12}),
        ),
        (
            "fair",
            json!({"kind": "fair lock", "holders": holder, "queued": 1}),
        ),
        (
            "book",
            json!({"kind": "read-write lock", "mode": "read", "held": 1, "holders": holder}),
        ),
        (
            "zset",
            json!({"kind": "semaphore with ids", "held": 2,
            "holders": [{"id": "a", "time": 5.0}, {"id": "b", "time": 6.0}]}),
        ),
        (
            "set",
            json!({"kind": "semaphore with ids", "held": 1, "holders": [{"id": "a", "time": null}]}),
        ),
        ("text", json!({"kind": "string", "text": "an owner"})),
        ("list", json!({"kind": "list"})),
        ("hash", json!({"kind": "hash"})),
        ("none", json!({"kind": "missing"})),
    ];
    for (name, expected) in cases {
        let shown = show(&url, name).await;
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(&shown[field], value, "{name}: {shown}");
        }
    }
    let ttl = show(&url, "seats").await["ttl_ms"].as_u64().unwrap();
    assert!((1..=600_000).contains(&ttl));
}

#[tokio::test]
async fn who_waits_is_shown() {
    let server = RedisServer::start().await;
    let url = server.url();
    assert_eq!(
        rsem(&url, &["run", "-s", "seats", "--create", "1", "true"])
            .await
            .status,
        0
    );
    let mut running = Program::start(
        &url,
        &["run", "-s", "seats", "sh", "-c", "echo up; read line; :"],
    );
    assert_eq!(running.line().await, "up");
    let waiting = Program::start(&url, &["run", "-s", "seats", "true"]);
    until_subscribers(&mut server.connection().await, &channel("seats"), 1).await;
    let ended = rsem(&url, &["show", "seats"]).await;
    assert_eq!(ended.status, 0);
    assert!(
        ended
            .out
            .starts_with("seats: semaphore\n  available     0\n"),
        "{}",
        ended.out
    );
    for line in ["listening     1", "queued        1"] {
        let line = format!("  {line}\n");
        assert!(ended.out.contains(&line), "{}", ended.out);
    }
    assert_eq!(running.ended().await.status, 0);
    assert_eq!(waiting.ended().await.status, 0);
}

#[tokio::test]
async fn what_others_have_written_does_not_reach_the_terminal_as_it_is() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let _: () = connection.sadd("set", "\x1b[2Jgone\n").await.unwrap();
    let shown = rsem(&server.url(), &["show", "set"]).await.out;
    assert!(shown.contains("\\u{1b}[2Jgone\\n\n"), "{shown:?}");
}

#[tokio::test]
async fn what_can_not_be_printed_is_told() {
    let server = RedisServer::start().await;
    let () = server.connection().await.set("seats", 3).await.unwrap();
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = command(&server.url(), &["show", "seats"]);
    let program = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let ended = program.wait_with_output().await.unwrap();
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(70), "{told}");
    assert!(told.contains("the standard output"), "{told}");
}

/// A user that may use only some commands sees what these show, and which command is forbidden.
#[tokio::test]
async fn what_may_not_be_asked_is_told() {
    let rules = "poor on >p ~* +type +pttl +getrange +exists";
    let server = RedisServer::options().user(rules).start().await;
    let mut connection = server.connection().await;
    let _: () = connection.set("seats", 3).await.unwrap();
    let ended = rsem(&server.url_as("poor", "p"), &["show", "seats"]).await;
    assert_eq!(ended.status, 0, "{}", ended.err);
    assert!(ended.out.contains("available     3"), "{}", ended.out);
    assert!(ended.out.contains("PUBSUB is forbidden"), "{}", ended.out);
}

#[tokio::test]
async fn a_name_is_prefixed_and_the_password_comes_from_where_it_is_safe() {
    let server = RedisServer::options().password("se:cret").start().await;
    let mut connection = server.connection().await;
    let _: () = connection.set("shop:seats", 3).await.unwrap();
    let url = format!("redis://127.0.0.1:{}", server.port());
    let file = server.directory().join("password");
    std::fs::write(&file, "se:cret\n").unwrap();
    let from_file = [
        "show",
        "seats",
        "--prefix",
        "shop:",
        "--password-file",
        file.to_str().unwrap(),
    ];
    assert_eq!(rsem(&url, &from_file).await.status, 0);
    for variable in ["REDIS_PASSWORD", "REDISCLI_AUTH"] {
        let mut shown = command(&url, &["add", "seats", "1", "--prefix", "shop:"]);
        shown.env(variable, "se:cret");
        let ended = Program::of(shown).ended().await;
        assert_eq!(ended.status, 0, "{}", ended.err);
    }
    assert_eq!(available(&mut connection, "shop:seats").await, Some(5));
    let ended = rsem(&url, &["show", "seats"]).await;
    assert_eq!(ended.status, 77, "{}", ended.err);
}

#[tokio::test]
async fn permits_are_set_added_drained_and_given_back() {
    let server = RedisServer::start().await;
    let url = server.url();
    let mut connection = server.connection().await;
    let steps: [(&[&str], i32, &str, Option<i64>); 14] = [
        (&["set", "seats", "5"], 0, "5 available, created", Some(5)),
        (&["set", "seats", "7", "--if-missing"], 1, "", Some(5)),
        (
            &["set", "seats", "7", "--yes"],
            0,
            "5 available before, 7 now",
            Some(7),
        ),
        (
            &["set", "seats", "3", "-y", "--ttl", "1h"],
            0,
            "7 available before, 3 now",
            Some(3),
        ),
        (&["add", "seats", "2"], 0, "5 available", Some(5)),
        (
            &["add", "seats", "-6", "--yes"],
            0,
            "-1 available",
            Some(-1),
        ),
        (
            &["release", "seats", "3", "--yes"],
            0,
            "2 available",
            Some(2),
        ),
        (&["drain", "seats", "--yes"], 0, "2 taken", Some(0)),
        (
            &["set", "seats", "1", "-y", "--ttl", "1h"],
            0,
            "0 available before, 1 now",
            Some(1),
        ),
        (
            &["set", "seats", "0", "-y"],
            0,
            "1 available before, 0 now",
            Some(0),
        ),
        (&["release", "other", "--yes"], 1, "", None),
        (&["set", "list", "3", "--yes"], 65, "", None),
        (&["set", "seats", "3000000000"], 64, "", None),
        (
            &["add", "seats", "2147483647"],
            0,
            "2147483647 available",
            Some(2_147_483_647),
        ),
    ];
    let _: () = connection.lpush("list", 0).await.unwrap();
    let mut expires = false;
    for (arguments, status, words, after) in steps {
        let ended = rsem(&url, arguments).await;
        assert_eq!(ended.status, status, "{arguments:?}: {ended:?}");
        assert!(ended.out.contains(words), "{arguments:?}: {ended:?}");
        if let Some(after) = after {
            assert_eq!(
                available(&mut connection, arguments[1]).await,
                Some(after),
                "{arguments:?}"
            );
        }
        // The time to live stays unless `set` changes it.
        if arguments[..2] == ["set", "seats"] && status == 0 {
            expires = arguments.contains(&"--ttl");
        }
        let ttl: i64 = connection.pttl("seats").await.unwrap();
        let range = if expires { 1..=3_600_000 } else { -1..=-1 };
        assert!(range.contains(&ttl), "{arguments:?}: {ttl}");
    }
    assert_eq!(available(&mut connection, "other").await, None);
}

#[tokio::test]
async fn without_a_terminal_nothing_of_others_is_touched_unless_told_so() {
    let server = RedisServer::start().await;
    let url = server.url();
    let mut connection = server.connection().await;
    let () = redis::pipe()
        .set("seats", 5)
        .hset("door", "12e1ee62-5cda-4d59-8592-fd41bffb9937:7", 1)
        .query_async(&mut connection)
        .await
        .unwrap();
    let refused: [&[&str]; 6] = [
        &["set", "seats", "1"],
        &["add", "seats", "-1"],
        &["drain", "seats"],
        &["release", "seats"],
        &["unlock", "door", "--force"],
        &["unlock", "door", "--yes"],
    ];
    for arguments in refused {
        let ended = rsem(&url, arguments).await;
        assert_eq!(ended.status, 64, "{arguments:?}: {ended:?}");
        assert!(
            ended.err.contains("--yes") || ended.err.contains("--force"),
            "{ended:?}"
        );
    }
    assert_eq!(available(&mut connection, "seats").await, Some(5));
    let locked: bool = connection.exists("door").await.unwrap();
    assert!(locked);
    let unlocked = rsem(&url, &["unlock", "door", "--force", "--yes"]).await;
    assert_eq!(
        (unlocked.status, unlocked.out.as_str()),
        (0, "door: unlocked\n")
    );
    let again = rsem(&url, &["unlock", "door", "--force", "--yes"]).await;
    assert_eq!(
        (again.status, again.out.as_str()),
        (1, "door: nobody held it\n")
    );
    let _: () = connection.hset("data", "field", "value").await.unwrap();
    for name in ["data", "seats"] {
        let refused = rsem(&url, &["unlock", name, "--force", "--yes"]).await;
        assert_eq!(refused.status, 65, "{refused:?}");
        assert!(refused.err.contains("is no lock"), "{refused:?}");
        let there: bool = connection.exists(name).await.unwrap();
        assert!(there, "{name}");
    }
}

/// The waiters of a fair lock stand in another queue than those of a lock.
#[tokio::test]
async fn a_fair_lock_is_unlocked_for_its_first_waiter() {
    let server = RedisServer::start().await;
    let builder = Client::builder(server.url()).safety_interval(NEVER);
    let client = builder.connect().await.unwrap();
    client.fair_lock("door").lock().await.unwrap();
    let next = client.fair_lock("door");
    let own = format!("redisson_lock__channel:{{door}}:{}", next.owner());
    let waits = tokio::spawn(async move { next.lock().await });
    let mut connection = server.connection().await;
    until_subscribers(&mut connection, &own, 1).await;
    until("it queues", LIMIT, async || {
        show(&server.url(), "door").await["queued"] == json!(1)
    })
    .await;
    let unlocked = rsem(&server.url(), &["unlock", "door", "--force", "--yes"]).await;
    assert_eq!(unlocked.out, "door: unlocked\n");
    served(waits).await;
}

/// Redis shows a large hash in parts, and the mode may be in any of these.
#[tokio::test]
async fn a_lock_with_many_readers_is_no_plain_one() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let readers =
        (0..1000).map(|number| (format!("12e1ee62-5cda-4d59-8592-fd41bffb9937:{number}"), 1));
    let readers: Vec<_> = readers.collect();
    let () = redis::pipe()
        .hset("book", "mode", "read")
        .hset_multiple("book", &readers)
        .query_async(&mut connection)
        .await
        .unwrap();
    let shown = show(&server.url(), "book").await;
    assert_eq!(
        (&shown["mode"], &shown["held"]),
        (&json!("read"), &json!(1000))
    );
    let refused = rsem(&server.url(), &["unlock", "book", "--force", "--yes"]).await;
    assert_eq!(refused.status, 65, "{refused:?}");
    assert!(connection.exists::<_, bool>("book").await.unwrap());
}

#[tokio::test]
async fn in_a_terminal_it_asks() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let _: () = connection.set("seats", 5).await.unwrap();
    for (answer, status, after) in [("n\n", 1, 5), ("\n", 1, 5), ("y\n", 0, 0)] {
        let mut asking = command(&server.url(), &["drain", "seats"]);
        asking.env("TERM", "xterm");
        let mut terminal = Terminal::start(asking);
        terminal.until("seats has 5 available. Take all that are available? [y/N] ");
        terminal.press(answer);
        assert_eq!(terminal.ended().await.0, status);
        assert_eq!(available(&mut connection, "seats").await, Some(after));
    }
}

/// A permit that is held by an id counts among all permits, and is released by its id alone.
#[tokio::test]
async fn permits_with_ids_are_not_counted_twice() {
    let server = RedisServer::start().await;
    let url = server.url();
    let client = Client::connect(url.clone()).await.unwrap();
    let jobs = client.permit_expirable_semaphore("jobs");
    assert!(jobs.try_set_permits(2).await.unwrap());
    let held = jobs.acquire().await.unwrap();
    let steps: [(&[&str], i32, &str, i64); 9] = [
        (&["release", "jobs", "--yes"], 65, "held by ids", 2),
        (&["drain", "jobs", "--yes"], 65, "held by ids", 2),
        (&["set", "jobs", "7", "--if-missing"], 1, "exists", 2),
        (
            &["set", "jobs", "7"],
            64,
            "jobs has 1 available and 1 held by ids. Set it to 7 in all?",
            2,
        ),
        (&["set", "jobs", "3", "--yes"], 0, "2 available of 3", 3),
        (
            &["set", "jobs", "3", "--yes", "--ttl", "1h"],
            0,
            "2 available of 3",
            3,
        ),
        (&["add", "jobs", "2"], 0, "4 available of 5", 5),
        (&["add", "jobs", "-1", "--yes"], 0, "3 available of 4", 4),
        (&["set", "jobs", "0", "--yes"], 0, "-1 available of 0", 0),
    ];
    let mut to_expire = false;
    for (arguments, status, told, permits) in steps {
        let ended = rsem(&url, arguments).await;
        assert_eq!(ended.status, status, "{arguments:?}: {ended:?}");
        let all = format!("{}{}", ended.out, ended.err);
        assert!(all.contains(told), "{arguments:?}: {ended:?}");
        assert_eq!(jobs.total_permits().await, Ok(permits), "{arguments:?}");
        assert_eq!(jobs.acquired_permits().await, Ok(1), "{arguments:?}");
        // The time to live stays unless `set` changes it.
        if arguments[0] == "set" && status == 0 {
            to_expire = arguments.contains(&"--ttl");
        }
        let expires = matches!(jobs.remaining_ttl().await, Ok(RemainingTtl::Expires(_)));
        assert_eq!(expires, to_expire, "{arguments:?}");
    }
    // A waiter for permits with ids is notified.
    let waiting = tokio::spawn(async move { jobs.acquire_many(2).await });
    let mut connection = server.connection().await;
    until_subscribers(&mut connection, &channel("jobs"), 1).await;
    let added = rsem(&url, &["add", "jobs", "3"]).await;
    assert_eq!(added.status, 0, "{added:?}");
    assert_eq!(waiting.await.unwrap().unwrap().len(), 2);
    let jobs = client.permit_expirable_semaphore("jobs");
    jobs.release(held.id()).await.unwrap();
    // The number of permits outlives the counter.
    let _: () = connection.del("jobs").await.unwrap();
    let set = rsem(&url, &["set", "jobs", "5"]).await;
    assert_eq!((set.status, &*set.out), (0, "jobs: 3 available of 5\n"));
}

/// With only the permissions that the guide lists for locks and for `unlock`.
#[tokio::test]
async fn a_service_may_take_its_lock_away() {
    let rules = grants("For locks,").join(" ");
    let rules = format!("app on >p +ping +hgetall {rules}");
    let server = RedisServer::options().user(&rules).start().await;
    let url = server.url_as("app", "p");
    let unlock = ["unlock", "door", "--force", "--yes"];
    let mut connection = server.connection().await;
    for (fields, status, told) in [
        (
            &[("12e1ee62-5cda-4d59-8592-fd41bffb9937:7", "1")][..],
            0,
            "unlocked",
        ),
        (&[], 1, "nobody held it"),
        (&[("field", "value")], 65, "is no lock"),
    ] {
        for field in fields {
            let _: () = connection.hset("door", field.0, field.1).await.unwrap();
        }
        let ended = rsem(&url, &unlock).await;
        let all = format!("{}{}", ended.out, ended.err);
        assert_eq!(ended.status, status, "{fields:?}: {all}");
        assert!(all.contains(told), "{all}");
    }
    let _: () = connection.set("door", 1).await.unwrap();
    assert_eq!(rsem(&url, &unlock).await.status, 65);
    assert_eq!(available(&mut connection, "door").await, Some(1));
}

#[tokio::test]
async fn whatever_stands_beside_an_object_is_shown() {
    let server = RedisServer::start().await;
    let url = server.url();
    let mut connection = server.connection().await;
    let keys = [
        "redisson_sc_once:{seats}:a-client",
        "redisson_sc_queue:{seats}",
        "redisson_sc_grants:{seats}",
        "redisson_sc_notes:{seats}",
        "redisson_sc_leased_once:{seats}:a-client",
        "redisson_sc_leased_queue:{seats}",
        "redisson_sc_leased_notes:{seats}",
        "redisson_lock_waiters:{seats}",
        "redisson_lock_notes:{seats}",
        "redisson_lock_once:{seats}:a-client",
        "redisson_countdownlatch_once:{seats}:a-client",
        "redisson_sc_recipe_once:fair:{seats}:a-client:1",
        "redisson_sc_recipe_queue:set:{seats}",
        "redisson_sc_recipe_notes:slots:{seats}",
        "redisson_sc_recipe_notes:timestamp:{seats}",
        "redisson_sc_recipe_queue:lock:{seats}",
    ];
    let _: () = connection.set("seats", 1).await.unwrap();
    for key in keys
        .into_iter()
        .chain(["redisson_sc_once:{other}:a-client"])
    {
        let _: () = connection.set(key, 1).await.unwrap();
    }
    // Redis lists so many keys in parts.
    for number in 0..2_500 {
        let _: () = connection.set(format!("other:{number}"), 1).await.unwrap();
    }
    let shown = rsem(&url, &["show", "--records", "seats"]).await.out;
    for key in keys {
        let line = format!("  beside it     {key} (");
        assert!(shown.contains(&line), "{key}: {shown}");
    }
    assert!(!shown.contains("{other}"), "{shown}");
    let told = rsem(&url, &["doctor"]).await.out;
    let count = format!("fine   records      {}, some ", keys.len() + 1);
    assert!(told.contains(&count), "{told}");
}

/// A user without the permission to look may still change a semaphore.
#[tokio::test]
async fn a_service_may_change_what_it_uses() {
    let rules = "app on >p +ping ~seats ~redisson_sc*:{seats}* &redisson_sc*:{seats}* \
        +eval +evalsha +exists +get +set +incrby +del +publish +pubsub +subscribe +unsubscribe +zcard +zrange +hget +hmget";
    let server = RedisServer::options().user(rules).start().await;
    let url = server.url_as("app", "p");
    for (arguments, after) in [
        (&["set", "seats", "2"][..], 2),
        (&["add", "seats", "2"], 4),
        (&["add", "seats", "-1", "--yes"], 3),
        (&["drain", "seats", "--yes"], 0),
        (&["release", "seats", "--yes"], 1),
    ] {
        let ended = rsem(&url, arguments).await;
        assert_eq!(ended.status, 0, "{arguments:?}: {ended:?}");
        let counter = available(&mut server.connection().await, "seats").await;
        assert_eq!(counter, Some(after), "{arguments:?}");
    }
}

/// As long as a client's id.
const DEAD: &str = "dead0000-0000-0000-0000-000000000000";
const LIVE: &str = "live0000-0000-0000-0000-000000000000";
/// Some years from now, in microseconds.
const AHEAD: u64 = 4_000_000_000_000_000;

fn entry(client: &str, rest: &str) -> String {
    format!("{client}:{rest}")
}

#[tokio::test]
async fn what_the_dead_held_is_shown_and_given_back() {
    let server = RedisServer::start().await;
    let url = server.url();
    let mut connection = server.connection().await;
    let () = redis::pipe()
        .set("seats", 1)
        .zadd(
            "redisson_sc_grants:{seats}",
            entry(DEAD, "g1:2:500:mail%20%07"),
            1,
        )
        .zadd("redisson_sc_grants:{seats}", entry(LIVE, "g7:1:500"), AHEAD)
        .zadd("redisson_sc_grants:{seats}", entry(LIVE, "g8:2:500"), AHEAD)
        .zadd("redisson_sc_grants:{seats}", entry(LIVE, "a9:9:100"), AHEAD)
        .query_async(&mut connection)
        .await
        .unwrap();
    let held = json!([{"client": DEAD, "name": "mail \u{7}", "permits": 2},
        {"client": LIVE, "name": "", "permits": 3}]);
    assert_eq!(show(&url, "seats").await["held_by"], held);
    let ended = rsem(&url, &["show", "seats"]).await;
    for line in [
        format!("  held by       {DEAD} mail \\u{{7}}: 2\n"),
        format!("  held by       {LIVE}: 3\n"),
        "redisson_sc_grants:{seats}".to_owned(),
    ] {
        assert!(ended.out.contains(&line), "{}", ended.out);
    }
    let ended = rsem(&url, &["reclaim", "seats"]).await;
    assert_eq!(ended.status, 0);
    let told = format!("2 of client {DEAD} mail \\u{{7}}");
    assert!(ended.out.contains(&told), "{}", ended.out);
    assert_eq!(available(&mut connection, "seats").await, Some(3));
    assert_eq!(rsem(&url, &["reclaim", "seats"]).await.status, 1);
    assert_eq!(available(&mut connection, "seats").await, Some(3));
}
