//! The same commands for the model and for a real server, and a comparison of all that can be seen of them.
//!
//! The real server's wall clock is under the test's control (`clock.c` is preloaded), so nothing is left to chance:
//! times to live, idle times and what `TIME` tells scripts are the same to the microsecond.

mod commands;
mod run;
mod scripts;
pub mod step;
mod wire;
pub mod world;

pub use run::{differ, explore};
