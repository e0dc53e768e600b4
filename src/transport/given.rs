//! A server as users of the redis crate describe it.

use redis::{ConnectionAddr, ConnectionInfo};

use super::address::protocol;
use crate::config::Protocol;

/// The same in this crate's words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Given {
    /// Without user, password and database.
    pub(crate) url: String,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: u32,
    pub(crate) protocol: Protocol,
}

impl Given {
    pub(crate) fn read(info: &ConnectionInfo) -> Result<Self, String> {
        let place = |scheme: &str, host: &str, port: u16| {
            if host.contains(':') {
                format!("{scheme}://[{host}]:{port}")
            } else {
                format!("{scheme}://{host}:{port}")
            }
        };
        let url = match info.addr() {
            ConnectionAddr::Tcp(host, port) => place("redis", host, *port),
            ConnectionAddr::TcpTls { insecure: true, .. } => {
                return Err(
                    "certificates are always checked: trust the server's own instead".to_owned(),
                );
            }
            ConnectionAddr::TcpTls {
                tls_params: Some(_),
                ..
            } => {
                return Err(
                    "its certificates cannot be taken over: give them to ClientBuilder::tls"
                        .to_owned(),
                );
            }
            ConnectionAddr::TcpTls { host, port, .. } => place("rediss", host, *port),
            ConnectionAddr::Unix(path) => match path.to_str() {
                Some(path) => format!("redis+unix://{path}"),
                None => return Err("the socket's path is no UTF-8".to_owned()),
            },
            _ => return Err("a kind of address that is not known here".to_owned()),
        };
        let settings = info.redis_settings();
        Ok(Given {
            url,
            username: settings.username().map(str::to_owned),
            password: settings.password().map(str::to_owned),
            database: u32::try_from(settings.db()).map_err(|_| "a database below 0")?,
            protocol: protocol(settings.protocol()),
        })
    }
}

#[cfg(test)]
mod tests {
    use redis::IntoConnectionInfo;

    use super::*;

    #[test]
    fn what_is_given_is_taken_over() {
        let read = |url: &str| Given::read(&url.into_connection_info().expect(url));
        let given = read("redis://u:p%40@[::1]:7/3").unwrap();
        assert_eq!(given.url, "redis://[::1]:7");
        assert_eq!(given.username.as_deref(), Some("u"));
        assert_eq!(given.password.as_deref(), Some("p@"));
        assert_eq!(given.database, 3);
        assert_eq!(given.protocol, Protocol::Resp2);
        let given = read("redis://h/?protocol=resp3").unwrap();
        assert_eq!(given.protocol, Protocol::Resp3);
        #[cfg(unix)]
        assert_eq!(
            read("redis+unix:///r.sock").unwrap().url,
            "redis+unix:///r.sock"
        );
        let tls = |insecure| {
            let address = ConnectionAddr::TcpTls {
                host: "h".to_owned(),
                port: 1,
                insecure,
                tls_params: None,
            };
            let info = "redis://h"
                .into_connection_info()
                .unwrap()
                .set_addr(address);
            Given::read(&info)
        };
        assert_eq!(tls(false).unwrap().url, "rediss://h:1");
        assert!(tls(true).unwrap_err().contains("always checked"));
    }
}
