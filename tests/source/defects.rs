//! The defects that the simulator is to find can be put into the sources as they are.

use std::fs;
use std::path::Path;

/// Each part of a patch with the file that it changes: the lines that it expects there.
fn parts(patch: &str) -> Vec<(String, String)> {
    let mut parts: Vec<(String, String)> = Vec::new();
    let mut file = String::new();
    for line in patch.lines() {
        if let Some(path) = line.strip_prefix("--- a/") {
            file = path.to_owned();
        } else if line.starts_with("@@") {
            parts.push((file.clone(), String::new()));
        } else if let Some(rest) = line.strip_prefix([' ', '-'])
            && let Some((_, expected)) = parts.last_mut()
        {
            expected.push_str(rest);
            expected.push('\n');
        }
    }
    parts
}

#[test]
fn each_defect_can_be_put_in() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = fs::read_dir(root.join("tests/hunt/defects")).expect("a folder");
    let mut count = 0;
    for patch in folder {
        let patch = patch.expect("a file").path();
        let parts = parts(&fs::read_to_string(&patch).expect("text"));
        assert!(!parts.is_empty(), "{patch:?}: nothing is changed");
        for (file, expected) in parts {
            let source = fs::read_to_string(root.join(&file)).expect("a source");
            assert!(
                source.contains(&expected),
                "{patch:?}: not in {file}:\n{expected}"
            );
        }
        count += 1;
    }
    assert!(count <= 40, "{count} defects");
}
