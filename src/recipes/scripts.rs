//! The scripts of each layout.

use std::sync::LazyLock;

use super::settings::Layout;
use crate::engine::request::Script;
use crate::lua;

static TIMESTAMP: LazyLock<Script> = LazyLock::new(|| Script::new(lua::TIMESTAMP));
static FAIR: LazyLock<Script> = LazyLock::new(|| Script::new(lua::FAIR));
static SET: LazyLock<Script> = LazyLock::new(|| Script::new(lua::SET));
static SLOTS: LazyLock<Script> = LazyLock::new(|| Script::new(lua::SLOTS));

static REFRESH_TIMESTAMP: LazyLock<Script> = LazyLock::new(|| Script::new(lua::REFRESH_TIMESTAMP));
static REFRESH_FAIR: LazyLock<Script> = LazyLock::new(|| Script::new(lua::REFRESH_FAIR));
static REFRESH_SET: LazyLock<Script> = LazyLock::new(|| Script::new(lua::REFRESH_SET));
static REFRESH_SLOTS: LazyLock<Script> = LazyLock::new(|| Script::new(lua::REFRESH_SLOTS));

/// What carries batches out.
pub(super) fn of(layout: Layout) -> &'static LazyLock<Script> {
    match layout {
        Layout::Timestamp => &TIMESTAMP,
        Layout::Fair => &FAIR,
        Layout::Set => &SET,
        Layout::Slots | Layout::Lock => &SLOTS,
    }
}

/// What refreshes holders.
pub(super) fn refreshing(layout: Layout) -> &'static LazyLock<Script> {
    match layout {
        Layout::Timestamp => &REFRESH_TIMESTAMP,
        Layout::Fair => &REFRESH_FAIR,
        Layout::Set => &REFRESH_SET,
        Layout::Slots | Layout::Lock => &REFRESH_SLOTS,
    }
}
