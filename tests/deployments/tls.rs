//! Connections over TLS, with good and with bad certificates.

use crate::certificates::{Authority, Certificate};
use crate::support::clients::{LIMIT, RESPONSE_TIMEOUT, builder, served, stored};
use crate::support::cluster::{self, Cluster};
use crate::support::keeper::test_name;
use crate::support::peer::{JavaPeer, NEWEST};
use crate::support::server::{Options, RedisServer};
use redisson_semaphore::{Client, ClientBuilder, Effect, Error, Tls};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

const HOST: &str = "127.0.0.1";

/// How rustls names a certificate by an unknown authority, and one for another host.
const UNKNOWN_ISSUER: &str = "UnknownIssuer";
const OTHER_NAME: &str = "redis.example";

/// The server shows `certificate`.
fn with(options: Options, authority: &Authority, certificate: &Certificate) -> Options {
    let (chain, key) = (&certificate.chain_file, &certificate.key_file);
    options.tls(&authority.file(), chain, key, false)
}

fn showing(authority: &Authority, certificate: &Certificate) -> Options {
    with(RedisServer::options(), authority, certificate)
}

/// A server whose certificate is good.
async fn good(authority: &Authority) -> RedisServer {
    showing(authority, &authority.certificate(HOST))
        .start()
        .await
}

fn url(server: &RedisServer) -> String {
    format!("rediss://{HOST}:{}", server.tls_port())
}

fn trusting(authority: &Authority) -> Tls {
    Tls::new().trust_only(authority.pem())
}

fn to(server: &RedisServer, authority: &Authority) -> ClientBuilder {
    builder(url(server)).tls(trusting(authority))
}

/// Connects and returns the detail of the TLS error, which comes at once.
async fn told(connecting: ClientBuilder, server: &str) -> String {
    let connected = timeout(LIMIT, connecting.connect_timeout(4 * LIMIT).connect()).await;
    let error = connected.expect("at once").expect_err("it does not fit");
    let Error::Tls { name, detail, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(name, server);
    assert_eq!(error.effect(), Effect::NotApplied);
    detail.clone()
}

#[tokio::test]
async fn a_certificate_that_does_not_fit_is_told_at_once() {
    let (authority, other) = (Authority::new(), Authority::new());
    let wrong_name = authority.certificate("redis.example");
    let of_other = other.certificate(HOST);
    for (certificate, trusted, words) in [
        (&of_other, &authority, UNKNOWN_ISSUER),
        (&authority.expired(HOST), &authority, "expired"),
        (&wrong_name, &authority, OTHER_NAME),
    ] {
        let server = showing(&authority, certificate).start().await;
        let name = format!("{HOST}:{}", server.tls_port());
        let detail = told(to(&server, trusted), &name).await;
        assert!(detail.contains(words), "{detail}");
        assert!(detail.contains("certificate"), "{detail}");
    }
    // The certificate is for the name that is asked for, wherever the server is.
    let server = showing(&authority, &wrong_name).start().await;
    let tls = trusting(&authority).server_name("redis.example");
    let client = builder(url(&server)).tls(tls).connect().await.unwrap();
    client.semaphore("seats").release(1).await.unwrap();
}

#[tokio::test]
async fn who_does_not_speak_tls_is_told_apart() {
    let authority = Authority::new();
    let server = good(&authority).await;
    let plain = format!("{HOST}:{}", server.port());
    let secured = format!("{HOST}:{}", server.tls_port());
    for (connecting, server, words) in [
        // Redis waits for the end of a command.
        (
            builder(format!("rediss://{plain}")).tls(trusting(&authority)),
            &plain,
            "does the server speak TLS",
        ),
        (builder(format!("redis://{secured}")), &secured, "wants TLS"),
    ] {
        let connected = connecting.connect_timeout(RESPONSE_TIMEOUT).connect().await;
        let error = connected.expect_err("one speaks TLS and the other does not");
        let Error::Unavailable { name, detail, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(name, server);
        assert!(detail.contains(words), "{detail}");
    }
}

/// As behind a load balancer while its server starts: that is no fault of a certificate.
#[tokio::test]
async fn a_connection_that_ends_in_the_middle_of_it_is_tried_again() {
    let authority = Authority::new();
    let listener = TcpListener::bind((HOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let attempts = tokio::spawn(async move {
        for attempt in 1.. {
            let (mut stream, _) = listener.accept().await.unwrap();
            let hello = stream.read(&mut [0; 16 * 1024]).await.unwrap();
            assert!(hello > 0);
            match attempt {
                1 => stream.shutdown().await.unwrap(),
                2 => stream.set_zero_linger().unwrap(),
                _ => return,
            }
        }
    });
    let connecting = builder(format!("rediss://{HOST}:{port}"))
        .tls(trusting(&authority))
        .connect_timeout(LIMIT);
    let connecting = tokio::spawn(connecting.connect());
    timeout(LIMIT, attempts)
        .await
        .expect("it is tried again")
        .unwrap();
    connecting.abort();
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_gets_one() {
    let (authority, other) = (Authority::new(), Authority::new());
    let own = authority.certificate(HOST);
    let server = RedisServer::options()
        .tls(&authority.file(), &own.chain_file, &own.key_file, true)
        .start()
        .await;
    let name = format!("{HOST}:{}", server.tls_port());
    let shown = |certificate: &Certificate| {
        trusting(&authority)
            .client_certificate(certificate.chain.as_str(), certificate.key.as_str())
    };
    let tls = shown(&authority.certificate("a client"));
    let client = builder(url(&server)).tls(tls).connect().await.unwrap();
    client.semaphore("seats").release(1).await.unwrap();
    let detail = told(to(&server, &authority), &name).await;
    assert!(detail.to_lowercase().contains("certificate"), "{detail}");
    let tls = shown(&other.certificate("a stranger"));
    let detail = told(builder(url(&server)).tls(tls), &name).await;
    assert!(detail.contains("alert"), "{detail}");
}

#[tokio::test]
async fn settings_that_cannot_be_used_are_told_without_the_key() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (one, two) = (authority.certificate("one"), other.certificate("two"));
    let secured = "rediss://127.0.0.1:1";
    let trusting = || trusting(&authority);
    let showing = |key: &str| trusting().client_certificate(one.chain.as_str(), key);
    for (url, tls, words) in [
        (secured, Tls::new().trust_only("no PEM"), "to trust"),
        (secured, Tls::new().trust_only(one.key.as_str()), "to trust"),
        (secured, showing("secret"), "not a private key"),
        (secured, showing(&two.key), "cannot be used"),
        (secured, trusting().server_name("no name"), "no name that"),
        ("redis://127.0.0.1:1", Tls::new(), "no URL is rediss://"),
    ] {
        assert!(!format!("{tls:?}").contains("secret"));
        let error = builder(url.to_owned()).tls(tls).connect().await;
        let error = error.expect_err("it cannot be used");
        let Error::Configuration { reason, .. } = &error else {
            panic!("{error}");
        };
        assert!(reason.contains(words), "{reason}");
        assert!(!reason.contains("secret"), "{reason}");
    }
}

/// The sentinels have an authority of their own.
#[tokio::test]
async fn sentinels_and_their_master_are_reached_by_tls() {
    let (authority, of_sentinels) = (Authority::new(), Authority::new());
    let server = good(&authority).await;
    let own = of_sentinels.certificate(HOST);
    let sentinel = with(crate::sentinels::sentinel(), &authority, &own);
    let sentinel = sentinel.setting("tls-replication", "yes").start().await;
    crate::sentinels::monitor(&sentinel, "secured", server.tls_port(), "harness", 1).await;
    let asked = format!("{HOST}:{}", sentinel.tls_port());
    let to = || {
        builder("rediss://secured".to_owned())
            .sentinels([format!("rediss://reader:read@{asked}")])
            .tls(trusting(&authority))
    };
    let tls = trusting(&of_sentinels);
    let client = to().sentinel_tls(tls).connect().await.unwrap();
    client.semaphore("seats").release(1).await.unwrap();
    assert_eq!(stored(&server, "seats").await, ["1"]);
    let detail = told(to(), &format!("secured of the sentinels {asked}")).await;
    assert!(
        detail.contains(UNKNOWN_ISSUER) && detail.contains(&asked),
        "{detail}"
    );
}

/// The addresses that the seed gives for the other nodes are those where the nodes speak TLS.
#[tokio::test]
async fn all_nodes_of_a_cluster_are_reached_by_tls() {
    let authority = Authority::new();
    let certificate = authority.certificate(HOST);
    let secured = Cluster::start_secured(|node| with(node, &authority, &certificate)).await;
    let seed = format!("rediss+cluster://{HOST}:{}", secured.servers[0].tls_port());
    let to = || builder(seed.clone()).retry_window(4 * LIMIT);
    let connect = || to().tls(trusting(&authority)).connect();
    let (client, other) = (connect().await.unwrap(), connect().await.unwrap());
    let truststore = authority.truststore();
    let truststore = truststore.to_str().expect("plain characters");
    let java = ["--truststore", truststore, "--cluster"];
    let peer = JavaPeer::start_with(NEWEST, &url(&secured.servers[0]), &java).await;
    for master in 0..3 {
        let name = secured.name_at(master, "seats").await;
        let task = cluster::waiter(&secured.servers[master], &client, &name, 2).await;
        other.semaphore(&name).release(2).await.unwrap();
        served(task).await;
        let task = cluster::waiter(&secured.servers[master], &client, &name, 3).await;
        let arguments = json!({ "name": name, "permits": 3 });
        peer.call("release", arguments).await.unwrap();
        served(task).await;
    }
    let name = secured.name_at(0, "moved").await;
    let semaphore = client.semaphore(&name);
    semaphore.release(1).await.unwrap();
    let slot = secured.slot(&name).await;
    secured.move_slot(slot, 0, 1).await;
    semaphore.release(1).await.unwrap();
    assert_eq!(secured.stored(&name, 2).await.as_deref(), Some("2"));
    peer.shutdown().await;
    let stranger = to().tls(trusting(&Authority::new()));
    let seed = format!("{HOST}:{}", secured.servers[0].tls_port());
    let detail = told(stranger, &format!("the cluster of {seed}")).await;
    assert!(detail.contains(UNKNOWN_ISSUER), "{detail}");
}

/// Runs in a process of its own, as the environment belongs to the process.
#[tokio::test]
async fn without_settings_the_systems_authorities_are_trusted() {
    const URL: &str = "TLS_TEST_URL";
    if let Ok(url) = std::env::var(URL) {
        let client = Client::connect(url).await.unwrap();
        return client.semaphore("seats").release(1).await.unwrap();
    }
    let authority = Authority::new();
    let server = good(&authority).await;
    let itself = test_name(
        module_path!(),
        "without_settings_the_systems_authorities_are_trusted",
    );
    let run = |file| {
        let mut run = tokio::process::Command::new(std::env::current_exe().expect("it runs"));
        run.args(["--exact", &itself]).env(URL, url(&server));
        run.env("SSL_CERT_FILE", file).env_remove("SSL_CERT_DIR");
        async move { run.output().await.expect("it can be run") }
    };
    let trusted = run(authority.file()).await;
    assert!(trusted.status.success(), "{trusted:?}");
    assert_eq!(stored(&server, "seats").await, ["1"]);
    let other = Authority::new();
    let stranger = run(other.file()).await;
    assert!(!stranger.status.success());
    let output = String::from_utf8_lossy(&stranger.stdout).into_owned();
    let output = output + &String::from_utf8_lossy(&stranger.stderr);
    assert!(output.contains(UNKNOWN_ISSUER), "{output}");
    assert_eq!(stored(&server, "seats").await, ["1"]);
}
