//! The measurements, and how they are shown: a table while it comes, then the targets, JSON and a chart.

mod chart;
mod comparison;
mod file;
pub(crate) mod machine;
pub(crate) mod metric;
mod table;
mod target;

use std::fs;

use machine::Machine;
use metric::{Metric, Numbers};

use crate::Result;
use crate::program::directory;

/// All results of a run.
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) workloads: Vec<Workload>,
}

/// The results of a workload.
pub(crate) struct Workload {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) rows: Vec<Row>,
}

/// One contestant's results.
pub(crate) struct Row {
    pub(crate) contestant: String,
    pub(crate) numbers: Numbers,
    /// Pairs a second, by process, where there are several.
    pub(crate) shares: Vec<f64>,
}

impl Report {
    pub(crate) fn new(machine: Machine) -> Report {
        println!("{machine}");
        Report {
            machine,
            workloads: Vec::new(),
        }
    }

    /// The following results are those of the workload `name`.
    pub(crate) fn begin(&mut self, name: &str, title: &str) {
        eprintln!("{title} ...");
        self.workloads.push(Workload {
            name: name.to_owned(),
            title: title.to_owned(),
            rows: Vec::new(),
        });
    }

    pub(crate) fn add(&mut self, contestant: String, numbers: Numbers) {
        self.add_shared(contestant, numbers, Vec::new());
    }

    /// As [`add`](Report::add), with pairs a second by process.
    pub(crate) fn add_shared(&mut self, contestant: String, numbers: Numbers, shares: Vec<f64>) {
        let workload = self.workloads.last_mut().expect("begun before");
        workload.rows.push(Row {
            contestant,
            numbers,
            shares,
        });
    }

    /// The workload is over.
    pub(crate) fn end(&self) {
        if let Some(workload) = self.workloads.last() {
            println!("\n{}", table::of_workload(workload));
        }
    }

    fn row(&self, workload: &str, contestant: &str) -> Option<&Row> {
        self.workloads
            .iter()
            .find(|known| known.name == workload)?
            .rows
            .iter()
            .find(|row| row.contestant == contestant)
    }

    /// A number, if it was measured.
    fn value(&self, workload: &str, contestant: &str, metric: &Metric) -> Option<f64> {
        self.row(workload, contestant)?.value(metric)
    }

    /// Shows the targets and writes the files.
    pub(crate) fn finish(&self) -> Result<()> {
        let targets = target::all(self);
        println!("\n{}", table::of_targets(&targets));
        let directory = directory();
        let comparisons = comparison::all(self);
        let json = directory.join("report.json");
        fs::write(
            &json,
            format!("{:#}\n", file::json(self, &comparisons, &targets)),
        )?;
        let svg = directory.join("report.svg");
        fs::write(&svg, chart::svg(self, &comparisons))?;
        println!("\n{}\n{}", json.display(), svg.display());
        Ok(())
    }
}

impl Row {
    fn value(&self, metric: &Metric) -> Option<f64> {
        let number = |(known, value): &(&Metric, f64)| (known.key == metric.key).then_some(*value);
        self.numbers.iter().find_map(number)
    }
}
