//! What both sides do to their keys, compared byte for byte.
#![allow(unreachable_pub)]

pub mod case;
pub mod comparison;
