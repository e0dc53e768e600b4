//! The standard output.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Prints a line; `false` if that is not possible any more, as after `| head`. `println!` would panic then.
pub(crate) fn say(line: impl Display) -> bool {
    match writeln!(io::stdout(), "{line}") {
        Ok(()) => true,
        Err(error) => {
            // A reader that has gone is no failure; a full disk is.
            if error.kind() != ErrorKind::BrokenPipe {
                let _ = FAILURE.set(error);
            }
            false
        }
    }
}

/// Why something could not be printed.
pub(crate) fn failure() -> Option<&'static io::Error> {
    FAILURE.get()
}
