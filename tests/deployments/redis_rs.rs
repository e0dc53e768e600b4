//! A client by what a service has for the redis crate already.

use crate::support::clients::stored;
use crate::support::server::RedisServer;
use redisson_semaphore::{ClientBuilder, Error};

#[tokio::test]
async fn a_client_of_the_redis_crate_says_where_it_is() {
    let server = RedisServer::options()
        .user("app on >p@w ~* &* +@all")
        .start()
        .await;
    let url = format!("{}/0", server.url_as("app", "p%40w"));
    let known = redis::Client::open(url).unwrap();
    let client = ClientBuilder::try_from(&known)
        .unwrap()
        .connect()
        .await
        .unwrap();
    client.semaphore("seats").try_set_permits(3).await.unwrap();
    assert_eq!(stored(&server, "seats").await, ["3"]);
    let list: String = redis::cmd("CLIENT")
        .arg("LIST")
        .query_async(&mut server.connection().await)
        .await
        .unwrap();
    assert!(list.contains("user=app"), "{list}");
}

#[test]
fn what_cannot_be_taken_over_is_told() {
    let known = redis::ConnectionAddr::TcpTls {
        host: "h".to_owned(),
        port: 1,
        insecure: true,
        tls_params: None,
    };
    let info = redis::IntoConnectionInfo::into_connection_info("redis://h").unwrap();
    let error = ClientBuilder::try_from(&info.set_addr(known))
        .map(drop)
        .unwrap_err();
    assert!(matches!(error, Error::Configuration { .. }), "{error}");
}
