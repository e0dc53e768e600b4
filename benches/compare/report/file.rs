//! The report as JSON, for comparing runs.

use serde_json::{Map, Value, json};

use super::comparison::Comparison;
use super::target::Target;
use super::{Report, Row, Workload};

pub(super) fn json(report: &Report, comparisons: &[Comparison], targets: &[Target]) -> Value {
    json!({
        "machine": report.machine.to_json(),
        "workloads": report.workloads.iter().map(workload).collect::<Vec<_>>(),
        "times_better": comparisons.iter().map(comparison).collect::<Vec<_>>(),
        "targets": targets.iter().map(target).collect::<Vec<_>>(),
    })
}

fn workload(workload: &Workload) -> Value {
    json!({
        "name": workload.name,
        "title": workload.title,
        "results": workload.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn row(row: &Row) -> Value {
    let mut fields = Map::new();
    fields.insert("contestant".to_owned(), json!(row.contestant));
    for (metric, value) in &row.numbers {
        fields.insert(metric.key.to_owned(), json!(value));
    }
    if !row.shares.is_empty() {
        fields.insert("pairs_per_second_by_process".to_owned(), json!(row.shares));
    }
    Value::Object(fields)
}

fn comparison(comparison: &Comparison) -> Value {
    json!({
        "in": comparison.group,
        "workload": comparison.label,
        "than_plain": comparison.plain,
        "than_redisson": comparison.redisson,
    })
}

fn target(target: &Target) -> Value {
    json!({
        "text": target.text,
        "measured": target.measured,
        "needed": target.needed.number(),
        "reached": target.reached(),
    })
}
