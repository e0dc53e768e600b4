//! `rsem` by TLS, and by sentinels: commands that change and commands that only look connect in the same way.

#[allow(dead_code)]
#[path = "../../tests/certificates/mod.rs"]
mod certificates;
mod program;
#[path = "../../tests/sentinels/mod.rs"]
mod sentinels;
#[path = "../../tests/support/mod.rs"]
mod support;

use certificates::Authority;
use program::{Ended, rsem};
use sentinels::{Deployment, MASTER};
use support::server::RedisServer;

const HOST: &str = "127.0.0.1";

async fn both(url: &str, options: &[&str]) -> [Ended; 2] {
    let run = [&["run", "-s", "seats", "--create", "3"], options, &["true"]].concat();
    let show = [&["show", "seats"], options].concat();
    [rsem(url, &run).await, rsem(url, &show).await]
}

#[tokio::test]
async fn tls_is_spoken_with_whom_it_trusts() {
    let authority = Authority::new();
    let certificate = authority.certificate(HOST);
    let (chain, key) = (&certificate.chain_file, &certificate.key_file);
    let server = RedisServer::options()
        .tls(&authority.file(), chain, key, true)
        .start()
        .await;
    let url = format!("rediss://{HOST}:{}", server.tls_port());
    let file = authority.file();
    let trust = ["--tls-ca", file.to_str().unwrap()];
    let show = [
        "--tls-cert",
        chain.to_str().unwrap(),
        "--tls-key",
        key.to_str().unwrap(),
    ];
    for ended in both(&url, &[&trust[..], &show].concat()).await {
        assert_eq!(ended.status, 0, "{}", ended.err);
    }
    for ended in both(&url, &show).await {
        assert_eq!(ended.status, 69, "{}", ended.err);
        assert!(ended.err.contains("certificate"), "{}", ended.err);
    }
}

#[tokio::test]
async fn a_file_of_redissons_tells_where_it_is() {
    let server = RedisServer::start().await;
    let file = server.directory().join("redisson.yaml");
    let text = format!(
        "singleServerConfig:\n  address: {}\n  threads: 3\n",
        server.url()
    );
    std::fs::write(&file, text.replace("  threads", "threads")).unwrap();
    let options = ["--redisson-yaml", file.to_str().unwrap()];
    for ended in both("redis://no-such-host.invalid", &options).await {
        assert_eq!(ended.status, 0, "{}", ended.err);
    }
    std::fs::write(&file, text).unwrap();
    for ended in both("redis://no-such-host.invalid", &options).await {
        assert_eq!(ended.status, 64, "{}", ended.err);
        let told = "redisson.yaml:3: singleServerConfig.threads: Redisson has no such setting here";
        assert!(ended.err.contains(told), "{}", ended.err);
    }
}

#[tokio::test]
async fn sentinels_tell_where_the_master_is() {
    let deployment = Deployment::start().await;
    let urls = deployment.sentinels.iter().map(sentinels::url);
    let options: Vec<String> = urls
        .flat_map(|url| ["--sentinel".to_owned(), url])
        .collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    for ended in both(&format!("redis://{MASTER}"), &options).await {
        assert_eq!(ended.status, 0, "{}", ended.err);
    }
}
