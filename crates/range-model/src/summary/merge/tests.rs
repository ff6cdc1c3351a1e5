mod process;
mod reference;

use super::*;
use crate::{CallStats, OpenAccStats, OpenRange, Quantile, RangeStats, RangeStyle, StreamStats, TreeNode};

/// Number, sum, least, greatest, median and deviation, computed directly.
fn statistics(values: &[u64]) -> (u64, u64, u64, u64, f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let count = sorted.len();
    let total: u64 = sorted.iter().sum();
    let mean = total as f64 / count as f64;
    let squares: f64 = sorted.iter().map(|&value| (value as f64 - mean).powi(2)).sum();
    let median = (sorted[(count - 1) / 2] + sorted[count / 2]) as f64 / 2.0;
    let deviation = if count > 1 { (squares / (count as f64 - 1.0)).sqrt() } else { 0.0 };
    (count as u64, total, sorted[0], sorted[count - 1], median, deviation)
}

fn times(durations: &[u64]) -> Times {
    let (instances, total_ns, min_ns, max_ns, median, stddev_ns) = statistics(durations);
    Times {
        instances,
        total_ns,
        min_ns,
        max_ns,
        median_ns: Some(median),
        median_exact: true,
        stddev_ns,
        ..Times::default()
    }
}

fn sizes(bytes: &[u64]) -> Sizes {
    let (count, total_bytes, min_bytes, max_bytes, median, stddev_bytes) = statistics(bytes);
    Sizes { count, total_bytes, min_bytes, max_bytes, median_bytes: Some(median), stddev_bytes }
}

fn of(rank: Option<u32>, pid: u32, ranges: &[(&str, &[u64])]) -> Summary {
    let range = |&(name, durations): &(&str, &[u64])| RangeStats::new(name, times(durations));
    Summary {
        process: Process { rank, pid, host: "node".to_owned(), ..Process::default() },
        ranges: ranges.iter().map(range).collect(),
        ..Summary::default()
    }
}

#[test]
fn the_order_of_the_files_does_not_matter() {
    let all = [
        of(Some(1), 10, &[("step", &[5, 7]), ("only here", &[1])]),
        of(Some(0), 11, &[("step", &[1, 2, 3])]),
        of(None, 9, &[("step", &[100])]),
        of(Some(10), 12, &[]),
    ];
    let expected = Summary::merge(all.clone());
    for rotation in 0..4 {
        let mut turned = all.clone();
        turned.rotate_left(rotation);
        assert_eq!(Summary::merge(turned), expected);
    }
    let labels: Vec<String> = expected.processes.iter().map(Process::label).collect();
    assert_eq!(labels, ["rank 0", "rank 1", "rank 10", "node:9"]);
    let step = &expected.ranges[0];
    let ranks: Vec<(usize, u64, u64)> = step.ranks.iter().map(|r| (r.process, r.instances, r.total)).collect();
    assert_eq!(ranks, [(0, 3, 6), (1, 2, 12), (3, 1, 100)]);
    assert_eq!((step.ranks.slowest().unwrap().process, step.ranks.fastest().unwrap().process), (3, 0));
    assert_eq!((step.ranks.total(), step.ranks.imbalance()), (118, Some(100.0 * 3.0 / 118.0)));
    // A row of only one process keeps its median.
    let alone = &expected.ranges[1];
    assert_eq!((alone.all.median_ns, alone.all.median_exact, alone.median_bounds), (Some(1.0), true, Some((1.0, 1.0))));
    assert_eq!(Summary::merge([]), MergedSummary::default());
}

#[test]
fn processes_that_took_no_time_are_not_out_of_balance() {
    let merged = Summary::merge([of(Some(0), 1, &[("step", &[0])]), of(Some(1), 2, &[("step", &[0, 0])])]);
    assert_eq!((merged.ranges[0].ranks.len(), merged.ranges[0].ranks.imbalance()), (2, None));
}

#[test]
fn losses_add_up_and_notes_are_said_once() {
    let open = |label: &str| OpenRange {
        label: label.to_owned(),
        thread: "main".to_owned(),
        style: RangeStyle::PushPop,
        cut: false,
        count: 1,
    };
    let mut summary = of(Some(0), 1, &[]);
    summary.notes = vec![Note::ClockCorrected { ppm: 9 }];
    summary.losses.stray_exits = 2;
    summary.losses.activity.unmatched = 3;
    summary.losses.open = vec![open("b")];
    let mut other = summary.clone();
    other.process.rank = Some(1);
    summary.advice = vec!["Name the streams.".to_owned()];
    other.notes.push(Note::Forked);
    other.losses.open = vec![open("a")];
    other.elapsed_ns = 7;
    let merged = Summary::merge([summary.clone(), other.clone()]);
    assert_eq!((merged.losses.stray_exits, merged.losses.activity.unmatched), (4, 6));
    assert_eq!(merged.losses.open, [open("a"), open("b")]);
    let advice = Note::Text { text: "Name the streams.".to_owned() };
    let shared = Note::Shared { note: Box::new(Note::ClockCorrected { ppm: 9 }), processes: 2 };
    assert_eq!(merged.notes, [advice, Note::Forked, shared]);
    assert_eq!(merged.elapsed_ns, 7);
    assert_eq!(Summary::merge([other, summary]), merged);
}

#[test]
fn events_of_openacc_are_joined_by_what_is_printed() {
    let of_rank = |rank, line: &str, detail: Option<&str>, durations: &[u64]| {
        let mut row = OpenAccStats::new("acc_enqueue_upload", times(durations));
        (row.place, row.detail) = (Some(line.to_owned()), detail.map(str::to_owned));
        Summary { openacc: vec![row], ..of(Some(rank), rank, &[]) }
    };
    let merged = Summary::merge([
        of_rank(0, "a.c:5", None, &[10, 30]),
        of_rank(1, "a.c:5", None, &[70]),
        of_rank(2, "a.c:6", None, &[2]),
        of_rank(3, "a.c:5", Some("x"), &[1]),
    ]);
    let rows: Vec<_> =
        merged.openacc.iter().map(|row| (row.key.as_str(), row.all.instances, row.ranks.len())).collect();
    let all = [
        ("acc_enqueue_upload@a.c:5", 3, 2),
        ("acc_enqueue_upload@a.c:6", 1, 1),
        ("acc_enqueue_upload@a.c:5 (x)", 1, 1),
    ];
    assert_eq!(rows, all);
}

/// Each process of a node has its own device; a process may have several.
#[test]
fn stream_times_are_joined_whatever_the_device() {
    let on = |rank, streams: &[(&str, u64, u64)]| {
        let rows = streams.iter().map(|&(stream, ns, empty)| {
            let row = StreamStats::new("step", stream, times(&[ns]));
            StreamStats { empty, floor_ns: 1_000 + ns, ..row }
        });
        Summary { stream_ranges: rows.collect(), ..of(Some(rank), rank, &[]) }
    };
    let merged = Summary::merge([
        on(0, &[("GPU 0 #1", 10, 0), ("GPU 1 #1", 5, 1), ("GPU 0 default", 3, 0)]),
        on(1, &[("GPU 12 #1", 40, 0), ("GPU x #1", 2, 0)]),
        on(2, &[("GPU ? #1", 7, 0)]),
    ]);
    let rows: Vec<(&str, u64, u64, u64)> = merged
        .stream_ranges
        .iter()
        .map(|row| (row.key.stream.as_str(), row.all.times.total_ns, row.all.empty, row.all.floor_ns))
        .collect();
    assert_eq!(rows, [("#1", 62, 1, 1_040), ("default", 3, 0, 1_003), ("GPU x #1", 2, 0, 1_002)]);
    let ranks: Vec<(usize, u64, u64)> =
        merged.stream_ranges[0].ranks.iter().map(|rank| (rank.process, rank.instances, rank.total)).collect();
    assert_eq!(ranks, [(0, 2, 15), (1, 1, 40), (2, 1, 7)]);
}

#[test]
fn one_run_as_one_has_the_names_of_its_rows() {
    let domain = Some("solver".to_owned());
    let node = |name: &str, children| TreeNode {
        domain: domain.clone(),
        name: name.to_owned(),
        total_ns: 2,
        children,
        ..TreeNode::default()
    };
    let of_stream = |stream| {
        let row = StreamStats::new("step", stream, times(&[3]));
        StreamStats { domain: domain.clone(), floor_ns: 1, ..row }
    };
    let run = Summary {
        tree: vec![node("step", vec![node("inner", Vec::new())])],
        stream_ranges: vec![of_stream("#1"), of_stream("default")],
        ..of(None, 7, &[("step", &[5, 7])])
    };
    let one = Summary::merge([run.clone()]).as_one();
    let names = |nodes: &[TreeNode]| -> Vec<(Option<String>, String)> {
        nodes.iter().map(|node| (node.domain.clone(), node.name.clone())).collect()
    };
    assert_eq!(names(&one.tree), names(&run.tree));
    assert_eq!(names(&one.tree[0].children), names(&run.tree[0].children));
    assert_eq!((one.stream_ranges, one.ranges), (run.stream_ranges, run.ranges));
}

#[test]
fn calls_add_up_and_percentiles_of_several_are_not_told() {
    let call = |name: &str, latencies: &[u64], awaited_self_ns: u64| {
        let mut row = CallStats::new(name, times(latencies));
        row.latency.quantiles = vec![Quantile::new(0.9, 9.0, true)];
        (row.cancelled, row.busy_ns, row.awaited_ns, row.awaited_self_ns) = (Some(1), 2, 30, awaited_self_ns);
        row
    };
    let of = |rank, calls: Vec<CallStats>| Summary { calls, ..of(Some(rank), rank, &[]) };
    let never = CallStats::new("never", Times::default());
    let merged = Summary::merge([
        of(0, vec![call("query", &[5, 7], 4), call("alone", &[8], 9), never]),
        of(1, vec![call("query", &[10], 6)]),
    ]);
    let rows: Vec<_> = merged.calls.iter().map(|row| (row.key.name.as_str(), &row.all, row.ranks.len())).collect();
    let [("query", query, 2), ("alone", alone, 1)] = rows[..] else { panic!("{rows:?}") };
    assert_eq!((query.latency.instances, query.latency.total_ns, query.latency.max_ns), (3, 22, 10));
    assert_eq!((query.cancelled, query.busy_ns, query.awaited_ns, query.awaited_self_ns), (Some(2), 4, 60, 10));
    assert_eq!((query.latency.quantile(0.5), query.latency.quantile(0.9)), (None, None));
    assert_eq!(merged.calls[0].median_bounds, Some((6.0, 10.0)));
    assert_eq!(alone.latency.quantile(0.9), Some(Quantile::new(0.9, 9.0, true)), "one process knows its own");
}

#[test]
fn interference_of_all_processes_is_joined_by_paths() {
    let path = |kind: &str| vec![kind.to_owned(), "launch".to_owned()];
    let of = |rank, row: InterferenceStats| Summary { interference: vec![row], ..of(Some(rank), rank, &[]) };
    let row = |operations, time_ns, longest_ns| {
        let row = InterferenceStats::new(path("small"), path("hog"), operations, time_ns, longest_ns);
        InterferenceStats { possible_operations: operations, possible_ns: time_ns, ..row }
    };
    let merged = Summary::merge([of(0, row(3, 100, 45)), of(1, row(2, 20, 19))]);
    assert_eq!(merged.interference, [row(5, 120, 45)]);
    assert_eq!(merged.as_one().interference, merged.interference);
}

#[test]
fn waits_of_all_processes_are_rows_of_one() {
    let of = |rank, row: WaitStats| Summary { waits: vec![row], ..of(Some(rank), rank, &[]) };
    let row = |waits, time_ns, longest_ns| WaitStats::new("query", Some("step".to_owned()), waits, time_ns, longest_ns);
    let merged = Summary::merge([of(0, row(2, 70, 40)), of(1, row(3, 50, 45))]);
    assert_eq!(merged.waits, [row(5, 120, 45)]);
    assert_eq!(merged.as_one().waits, merged.waits);
}

/// A process whose CUPTI recorded nothing, and one without CUPTI.
#[test]
fn what_no_process_has_is_not_there() {
    let with = |gpu| Summary { gpu, ..Summary::default() };
    assert_eq!(Summary::merge([with(None), with(None)]).gpu, None);
    let merged = Summary::merge([with(None), with(Some(GpuActivity::default()))]);
    assert_eq!(merged.gpu, Some(MergedActivity::default()));
    let calls = Some(GpuActivity { calls: Some(Vec::new()), ..GpuActivity::default() });
    assert_eq!(Summary::merge([with(None), with(calls)]).gpu.unwrap().calls, Some(Vec::new()));
}

#[test]
fn the_first_entry_is_the_earliest_one() {
    let entered_at = |rank, first_ns| Summary {
        tree: vec![TreeNode { first_ns, instances: 1, ..TreeNode::new("step") }],
        ..of(Some(rank), rank, &[])
    };
    let merged = Summary::merge([entered_at(0, 9), entered_at(1, 5), entered_at(2, 7)]);
    assert_eq!(merged.tree[0].all.first_ns, 5);
}

/// Each field of `Losses` has a different value, to detect one that is added to the wrong field.
#[cfg(feature = "serde")]
#[test]
fn every_loss_adds_up() {
    fn fill(value: &mut serde_json::Value, next: &mut u64, times: u64) {
        match value {
            serde_json::Value::Object(fields) => fields.values_mut().for_each(|field| fill(field, next, times)),
            serde_json::Value::Number(_) => {
                *next += 1;
                *value = (times * *next).into();
            }
            _ => {}
        }
    }
    let filled = |times| {
        let mut value = serde_json::to_value(Losses::default()).unwrap();
        fill(&mut value, &mut 0, times);
        serde_json::from_value::<Losses>(value).unwrap()
    };
    let one = || Summary { losses: filled(1), ..Summary::default() };
    assert_eq!(Summary::merge([one(), one(), one()]).losses, filled(3));
    let (losses, streams) = (filled(1), filled(1).streams);
    assert_eq!(losses.spans_dropped.max(losses.stray_exits).max(streams.unreadable), 22, "all of them are filled");
}

/// A file may have a tree of the largest allowed depth.
#[test]
fn deep_trees_are_joined() {
    // Not cloned, because cloning recurses for each level.
    let summary = || Summary {
        tree: (0..1_024).fold(Vec::new(), |below, _| {
            vec![TreeNode { name: "n".to_owned(), total_ns: 2, children: below, ..TreeNode::default() }]
        }),
        ..Summary::default()
    };
    let merged = Summary::merge([summary(), summary()]);
    assert_eq!(merged.tree.len(), 1_024);
    assert!(merged.tree.iter().zip(0..).all(|(node, depth)| node.key.depth == depth && node.all.total_ns == 4));
}

#[test]
fn histograms_are_those_of_all_processes() {
    let summary = |histogram: &[(u32, u64)]| {
        let mut times = Times::new(histogram.iter().map(|(_, count)| count).sum(), 9);
        (times.histogram, times.quantiles) = (histogram.to_vec(), vec![Quantile::new(0.9, 1.0, true)]);
        Summary { ranges: vec![RangeStats::new("step", times)], ..Summary::default() }
    };
    let parts = [[(3, 1), (9, 2)].as_slice(), &[(9, 5)], &[(2, 1), (9, 1), (11, 4)]].map(summary);
    let all = |parts: &[Summary]| Summary::merge(parts.to_vec()).ranges[0].all.clone();
    assert_eq!(all(&parts).histogram, [(2, 1), (3, 1), (9, 8), (11, 4)]);
    assert!(all(&parts).quantiles.is_empty());
    assert_eq!(all(&parts[..1]), parts[0].ranges[0].times, "that of one is as it was");
}
