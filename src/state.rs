//! Whether a client is connected.

/// Whether the client's connection for commands stands; see
/// [`Client::connection_state`](crate::Client::connection_state).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionState {
    /// It stands, as far as is known: a server that falls silent is noticed when it is spoken to.
    Connected,
    /// It is being made, for as long as it takes.
    #[non_exhaustive]
    Disconnected {
        /// Why the last one, or the last attempt, has failed.
        detail: String,
    },
    /// The client has been shut down.
    ShutDown,
}
