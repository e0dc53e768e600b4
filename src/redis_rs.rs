//! Settings out of those of the redis crate.

use crate::client::{Client, ClientBuilder};
use crate::error::Error;
use crate::transport::Given;

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
impl TryFrom<&redis::ConnectionInfo> for ClientBuilder {
    type Error = Error;

    fn try_from(info: &redis::ConnectionInfo) -> Result<Self, Error> {
        let given = Given::read(info).map_err(|reason| Error::Configuration { reason })?;
        let mut builder = Client::builder(given.url)
            .database(given.database)
            .protocol(given.protocol);
        if let Some(username) = given.username {
            builder = builder.username(username);
        }
        if let Some(password) = given.password {
            builder = builder.password(password);
        }
        Ok(builder)
    }
}

/// As that of its [`ConnectionInfo`](redis::ConnectionInfo).
impl TryFrom<&redis::Client> for ClientBuilder {
    type Error = Error;

    fn try_from(client: &redis::Client) -> Result<Self, Error> {
        client.get_connection_info().try_into()
    }
}
