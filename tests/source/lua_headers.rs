//! Each Lua file's header says what its body does, and each Lua file is part of the crate.
//!
//! A header is the block of comments at the top: the [`SECTIONS`] in their order, `KEYS` and `ARGV` with one
//! line for each index (`-- KEYS[1] name: what it is`, `-- ARGV[5..] the rest`). A section starts after one
//! space; lines that go on with it are indented further.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

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

/// One section's line: `Purpose: text`, or `KEYS[1] text`.
#[derive(Debug)]
struct Entry {
    section: &'static str,
    /// `1` or `5..` for KEYS and ARGV, else empty.
    index: String,
    text: String,
}

/// Reads the header; the second part is the body.
fn read_header(script: &str) -> Result<(Vec<Entry>, &str), String> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut body = script;
    while let Some(line) = body.lines().next().filter(|line| line.starts_with("--")) {
        body = &body[line.len()..];
        body = body.strip_prefix('\n').unwrap_or(body);
        let text = line
            .strip_prefix("-- ")
            .ok_or_else(|| format!("no space after the dashes: {line:?}"))?;
        if text.starts_with(' ') {
            let entry = entries.last_mut().ok_or("the first line is indented")?;
            entry.text.push(' ');
            entry.text.push_str(text.trim());
        } else {
            entries.push(read_entry(text)?);
        }
    }
    Ok((entries, body))
}

fn read_entry(line: &str) -> Result<Entry, String> {
    let unknown = || format!("no section starts like this: {line:?}");
    let section = *SECTIONS
        .iter()
        .find(|section| line.starts_with(*section))
        .ok_or_else(unknown)?;
    let rest = &line[section.len()..];
    let (index, text) = if matches!(section, "KEYS" | "ARGV") {
        rest.strip_prefix('[')
            .and_then(|rest| rest.split_once("] "))
    } else {
        rest.strip_prefix(": ").map(|text| ("", text))
    }
    .ok_or_else(unknown)?;
    Ok(Entry {
        section,
        index: index.to_owned(),
        text: text.trim().to_owned(),
    })
}

/// The body without comments. (No string of ours contains two dashes.)
fn code(body: &str) -> String {
    body.lines()
        .map(|line| line.split("--").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

/// The texts in brackets after each `name` in the code, and whether it is also used as a whole (`#ARGV` alone does
/// not count).
fn uses<'a>(code: &'a str, name: &str) -> (BTreeSet<&'a str>, bool) {
    let mut indexes = BTreeSet::new();
    let mut whole = false;
    for (at, _) in code.match_indices(name) {
        match code[at + name.len()..]
            .strip_prefix('[')
            .and_then(|rest| rest.split_once(']'))
        {
            Some((index, _)) => drop(indexes.insert(index)),
            None => whole |= !code[..at].ends_with('#'),
        }
    }
    (indexes, whole)
}

/// The arguments' text (up to the end of the line) of every `redis.call` and `redis.pcall`.
fn calls(code: &str) -> impl Iterator<Item = &str> {
    ["redis.call(", "redis.pcall("]
        .into_iter()
        .flat_map(|call| code.split(call).skip(1))
        .map(|arguments| arguments.lines().next().unwrap_or_default())
}

fn check(script: &str) -> Result<(), String> {
    let (entries, body) = read_header(script)?;
    let code = code(body);
    check_sections(&entries)?;
    check_indexes(&entries, &code, "KEYS")?;
    check_indexes(&entries, &code, "ARGV")?;
    check_publishes(&entries, &code)?;
    check_keys(&code)
}

fn check_sections(entries: &[Entry]) -> Result<(), String> {
    let mut order: Vec<_> = entries.iter().map(|entry| entry.section).collect();
    let listed = |section: &&str| matches!(*section, "KEYS" | "ARGV");
    order.dedup_by(|one, two| one == two && listed(one));
    // A script may have no arguments. A part of a script may have no keys, either.
    let expected: Vec<_> = SECTIONS
        .into_iter()
        .filter(|section| !listed(section) || order.contains(section))
        .collect();
    if order != expected {
        return Err(format!("sections {order:?} instead of {expected:?}"));
    }
    for Entry { section, text, .. } in entries {
        let fits = match *section {
            "Counterpart" => text.contains('.') || text.starts_with("extension"),
            "KEYS" => text
                .split_once(": ")
                .is_some_and(|(name, _)| !name.contains(' ')),
            "Repeat-safe" => ["yes, ", "no, "]
                .iter()
                .any(|start| text.starts_with(start)),
            _ => !text.is_empty(),
        };
        if !fits {
            return Err(format!("{section}: {text:?} is not in the form agreed on"));
        }
    }
    Ok(())
}

/// The header lists rising numbers, and perhaps `n..` at the end. The body uses exactly these, and the rest through an
/// index that is no number. A part of a script may leave out the numbers that only other parts use.
fn check_indexes(entries: &[Entry], code: &str, name: &str) -> Result<(), String> {
    let (mut fixed, mut rest) = (BTreeSet::new(), None);
    for Entry { index, .. } in entries.iter().filter(|entry| entry.section == name) {
        let number = index.trim_end_matches("..").parse().unwrap_or(0);
        if number <= fixed.last().copied().unwrap_or(0) || rest.is_some() {
            return Err(format!("{name}[{index}] is not in its order"));
        }
        match index.ends_with("..") {
            true => rest = Some(number),
            false => drop(fixed.insert(number)),
        }
    }
    let (mut used, whole) = uses(code, name);
    if name == "ARGV" && announces(code) {
        used.insert("1");
    }
    let numbers = used.iter().filter_map(|index| index.parse::<usize>().ok());
    let is_rest = |number: &usize| rest.is_some_and(|from| *number >= from);
    let (of_rest, numbers): (BTreeSet<_>, BTreeSet<_>) = numbers.partition(is_rest);
    if let Some(number) = fixed.symmetric_difference(&numbers).next() {
        let place = if fixed.contains(number) {
            "header"
        } else {
            "body"
        };
        return Err(format!("{name}[{number}] is in the {place} only"));
    }
    let computed = whole || used.len() > numbers.len() + of_rest.len();
    match rest {
        Some(rest) if !computed && of_rest.is_empty() => {
            Err(format!("{name}[{rest}..] is in the header only"))
        }
        None if computed => Err(format!(
            "the body computes an index of {name}, but no rest is listed"
        )),
        _ => Ok(()),
    }
}

/// Whether the code publishes through `announce`, with the publish command as its first argument.
fn announces(code: &str) -> bool {
    code.contains("announce(") || code.contains("announce_all(")
}

/// A body publishes if it names a command or a local for that, is given the publish command, or calls `announce`, which
/// `lua/queue/announce.lua` gives to the parts behind it.
fn check_publishes(entries: &[Entry], code: &str) -> Result<(), String> {
    let told = |entry: &Entry| entry.section == "Publishes" && entry.text != "nothing";
    let given =
        |entry: &Entry| entry.section == "ARGV" && entry.text.starts_with("publish command");
    let done = code.to_lowercase().contains("publish") || announces(code);
    match (entries.iter().any(told), done || entries.iter().any(given)) {
        (true, false) => Err("the header says it publishes, the body does not".into()),
        (false, true) => Err("the body publishes, the header does not say so".into()),
        _ => Ok(()),
    }
}

/// A key comes from KEYS, never from a literal, which a cluster and a name mapper could not know.
fn check_keys(code: &str) -> Result<(), String> {
    let literal = calls(code).find(|arguments| {
        let key = arguments.split(',').nth(1).unwrap_or_default().trim_start();
        key.starts_with(['\'', '"'])
    });
    match literal {
        Some(arguments) => Err(format!("a literal where the key belongs: ({arguments}")),
        None => Ok(()),
    }
}

fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|other| other == extension) {
            found.push(path.canonicalize().unwrap());
        }
    }
    found.sort();
    found
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_header_tells_what_the_body_does() {
    let scripts = files(&root().join("lua"), "lua");
    assert!(!scripts.is_empty());
    let wrong: Vec<_> = scripts
        .iter()
        .filter_map(|path| {
            let error = check(&fs::read_to_string(path).unwrap()).err()?;
            Some(format!("{}: {error}", path.display()))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_script_is_embedded() {
    let text = fs::read_to_string(root().join("src/lua.rs")).unwrap();
    let named: BTreeSet<_> = text.split('"').skip(1).step_by(2).collect();
    let lua = root().join("lua");
    let forgotten: Vec<_> = files(&lua, "lua")
        .into_iter()
        .filter(|path| {
            let path = path.strip_prefix(&lua).unwrap().with_extension("");
            !named.contains(path.to_str().unwrap())
        })
        .collect();
    assert!(forgotten.is_empty(), "not in src/lua.rs: {forgotten:?}");
}

const SAMPLE: &str = "\
-- Purpose: takes,
--   and tells
-- Counterpart: RSemaphore.acquire
-- KEYS[1] semaphore: string
-- KEYS[2] channel: of the waiters
-- ARGV[1] publish command
-- ARGV[2] amount
-- ARGV[3..] more amounts
-- Returns: 1
-- Publishes: the amount
-- Repeat-safe: no, it counts
-- Invariant: none is lost

redis.call('incrby', KEYS[1], ARGV[2]) -- not KEYS[9]
for i = 3, #ARGV do redis.call(ARGV[1], KEYS[2], ARGV[i]) end
return 1
";

#[test]
fn a_true_header_passes() {
    check(SAMPLE).unwrap();
    let without_rest = SAMPLE.replace("-- ARGV[3..] more amounts\n", "");
    check(&without_rest.replace(
        "for i = 3, #ARGV do redis.call(ARGV[1], KEYS[2], ARGV[i]) end",
        "redis.pcall(ARGV[1], KEYS[2], 1)",
    ))
    .unwrap();
}

#[test]
fn a_false_header_is_refused() {
    let cases = [
        ("-- Returns: 1\n", "", "sections"),
        ("-- Returns: 1\n", "--\n-- Returns: 1\n", "no space"),
        ("-- Returns", "-- Result", "no section"),
        ("RSemaphore.acquire", "acquire", "Counterpart"),
        ("semaphore: string", "a string", "KEYS"),
        ("no, it counts", "perhaps", "Repeat-safe"),
        ("-- ARGV[2] amount\n", "", "ARGV[2] is in the body only"),
        ("ARGV[2] amount", "ARGV[1] amount", "not in its order"),
        ("ARGV[2])", "1)", "ARGV[2] is in the header only"),
        (
            "-- ARGV[3..] more amounts\n",
            "",
            "computes an index of ARGV",
        ),
        ("ARGV[i]", "1", "ARGV[3..] is in the header only"),
        ("the amount", "nothing", "the body publishes"),
        (
            "-- ARGV[1] publish command\n-- ARGV[2] amount\n-- ARGV[3..] more amounts\n",
            "-- ARGV[1..] amounts\n",
            "the header says it publishes",
        ),
        ("'incrby', KEYS[1]", "'incrby', 'k' .. KEYS[1]", "a literal"),
    ];
    for (text, instead, expected) in cases {
        assert!(SAMPLE.contains(text), "{text:?} is not in the sample");
        let error = check(&SAMPLE.replace(text, instead)).unwrap_err();
        assert!(error.contains(expected), "{text:?} -> {instead:?}: {error}");
    }
}
