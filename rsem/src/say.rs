//! What goes to the standard output.

use std::fmt::Display;
use std::io::Write;

/// Prints a line; `false` if nobody reads it any more, as after `| head`. `println!` would panic then.
pub(crate) fn say(line: impl Display) -> bool {
    writeln!(std::io::stdout(), "{line}").is_ok()
}
