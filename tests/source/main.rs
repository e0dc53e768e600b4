//! The sources and the documents: layers, headers of scripts, dependencies, and the README's examples.

mod dependencies;
mod layering;
#[path = "../layouts/mod.rs"]
mod layouts;
mod lua_headers;
mod readme;
#[path = "../support/mod.rs"]
mod support;
