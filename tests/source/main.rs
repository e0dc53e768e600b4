//! The sources and the documents: layers, headers of scripts, dependencies, the README's examples, and the test support.

mod defects;
mod dependencies;
mod layering;
#[path = "../layouts/mod.rs"]
mod layouts;
mod lua_headers;
mod readme;
#[path = "../support/mod.rs"]
mod support;
mod support_selftest;
