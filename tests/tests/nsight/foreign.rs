//! NVTX ranges of programs that were not built with us, received by a profiler that is injected: C programs with
//! NVIDIA's own headers, which are part of Nsight Systems, and our figures beside those of the real Nsight Systems.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use tests::nsight::{profile, release_example};
use tests::recorder::example;
use tracing_gpu::Summary;
use tracing_gpu::summary::{OpenRange, RangeStyle, TreeNode};

use crate::compare::{agree, rows};

const HEADERS: &str = "/usr/lib/x86_64-linux-gnu/nsight-systems/target-linux-x64/nvtx/include";

/// `foreign.c`, compiled.
fn program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        assert!(Path::new(HEADERS).is_dir(), "no headers of NVTX in {HEADERS}: run `bash tests/install`");
        let built = std::env::temp_dir().join(format!("foreign-calls-{}", std::process::id()));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nsight/foreign.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-Wall", "-Werror", "-I", HEADERS, "-o"]).arg(&built).arg(source);
        let status = compiler.args(["-ldl", "-lpthread"]).status();
        assert!(status.is_ok_and(|status| status.success()), "{compiler:?} failed: run `bash tests/install`");
        built
    })
}

/// The library with the profiler.
fn tool() -> PathBuf {
    example("libforeign_tool.so")
}

/// A file that is removed when this is dropped.
struct Written(PathBuf);

impl Written {
    fn new(end: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("foreign-{}-{number}.{end}", std::process::id())))
    }

    fn summary(&self) -> Summary {
        let file = std::fs::File::open(&self.0).unwrap_or_else(|error| panic!("{}: {error}", self.0.display()));
        Summary::read_json(file).expect("a summary")
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Runs the program under the tool with these settings and this argument.
fn run(settings: &str, filter: &str, argument: &str) -> Summary {
    let json = Written::new("json");
    let mut command = Command::new(program());
    command.arg(argument).env("NVTX_INJECTION64_PATH", tool()).env("TRACING_GPU_FILTER", filter);
    let status = command.env("TRACING_GPU", format!("json={}{settings}", json.0.display())).status();
    assert!(status.is_ok_and(|status| status.success()), "{command:?}");
    json.summary()
}

/// Rows with their instances, by style and by name as Nsight Systems shows it.
fn counts(summary: &Summary) -> BTreeMap<(&'static str, String), u64> {
    let style = |style| if style == RangeStyle::StartEnd { "start" } else { "push" };
    summary.ranges.iter().map(|row| ((style(row.style), row.label()), row.times.instances)).collect()
}

fn expected(rows: &[(&'static str, &str, u64)]) -> BTreeMap<(&'static str, String), u64> {
    rows.iter().map(|(style, name, count)| ((*style, (*name).to_owned()), *count)).collect()
}

const ROWS: [(&str, &str, u64); 13] = [
    ("push", "aten::linear", 50),
    ("push", "block 1", 25),
    ("push", "block 2", 25),
    ("push", "größe", 5 * 30),
    ("push", "io:inner", 5 * 20),
    ("push", "io:write", 5),
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
    assert_eq!(counts(&summary), expected(&ROWS[..12]));
    let categories: Vec<(&str, u64)> =
        summary.categories.iter().map(|row| (row.category.as_str(), row.times.instances)).collect();
    assert_eq!(BTreeMap::from_iter(categories), BTreeMap::from([("8", 1), ("reading", 5), ("writing", 5)]));
    assert_eq!((summary.losses.stray_exits, summary.losses.split_instances), (0, 0));
    assert_eq!((&summary.losses.open, &summary.notes), (&vec![], &vec![]));
}

/// What is left by pops of other domains goes on, and times are those of the stack: each range is above the one that
/// was the top when it began.
#[test]
fn ranges_stand_where_they_began() {
    fn shape(nodes: &[TreeNode]) -> BTreeMap<String, (u64, u64, Vec<String>)> {
        let node = |node: &TreeNode| {
            let children = node.children.iter().map(|child| shown(child)).collect();
            (shown(node), (node.calls, node.instances, children))
        };
        nodes.iter().map(node).collect()
    }
    let summary = run("", "", "");
    let roots = shape(&summary.tree);
    assert_eq!(roots["step"], (50, 50, vec!["größe".to_owned()]));
    assert_eq!(roots["solver:outer"], (100, 100, vec!["io:inner".to_owned()]));
    let outer = summary.tree.iter().find(|node| shown(node) == "solver:outer").expect("a root");
    let inner = &outer.children[0];
    assert_eq!(shape(&outer.children)["io:inner"], (100, 100, vec!["plain".to_owned()]));
    // The outer range ends after a third of the inner one, and the plain one after two thirds.
    assert!(outer.self_ns < outer.total_ns / 10, "{outer:?}");
    for (range, thirds) in [(outer, 1), (&inner.children[0], 2), (inner, 3)] {
        let each = range.total_ns / 100;
        assert!(each >= thirds * 20_000, "{range:?}");
    }
    let of_threads: u64 = summary.tree.iter().map(|node| node.total_ns).sum();
    let own: u64 = summary.tree.iter().map(all_self).sum();
    assert!(own >= of_threads, "time inside a range that had ended is counted there: {own} {of_threads}");
}

/// The name of a node as Nsight Systems shows it.
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

/// The main thread has ended when the report is written, and its ranges are open.
#[test]
fn what_does_not_nest_or_end_is_said() {
    let summary = run("", "", "open");
    let mut rows = ROWS.to_vec();
    rows.truncate(12);
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
    let trace = Written::new("trace.json");
    run(&format!(",trace={}", trace.0.display()), "", "");
    let text = std::fs::read_to_string(&trace.0).expect("a timeline");
    let events: Vec<Value> = serde_json::from_str(&text).expect("a list of events");
    let named = |name: &str| -> Vec<&Value> { events.iter().filter(|event| event["name"] == name).collect() };
    let linear: Vec<(i64, i64)> = named("aten::linear")
        .iter()
        .filter_map(|event| {
            Some((event["args"]["fields"]["seq"].as_i64()?, event["args"]["fields"]["op_id"].as_i64()?))
        })
        .collect();
    assert_eq!(linear, (0..50).map(|i| (i, 3 * i)).collect::<Vec<_>>());
    let read = named("read")[0];
    assert_eq!(
        (&read["args"]["payload"], &read["args"]["color"]),
        (&Value::from(0.5), &Value::from("0xff00a000")),
        "{read}"
    );
    let marks: Vec<&Value> = events.iter().filter(|event| event["ph"] == "i").collect();
    assert_eq!(marks.len(), 2);
    assert_eq!((&marks[0]["name"], &marks[0]["args"]["fields"]["payload"]), (&Value::from("write"), &Value::from(12)));
    assert_eq!(
        (&marks[0]["args"]["fields"]["category"], &marks[1]["name"]),
        (&Value::from("writing"), &Value::from("half way"))
    );
    let threads: Vec<&Value> = named("thread_name").iter().map(|event| &event["args"]["name"]).collect();
    for worker in 0..4 {
        assert!(threads.contains(&&Value::from(format!("worker {worker}"))), "{threads:?}");
    }
}

/// The real Nsight Systems behind ours: it gets every call after us.
#[test]
fn nsight_systems_behind_it_counts_the_same() {
    let tool = release_example("workload").with_file_name("libforeign_tool.so");
    agree("a C program", || {
        let json = Written::new("json");
        // While that variable is set, Nsight Systems puts its own path back into every process.
        let chained = "unset QUADD_INJECTION_PROXY; \
                       NVTX_RS_NEXT_TOOL=$NVTX_INJECTION64_PATH NVTX_INJECTION64_PATH=$TOOL exec \"$0\"";
        let mut command = Command::new("sh");
        command.args(["-c", chained]).arg(program()).env("TOOL", &tool);
        command.env("TRACING_GPU", format!("names=whole,json={}", json.0.display()));
        let (recording, _) = profile(&command);
        (recording, rows(&json.summary()))
    });
}
