//! Locks: holding, renewal, waiting and lost connections.

mod fair;
mod herd;
mod holds;
mod lost_reply;
mod read_write;
mod renewal;
mod served;
mod sharing;
mod trouble;
mod waking;
