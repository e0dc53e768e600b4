//! What belongs to the simulation: the model of a server, and why it is believed.
#![allow(dead_code, unreachable_pub)]

pub mod differential;
pub mod scripts;
pub mod server;
