//! NVTX ranges of programs that were not built with this crate, counted by an injected profiler.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tests::foreign::{compile, headers, measured};
use tests::recorder::TemporaryFile;
use tracing_gpu::Summary;
use tracing_gpu::summary::{OpenRange, RangeStyle, TreeNode};

/// Compiles a program that uses only NVIDIA's headers.
fn program(source: &str) -> TemporaryFile {
    compile(source, &[&format!("-I{}", headers().display()), "-ldl", "-lpthread"])
}

/// Runs `calls.c` with these settings, this filter and this argument.
fn run(settings: &str, filter: &str, argument: &str) -> Summary {
    let program = program("tests/foreign/calls.c");
    let mut command = Command::new(&program.0);
    measured(command.arg(argument).env("TRACING_GPU_FILTER", filter), settings)
}

/// The timeline that a profiler wrote for a program.
fn timeline(mut command: Command) -> Vec<Value> {
    let trace = TemporaryFile::new("trace.json");
    measured(&mut command, &format!("trace={}", trace.0.display()));
    read(&trace.0)
}

fn read(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("a timeline");
    serde_json::from_str(&text).expect("a list of events")
}

fn named<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["name"] == name).collect()
}

/// Instances of rows, by style and by name in the form of Nsight Systems.
fn counts(summary: &Summary) -> BTreeMap<(&'static str, String), u64> {
    let style = |style| if style == RangeStyle::StartEnd { "start" } else { "push" };
    summary.ranges.iter().map(|row| ((style(row.style), row.label()), row.times.instances)).collect()
}

fn expected(rows: &[(&'static str, &str, u64)]) -> BTreeMap<(&'static str, String), u64> {
    rows.iter().map(|(style, name, count)| ((*style, (*name).to_owned()), *count)).collect()
}

const ROWS: [(&str, &str, u64); 15] = [
    ("push", "aten::linear", 50),
    ("push", "block 1", 25),
    ("push", "block 2", 25),
    ("push", "first", 6 * 50),
    ("push", "größe", 5 * 30),
    ("push", "io:inner", 5 * 20),
    ("push", "io:write", 5),
    ("push", "late", 1),
    ("push", "plain", 5 * 20),
    ("push", "read", 6),
    ("push", "solver:outer", 5 * 20),
    ("push", "step", 5 * 10),
    ("start", "io:request", 5),
    ("start", "transfer", 5),
    ("start", "never ended", 0),
];

#[test]
fn all_calls_of_a_program_are_counted() {
    let summary = run("", "", "");
    assert_eq!(counts(&summary), expected(&ROWS[..14]));
    let categories: Vec<(&str, u64)> =
        summary.categories.iter().map(|row| (row.category.as_str(), row.times.instances)).collect();
    assert_eq!(BTreeMap::from_iter(categories), BTreeMap::from([("8", 1), ("reading", 5), ("writing", 5)]));
    assert_eq!((summary.losses.stray_exits, summary.losses.split_instances), (0, 0));
    assert_eq!((&summary.losses.open, &summary.notes), (&vec![], &vec![]));
}

/// Ranges that pops of other domains leave continue, and times follow the stack: the parent of each range is the one
/// that was on top when it began.
#[test]
fn ranges_stand_where_they_began() {
    fn shape(nodes: &[TreeNode]) -> BTreeMap<String, (u64, u64, Vec<String>)> {
        let node = |node: &TreeNode| {
            let children = node.children.iter().map(shown).collect();
            (shown(node), (node.calls, node.instances, children))
        };
        nodes.iter().map(node).collect()
    }
    let summary = run("", "", "");
    let roots = shape(&summary.tree);
    assert_eq!(roots["step"], (50, 50, vec!["größe".to_owned()]));
    assert_eq!(roots["solver:outer"], (100, 100, vec!["io:inner".to_owned()]));
    let outer = summary.tree.iter().find(|node| shown(node) == "solver:outer").expect("a root");
    assert_eq!(shape(&outer.children)["io:inner"], (100, 100, vec!["plain".to_owned()]));
    // The outer range ends after a third of the inner one, and the plain one after two thirds.
    let median = |name: &str| summary.ranges.iter().find(|row| row.label() == name).and_then(|row| row.times.median_ns);
    let medians = ["solver:outer", "plain", "io:inner"].map(median);
    for (median, thirds) in medians.iter().zip([1.0, 2.0, 3.0]) {
        let thirds_of_inner = median.expect("a median") / medians[2].expect("a median") * 3.0;
        assert!((thirds_of_inner - thirds).abs() < 0.5, "{medians:?}");
    }
    let of_threads: u64 = summary.tree.iter().map(|node| node.total_ns).sum();
    let own: u64 = summary.tree.iter().map(all_self).sum();
    assert!(own >= of_threads, "time inside a range that had ended is counted there: {own} {of_threads}");
}

/// The name of a node in the form of Nsight Systems.
fn shown(node: &TreeNode) -> String {
    node.domain.iter().fold(node.name.clone(), |name, domain| format!("{domain}:{name}"))
}

fn all_self(node: &TreeNode) -> u64 {
    node.self_ns + node.children.iter().map(all_self).sum::<u64>()
}

#[test]
fn names_stay_whole_where_that_is_asked_for() {
    let summary = run(",names=whole", "", "");
    let linear = summary.ranges.iter().filter(|row| row.name.starts_with("aten::linear"));
    assert_eq!(linear.map(|row| row.times.instances).collect::<Vec<_>>(), vec![1; 50]);
    assert!(summary.ranges.iter().any(|row| row.name == "aten::linear, seq = 49, op_id = 147"));
}

#[test]
fn a_filter_takes_domains_for_targets() {
    let of = |filter: &str| {
        let summary = run("", filter, "open");
        let shown: Vec<String> = summary.ranges.iter().map(|row| row.label()).collect();
        assert_eq!(summary.losses.stray_exits, u64::from(!filter.contains("nvtx=off")) + 2, "{filter}");
        let is_of = |domain: &str| shown.iter().any(|name| name.starts_with(domain));
        (is_of("solver:"), is_of("io:"), is_of("step"))
    };
    assert_eq!(of("info"), (true, true, true));
    assert_eq!(of("info,io=off"), (true, false, true));
    assert_eq!(of("solver=info,nvtx=off"), (true, false, false));
}

/// The main thread has ended when the report is written, with its ranges open.
#[test]
fn what_does_not_nest_or_end_is_said() {
    let summary = run("", "", "open");
    let mut rows = ROWS.to_vec();
    rows.truncate(14);
    rows.push(("push", "open at the end", 1));
    rows.push(("push", "solver:request", 1));
    assert_eq!(counts(&summary), expected(&rows));
    assert_eq!(summary.losses.stray_exits, 3);
    let said = |open: &OpenRange| (open.label.clone(), open.style, open.cut, open.count);
    let mut open: Vec<_> = summary.losses.open.iter().map(said).collect();
    open.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(
        open,
        [
            ("never ended".to_owned(), RangeStyle::StartEnd, false, 1),
            ("open at the end".to_owned(), RangeStyle::PushPop, true, 1),
            ("solver:request".to_owned(), RangeStyle::PushPop, true, 1),
        ]
    );
}

/// Colours, payloads, categories, values cut from names, marks, and the names of threads.
#[test]
fn a_timeline_has_all_that_was_said() {
    let program = program("tests/foreign/calls.c");
    let events = timeline(Command::new(&program.0));
    let fields = |event: &Value, name: &str| event["args"]["fields"][name].clone();
    let linear = named(&events, "aten::linear");
    let numbers: Vec<_> = linear.iter().map(|event| (fields(event, "seq"), fields(event, "op_id"))).collect();
    assert_eq!(numbers, (0..50).map(|i| (i.into(), (3 * i).into())).collect::<Vec<(Value, Value)>>());
    let read = &named(&events, "read")[0]["args"];
    assert_eq!((&read["payload"], &read["color"]), (&0.5.into(), &"0xff00a000".into()), "{read}");
    let marks: Vec<&Value> = events.iter().filter(|event| event["ph"] == "i").collect();
    assert_eq!(marks.iter().map(|mark| &mark["name"]).collect::<Vec<_>>(), ["write", "half way"]);
    assert_eq!((fields(marks[0], "payload"), fields(marks[0], "category")), (12.into(), "writing".into()));
    let threads: Vec<&Value> = named(&events, "thread_name").iter().map(|event| &event["args"]["name"]).collect();
    for name in ["worker 0", "worker 1", "worker 2", "worker 3", "named elsewhere"] {
        assert!(threads.contains(&&Value::from(name)), "{threads:?}");
    }
}

/// NCCL passes such data at the begin or the end of a range.
#[test]
fn a_timeline_has_the_data_of_the_payload_extension() {
    let program = program("tests/foreign/payloads.c");
    let events = timeline(Command::new(&program.0));
    for name in ["ncclAllReduce", "ncclCommInitRankConfig"] {
        let [range] = named(&events, name)[..] else { panic!("{name}: {events:?}") };
        let fields = &range["args"]["fields"];
        assert_eq!((&fields["message size"], &fields["operation"]), (&4096.into(), &"Max".into()), "{range}");
    }
    let started = events.iter().find(|event| event["ph"] == "b").expect("a start/end range");
    assert_eq!(started["args"]["fields"]["payload"], "[1, 2, 3]");
}

/// The package is Python's own client, with registered strings and attributes.
#[test]
fn ranges_of_python_are_counted() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign/ranges.py");
    let mut command = Command::new("python3");
    command.arg(script).env("PYTHONPATH", tests::foreign::folder("python"));
    let summary = measured(&mut command, "");
    let rows = [("push", "decorated", 1), ("push", "pushed", 1), ("push", "python:outer", 1), ("start", "started", 1)];
    assert_eq!(counts(&summary), expected(&rows));
}
