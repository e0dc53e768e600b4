//! The same commands for the model and for a real server, and a comparison of all that can be seen of them.
//!
//! The real server's wall clock is under the test's control (`clock.c` is preloaded), so nothing is left to chance:
//! times to live, idle times and what `TIME` tells scripts are the same to the microsecond.

pub mod cluster;
mod commands;
mod contents;
mod run;
mod script_calls;
pub mod step;
pub mod tally;
mod wire;
pub mod world;

pub use run::{differ, explore};
