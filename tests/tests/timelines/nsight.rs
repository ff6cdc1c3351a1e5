//! The output of the real `nsys stats` for our database, compared with our own CSV of the same run.

use std::collections::BTreeMap;
use std::path::Path;

use tracing_gpu::summary::{RangeStyle, Times};
use tracing_gpu::{Report, Summary, SummaryExt as _};

use crate::agree;
use crate::read::Run;
use crate::scenario::BOTH;

/// The CSV output of `nsys stats`, from its header on.
fn nsys(report: &str, database: &Path) -> String {
    let output = tests::nsight::stats(["-q", "--report", report, "--format", "csv"], database);
    let (text, said) = (String::from_utf8_lossy(&output.stdout), tests::nsight::said(&output));
    assert!(output.status.success(), "{report}: {said}");
    let header = text.lines().position(|line| line.starts_with("Time (%),") || line.starts_with("Start ("));
    let header = header.unwrap_or_else(|| panic!("{report} printed no table: {said}"));
    text.lines().skip(header).filter(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect()
}

/// Cells by the name of the row, which is the last column; no name here has a comma.
fn table(csv: &str) -> (Vec<&str>, BTreeMap<String, Vec<&str>>) {
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().expect("a header");
    fn named(cells: Vec<&str>) -> (String, Vec<&str>) {
        (cells[8..].join(","), cells[..8].to_vec())
    }
    let rows: Vec<_> = lines.map(named).collect();
    let count = rows.len();
    let rows: BTreeMap<_, _> = rows.into_iter().collect();
    assert_eq!(rows.len(), count, "a row twice: {csv}");
    (header, rows)
}

/// Checks for the same rows: equal numbers of instances, and times that [`agree`].
fn assert_agree(what: &str, ours: &str, theirs: &str) {
    let ((our_header, ours), (header, theirs)) = (table(ours), table(theirs));
    assert_eq!(our_header, header, "{what}");
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "{what}");
    for (name, cells) in ours {
        let instances = cells[header.iter().position(|header| *header == "Instances").expect("a column")];
        for ((header, our), their) in header.iter().zip(&cells).zip(&theirs[&name]) {
            let number =
                |cell: &str| cell.parse::<f64>().unwrap_or_else(|_| panic!("{what}, {name}, {header}: {cell}"));
            let is_near = match *header {
                "Instances" | "Style" => our == their,
                "Time (%)" => (number(our) - number(their)).abs() < 0.11, // with the printed precision
                // Errors of 1 ns each change that of two values by the root of 2; both are printed with a digit.
                "StdDev (ns)" => {
                    let (our, their) = (number(our), number(their));
                    (our - their).abs() <= std::f64::consts::SQRT_2 + 0.1 + their * 1e-5
                }
                "Total Time (ns)" => agree(number(instances) as u64, number(our), number(their)),
                _ => agree(1, number(our), number(their)),
            };
            assert!(is_near, "{what}, {name}, {header}: {our}, not {their}");
        }
    }
}

/// Our own table of the ranges of some styles.
fn ours(mut summary: Summary, styles: &[RangeStyle]) -> String {
    summary.ranges.retain(|row| styles.contains(&row.style));
    let mut text = Vec::new();
    summary.write_csv(Report::Ranges, &mut text).expect("writing to memory");
    String::from_utf8(text).expect("UTF-8")
}

#[test]
fn nsys_stats_prints_our_own_tables() {
    for (scenario, tier) in BOTH.into_iter().flat_map(|tier| [("timeline", tier), ("timeline-domains", tier)]) {
        let run = Run::of(scenario, tier);
        let (summary, database) = (run.summary(), &run.database);
        let push_pop = ours(summary.clone(), &[RangeStyle::PushPop]);
        assert_agree(&format!("{scenario} {tier} nvtxppsum"), &push_pop, &nsys("nvtxppsum", database));
        let both = ours(summary.clone(), &[RangeStyle::PushPop, RangeStyle::StartEnd]);
        let printed = nsys("nvtxsum", database);
        if scenario == "timeline" {
            assert_agree(&format!("{scenario} {tier} nvtxsum"), &both, &printed);
            // Our table of start/end ranges has a column Style, theirs does not.
            let lifetimes =
                ours(summary.clone(), &[RangeStyle::StartEnd]).replace(",StartEnd,", ",").replace(",Style,", ",");
            assert_agree(&format!("{scenario} {tier} nvtxsesum"), &lifetimes, &nsys("nvtxsesum", database));
        }
        assert_trace(&format!("{scenario} {tier}"), &summary, &nsys("nvtxpptrace", database));
    }
}

/// Every instance is in `nvtxpptrace`, under the range around it.
fn assert_trace(what: &str, summary: &Summary, printed: &str) {
    let mut lines = printed.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().expect("a header");
    let column = |name: &str| header.iter().position(|header| *header == name).unwrap_or_else(|| panic!("{header:?}"));
    let (name, duration, level) = (column("Name"), column("Duration (ns)"), column("Lvl"));
    let mut rows: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut deepest = 0;
    for cells in lines {
        let number = |index: usize| cells[index].parse::<u64>().unwrap_or_else(|_| panic!("{what}: {cells:?}"));
        let row = rows.entry(cells[name].to_owned()).or_default();
        *row = (row.0 + 1, row.1 + number(duration));
        deepest = number(level).max(deepest);
    }
    for row in summary.ranges.iter().filter(|row| row.style == RangeStyle::PushPop) {
        let found = rows.remove(&row.label()).unwrap_or_else(|| panic!("{what}: no {}", row.label()));
        let Times { instances, total_ns, .. } = row.times;
        let agree = found.0 == instances && agree(instances, total_ns as f64, found.1 as f64);
        assert!(agree, "{what} {}: {found:?}, not {instances} times {total_ns} ns", row.label());
    }
    assert!(rows.is_empty() && deepest > 0, "{what}: {rows:?}");
}
