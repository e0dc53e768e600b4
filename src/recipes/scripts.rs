//! The script of each layout.

use std::sync::LazyLock;

use super::settings::Layout;
use crate::engine::request::Script;

/// The script of a layout: its store between what all have.
macro_rules! script {
    ($($store:tt)+) => {
        LazyLock::new(|| {
            Script::new(concat!(
                include_str!("../../lua/engine/envelope.lua"),
                include_str!("../../lua/engine/places.lua"),
                include_str!("../../lua/engine/line.lua"),
                include_str!("../../lua/recipes/ids.lua"),
                $($store)+
                include_str!("../../lua/recipes/batch.lua"),
            ))
        })
    };
}
static TIMESTAMP: LazyLock<Script> = script! {
    include_str!("../../lua/recipes/times.lua"),
    include_str!("../../lua/recipes/timestamp.lua"),
};
static FAIR: LazyLock<Script> = script! {
    include_str!("../../lua/recipes/times.lua"),
    include_str!("../../lua/recipes/fair.lua"),
};
static SET: LazyLock<Script> = script! { include_str!("../../lua/recipes/set.lua"), };
static SLOTS: LazyLock<Script> = script! { include_str!("../../lua/recipes/slots.lua"), };

pub(super) fn of(layout: Layout) -> &'static LazyLock<Script> {
    match layout {
        Layout::Timestamp => &TIMESTAMP,
        Layout::Fair => &FAIR,
        Layout::Set => &SET,
        Layout::Slots | Layout::Lock => &SLOTS,
    }
}
