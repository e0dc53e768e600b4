//! The sources and the documents: layers, headers of scripts, dependencies, and the README's examples.

mod dependencies;
mod layering;
#[path = "../layouts/mod.rs"]
mod layouts;
mod lua_headers;
mod permissions;
mod readme;
// Each is used by the hazards, too.
#[allow(dead_code, unreachable_pub)]
#[path = "../hazards/subject.rs"]
mod subject;
#[allow(dead_code, unreachable_pub, unused_imports, unused_macros)]
#[path = "../hazards/subjects/mod.rs"]
mod subjects;
#[path = "../support/mod.rs"]
mod support;
