//! The simulation: the model of a server, and its comparison with a real server.
#![allow(dead_code, unreachable_pub)]

pub mod differential;
pub mod scripts;
pub mod server;
