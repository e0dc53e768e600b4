//! Without TLS.

use std::io;

use crate::outside::Stream;
use crate::tls;

/// There is none.
#[derive(Clone)]
pub(in crate::transport) enum Tls {}

impl Tls {
    pub(in crate::transport) fn new(_: &tls::Tls) -> Result<Self, String> {
        Err("TLS (rediss://) needs the crate's feature \"tls-rustls\"".to_owned())
    }

    pub(in crate::transport) async fn wrap(
        &self,
        _: &str,
        _: Box<dyn Stream>,
    ) -> io::Result<Box<dyn Stream>> {
        match *self {}
    }
}

pub(super) fn said_by_tls(_: &io::Error) -> Option<String> {
    None
}
