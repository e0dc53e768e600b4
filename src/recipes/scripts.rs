//! The script of each layout.

use std::sync::LazyLock;

use super::settings::Layout;
use crate::engine::request::Script;
use crate::lua;

static TIMESTAMP: LazyLock<Script> = LazyLock::new(|| Script::new(lua::TIMESTAMP));
static FAIR: LazyLock<Script> = LazyLock::new(|| Script::new(lua::FAIR));
static SET: LazyLock<Script> = LazyLock::new(|| Script::new(lua::SET));
static SLOTS: LazyLock<Script> = LazyLock::new(|| Script::new(lua::SLOTS));

pub(super) fn of(layout: Layout) -> &'static LazyLock<Script> {
    match layout {
        Layout::Timestamp => &TIMESTAMP,
        Layout::Fair => &FAIR,
        Layout::Set => &SET,
        Layout::Slots | Layout::Lock => &SLOTS,
    }
}
