//! The tests of TLS by the system's own library. Where rustls is there, too, that is taken, and nothing is left to be tested here.
#![cfg(not(feature = "tls-rustls"))]

#[path = "tls.rs"]
mod tls;
use tls::support;
