//! Settings out of those of the redis crate.

use redis::{ConnectionAddr, ConnectionInfo, ProtocolVersion};

use crate::client::{Client, ClientBuilder};
use crate::config::Protocol;
use crate::error::Error;

/// The server, the user, the database and the protocol that a service has for the redis crate already; all other settings are
/// this crate's.
///
/// Connections are this crate's own: its calls go by once-only scripts, and must not be sent again by other code.
///
/// ```no_run
/// # async fn connect() -> Result<(), Box<dyn std::error::Error>> {
/// use redisson_semaphore::ClientBuilder;
///
/// let known = redis::Client::open("redis://127.0.0.1/3")?;
/// let client = ClientBuilder::try_from(&known)?.client_name("orders").connect().await?;
/// # drop(client);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`Error::Configuration`] for certificates that are not to be checked, or are given there, as they cannot be taken over.
impl TryFrom<&ConnectionInfo> for ClientBuilder {
    type Error = Error;

    fn try_from(info: &ConnectionInfo) -> Result<Self, Error> {
        read(info).map_err(|reason| Error::Configuration { reason })
    }
}

/// As that of its [`ConnectionInfo`](redis::ConnectionInfo).
impl TryFrom<&redis::Client> for ClientBuilder {
    type Error = Error;

    fn try_from(client: &redis::Client) -> Result<Self, Error> {
        client.get_connection_info().try_into()
    }
}

fn read(info: &ConnectionInfo) -> Result<ClientBuilder, String> {
    let settings = info.redis_settings();
    let database = u32::try_from(settings.db()).map_err(|_| "a database below 0")?;
    let protocol = match settings.protocol() {
        ProtocolVersion::RESP3 => Protocol::Resp3,
        _ => Protocol::Resp2,
    };
    let mut builder = Client::builder(url_of(info.addr())?)
        .database(database)
        .protocol(protocol);
    if let Some(username) = settings.username() {
        builder = builder.username(username);
    }
    if let Some(password) = settings.password() {
        builder = builder.password(password);
    }
    Ok(builder)
}

/// Without user, password and database.
fn url_of(address: &ConnectionAddr) -> Result<String, String> {
    let (scheme, host, port) = match address {
        ConnectionAddr::Tcp(host, port) => ("redis", host, port),
        ConnectionAddr::TcpTls { insecure: true, .. } => {
            return Err("certificates are always checked: trust the server's own instead".into());
        }
        ConnectionAddr::TcpTls {
            tls_params: Some(_),
            ..
        } => {
            return Err(
                "its certificates cannot be taken over: give them to ClientBuilder::tls".into(),
            );
        }
        ConnectionAddr::TcpTls { host, port, .. } => ("rediss", host, port),
        ConnectionAddr::Unix(path) => {
            let path = path.to_str().ok_or("the socket's path is no UTF-8")?;
            return Ok(format!("redis+unix://{path}"));
        }
        _ => return Err("a kind of address that is not known here".into()),
    };
    Ok(match host.contains(':') {
        true => format!("{scheme}://[{host}]:{port}"),
        false => format!("{scheme}://{host}:{port}"),
    })
}

#[cfg(test)]
mod tests {
    use redis::IntoConnectionInfo;

    use super::*;

    #[test]
    fn urls_are_those_of_the_redis_crate() {
        let url = |url: &str| url_of(url.into_connection_info().expect(url).addr());
        assert_eq!(url("redis://u:p%40@[::1]:7/3").unwrap(), "redis://[::1]:7");
        assert_eq!(url("redis://h").unwrap(), "redis://h:6379");
        #[cfg(unix)]
        assert_eq!(url("redis+unix:///r.sock").unwrap(), "redis+unix:///r.sock");
        let tls = |insecure| {
            url_of(&ConnectionAddr::TcpTls {
                host: "h".to_owned(),
                port: 1,
                insecure,
                tls_params: None,
            })
        };
        assert_eq!(tls(false).unwrap(), "rediss://h:1");
        assert!(tls(true).unwrap_err().contains("always checked"));
    }
}
