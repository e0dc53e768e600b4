//! The imports that are allowed. They are read from the source: `use` and paths that begin with `crate`, without tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Each part of the crate, and the parts that it may import, which stand above it. `lib` re-exports by paths of its own.
const PARTS: &str = "\
outside:
sync: outside
units:
state:
credentials:
clock: outside
lua:
tls:
error: units
stats: error sync
config: credentials tls
lease: clock sync
api: clock error lease stats
transport: clock config credentials error outside state sync tls
engine: api clock config error lease lua outside state stats sync transport
queue: api clock config engine error lease lua sync transport
memory: api clock error lease outside stats sync
redisson: api clock config engine error lease lua outside queue stats sync transport
recipes: api clock config engine error lease lua queue stats sync transport units
tower: api error
client: api config credentials engine error recipes redisson state stats tls
blocking: api client error stats
redis_rs: client config error
redisson_yaml: client config error
lib:
guide:
";

/// The parts, in the order of [`PARTS`].
fn parts() -> Vec<(&'static str, Vec<&'static str>)> {
    let lines = PARTS.lines().filter_map(|line| line.split_once(':'));
    let parts = lines.map(|(part, may)| (part, may.split_whitespace().collect()));
    parts.collect()
}

/// The modules that Redisson's primitives share. No primitive imports another.
const SHARED_BY_REDISSONS: &[&str] = &["names", "object"];
/// A source file: its place in the crate (`["engine", "once"]`), and its text.
struct File {
    module: Vec<String>,
    text: String,
}

/// The code without comments, and without the tests at its end.
fn code(source: &str) -> String {
    let source = source.split("#[cfg(test)]\nmod tests {").next();
    let lines = source.unwrap_or_default().lines();
    let lines = lines.map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

fn files(directory: &Path, module: &[String], all: &mut Vec<File>) {
    for entry in fs::read_dir(directory).expect("the sources are here") {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let inner = [module, std::slice::from_ref(&stem)].concat();
        if path.is_dir() {
            files(&path, &inner, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let module = if stem == "mod" {
                module.to_vec()
            } else {
                inner
            };
            // These files are for tests only.
            if !module.contains(&"tests".to_owned()) {
                let text = code(&fs::read_to_string(&path).unwrap());
                all.push(File { module, text });
            }
        }
    }
}

fn source() -> Vec<File> {
    let mut all = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    files(&root.join("src"), &[], &mut all);
    assert!(all.len() > 50);
    all
}

/// The paths of the tree that begins here: `a::{b, c::{d}}`.
fn expand(text: &str) -> Vec<String> {
    let (mut paths, mut outer, mut path) = (Vec::new(), Vec::new(), String::new());
    for c in text.chars() {
        match c {
            '{' if path.ends_with("::") => outer.push(path.clone()),
            ',' | '}' if !outer.is_empty() => {
                let before = outer.last().cloned().unwrap_or_default();
                paths.push(std::mem::replace(&mut path, before));
                if c == '}' {
                    outer.pop();
                }
            }
            _ if c.is_alphanumeric() || "_:$".contains(c) => path.push(c),
            _ if c.is_whitespace() && !outer.is_empty() => {}
            _ => break,
        }
    }
    paths.push(path);
    paths
}

/// All paths that a file names from the crate's root, from its own parent, or from the redis crate.
fn imports(file: &File) -> BTreeSet<Vec<String>> {
    let mut imports = BTreeSet::new();
    for root in ["crate::", "$crate::", "super::", "redis::"] {
        for (start, _) in file.text.match_indices(root) {
            let before = file.text[..start].chars().next_back();
            if before.is_some_and(|before| before.is_alphanumeric() || "_:$".contains(before)) {
                continue;
            }
            for path in expand(&file.text[start..]) {
                let parts = path.split("::").filter(|part| !part.is_empty());
                let parts: Vec<_> = parts.map(str::to_owned).collect();
                let parent = &file.module[..file.module.len() - 1];
                imports.insert(match root {
                    "redis::" => parts,
                    "super::" => [parent, &parts[1..]].concat(),
                    _ => parts[1..].to_vec(),
                });
            }
        }
    }
    imports.retain(|path| !path.is_empty());
    imports
}

/// The violations of the rules.
fn broken(all: &[File]) -> BTreeSet<String> {
    let parts: BTreeMap<_, _> = parts().into_iter().collect();
    let mut broken = BTreeSet::new();
    for file in all {
        let name = file.module.join("/");
        let part = &*file.module[0];
        let Some(may) = parts.get(part) else {
            broken.insert(format!("{part} has no place among the parts"));
            continue;
        };
        if file.text.contains("super::super") {
            broken.insert(format!("{name} climbs twice"));
        }
        for import in imports(file) {
            let other = &*import[0];
            if other == "redis" {
                // Only these parts may name the redis crate. `redis_rs` exists for its types.
                if part != "transport" && part != "redis_rs" {
                    broken.insert(format!("{name} knows the redis crate"));
                }
                continue;
            }
            let is_part = parts.contains_key(other);
            if is_part && other != part && !may.contains(&other) {
                broken.insert(format!("{name} imports {other}"));
            }
            let inner = |path: &[String]| path.get(1).cloned().unwrap_or_default();
            let (from, to) = (inner(&file.module), inner(&import));
            if other != part || from == to {
                continue;
            }
            let alone = |name: &str| !name.is_empty() && !SHARED_BY_REDISSONS.contains(&name);
            if part == "redisson" && alone(&from) && alone(&to) {
                broken.insert(format!("{name} imports the primitive {to}"));
            }
        }
    }
    broken
}

#[test]
fn dependencies_point_downwards() {
    let broken = broken(&source());
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn the_parts_are_in_order() {
    let parts = parts();
    for (place, (part, may)) in parts.iter().enumerate() {
        for other in may {
            let above = parts[..place].iter().any(|(above, _)| above == other);
            assert!(above, "{part} may import {other}, which is not above it");
        }
    }
}

/// The command for messages depends on the server, and is chosen in one place.
#[test]
fn the_command_for_messages_is_named_once() {
    let all = source();
    let named = all
        .iter()
        .filter(|file| file.text.contains("\"PUBLISH\"") || file.text.contains("\"NUMSUB\""));
    let named: Vec<_> = named.map(|file| file.module.join("/")).collect();
    assert_eq!(named, ["transport/messages"]);
}

#[test]
fn what_is_forbidden_is_found() {
    let forbidden = [
        ("error", "use crate::recipes::Units;"),
        ("error", "field: crate::recipes::Units,"),
        ("error", "use crate::{units, recipes::{self, Units}};"),
        ("queue/state", "use super::super::engine::Core;"),
        ("transport/live", "use crate::engine::core::Core;"),
        ("engine/once", "use crate::queue::Object;"),
        ("queue/state", "use crate::redisson::semaphore::RSemaphore;"),
        ("engine/once", "fn f(answer: redis::Value) {}"),
        ("client", "pub(crate) use redis::Cmd;"),
        (
            "redisson/lock/other",
            "use crate::redisson::semaphore::RSemaphore;",
        ),
        ("elsewhere", "use crate::error::Error;"),
    ];
    for (module, text) in forbidden {
        assert_eq!(broken_with(module, text).len(), 1, "{module}: {text}");
    }
    let tests = "#[cfg(test)]\nmod tests {\nuse crate::engine::Core;\n}";
    let both = "use crate::engine::{core::Core, holds::Holds};";
    for (module, text) in [
        ("error", "// use crate::recipes::Units;"),
        ("error", tests),
        ("engine/renewal/other", both),
        (
            "engine/once",
            "use super::core::Core;\nuse crate::transport::Value;",
        ),
    ] {
        assert_eq!(broken_with(module, text), BTreeSet::new());
    }
}

/// The violations after one more file is added.
fn broken_with(module: &str, text: &str) -> BTreeSet<String> {
    let mut all = source();
    let module = module.split('/').map(str::to_owned).collect();
    let text = code(text);
    all.push(File { module, text });
    broken(&all)
}
