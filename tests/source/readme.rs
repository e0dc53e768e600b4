//! The guide's examples are those of `examples/services`, the README's links lead somewhere, and the guide's figures are those of the
//! run that was kept.

#[path = "../../benches/compare/figures/mod.rs"]
mod figures;

use std::collections::BTreeSet;

const README: &str = include_str!("../../README.md");
const LIB: &str = include_str!("../../src/lib.rs");
const EXAMPLES: &str = include_str!("../../src/guide/examples.md");

#[test]
fn the_examples_are_those_that_are_run() {
    let shown: Vec<&str> = EXAMPLES
        .split("```rust")
        .skip(1)
        .filter_map(|rest| rest.split_once('\n')?.1.split("```").next())
        .collect();
    let run = [
        include_str!("../../examples/services/src/bin/limited.rs"),
        include_str!("../../examples/services/src/bin/worker.rs"),
        include_str!("../../examples/services/tests/without_redis.rs"),
    ];
    // Without what the file says of itself.
    let run = run.map(|file| file.split_once("\n\n").expect("a file's head").1);
    assert_eq!(shown, run);
}

/// A screen and a half, without the definitions of its links.
#[test]
fn the_front_page_is_short() {
    let lines = README.lines().filter(|line| !line.starts_with("[`"));
    assert!(lines.count() <= 90);
}

/// `[name]: address` at the beginning of lines.
fn links<'a>(text: &'a str, before: &str) -> Vec<(&'a str, &'a str)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(before));
    let links = lines.filter(|line| line.starts_with("[`"));
    links.filter_map(|line| line.split_once("]: ")).collect()
}

/// On a page of its own the README links to docs.rs, in the documentation to the very types: the same ones.
#[test]
fn each_link_of_the_readme_is_one_in_the_documentation() {
    let outside: BTreeSet<String> = links(README, "")
        .into_iter()
        .map(|(name, address)| {
            let path = address
                .strip_prefix("https://docs.rs/redisson-semaphore/latest/redisson_semaphore/")
                .expect("the documentation");
            let path = path
                .trim_end_matches("/index.html")
                .trim_end_matches(".html");
            format!("{name} {}", path.replace("struct.", "").replace('/', "::"))
        })
        .collect();
    let inside = links(LIB, "//! ");
    let inside = inside
        .into_iter()
        .map(|(name, path)| format!("{name} {path}"));
    assert_eq!(outside, inside.collect());
    for (name, _) in links(README, "") {
        assert!(README.matches(&format!("{name}]")).count() > 1, "{name}");
    }
}

/// Written by `make figures`, and by nobody else.
#[test]
fn the_figures_are_those_of_the_report() {
    let report = include_str!("../../benches/figures.json");
    let demo = include_str!("../../benches/demo.txt");
    let report = serde_json::from_str(report).expect("JSON");
    assert_eq!(figures::missing(&report), [""; 0]);
    let page = include_str!("../../src/guide/figures.md");
    assert_eq!(figures::chapter(page, &report), page);
    let drawn = [
        include_str!("../../src/guide/waits.svg"),
        include_str!("../../src/guide/throughput.svg"),
        include_str!("../../src/guide/demo.svg"),
    ];
    for ((name, picture), drawn) in figures::pictures(&report, demo).into_iter().zip(drawn) {
        assert!(picture == drawn, "{name} is not what the report says");
        // In the documentation it stands in Markdown, where an empty line would end it.
        assert!(!picture.contains("\n\n"), "{name}");
    }
}
