//! Keeps a report of a full run, and fills the guide's chapter of figures from it.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::Result;
use crate::figures;
use crate::program::directory;

const GUIDE: &str = "src/guide";
const FIGURES: &str = "benches/figures.json";
/// The output of the demo.
const DEMO: &str = "benches/demo.txt";

/// Publishes the report of the last run if it is complete, and otherwise the report that was kept.
pub(crate) fn publish() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let kept = root.join(FIGURES);
    let run = directory().join("report.json");
    if run.exists() {
        let report = fs::read_to_string(&run)?;
        match flaw(&serde_json::from_str(&report)?) {
            None => fs::write(&kept, report)?,
            Some(flaw) => println!("{}: {flaw}; {FIGURES} stays as it is", run.display()),
        }
    }
    let report: Value = serde_json::from_str(&fs::read_to_string(&kept)?)?;
    let guide = root.join(GUIDE);
    let demo = fs::read_to_string(root.join(DEMO))?;
    for (name, picture) in figures::pictures(&report, &demo) {
        fs::write(guide.join(name), picture)?;
    }
    let page = guide.join("figures.md");
    let filled = figures::chapter(&fs::read_to_string(&page)?, &report);
    fs::write(&page, filled)?;
    println!("{} is filled from {FIGURES}", page.display());
    Ok(())
}

/// Why a report is not to be published.
fn flaw(report: &Value) -> Option<String> {
    if report["machine"]["mode"] != "full" {
        return Some("not of a full run".to_owned());
    }
    let missing = figures::missing(report);
    (!missing.is_empty()).then(|| format!("no figures for {}", missing.join(", ")))
}
