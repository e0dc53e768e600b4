//! User and password, where they change in the course of time.

use std::fmt;

use async_trait::async_trait;

/// A user of the server's ACL and its password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(crate) username: Option<String>,
    pub(crate) password: String,
}

impl Credentials {
    /// The default user.
    #[must_use]
    pub fn password(password: impl Into<String>) -> Self {
        Credentials {
            username: None,
            password: password.into(),
        }
    }

    /// A user of the ACL.
    #[must_use]
    pub fn user(username: impl Into<String>, password: impl Into<String>) -> Self {
        Credentials {
            username: Some(username.into()),
            password: password.into(),
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The password stays out.
        f.debug_struct("Credentials")
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

/// Knows the credentials of the moment: passwords that rotate, tokens that expire.
///
/// ```
/// use async_trait::async_trait;
/// use redisson_semaphore::{Credentials, CredentialsProvider};
///
/// /// A file that another program writes anew.
/// struct Mounted(std::path::PathBuf);
///
/// #[async_trait]
/// impl CredentialsProvider for Mounted {
///     async fn credentials(&self) -> Result<Credentials, Box<dyn std::error::Error + Send + Sync>> {
///         let password = std::fs::read_to_string(&self.0)?;
///         Ok(Credentials::user("app", password.trim_end()))
///     }
/// }
/// ```
#[async_trait]
pub trait CredentialsProvider: Send + Sync {
    /// Asked each time that a connection is made, within the connect time-out; two connections may be made at the same
    /// time. One that stands is left alone: Redis does not end it because a password has changed.
    ///
    /// # Errors
    ///
    /// Any error. The connection is then tried again as if the server could not be reached. The text of the error appears
    /// in the errors of callers and in the log: it must not contain a secret.
    async fn credentials(&self) -> Result<Credentials, Box<dyn std::error::Error + Send + Sync>>;
}
