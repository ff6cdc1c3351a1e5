//! Reports with a row for each range, each operation, or each pair of both.

use std::collections::{BTreeMap, HashMap};

use range_model::timeline::Work;
use tracing_gpu::summary::RangeStyle;

use crate::expected::{Expected, label, memory, style, times};
use crate::generate::{PROCESS, Workload};
use crate::stats::{Row, number};
use crate::summaries::{keyed, spread};
use crate::tables::{Figures, Key};

/// The ranges of a report by the report's own numbers.
fn numbered(
    rows: &[Row],
    expected: &Expected<'_>,
    of: impl Fn(&Row) -> (String, u64, u64, String),
) -> HashMap<String, usize> {
    let ranges = expected.work.ranges.iter().enumerate();
    let known: HashMap<_, usize> = ranges
        .map(|(at, range)| {
            ((range.thread.to_string(), range.start, range.end, format!("{} {}", label(range), style(range.style))), at)
        })
        .collect();
    let row =
        |row: &Row| (row["RangeId"].clone(), *known.get(&of(row)).unwrap_or_else(|| panic!("no such range: {row:?}")));
    let found: HashMap<String, usize> = rows.iter().map(row).collect();
    assert_eq!(found.len(), rows.len());
    found
}

/// # Panics
/// If the number in `ParentId` is not that of the parent, or the stack is not the path to it.
fn placed(row: &Row, numbers: &HashMap<String, usize>, expected: &Expected<'_>, all: bool) {
    let at = numbers[&row["RangeId"]];
    assert_eq!(number(row, "Lvl") as u64, expected.level(at, all), "{row:?}");
    let parent = expected.parent(at, all);
    assert_eq!(row["ParentId"] == "None", parent.is_none(), "{row:?}");
    // A parent without a row of its own has an unknown number.
    if let (Some(parent), Some(found)) = (parent, numbers.get(&row["ParentId"])) {
        assert_eq!(*found, parent, "{row:?}");
    }
    let stack: Vec<&str> = row["RangeStack"].split(':').skip(1).collect();
    assert_eq!(stack.len() as u64, expected.level(at, all) + 1);
    assert_eq!(stack.last(), Some(&row["RangeId"].as_str()));
}

fn whole(row: &Row, column: &str) -> u64 {
    number(row, column) as u64
}

pub(crate) fn push_pop(rows: &[Row], expected: &Expected<'_>) {
    let ranges = &expected.work.ranges;
    let of = |row: &Row| {
        (row["TID"].clone(), whole(row, "Start (ns)"), whole(row, "End (ns)"), format!("{} PushPop", row["Name"]))
    };
    let numbers = numbered(rows, expected, of);
    assert_eq!(rows.len(), ranges.iter().filter(|range| range.style == RangeStyle::PushPop).count());
    let mut below: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for &at in numbers.values() {
        if let Some(parent) = expected.parent(at, false) {
            below.entry(parent).or_default().push(ranges[at].end - ranges[at].start);
        }
    }
    for row in rows {
        let at = numbers[&row["RangeId"]];
        let inside = below.get(&at).map_or(&[][..], Vec::as_slice);
        let (duration, children) = (ranges[at].end - ranges[at].start, inside.iter().sum::<u64>());
        assert_eq!(whole(row, "Duration (ns)"), duration);
        assert_eq!(whole(row, "DurChild (ns)"), children);
        assert_eq!(whole(row, "DurNonChild (ns)"), duration - children);
        assert_eq!(whole(row, "NumChild"), inside.len() as u64);
        assert_eq!(row["PID"], PROCESS.to_string());
        placed(row, &numbers, expected, false);
        assert_eq!(expected.level(at, false), u64::from(ranges[at].depth), "the workload contradicts itself");
    }
}

pub(crate) fn projections(rows: &[Row], expected: &Expected<'_>) {
    let of = |row: &Row| {
        let start = whole(row, "Orig Start (ns)");
        (
            row["TID"].clone(),
            start,
            start + whole(row, "Orig Duration (ns)"),
            format!("{} {}", row["Name"], row["Style"]),
        )
    };
    let numbers = numbered(rows, expected, of);
    let launched = expected.launched_in();
    assert!(!rows.is_empty());
    assert_eq!(rows.len(), launched.len());
    for row in rows {
        let at = numbers[&row["RangeId"]];
        let operations = &launched[&at];
        let first = operations.iter().map(|operation| operation.start).min().unwrap_or(0);
        let last = operations.iter().map(|operation| operation.end).max().unwrap_or(0);
        assert_eq!(whole(row, "Projected Start (ns)"), first, "{row:?}");
        assert_eq!(whole(row, "Projected Duration (ns)"), last - first, "{row:?}");
        let launches: std::collections::BTreeSet<u32> =
            operations.iter().map(|operation| operation.correlation).collect();
        assert_eq!(whole(row, "NumGPUOps"), launches.len() as u64, "{row:?}");
        let children = launched.keys().filter(|&&child| expected.parent(child, true) == Some(at)).count();
        assert_eq!(whole(row, "NumChild"), children as u64, "{row:?}");
        placed(row, &numbers, expected, true);
    }
}

/// The rows of `nvtxgpuproj` by name and style, like `nvtx_gpu_proj_sum` of newer versions.
pub(crate) fn grouped(rows: &[Row]) -> Vec<Row> {
    let mut groups: BTreeMap<[String; 2], Vec<&Row>> = BTreeMap::new();
    for row in rows {
        groups.entry([row["Name"].clone(), row["Style"].clone()]).or_default().push(row);
    }
    let group = |([name, style], rows): ([String; 2], Vec<&Row>)| -> Row {
        let all = |column: &str| rows.iter().map(|row| whole(row, column)).collect::<Vec<u64>>();
        let sum = |column: &str| all(column).iter().sum::<u64>();
        let projected = times(&all("Projected Duration (ns)"));
        let count = projected.instances;
        let mean = |sum: u64| format!("{:.1}", ((20 * sum + count) / (2 * count)) as f64 / 10.0);
        let cells = [
            ("Range", name),
            ("Style", style),
            ("Total Proj Time (ns)", projected.total_ns.to_string()),
            ("Total Range Time (ns)", sum("Orig Duration (ns)").to_string()),
            ("Range Instances", count.to_string()),
            ("Proj Avg (ns)", mean(projected.total_ns)),
            ("Proj Med (ns)", format!("{:.1}", projected.median_ns.unwrap_or(f64::NAN))),
            ("Proj Min (ns)", projected.min_ns.to_string()),
            ("Proj Max (ns)", projected.max_ns.to_string()),
            ("Proj StdDev (ns)", format!("{:.1}", projected.stddev_ns)),
            ("Total GPU Ops", sum("NumGPUOps").to_string()),
            ("Avg GPU Ops", mean(sum("NumGPUOps"))),
            ("Avg Range Lvl", mean(sum("Lvl"))),
            ("Avg Num Child", mean(sum("NumChild"))),
        ];
        cells.into_iter().map(|(column, cell)| (column.to_owned(), cell)).collect()
    };
    groups.into_iter().map(group).collect()
}

/// The same as figures that can be compared with our attribution.
pub(crate) fn figures(rows: &[Row]) -> BTreeMap<Key, Figures> {
    let row = |row: &Row| {
        let style = if row["Style"] == "StartEnd" { RangeStyle::StartEnd } else { RangeStyle::PushPop };
        let whole = [
            "Total Range Time (ns)",
            "Range Instances",
            "Total Proj Time (ns)",
            "Proj Min (ns)",
            "Proj Max (ns)",
            "Total GPU Ops",
        ];
        let rounded =
            ["Proj Avg (ns)", "Proj Med (ns)", "Proj StdDev (ns)", "Avg GPU Ops", "Avg Range Lvl", "Avg Num Child"];
        let figures = Figures {
            whole: whole.map(|column| number(row, column) as u128).to_vec(),
            rounded: rounded.map(|column| number(row, column)).to_vec(),
        };
        ((Some((row["Range"].clone(), style)), 0, String::new()), figures)
    };
    rows.iter().map(row).collect()
}

pub(crate) fn range_kernels(rows: &[Row], expected: &Expected<'_>) {
    let expected = expected.range_kernels();
    for (key, row) in keyed(rows, &["NVTX Range", "Style", "PID", "TID", "Kernel Name"], &expected) {
        let (values, ranges, kernels) = &expected[&key];
        let times = times(values);
        assert_eq!((whole(row, "NVTX Inst"), whole(row, "Kern Inst")), (*ranges as u64, *kernels as u64), "{row:?}");
        assert_eq!(whole(row, "Total Time (ns)"), times.total_ns, "{row:?}");
        spread(row, "", &times);
    }
}

pub(crate) fn executions(rows: &[Row], expected: &Expected<'_>) {
    let expected = expected.executions();
    for (key, row) in keyed(rows, &["PID", "TID", "DevId", "API Name", "Kernel Name"], &expected) {
        let parts = &expected[&key];
        assert_eq!(
            (whole(row, "Count"), whole(row, "QCount")),
            (parts[0].len() as u64, parts[2].len() as u64),
            "{row:?}"
        );
        for (prefix, values) in ["T", "A", "Q", "K"].into_iter().zip(parts).filter(|(_, values)| !values.is_empty()) {
            spread(row, prefix, &times(values));
        }
    }
}

/// One text of cells for each operation or call, so that rows can be compared.
fn joined(rows: &[Row], columns: &[&str]) -> Vec<String> {
    let mut rows: Vec<String> = rows
        .iter()
        .map(|row| columns.iter().map(|column| row[*column].as_str()).collect::<Vec<_>>().join("|"))
        .collect();
    rows.sort_unstable();
    rows
}

pub(crate) fn operations(rows: &[Row], expected: &Expected<'_>) {
    let columns = [
        "Start (ns)",
        "Duration (ns)",
        "CorrId",
        "GrdX",
        "GrdY",
        "GrdZ",
        "BlkX",
        "BlkY",
        "BlkZ",
        "Reg/Trd",
        "StcSMem (MB)",
        "DymSMem (MB)",
        "Bytes (MB)",
        "SrcMemKd",
        "DstMemKd",
        "Device",
        "Ctx",
        "Strm",
        "Name",
    ];
    const KINDS: [&str; 8] =
        ["Unknown", "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"];
    let megabytes = |bytes: i64| format!("{:.3}", bytes as f64 * 1e-6);
    let mut known: Vec<String> = expected
        .work
        .operations
        .iter()
        .map(|operation| {
            let what = match operation.work {
                Work::Kernel(kernel) => {
                    let ([gx, gy, gz], [bx, by, bz]) = (kernel.grid, kernel.block);
                    let shared = [kernel.static_shared, kernel.dynamic_shared].map(|bytes| megabytes(bytes.into()));
                    let (fixed, dynamic) = (&shared[0], &shared[1]);
                    format!("{gx}|{gy}|{gz}|{bx}|{by}|{bz}|{}|{fixed}|{dynamic}|None|None|None", kernel.registers)
                }
                Work::Memory(copy) => {
                    let to = KINDS[usize::from(copy.destination)];
                    let is_set = copy.kind == tracing_gpu::summary::MemoryKind::Set;
                    let (from, to) = if is_set { (to, "None") } else { (KINDS[usize::from(copy.source)], to) };
                    format!("{}{}|{from}|{to}", "None|".repeat(9), megabytes(copy.bytes as i64))
                }
                Work::Graph(graph) => panic!("graph {graph} is in no generated run"),
            };
            let name = match operation.work {
                Work::Kernel(_) => operation.kernel.to_owned(),
                Work::Memory(done) => memory(done.kind),
                Work::Graph(graph) => panic!("graph {graph} is in no generated run"),
            };
            let (start, duration, device) = (operation.start, operation.end - operation.start, operation.device);
            let place = format!("Synthetic GPU ({device})|{}|{}", operation.context, operation.stream);
            format!("{start}|{duration}|{}|{what}|{place}|{name}", operation.correlation)
        })
        .collect();
    known.sort_unstable();
    for (ours, theirs) in known.iter().zip(joined(rows, &columns)) {
        assert_eq!(*ours, theirs);
    }
    assert_eq!(known.len(), rows.len());
}

pub(crate) fn calls(rows: &[Row], expected: &Expected<'_>) {
    let thread = |thread: u32| ["main", "worker", "loader"][thread as usize % 3];
    let mut known: Vec<String> = expected
        .launches
        .iter()
        .map(|(correlation, launch)| {
            let (start, duration) = (launch.start, launch.end - launch.start);
            format!("{start}|{duration}|0|{correlation}|{PROCESS}|{}|{}", launch.thread, thread(launch.thread))
        })
        .collect();
    known.sort_unstable();
    assert_eq!(known, joined(rows, &["Start (ns)", "Duration (ns)", "Result", "CorrID", "Pid", "Tid", "Thread Name"]));
}

/// If the clock stands still, stamps differ by some nanoseconds, but every range is there, on its level.
pub(crate) fn nested(rows: &[Row], work: &Workload) {
    let stamps = |start: u64, end: u64| (start / 1000, end / 1000);
    let mut known: Vec<_> = work
        .ranges
        .iter()
        .map(|range| (range.thread.to_string(), stamps(range.start, range.end), label(range), range.depth.to_string()))
        .collect();
    let mut found: Vec<_> = rows
        .iter()
        .map(|row| {
            let stamps = stamps(whole(row, "Start (ns)"), whole(row, "End (ns)"));
            (row["TID"].clone(), stamps, row["Name"].clone(), row["Lvl"].clone())
        })
        .collect();
    known.sort_unstable();
    found.sort_unstable();
    assert_eq!(known, found);
}
