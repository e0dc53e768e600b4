//! TLS over a connected stream, with the feature `tls-rustls`.

#[cfg(feature = "tls-rustls")]
mod by_rustls;
#[cfg(not(feature = "tls-rustls"))]
mod without;

use std::io;

#[cfg(feature = "tls-rustls")]
use by_rustls as library;
#[cfg(not(feature = "tls-rustls"))]
use without as library;

use super::failure::{Reason, Refusal};

pub(super) use library::Tls;

/// Where it speaks something else, TLS finds no more than that this makes no sense.
#[cfg(feature = "tls-rustls")]
const IS_IT_TLS: &str = " (does the server speak TLS at this port?)";

/// The meaning of a connection failure. One that TLS has found does not pass by trying again.
pub(super) fn refusal(error: &io::Error) -> Refusal {
    match library::said_by_tls(error) {
        Some(detail) => Refusal {
            reason: Reason::Tls,
            detail,
        },
        None => Refusal::unreachable(error.to_string()),
    }
}
