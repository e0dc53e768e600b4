//! Each Lua file's header lists what its body uses, and each Lua file is part of the crate.
//!
//! A header is the block of comments at the top: the [`SECTIONS`] in their order, `KEYS` and `ARGV` with one
//! line for each index (`-- KEYS[1] name: what it is`, `-- ARGV[5..] the rest`). A section starts after one
//! space; lines that go on with it are indented further.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A script may have no arguments, and a part of a script no keys, either.
const SECTIONS: [&str; 8] = [
    "Purpose",
    "Counterpart",
    "KEYS",
    "ARGV",
    "Returns",
    "Publishes",
    "Repeat-safe",
    "Invariant",
];

fn check(script: &str) -> Result<(), String> {
    let lines = script.lines().take_while(|line| line.starts_with("--"));
    let header: Vec<_> = lines.filter(|line| !line.starts_with("--  ")).collect();
    let body = script.lines().skip_while(|line| line.starts_with("--"));
    // No string of ours contains two dashes.
    let body = body.map(|line| line.split("--").next().unwrap_or_default());
    let body = body.collect::<Vec<_>>().join("\n");

    let mut sections = Vec::new();
    for line in &header {
        let words = line.strip_prefix("-- ").unwrap_or_default();
        let section = SECTIONS.iter().find(|section| words.starts_with(**section));
        sections.push(*section.ok_or_else(|| format!("no section starts like this: {line}"))?);
    }
    sections.dedup_by(|one, two| one == two && ["KEYS", "ARGV"].contains(one));
    let mut expected = SECTIONS.to_vec();
    expected.retain(|one| !["KEYS", "ARGV"].contains(one) || sections.contains(one));
    if sections != expected {
        return Err(format!("sections {sections:?} instead of {expected:?}"));
    }
    let header = header.join("\n");
    for name in ["KEYS", "ARGV"] {
        let listed = indexes(&header, name);
        let mut used = indexes(&body, name);
        // `lua/queue/announce.lua` sends messages by the first argument for the parts behind it.
        if name == "ARGV" && (body.contains("announce(") || body.contains("announce_all(")) {
            used.insert("1");
        }
        check_indexes(name, &listed, &used, &body)?;
    }
    // A key comes from KEYS, never from a literal, which a cluster and a name mapper could not know.
    let calls = body.split("call(").skip(1);
    let mut keys = calls.filter_map(|call| call.lines().next()?.split(',').nth(1));
    match keys.find(|key| key.trim_start().starts_with(['\'', '"'])) {
        Some(key) => Err(format!("a literal where the key belongs: {key}")),
        None => Ok(()),
    }
}

/// The texts in brackets behind `name`.
fn indexes<'a>(text: &'a str, name: &str) -> BTreeSet<&'a str> {
    let behind = text.split(name).skip(1);
    let behind = behind.filter_map(|rest| rest.strip_prefix('[')?.split(']').next());
    behind.collect()
}

/// The header lists each number that the body uses, or the rest by `n..`, which the body reads by a computed index.
fn check_indexes(
    name: &str,
    listed: &BTreeSet<&str>,
    used: &BTreeSet<&str>,
    body: &str,
) -> Result<(), String> {
    let rest = listed.iter().find_map(|index| index.strip_suffix(".."));
    let rest = rest.map(|from| from.parse::<usize>().expect("a number"));
    let is_single = |index: &&str| {
        let number = index.parse::<usize>();
        number.is_ok_and(|number| rest.is_none_or(|from| number < from))
    };
    let singles = |all: &BTreeSet<&str>| -> BTreeSet<String> {
        let singles = all.iter().copied().filter(|index| is_single(index));
        singles.map(str::to_owned).collect()
    };
    let (listed, single) = (singles(listed), singles(used));
    if let Some(index) = listed.symmetric_difference(&single).next() {
        return Err(format!("{name}[{index}] is not in both, header and body"));
    }
    // `#ARGV` counts, and reads nothing.
    let whole = body.matches(name).count()
        > body.matches(&format!("{name}[")).count() + body.matches(&format!("#{name}")).count();
    let reads_rest = whole || used.len() > single.len();
    if reads_rest != rest.is_some() {
        return Err(format!(
            "the rest of {name}: listed {rest:?}, used {reads_rest}"
        ));
    }
    Ok(())
}

fn lua_files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(lua_files(&path)),
            false => found.push(path),
        }
    }
    found
}

#[test]
fn every_header_lists_what_its_body_uses_and_every_script_is_embedded() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let lua = root.join("lua");
    let embedded = fs::read_to_string(root.join("src/lua.rs")).unwrap();
    let embedded: BTreeSet<_> = embedded.split('"').skip(1).step_by(2).collect();
    let scripts = lua_files(&lua);
    assert!(scripts.len() > 20, "{scripts:?}");
    let mut wrong = Vec::new();
    for path in scripts {
        let name = path.strip_prefix(&lua).unwrap().with_extension("");
        if !embedded.contains(name.to_str().unwrap()) {
            wrong.push(format!("{}: not in src/lua.rs", path.display()));
        }
        if let Err(error) = check(&fs::read_to_string(&path).unwrap()) {
            wrong.push(format!("{}: {error}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
