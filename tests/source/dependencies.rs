//! The packages that come with the crate on this platform: their number, and their licences.

use std::collections::BTreeMap;
use std::process::Command;

/// The allowed licences. A package may offer a choice of licences.
const LICENCES: [&str; 8] = [
    "Apache-2.0",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// The packages that are built for the crate, and their licences.
fn dependencies(features: &str) -> BTreeMap<String, String> {
    let words = "tree --locked --offline --package redisson-semaphore --edges normal,build --prefix none --format {p}={l}";
    let tree = Command::new(env!("CARGO"))
        .args(words.split(' '))
        .arg(features)
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&tree.stderr);
    assert!(tree.status.success(), "{errors}");
    let tree = String::from_utf8(tree.stdout).expect("text");
    let lines = tree.lines().map(|line| line.trim_end_matches(" (*)"));
    let packages = lines.filter_map(|line| line.split_once('='));
    packages
        .map(|(package, licence)| (package.to_owned(), licence.to_owned()))
        .collect()
}

/// One allowed licence is enough for each part: `(MIT OR Apache-2.0) AND Unicode-3.0`.
fn is_free(licence: &str) -> bool {
    licence.split(" AND ").all(|part| {
        let part = part.trim_matches(['(', ')']).replace('/', " OR ");
        part.split(" OR ").any(|one| LICENCES.contains(&one.trim()))
    })
}

#[test]
fn all_licences_are_free() {
    let all = dependencies("--all-features");
    assert!(all.len() > 20, "{all:?}");
    let others: Vec<_> = all
        .iter()
        .filter(|(_, licence)| !is_free(licence))
        .collect();
    assert!(others.is_empty(), "{others:?}");
}

/// Most packages come with the redis crate. A higher number is a decision, and not an accident.
#[test]
fn by_default_there_are_few() {
    let others = dependencies("--no-default-features").len() - 1;
    assert!(others <= 74, "{others}");
}
