//! RESP3, where it is asked for: the start of a connection, messages, and servers that do not know it. The contract suites run with
//! RESP3, too: they check that all else is the same.

use crate::sentinels::Deployment;
use crate::support::clients::{LIMIT, builder, served};
use crate::support::cluster::Cluster;
use crate::support::server::RedisServer;
use crate::support::waiters::{until, waiter};
use redisson_semaphore::{Client, Effect, Error, Protocol};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

/// The lines of `CLIENT LIST` about the connections of `user`.
async fn listed(server: &RedisServer, user: &str) -> Vec<String> {
    let list: String = redis::cmd("CLIENT")
        .arg("LIST")
        .query_async(&mut server.connection().await)
        .await
        .unwrap();
    let own = format!("user={user} ");
    let lines = list.lines().filter(|line| line.contains(&own));
    lines.map(str::to_owned).collect()
}

#[tokio::test]
async fn both_connections_speak_it_and_need_no_permission_for_that() {
    let server = RedisServer::options()
        .user("app on >p@w resetchannels -@all +ping +type ~seats ~redisson_sc*:{seats}* &redisson_sc*:{seats}* +eval +evalsha +get +set +incrby +del +exists +zadd +zrem +zrange +zrangebyscore +zscore +zmscore +zcard +hget +hset +hmget +hdel +pexpire +time +publish +pubsub +subscribe +unsubscribe")
        .start()
        .await;
    let url = format!("{}/0?protocol=resp3", server.url_as("app", "p%40w"));
    let client = builder(url).client_name("in two words").connect().await;
    let client = client.unwrap();
    let mut control = server.connection().await;
    let task = waiter(&mut control, &client.semaphore("seats"), 2).await;
    let listed = listed(&server, "app").await;
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert!(
        listed.iter().all(|line| line.contains("resp=3")),
        "{listed:?}"
    );
    client.semaphore("seats").release(2).await.unwrap();
    served(task).await;
}

/// Connects and returns the error, which comes at once and without the password.
async fn told(port: u16, password: Option<&str>, protocol: Protocol) -> Error {
    let mut connecting = Client::builder(format!("redis://127.0.0.1:{port}"))
        .protocol(protocol)
        .connect_timeout(4 * LIMIT);
    if let Some(password) = password {
        connecting = connecting.password(password);
    }
    let connected = timeout(LIMIT, connecting.connect()).await;
    let error = connected.expect("at once").expect_err("it cannot be");
    assert_eq!(error.effect(), Effect::NotApplied);
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    error
}

#[tokio::test]
async fn who_is_not_let_in_and_what_a_server_does_not_know_is_told() {
    let locked = RedisServer::options().password("right-secret");
    let locked = locked.start().await;
    for (password, word) in [(None, "NOAUTH"), (Some("wrong-secret"), "WRONGPASS")] {
        let error = told(locked.port(), password, Protocol::Resp3).await;
        let begins =
            matches!(&error, Error::Authentication { detail, .. } if detail.starts_with(word));
        assert!(begins, "{error}");
    }
    let old = RedisServer::options().setting("rename-command", "HELLO \"\"");
    let old = old.start().await;
    for password in [None, Some("secret")] {
        let error = told(old.port(), password, Protocol::Resp3).await;
        let words = "does not know HELLO 3";
        let named = matches!(&error, Error::Server { detail, .. } if detail.contains(words));
        assert!(named, "{error}");
    }
}

/// The server's error repeats the password, and the client's error does not.
#[tokio::test]
async fn a_server_that_does_not_know_passwords_is_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read_u8().await.unwrap();
        let words = b"-ERR unknown command 'AUTH', with args beginning with: 'secret'\r\n";
        stream.write_all(&words.repeat(4)).await.unwrap();
    });
    let error = told(port, Some("secret"), Protocol::Resp2).await;
    assert!(error.to_string().contains("does not know AUTH"), "{error}");
    serving.await.unwrap();
}

/// A sentinel's reply about its master is a map.
#[tokio::test]
async fn sentinels_and_their_masters_are_spoken_to_by_it() {
    let deployment = Deployment::start().await;
    let sentinels = deployment.sentinels.iter().map(crate::sentinels::url);
    let client = deployment
        .builder()
        .protocol(Protocol::Resp3)
        .sentinels(sentinels.map(|url| format!("{url}?protocol=resp3")))
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("seats");
    let task = crate::sentinels::waiter(&deployment.servers[0], &semaphore, 1).await;
    for sentinel in &deployment.sentinels {
        until("each sentinel is listened to by it", LIMIT, async || {
            let listed = listed(sentinel, "reader").await;
            listed.iter().any(|line| line.contains(" sub=3 "))
                && listed.iter().all(|line| line.contains("resp=3"))
        })
        .await;
    }
    deployment.fail_over().await;
    deployment.until_failed_over().await;
    until("the new master is there", LIMIT, async || {
        semaphore.release(1).await.is_ok()
    })
    .await;
    served(task).await;
}

#[tokio::test]
async fn the_nodes_of_a_cluster_are_spoken_to_by_it() {
    let cluster = Cluster::start().await;
    let client = || builder(format!("{}?protocol=resp3", cluster.url())).connect();
    let (first, second) = (client().await.unwrap(), client().await.unwrap());
    for master in 0..3 {
        let name = cluster.name_at(master, "seats").await;
        let waiting = first.semaphore(&name);
        let task = tokio::spawn(async move { waiting.acquire(1).await });
        let channel = crate::support::waiters::channel(&name);
        let server = &cluster.servers[master];
        until("it listens, by sharded messages", LIMIT, async || {
            let (_, count): (String, u64) = redis::cmd("PUBSUB")
                .arg(&["SHARDNUMSUB", &channel])
                .query_async(&mut server.connection().await)
                .await
                .unwrap();
            count == 1
        })
        .await;
        second.semaphore(&name).release(1).await.unwrap();
        served(task).await;
        let listed = listed(server, "default").await;
        let ours = listed.iter().filter(|line| line.contains("resp=3"));
        assert!(ours.count() >= 3, "{listed:?}");
    }
}
