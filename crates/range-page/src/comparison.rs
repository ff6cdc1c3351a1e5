//! Runs side by side, for the page: sentences on slower ranges, and the table that it sorts and from which it draws
//! bars.

use std::cmp::Reverse;

use serde::Serialize;

use super::tables::{Cell, MOST_ROWS, Table, column, name, number, quantile, quantile_column, style};
use super::texts::{LONGEST, LONGEST_COMMAND, identity, presentable};
use range_model::names::label_or_none;
use range_model::summary::{Process, RangeStyle};
use range_report::RenderOptions;
use range_report::page::by_self_time;
use range_report::page::{Unit, change, gate_verdict, verdicts, verdicts_on_self_time};
use range_report::{ComparedRange, Comparison};

/// The largest length of a run's name in bytes.
const LONGEST_NAME: usize = 200;
/// The largest length of a sentence in characters: all of its phases fit.
const COLUMNS: usize = 1_000;
/// Up to this many runs, a table has its largest number of rows; with more runs it has fewer.
const FEW_RUNS: usize = 4;

#[derive(Debug, Serialize)]
pub(super) struct Compared<'a> {
    runs: Vec<Run>,
    table: Table<'a>,
}

#[derive(Debug, Serialize)]
struct Run {
    name: String,
    /// Its first column in the table: the total, then the share, and for all runs but the first the difference and the
    /// ratio; own times and quantiles follow.
    first: usize,
    /// Labels and values; empty if the process is not known.
    identity: Vec<(&'static str, String)>,
    command: String,
    /// Milliseconds since 1970 in UTC; 0 if unknown.
    started_ms: u64,
    /// Whether ranges are slower than in the first run, and the sentence that names them: by own time, then including
    /// ranges inside. Empty for the first run.
    slower: bool,
    verdict: String,
    /// The largest changes, slower ranges before faster ones, and how many more there are. By own times if these are
    /// known.
    by_own: bool,
    changes: Vec<Change>,
    more_changes: usize,
}

/// A bar.
#[derive(Debug, Serialize)]
struct Change {
    name: String,
    lifetime: bool,
    ns: i64,
    ratio: String,
}

/// The number of bars for slower ranges, and for faster ones.
const SLOWER_BARS: usize = 5;
const FASTER_BARS: usize = 3;

/// The title of a page that has only a comparison.
pub(super) fn title(comparison: &Comparison) -> String {
    let names: Vec<String> = comparison.runs.iter().map(|name| run_name(name)).collect();
    presentable(&format!("Comparison: {}", names.join(", ")), LONGEST_NAME).into_owned()
}

pub(super) fn compared(comparison: &Comparison) -> Compared<'_> {
    let any_start_end = comparison.ranges.iter().any(|range| range.style == RangeStyle::StartEnd);
    let mut columns = vec![column("Range", Unit::Text)];
    columns.extend(any_start_end.then_some(column("Style", Unit::Text)));
    let mut said = verdicts(comparison, COLUMNS, &RenderOptions::default()).into_iter();
    let mut said_of_own = verdicts_on_self_time(comparison, COLUMNS, &RenderOptions::default()).into_iter();
    let any_own =
        comparison.ranges.iter().flat_map(|range| range.in_runs.iter().flatten()).any(|place| place.self_ns.is_some());
    let judged = comparison.gate.is_some();
    let own = by_self_time(comparison);
    let mut runs = Vec::new();
    for (at, (name, process)) in comparison.runs.iter().zip(&comparison.processes).enumerate() {
        let verdict = (at > 0).then(|| said.next()).flatten();
        let of_own = (at > 0).then(|| said_of_own.next()).flatten();
        let of_gate = if at > 0 { gate_verdict(comparison, at, &RenderOptions::default()) } else { None };
        // A gate can tell changes from noise.
        let verdicts: Vec<_> = match of_gate {
            Some(verdict) => vec![verdict],
            None => [of_own, verdict].into_iter().flatten().collect(),
        };
        let (changes, more_changes) = changes(own.as_ref().unwrap_or(comparison), at);
        runs.push(Run {
            name: run_name(name),
            first: columns.len(),
            identity: if *process == Process::default() { Vec::new() } else { identity(process) },
            command: presentable(&process.command, LONGEST_COMMAND).into_owned(),
            started_ms: process.started_unix_ns / 1_000_000,
            slower: verdicts.iter().any(|verdict| verdict.slower),
            verdict: verdicts.into_iter().map(|verdict| verdict.text).collect::<Vec<_>>().join("; "),
            by_own: own.is_some(),
            changes,
            more_changes,
        });
        columns.extend([column("Total", Unit::Ns), column("Share", Unit::Percent)]);
        if at > 0 {
            columns.extend([column("Difference", Unit::Difference), column("Ratio", Unit::Ratio)]);
        }
        columns.extend(any_own.then_some(column("Self", Unit::Ns)));
        columns.extend((any_own && at > 0).then_some(column("Self difference", Unit::Difference)));
        columns.extend(comparison.quantiles.iter().map(|&q| quantile_column(q)));
        columns.extend((judged && at > 0).then_some(column("Judged change", Unit::Ratio)));
    }
    let most = MOST_ROWS * FEW_RUNS / comparison.runs.len().max(FEW_RUNS);
    let rows =
        comparison.ranges.iter().take(most).map(|range| row(range, any_start_end, any_own, comparison)).collect();
    let table = Table {
        title: "Comparison",
        about: "Wall-clock time between entry and exit; self is without the ranges inside. Differences and ratios are to the first run.",
        columns,
        rows,
        rows_left_out: comparison.ranges.len().saturating_sub(most),
    };
    Compared { runs, table }
}

fn changes(comparison: &Comparison, run: usize) -> (Vec<Change>, usize) {
    let changed = comparison.ranges.iter().filter_map(|range| {
        let ns = range.difference_ns(run).filter(|&ns| run > 0 && ns != 0)?;
        Some((range, ns))
    });
    let (mut slower, mut faster): (Vec<_>, Vec<_>) = changed.partition(|(_, ns)| *ns > 0);
    let all = slower.len() + faster.len();
    for (ranges, most) in [(&mut slower, SLOWER_BARS), (&mut faster, FASTER_BARS)] {
        ranges.sort_by_key(|(_, ns)| Reverse(ns.unsigned_abs())); // stable
        ranges.truncate(most);
    }
    let shown: Vec<Change> = slower
        .into_iter()
        .chain(faster)
        .map(|(range, ns)| Change {
            name: presentable(&label_or_none(range.domain.as_deref(), &range.name), LONGEST).into_owned(),
            lifetime: range.style == RangeStyle::StartEnd,
            ns,
            ratio: change(range, run),
        })
        .collect();
    let more = all - shown.len();
    (shown, more)
}

fn run_name(name: &str) -> String {
    if name.is_empty() { "(no name)".to_owned() } else { presentable(name, LONGEST_NAME).into_owned() }
}

fn row<'a>(range: &'a ComparedRange, with_style: bool, with_own: bool, all: &Comparison) -> Vec<Cell<'a>> {
    let mut cells = vec![name(range.domain.as_deref(), &range.name)];
    cells.extend(with_style.then(|| style(range.style)));
    for (run, place) in range.in_runs.iter().enumerate() {
        match place {
            Some(place) => cells.extend([Cell::Count(place.times.total_ns), number(place.percent)]),
            None => cells.extend([Cell::Nothing(()), Cell::Nothing(())]),
        }
        if run > 0 {
            cells.push(range.difference_ns(run).map_or(Cell::Nothing(()), Cell::Signed));
            cells.push(changed(range, run));
        }
        if with_own {
            let own = place.as_ref().and_then(|place| place.self_ns);
            cells.push(own.map_or(Cell::Nothing(()), Cell::Count));
            let difference = range.self_difference_ns(run).map_or(Cell::Nothing(()), Cell::Signed);
            cells.extend((run > 0).then_some(difference));
        }
        let times = place.as_ref().map(|place| &place.times);
        cells.extend(all.quantiles.iter().map(|&q| quantile(times.and_then(|times| times.quantile(q)))));
        if run > 0 && all.gate.is_some() {
            let change = place.as_ref().and_then(|place| place.change);
            let said = |change: range_report::Change| Cell::Said {
                by: change.percent.min(f64::MAX / 2.0),
                says: change.to_string(),
            };
            cells.push(change.map_or(Cell::Nothing(()), said));
        }
    }
    cells
}

/// The change in the report's words, and a number to sort by: `new` sorts after every ratio, `gone` before.
fn changed<'a>(range: &ComparedRange, run: usize) -> Cell<'a> {
    let by = match (range.total_ns(0), range.total_ns(run)) {
        (None, None) => return Cell::Nothing(()),
        (None, Some(_)) => f64::MAX,
        (Some(_), None) => -1.0,
        (Some(0), Some(0)) => 1.0,
        (Some(base), Some(total)) => (total as f64 / base as f64).min(f64::MAX / 2.0),
    };
    Cell::Said { by, says: change(range, run) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use range_model::{Quantile, RangeStats, Summary, Times, TreeNode};
    use serde_json::{Value, json};

    fn run(ranges: &[(&str, u64)]) -> Summary {
        let ranges = ranges.iter().map(|&(name, total_ns)| RangeStats::new(name, Times::new(1, total_ns)));
        Summary { ranges: ranges.collect(), ..Summary::default() }
    }

    fn data(comparison: &Comparison) -> Value {
        serde_json::to_value(compared(comparison)).unwrap()
    }

    #[test]
    fn a_row_has_the_figures_of_each_run() {
        let base = run(&[("kept", 750), ("gone", 250), ("idle", 0), ("woken", 0)]);
        let new = run(&[("kept", 1_500), ("new", 40), ("idle", 0), ("woken", 7)]);
        let data = data(&Comparison::of([("base", &base), ("new", &new), ("", &run(&[]))]));
        let columns: Vec<&str> =
            data["table"]["columns"].as_array().unwrap().iter().map(|c| c[0].as_str().unwrap()).collect();
        let other = ["Total", "Share", "Difference", "Ratio"];
        assert_eq!(columns, [&["Range", "Total", "Share"][..], &other, &other].concat());
        assert_eq!([0, 1, 2].map(|run: usize| data["runs"][run]["first"].as_u64()), [1, 3, 7].map(Some));
        assert_eq!(data["runs"][2]["name"], "(no name)");
        let said = |by: f64, says: &str| json!({ "by": by, "says": says });
        let row = |name: &str| {
            let rows = data["table"]["rows"].as_array().unwrap();
            rows.iter().find(|row| row[0] == name).unwrap().as_array().unwrap()[1..].to_vec()
        };
        let share = |ns: f64| json!(100.0 * (ns / 1_547.0));
        let (gone, none) = (said(-1.0, "gone"), Value::Null);
        let nothing = [none.clone(), none.clone()];
        let kept = [json!(750), json!(75.0), json!(1_500), share(1_500.0), json!(750), said(2.0, "x2.00")];
        assert_eq!(row("kept"), [&kept[..], &nothing, &[json!(-750), gone.clone()]].concat());
        assert_eq!(row("gone")[2..6], [&nothing[..], &[json!(-250), gone]].concat());
        let new = [none.clone(), none.clone(), json!(40), share(40.0), json!(40), said(f64::MAX, "new")];
        assert_eq!(row("new"), [&new[..], &nothing, &nothing].concat());
        assert_eq!(row("idle")[4..6], [json!(0), said(1.0, "x1.00")]);
        assert_eq!(row("woken")[4..6], [json!(7), said(f64::MAX / 2.0, ">x1e6")]);
    }

    #[test]
    fn own_times_follow_those_of_a_run() {
        let mut runs = [run(&[("outer", 100), ("inner", 60)]), run(&[("outer", 190), ("inner", 150)])];
        for (run, own) in runs.iter_mut().zip([60, 150]) {
            let node = |name: &str, self_ns| TreeNode { name: name.to_owned(), self_ns, ..TreeNode::default() };
            run.tree = vec![TreeNode { children: vec![node("inner", own)], ..node("outer", 40) }];
        }
        let data = data(&Comparison::of([("old", &runs[0]), ("new", &runs[1])]));
        let columns = data["table"]["columns"].as_array().unwrap().iter().map(|column| column[0].as_str().unwrap());
        let base = ["Range", "Total", "Share", "Self"];
        let other = ["Total", "Share", "Difference", "Ratio", "Self", "Self difference"];
        assert_eq!(columns.collect::<Vec<_>>(), [&base[..], &other].concat());
        let row = |at: usize| [0, 3, 6, 8, 9].map(|cell| data["table"]["rows"][at][cell].clone());
        assert_eq!(row(0), [json!("outer"), json!(40), json!(90), json!(40), json!(0)]);
        assert_eq!(row(1), [json!("inner"), json!(60), json!(90), json!(150), json!(90)]);
        let verdict =
            "slower itself in new: inner +90 ns (x2.50); slower in new: outer +90 ns (x1.90), inner +90 ns (x2.50)";
        assert_eq!((&data["runs"][1]["first"], &data["runs"][1]["verdict"]), (&json!(4), &json!(verdict)));
        // Bars show only the cause.
        let inner = json!({ "name": "inner", "lifetime": false, "ns": 90, "ratio": "x2.50" });
        assert_eq!((&data["runs"][1]["by_own"], &data["runs"][1]["changes"]), (&json!(true), &json!([inner])));
        assert_eq!((&data["runs"][0]["changes"], &data["runs"][1]["more_changes"]), (&json!([]), &json!(0)));
    }

    #[test]
    fn quantiles_that_were_asked_for_come_last() {
        let runs = [run(&[("a", 100)]), run(&[("a", 190)])].map(|mut run| {
            run.ranges[0].times.quantiles = vec![Quantile::new(0.99, run.ranges[0].times.total_ns as f64, false)];
            run.tree = vec![TreeNode { quantiles: vec![Quantile::new(0.99, 1.0, true)], ..TreeNode::new("a") }];
            run
        });
        let data = data(&Comparison::of([("old", &runs[0]), ("new", &runs[1])]));
        let columns = data["table"]["columns"].as_array().unwrap().iter().map(|column| column[0].as_str().unwrap());
        let at: Vec<usize> = columns.enumerate().filter(|(_, name)| *name == "p99").map(|(at, _)| at).collect();
        assert_eq!(at, [4, 11]);
        assert_eq!([4, 11].map(|at| data["table"]["rows"][0][at][0].clone()), [json!(100.0), json!(190.0)]);
    }

    #[test]
    fn a_judged_comparison_has_a_column_of_changes() {
        let gate = range_report::Gate::new(2.0);
        let (base, new) = (run(&[("a", 1_000_000)]), run(&[("a", 9_000_000), ("added", 7)]));
        let data = data(&Comparison::of([("base", &base), ("new", &new)]).judged(&gate));
        let columns = data["table"]["columns"].as_array().unwrap();
        let last: Vec<&Value> = columns[6..].iter().map(|column| &column[0]).collect();
        assert_eq!(last, ["Ratio", "Judged change"]);
        let cells = [0, 1].map(|row: usize| &data["table"]["rows"][row][7]);
        assert_eq!(cells, [&json!({ "by": 800.0, "says": "x9.00" }), &Value::Null]);
        let verdict = data["runs"][1]["verdict"].as_str().unwrap();
        assert!(verdict.starts_with("a x9.00; 1 of 1 ranges slower than allowed (2 %); total: "), "{verdict}");
        assert_eq!((&data["runs"][0]["verdict"], &data["runs"][1]["slower"]), (&json!(""), &json!(true)));
    }

    #[test]
    fn what_is_not_known_is_not_said() {
        let mut known = run(&[("a", 1_000)]);
        known.process =
            Process { pid: 7, host: "node\n7".to_owned(), started_unix_ns: 1_500_000, ..Process::default() };
        let data = data(&Comparison::of([("base", &run(&[("a", 900)])), ("new", &known)]));
        assert_eq!((&data["runs"][0]["identity"], &data["runs"][0]["verdict"]), (&json!([]), &json!("")));
        assert_eq!(data["runs"][1]["identity"], json!([["host", "node\\n7"], ["process", "7"]]));
        assert_eq!(data["runs"][1]["started_ms"], 1);
        assert_eq!(data["runs"][1]["verdict"], "slower in new: a +100 ns (x1.11)");
        assert_eq!([&data["runs"][0]["slower"], &data["runs"][1]["slower"]], [false, true]);
    }

    #[test]
    fn rows_are_bounded_and_fewer_with_many_runs() {
        let names: Vec<String> = (0..MOST_ROWS + 5).map(|number| number.to_string()).collect();
        let ranges: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        let run = run(&ranges);
        for (runs, kept) in [(1, MOST_ROWS), (4, MOST_ROWS), (8, MOST_ROWS / 2)] {
            let comparison = Comparison::of(vec![("run", &run); runs]);
            let table = compared(&comparison).table;
            assert_eq!((table.rows.len(), table.rows_left_out), (kept, MOST_ROWS + 5 - kept), "{runs} runs");
        }
    }
}
