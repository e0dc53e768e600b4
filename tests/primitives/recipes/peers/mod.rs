//! The tests beside peers, those that are about one recipe each, and what they share.

mod fair;
mod string_lock;
pub(crate) mod support;
mod tokens;
