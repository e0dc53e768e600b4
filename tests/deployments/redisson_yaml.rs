//! Redisson's own configuration: a JVM and this crate read the same file, and a faulty file is reported.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::certificates::Authority;
use crate::pair::Pair;
use crate::sentinels::MASTER;
use crate::support::clients::{served, stored};
use crate::support::cluster::Cluster;
use crate::support::peer::JavaPeer;
use crate::support::server::RedisServer;
use crate::support::waiters::waiter;
use redisson_semaphore::{Client, Error, NameMapper, RedissonYaml, Tls};
use serde_json::json;

/// A file of its own.
struct File(PathBuf);

impl File {
    fn new(text: &str) -> File {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("redisson-{}-{number}.yaml", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text).unwrap();
        File(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn ignored(yaml: &RedissonYaml) -> Vec<(usize, String)> {
    let (_, ignored) = yaml.builder().unwrap();
    let ignored = ignored.into_iter();
    ignored.map(|setting| (setting.line, setting.key)).collect()
}

/// The client and the JVM take from the same permits, and wake each other.
async fn share(client: &Client, peer: &JavaPeer, name: &str) {
    let semaphore = client.semaphore(name);
    assert!(semaphore.try_set_permits(3).await.unwrap());
    let taken = peer.call("tryAcquire", json!({ "name": name, "permits": 2 }));
    assert_eq!(taken.await.unwrap().value, json!(true));
    assert_eq!(semaphore.available_permits().await.unwrap(), 1);
    let waiting = semaphore.clone();
    let waiting = tokio::spawn(async move { waiting.acquire(2).await });
    let given = peer.call("release", json!({ "name": name, "permits": 2 }));
    given.await.unwrap();
    served(waiting).await;
    semaphore.release(2).await.unwrap();
    let taken = peer.call("tryAcquire", json!({ "name": name, "permits": 3 }));
    assert_eq!(taken.await.unwrap().value, json!(true));
}

/// A JVM of this version and this crate read the same file, and share permits.
async fn share_by(text: &str, version: &str, name: &str) {
    let file = File::new(text);
    let client = Client::from_redisson_yaml(file.path()).await.unwrap();
    share_with_jvm(&client, &file, version, name).await;
}

async fn share_with_jvm(client: &Client, file: &File, version: &str, name: &str) {
    let peer = JavaPeer::start_with(version, "redis://", &["--yaml", file.path()]).await;
    share(client, &peer, name).await;
    peer.shutdown().await;
}

/// As 4.x has it: user and password beside the servers, delays as objects of classes.
const OF_4: &str = r#"---
singleServerConfig:
  idleConnectionTimeout: 10000
  connectTimeout: 5000
  timeout: 3000
  retryAttempts: 4
  retryDelay: !<org.redisson.config.EqualJitterDelay> {baseDelay: PT1S, maxDelay: PT2S}
  reconnectionDelay: !<org.redisson.config.EqualJitterDelay> {baseDelay: PT0.1S, maxDelay: PT10S}
  subscriptionsPerConnection: 5
  clientName: "from-yaml"
  address: "redis://127.0.0.1:${NO_SUCH_VARIABLE:-PORT}"
  connectionMinimumIdleSize: 1
  connectionPoolSize: 8
  database: 2
username: "app"
password: "secret"
threads: 4
nettyThreads: 4
lockWatchdogTimeout: 20000
nameMapper: !<org.redisson.config.DefaultNameMapper> {}
protocol: "RESP3"
codec: !<org.redisson.codec.Kryo5Codec> {}
transportMode: "NIO"
"#;

/// As 3.x has it: all among the servers' settings.
const OF_3: &str = r#"
singleServerConfig:
  timeout: 3000
  retryAttempts: 3
  retryInterval: 1500
  username: app
  password: secret
  clientName: from-yaml
  address: redis://127.0.0.1:${NO_SUCH_VARIABLE:-PORT}
  connectionMinimumIdleSize: 1
  connectionPoolSize: 8
  database: 2
  dnsMonitoringInterval: 5000
  sslEnableEndpointIdentification: true
  keepAlive: false
threads: 4
nettyThreads: 4
codec: !<org.redisson.client.codec.StringCodec> {}
transportMode: NIO
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_jvm_and_this_crate_read_the_same_file() {
    let server = RedisServer::options()
        .user("default off")
        .user("app on >secret ~* &* +@all")
        .start()
        .await;
    for (version, text) in [("4.7.0", OF_4), ("3.27.2", OF_3)] {
        let file = File::new(&text.replace("PORT", &server.port().to_string()));
        let client = Client::from_redisson_yaml(file.path()).await.unwrap();
        share_with_jvm(&client, &file, version, &format!("seats-{version}")).await;
        let list: String = redis::cmd("CLIENT")
            .arg("LIST")
            .query_async(&mut server.connection().await)
            .await
            .unwrap();
        let own = list
            .lines()
            .find(|line| line.contains("redisson-semaphore"));
        let own = own.unwrap_or(&list);
        for part in ["name=from-yaml", "db=2", "user=app"] {
            assert!(own.contains(part), "{part}: {own}");
        }
        let protocol = if text == OF_4 { "resp=3" } else { "resp=2" };
        assert!(own.contains(protocol), "{protocol}: {own}");
        client.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_found_by_the_same_file() {
    let cluster = Cluster::start().await;
    let nodes: Vec<String> = (cluster.servers[..3].iter())
        .map(|server| format!("  - \"redis://127.0.0.1:{}\"\n", server.port()))
        .collect();
    let text = format!(
        "clusterServersConfig:\n  nodeAddresses:\n{}  readMode: MASTER\n  shardedSubscriptionMode: \"OFF\"\n  \
         masterConnectionMinimumIdleSize: 1\n  slaveConnectionMinimumIdleSize: 1\n",
        nodes.concat()
    );
    share_by(&text, "4.7.0", "seats").await;
}

/// Redisson asks a sentinel without a password first, then with the sentinels' password or else the servers', but never as the servers' user.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_are_told_a_password_where_they_want_one() {
    let server = RedisServer::options().user("app on >shared ~* &* +@all");
    let server = server.start().await;
    let open = RedisServer::options().sentinel();
    let locked = RedisServer::options().sentinel().password("shared");
    for (number, (sentinel, version, more)) in [
        (&locked, "4.7.0", ""),
        (&locked, "3.27.2", ""),
        (&open, "4.7.0", ""),
        (
            &open,
            "4.7.0",
            "  sentinelUsername: nobody\n  sentinelPassword: other\n",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let sentinel = sentinel.clone().start().await;
        crate::sentinels::monitor(&sentinel, MASTER, server.port(), "harness", 1).await;
        let text = format!(
            "sentinelServersConfig:\n  masterName: {MASTER}\n  sentinelAddresses: [\"redis://127.0.0.1:{}\"]\n{more}  \
             checkSentinelsList: false\n  readMode: MASTER\n  subscriptionMode: MASTER\n  \
             masterConnectionMinimumIdleSize: 1\n  username: app\n  password: shared\n",
            sentinel.port()
        );
        share_by(&text, version, &format!("seats-{number}")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_beside_the_servers_comes_before_what_they_have() {
    let server = RedisServer::options().user("app on >secret ~* &* +@all");
    let server = server.start().await;
    let single = format!(
        "singleServerConfig:\n  address: redis://127.0.0.1:{}\n  connectionMinimumIdleSize: 1\n",
        server.port()
    );
    let text =
        format!("{single}  username: nobody\n  password: other\nusername: app\npassword: secret\n");
    share_by(&text, "4.7.0", "seats").await;
    // A default name mapper is the exception: it does not override the servers' mapper.
    let mapped = text.replace(
        "  username",
        "  nameMapper: !<com.example.Mapper> {}\n  username",
    );
    let default = "nameMapper: !<org.redisson.api.DefaultNameMapper> {}\n";
    let error = RedissonYaml::text(mapped + default).builder().unwrap_err();
    assert!(error.to_string().contains("com.example.Mapper"), "{error}");
    // Without a password the client does not log in as the user.
    let text = single + "username: nobody\n";
    share_by(&text, "4.7.0", "without").await;
    let (_, ignored) = RedissonYaml::text(text).builder().unwrap();
    let user = ignored.iter().find(|setting| setting.line == 4);
    let user = user.expect("it is told");
    assert!(
        user.key == "username" && user.reason.contains("no password"),
        "{ignored:?}"
    );
}

/// A JVM's key store is not read here: the authority is set beside the file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_and_sentinels_are_reached_by_tls_by_the_same_file() {
    const HOST: &str = "127.0.0.1";
    let authority = Authority::new();
    let certificate = authority.certificate(HOST);
    let (chain, key) = (&certificate.chain_file, &certificate.key_file);
    let server = RedisServer::options().tls(&authority.file(), chain, key, false);
    let server = server.start().await;
    let sentinel = crate::sentinels::sentinel()
        .tls(&authority.file(), chain, key, false)
        .setting("tls-replication", "yes")
        .start()
        .await;
    crate::sentinels::monitor(&sentinel, MASTER, server.tls_port(), "harness", 1).await;
    let single = format!(
        "singleServerConfig:\n  address: rediss://{HOST}:{}\n  connectionMinimumIdleSize: 1\n",
        server.tls_port()
    );
    let asked = format!("rediss://{HOST}:{}", sentinel.tls_port());
    let watched = crate::sentinels::yaml(MASTER, &[asked], "harness");
    let store = authority.truststore();
    let store = store.to_str().expect("plain characters");
    let trusted = |indent: &str| {
        format!("{indent}sslTruststore: file:{store}\n{indent}sslTruststorePassword: truststore\n")
    };
    for (number, (version, text)) in [
        ("4.7.0", single.clone() + &trusted("")),
        ("3.27.2", single + &trusted("  ")),
        ("4.7.0", watched + &trusted("")),
    ]
    .into_iter()
    .enumerate()
    {
        let file = File::new(&text);
        let (builder, ignored) = RedissonYaml::file(file.path()).unwrap().builder().unwrap();
        let stores = ignored
            .iter()
            .filter(|setting| setting.reason.contains("key stores"));
        assert_eq!(stores.count(), 1, "{ignored:?}");
        let builder = builder.tls(Tls::new().trust_only(authority.pem()));
        let client = builder.connect().await.unwrap();
        share_with_jvm(&client, &file, version, &format!("seats-{number}")).await;
    }
}

#[tokio::test]
async fn a_master_is_found_among_its_replicas_again_and_again() {
    let mut pair = Pair::start().await;
    let text = format!(
        "replicatedServersConfig:\n  nodeAddresses: [\"redis://127.0.0.1:{}\", \"redis://127.0.0.1:{}\"]\n  timeout: 300\n",
        pair.replica.port(),
        pair.master.port()
    );
    let (builder, _) = RedissonYaml::text(text).builder().unwrap();
    let client = builder.connect().await.unwrap();
    let semaphore = client.semaphore("seats");
    semaphore.try_set_permits(1).await.unwrap();
    let guard = semaphore.permit(1).await.unwrap();
    let task = waiter(&mut pair.master.connection().await, &semaphore, 1).await;
    pair.until_across().await;
    pair.change_places().await;
    guard.release().await.unwrap();
    served(task).await;
    assert_eq!(stored(&pair.master, "seats").await, ["0"]);
}

#[tokio::test]
async fn names_are_mapped_as_the_user_says_what_the_class_does() {
    let server = RedisServer::start().await;
    let yaml = RedissonYaml::text(
        "singleServerConfig:\n  address: redis://127.0.0.1:${redis.port}\nnameMapper: !<com.example.Shop> {}\n",
    )
    .property("redis.port", server.port().to_string());
    let told = yaml.builder().unwrap_err().to_string();
    assert!(
        told.contains("YAML:3: nameMapper: ") && told.contains("com.example.Shop"),
        "{told}"
    );
    let yaml = yaml.name_mapper("com.example.Shop", NameMapper::prefix("shop:"));
    let client = yaml.builder().unwrap().0.connect().await.unwrap();
    client.semaphore("seats").try_set_permits(2).await.unwrap();
    assert_eq!(stored(&server, "shop:seats").await, ["2"]);
}

#[test]
fn what_has_no_meaning_here_is_told() {
    let text = OF_4.replace("PORT", "6379");
    let keys = [
        (3, "singleServerConfig.idleConnectionTimeout"),
        (6, "singleServerConfig.retryAttempts"),
        (7, "singleServerConfig.retryDelay"),
        (8, "singleServerConfig.reconnectionDelay"),
        (9, "singleServerConfig.subscriptionsPerConnection"),
        (12, "singleServerConfig.connectionMinimumIdleSize"),
        (13, "singleServerConfig.connectionPoolSize"),
        (17, "threads"),
        (18, "nettyThreads"),
        (22, "codec"),
        (23, "transportMode"),
    ];
    let keys = keys.map(|(line, key)| (line, key.to_owned()));
    assert_eq!(ignored(&RedissonYaml::text(&text)), keys);
    let file = File::new(&text);
    assert_eq!(ignored(&RedissonYaml::file(file.path()).unwrap()), keys);

    // A Java key store, which only a JVM reads.
    let store = File::new("\u{1}JKS");
    let text = format!(
        "sentinelServersConfig:\n  masterName: mymaster\n  sentinelAddresses:\n  - rediss://h:26379\n  sslTruststore: file:{}\n  \
         sslVerificationMode: NONE\n",
        store.path()
    );
    let (_, ignored) = RedissonYaml::text(text).builder().unwrap();
    let told: Vec<String> = ignored.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("line 5: sentinelServersConfig.sslTruststore is ignored: Java's"));
    assert!(told[1].starts_with("line 6: sentinelServersConfig.sslVerificationMode is ignored"));
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_its_name() {
    let mut cases = vec![
("singleServerConfig:\n\taddress: redis://h:1\n", 2, "no YAML"),
("", 1, "nothing in it"),
("just words", 1, "no settings"),
("threads: 4\n", 1, "nowhere where Redis is: singleServerConfig"),
("singleServerConfig:\n  timeout: 3000\n", 1, "singleServerConfig.address is missing"),
("singleServerConfig: redis://h:1\n", 1, "singleServerConfig.: no settings"),
("singleServerConfig:\n  address: [redis://h:1, redis://h:2]\n", 2, "address: one address"),
("singleServerConfig:\n  address: h:1\n", 2, "singleServerConfig.address: no address"),
("clusterServersConfig:\n  nodeAddresses:\n  - redis://h:1\n  - redis://secret@h\n", 4, "no port"),
("clusterServersConfig:\n  nodeAddresses: []\n", 2, "no address"),
("clusterServersConfig:\n  nodeAddresses: [redis://h:1, rediss://h:2]\n", 2, "some by TLS"),
("replicatedServersConfig:\n  nodeAddresses: [\"redis://h:1\", \"redis://app:x@h:2\"]\n", 2, "some with another user"),
("clusterServersConfig:\n  nodeAddresses: [redis://h:1]\n  shardedSubscriptionMode: MAYBE\n", 3, "none of AUTO, ON, OFF"),
("sentinelServersConfig:\n  sentinelAddresses: [redis://h:1]\n", 1, "masterName is missing"),
("multiClusterServersConfig:\n  primaryDiscoveryMode: X\n", 1, "Redisson PRO"),
("rediss: &a [*a]\n", 1, "anchor"),
    ]
    .into_iter()
    .map(|(text, line, told)| (text.to_owned(), line, told))
    .collect::<Vec<_>>();
    // Behind two good lines.
    for (text, told) in [
        (
            "timeout: 3000",
            "timeout: Redisson has no such setting here",
        ),
        (
            "  conectTimeout: 3000",
            "singleServerConfig.conectTimeout: Redisson",
        ),
        (
            "clusterServersConfig:\n  nodeAddresses: [redis://h:1]",
            "singleServerConfig already",
        ),
        (
            "  timeout: soon",
            "singleServerConfig.timeout: no whole number",
        ),
        (
            "  timeout: -1",
            "singleServerConfig.timeout: no whole number",
        ),
        (
            "  timeout: [1]",
            "singleServerConfig.timeout: no single value",
        ),
        (
            "  password: ${NO_SUCH_VARIABLE}",
            "NO_SUCH_VARIABLE is not set",
        ),
        ("password: \"{aes}xyz\"", "password: encrypted"),
        (
            "  address: redis://h:2",
            "address: it stands in line 2, too",
        ),
        ("nameMapper: own", "nameMapper: no class"),
    ] {
        let good = "singleServerConfig:\n  address: redis://h:1\n";
        cases.push((format!("{good}{text}\n"), 3, told));
    }
    for (text, line, told) in cases {
        let file = File::new(&text);
        let error = RedissonYaml::file(file.path()).unwrap().builder();
        let error = error.map(drop).expect_err(&text);
        assert!(matches!(error, Error::Configuration { .. }), "{error:?}");
        let error = error.to_string();
        let place = format!("{}:{line}: ", file.path());
        assert!(
            error.contains(&place) && error.contains(told),
            "{text}: {error}"
        );
        assert!(!error.contains("secret"), "{error}");
    }
    let missing = RedissonYaml::file("/nowhere/redisson.yaml").unwrap_err();
    assert!(
        missing.to_string().contains("/nowhere/redisson.yaml"),
        "{missing}"
    );
}

#[tokio::test]
async fn an_address_that_resolves_to_nothing_is_named() {
    let text = "singleServerConfig:\n  address: redis://no-such-host.invalid:6379\n  connectTimeout: 300\n";
    let (builder, _) = RedissonYaml::text(text).builder().unwrap();
    let error = tokio::time::timeout(Duration::from_secs(60), builder.connect());
    let error = error.await.expect("it gives up").unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert_eq!(error.name(), Some("no-such-host.invalid:6379"));
}

/// The scan interval matters in a cluster only.
#[test]
fn the_pace_of_scans_counts_in_a_cluster() {
    for (mode, is_ignored) in [
        (
            "clusterServersConfig:\n  nodeAddresses: [redis://h:1]",
            false,
        ),
        (
            "replicatedServersConfig:\n  nodeAddresses: [redis://h:1]",
            true,
        ),
    ] {
        let yaml = RedissonYaml::text(format!("{mode}\n  scanInterval: 2000\n"));
        assert_eq!(ignored(&yaml).len(), usize::from(is_ignored), "{mode}");
    }
    let wrong = "clusterServersConfig:\n  nodeAddresses: [redis://h:1]\n  scanInterval: often\n";
    let error = RedissonYaml::text(wrong).builder().unwrap_err();
    assert!(error.to_string().contains("scanInterval"), "{error}");
}
