//! Two summaries of one process, row by row.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;
use std::sync::Mutex;

use tests::nsight::{Recording, Row, Table};
use tracing_gpu::Summary;
use tracing_gpu::summary::RangeStyle;

use crate::programs::pair_ns;

/// The largest number of runs of a program, until each of its rows has agreed in one run. A preemption between the two
/// readings of the clock changes only one of the two durations, sometimes by milliseconds: it spoils one row of one
/// run. The next run is judged by the same limits, and a real error shows in all of them. Rows and counts must agree in
/// every run.
const RUNS: usize = 5;

/// Allowed deviations: nanoseconds an instance in a total and in a median, or [`ALLOWED_PERCENT`].
const ALLOWED_NS: (f64, f64) = (100.0, 60.0);
const ALLOWED_PERCENT: f64 = 1.0;

/// Where a program exceeds [`ALLOWED_NS`] in all of its runs: the part of a push and a pop that is allowed, as measured
/// under Nsight Systems in the same run of the tests. Nsight Systems reads its clock inside of its push: the longer it
/// takes on a machine, the further apart are the two readings. A clock that we read on the wrong side of the push
/// differs by half of the pair.
const ALLOWED_OF_PAIR: f64 = 0.2;

/// Profiles a program with `run` until all durations agree, or differ by less than a part of Nsight Systems' own time.
///
/// # Panics
/// If rows or instances differ in any run, or the durations of some row in every run.
pub(crate) fn agree(what: &str, run: impl FnMut() -> (Recording, Vec<Row>)) {
    agree_within(what, run, || (ALLOWED_OF_PAIR * pair_ns() / ALLOWED_NS.1).max(1.0));
}

/// Like [`agree`], for a program whose code stays in the caches: without regard to Nsight Systems' own time.
pub(crate) fn agree_closely(what: &str, run: impl FnMut() -> (Recording, Vec<Row>)) {
    agree_within(what, run, || 1.0);
}

/// Profiles a program with `run` until all durations agree. `scale` widens the limits after the last run. Only one
/// comparison runs at a time: if other programs use the caches, the time between the two readings grows.
fn agree_within(what: &str, mut run: impl FnMut() -> (Recording, Vec<Row>), scale: impl Fn() -> f64) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut best: BTreeMap<(RangeStyle, String), Deviation> = BTreeMap::new();
    for number in 1..=RUNS {
        let (recording, ours) = run();
        for deviation in compare(what, &recording, &ours) {
            let row = best.entry((deviation.style, deviation.label.clone())).or_insert_with(|| deviation.clone());
            if deviation.of_allowed() < row.of_allowed() {
                *row = deviation;
            }
        }
        if best.values().all(|row| row.of_allowed() <= 1.0) {
            return report(what, number, &best);
        }
    }
    let scale = scale();
    if best.values().all(|row| row.of_allowed() <= scale) {
        return report(what, RUNS, &best);
    }
    let off: Vec<String> = best.values().filter(|row| row.of_allowed() > 1.0).map(ToString::to_string).collect();
    panic!("{what}: durations differ in all of {RUNS} runs, at best by\n{}", off.join("\n"));
}

/// The deviation of a row's durations from those of Nsight Systems.
#[derive(Clone, Debug)]
struct Deviation {
    style: RangeStyle,
    label: String,
    instances: u64,
    /// Of the total, per instance.
    total: Off,
    median: Off,
}

#[derive(Clone, Debug)]
struct Off {
    ns: f64,
    percent: f64,
    of_allowed: f64,
}

impl Off {
    fn new(ours: f64, theirs: f64, allowed_ns: f64) -> Self {
        let ns = ours - theirs;
        Self {
            ns,
            percent: 100.0 * ns / theirs,
            of_allowed: ns.abs() / (theirs * ALLOWED_PERCENT / 100.0).max(allowed_ns),
        }
    }
}

impl Deviation {
    fn new(ours: &Row, theirs: &Row) -> Self {
        let (total_ns, median_ns) = ALLOWED_NS;
        let instances = theirs.instances as f64;
        Self {
            style: theirs.style,
            label: theirs.label.clone(),
            instances: theirs.instances,
            total: Off::new(ours.total_ns as f64 / instances, theirs.total_ns as f64 / instances, total_ns),
            median: Off::new(ours.median_ns, theirs.median_ns, median_ns),
        }
    }

    fn of_allowed(&self) -> f64 {
        self.total.of_allowed.max(self.median.of_allowed)
    }
}

impl fmt::Display for Off {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:+.1} ns ({:+.2} %, {:.0} % of what is allowed)", self.ns, self.percent, 100.0 * self.of_allowed)
    }
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label: String = self.label.chars().take(40).collect();
        write!(f, "  {label:?}, {} instances: total {} an instance; median {}", self.instances, self.total, self.median)
    }
}

/// Compares figures that do not depend on clocks.
///
/// # Panics
/// If rows or instances differ.
pub(crate) fn same_counts(what: &str, recording: &Recording, ours: &[Row]) {
    let _durations = compare(what, recording, ours);
}

/// # Panics
/// If rows or instances differ.
fn compare(what: &str, recording: &Recording, ours: &[Row]) -> Vec<Deviation> {
    let theirs = recording.table(Table::Both);
    // The two tables of a single style agree with the combined one.
    for (table, style) in [(Table::PushPop, RangeStyle::PushPop), (Table::StartEnd, RangeStyle::StartEnd)] {
        let of_style: Vec<Row> = theirs.iter().filter(|row| row.style == style).cloned().collect();
        assert_eq!(by_name(&recording.table(table)), by_name(&of_style), "{what}: Nsight Systems contradicts itself");
    }
    let (theirs, ours) = (by_name(&theirs), by_name(ours));
    let counts = |rows: &BTreeMap<(RangeStyle, String), &Row>| -> Vec<String> {
        rows.iter().map(|((style, label), row)| format!("{style:?} {label:?}: {}", row.instances)).collect()
    };
    let (counts_theirs, counts_ours) = (counts(&theirs), counts(&ours));
    let only = |some: &[String], others: &[String]| -> Vec<String> {
        some.iter().filter(|row| !others.contains(row)).cloned().collect()
    };
    let (only_ours, only_theirs) = (only(&counts_ours, &counts_theirs), only(&counts_theirs, &counts_ours));
    assert!(
        only_ours.is_empty() && only_theirs.is_empty(),
        "{what}: rows or instances differ\nours {only_ours:#?}\nNsight's {only_theirs:#?}"
    );
    theirs.iter().map(|(name, row)| Deviation::new(ours[name], row)).collect()
}

/// # Panics
/// If two rows have one name and style.
fn by_name(rows: &[Row]) -> BTreeMap<(RangeStyle, String), &Row> {
    let named: BTreeMap<_, _> = rows.iter().map(|row| ((row.style, row.label.clone()), row)).collect();
    assert_eq!(named.len(), rows.len(), "two rows of one name: {rows:?}");
    named
}

/// Prints the largest deviations, of this program and of all so far. Not with `print!`, which shows nothing for passing
/// tests.
fn report(what: &str, runs: usize, rows: &BTreeMap<(RangeStyle, String), Deviation>) {
    static WORST: Mutex<[Option<Deviation>; 2]> = Mutex::new([None, None]);
    let mut so_far = WORST.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let parts: [fn(&Deviation) -> &Off; 2] = [|row| &row.total, |row| &row.median];
    let mut here = [None, None];
    for ((part, here), so_far) in parts.iter().zip(&mut here).zip(so_far.iter_mut()) {
        for row in rows.values() {
            for worst in [&mut *here, &mut *so_far] {
                if worst.as_ref().is_none_or(|worst: &Deviation| part(worst).of_allowed <= part(row).of_allowed) {
                    *worst = Some(row.clone());
                }
            }
        }
    }
    let line = |[total, median]: &[Option<Deviation>; 2]| {
        let said = |row: &Option<Deviation>, part: fn(&Deviation) -> &Off| {
            row.as_ref().map_or_else(String::new, |row| {
                format!("{} at {:?}", part(row), row.label.chars().take(20).collect::<String>())
            })
        };
        format!("total an instance {}; median {}", said(total, parts[0]), said(median, parts[1]))
    };
    let said = format!(
        "\nnsight: {what}, {} rows, runs: {runs}; worst {}\nnsight: worst so far {}\n",
        rows.len(),
        line(&here),
        line(&so_far)
    );
    let _ = std::io::stderr().write_all(said.as_bytes());
}

/// The rows of our summary.
pub(crate) fn rows(summary: &Summary) -> Vec<Row> {
    let ended = summary.ranges.iter().filter(|range| range.times.instances > 0);
    ended
        .map(|range| Row {
            label: range.label(),
            style: range.style,
            instances: range.times.instances,
            total_ns: range.times.total_ns,
            median_ns: range.times.median_ns.unwrap_or_else(|| panic!("{}: no median", range.label())),
        })
        .collect()
}

/// The rows of our printed table: the only output of a program that was not made for tests.
///
/// # Panics
/// If there is no such table.
pub(crate) fn printed_rows(text: &str) -> Vec<Row> {
    let mut lines = text.lines().skip_while(|line| !line.trim_start().starts_with("Time (%)"));
    let header = lines.next().unwrap_or_else(|| panic!("no table in\n{text}"));
    let has_style = header.contains("Style");
    let widths: Vec<usize> =
        lines.next().unwrap_or_default().split_whitespace().map(|dashes| dashes.chars().count()).collect();
    lines.take_while(|line| !line.is_empty()).map(|line| printed_row(line, &widths, has_style)).collect()
}

fn printed_row(line: &str, widths: &[usize], has_style: bool) -> Row {
    let mut letters = line.chars();
    let cell = |&width: &usize| letters.by_ref().skip(1).take(width + 1).collect::<String>().trim().replace(',', "");
    let cells: Vec<String> = widths.iter().map(cell).collect();
    let number = |index: usize| cells[index].parse::<f64>().unwrap_or_else(|_| panic!("not a number in {line:?}"));
    Row {
        label: cells[cells.len() - 1].clone(),
        style: if has_style && cells[8] == "StartEnd" { RangeStyle::StartEnd } else { RangeStyle::PushPop },
        instances: number(2) as u64,
        total_ns: number(1) as u64,
        median_ns: number(4),
    }
}
