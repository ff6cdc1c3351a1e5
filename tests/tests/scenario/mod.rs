//! Runs a scenario of `examples/spans.rs` in a process of its own, for one tier.
#![allow(dead_code, reason = "each test program uses a part of it")]

use serde::Deserialize as _;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use tests::recorder::{Call, example, output_recorded};
use tracing_gpu::Summary;
use tracing_gpu::summary::{RangeStats, RangeStyle, TreeNode};

pub(crate) const LAYER: &str = "layer";
pub(crate) const SUBSCRIBER: &str = "subscriber";
pub(crate) const BOTH: [&str; 2] = [LAYER, SUBSCRIBER];

/// A scenario before its start, without the settings in the environment of this process.
pub(crate) fn command(scenario: &str, tier: &str) -> Command {
    let mut command = Command::new(example("spans"));
    command.args([scenario, tier]);
    for variable in ["NVTX_INJECTION64_PATH", "NVTX_RS_NEXT_TOOL", "NVTX_RECORD", "TRACING_GPU", "TRACING_GPU_FILTER"] {
        command.env_remove(variable);
    }
    for variable in [
        "OMPI_COMM_WORLD_RANK",
        "SLURM_PROCID",
        "RANK",
        "TRACING_GPU_RUN_ID",
        "SLURM_JOB_ID",
        "NO_COLOR",
        "CLICOLOR_FORCE",
    ] {
        command.env_remove(variable);
    }
    command.env_remove("RUST_BACKTRACE").env_remove("RUST_LOG");
    command
}

/// Applies file permissions to a command as to any user, even if root runs it.
#[allow(unsafe_code)]
pub(crate) fn as_any_user(command: &mut Command) -> &mut Command {
    use std::os::unix::process::CommandExt as _;
    const CAP_DAC_OVERRIDE: i32 = 1;
    // SAFETY: one system call, which a child may make. A user who may not make it does not need it.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_CAPBSET_DROP, CAP_DAC_OVERRIDE);
            Ok(())
        })
    }
}

/// The output and the effects of a scenario.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The calls that reached a tool; empty without a tool.
    pub(crate) calls: Vec<Call>,
}

impl Ran {
    fn new((output, calls): (Output, Vec<Call>)) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("programs print UTF-8");
        Self { status: output.status, stdout: text(output.stdout), stderr: text(output.stderr), calls }
    }

    pub(crate) fn succeeded(self) -> Self {
        assert!(self.status.success(), "{}\n{}{}", self.status, self.stdout, self.stderr);
        self
    }
}

/// Runs it under the recorder; it must succeed.
pub(crate) fn recorded(scenario: &str, tier: &str) -> Ran {
    Ran::new(output_recorded(&mut command(scenario, tier))).succeeded()
}

/// Runs it under the recorder, with any outcome.
pub(crate) fn outcome_recorded(command: &mut Command) -> Ran {
    Ran::new(output_recorded(command))
}

/// Runs it without a tool; it must succeed.
pub(crate) fn untold(scenario: &str, tier: &str) -> Ran {
    outcome(&mut command(scenario, tier)).succeeded()
}

/// Runs it without a tool, with any outcome.
pub(crate) fn outcome(command: &mut Command) -> Ran {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
    Ran::new((output, Vec::new()))
}

impl Ran {
    /// The only summary.
    pub(crate) fn summary(&self) -> Summary {
        let [summary] = <[Summary; 1]>::try_from(self.summaries()).expect("one summary");
        summary
    }

    pub(crate) fn summaries(&self) -> Vec<Summary> {
        let parse = |line: &str| {
            let mut json = serde_json::Deserializer::from_str(line);
            json.disable_recursion_limit(); // a tree of 64 levels exceeds its default limit
            Summary::deserialize(&mut json).unwrap_or_else(|error| panic!("{error}: {line}"))
        };
        self.stdout.lines().filter(|line| line.starts_with('{')).map(parse).collect()
    }

    /// Pushes, pops, marks, starts and ends of the threads of this name, in order.
    pub(crate) fn events_on(&self, thread: &str) -> Vec<&Call> {
        let named = |call: &&Call| call.kind == "name_thread" && call.message.as_deref() == Some(thread);
        let numbers: Vec<usize> = self.calls.iter().filter(named).map(|call| call.thread).collect();
        self.calls.iter().filter(|call| call.is_event() && numbers.contains(&call.thread)).collect()
    }

    /// The same as short texts: `push a`, `pop`, `mark app:text`.
    pub(crate) fn told_on(&self, thread: &str) -> Vec<String> {
        self.events_on(thread).into_iter().map(Call::to_string).collect()
    }

    pub(crate) fn told_on_main(&self) -> Vec<String> {
        self.told_on("main")
    }

    pub(crate) fn count(&self, kind: &str) -> usize {
        self.calls.iter().filter(|call| call.kind == kind).count()
    }
}

/// Instances of each row by label; start/end rows as `label (start/end)`.
pub(crate) fn instances(summary: &Summary) -> BTreeMap<String, u64> {
    let label = |row: &RangeStats| match row.style {
        RangeStyle::PushPop => row.label(),
        _ => format!("{} (start/end)", row.label()),
    };
    let rows: BTreeMap<String, u64> = summary.ranges.iter().map(|row| (label(row), row.times.instances)).collect();
    assert_eq!(rows.len(), summary.ranges.len(), "a row twice");
    rows
}

/// The expected result of [`instances`].
pub(crate) fn rows<const N: usize>(rows: [(&str, u64); N]) -> BTreeMap<String, u64> {
    rows.into_iter().map(|(label, instances)| (label.to_owned(), instances)).collect()
}

/// The tree, a line a node: blanks, name, calls/instances.
pub(crate) fn tree(summary: &Summary) -> Vec<String> {
    fn add(nodes: &[TreeNode], depth: usize, lines: &mut Vec<String>) {
        for node in nodes {
            lines.push(format!("{}{} {}/{}", "  ".repeat(depth), node.name, node.calls, node.instances));
            add(&node.children, depth + 1, lines);
        }
    }
    let mut lines = Vec::new();
    add(&summary.tree, 0, &mut lines);
    lines
}

/// Checks that hold for every summary: the tree's sums equal those of the rows, and times fit their nodes.
pub(crate) fn assert_whole(summary: &Summary) {
    fn add(nodes: &[TreeNode], instances: &mut u64, total: &mut u64) {
        for node in nodes {
            *instances += node.instances;
            *total += node.total_ns;
            assert!(node.self_ns <= node.total_ns, "{node:?}");
            add(&node.children, instances, total);
        }
    }
    let (mut instances, mut total) = (0, 0);
    add(&summary.tree, &mut instances, &mut total);
    let push_pop = || summary.ranges.iter().filter(|row| row.style == RangeStyle::PushPop);
    assert_eq!(instances, push_pop().map(|row| row.times.instances).sum::<u64>());
    // Each sum is rounded to a nanosecond once: the error is at most half of one for each node and row.
    let in_rows: u64 = push_pop().map(|row| row.times.total_ns).sum();
    let is_shared = summary.losses.recursive_rows + summary.losses.nodes_over_limit > 0;
    // A node inside itself has that time once, but a row has all of it.
    let rounded = if is_shared { total.saturating_sub(in_rows) } else { total.abs_diff(in_rows) };
    assert!(rounded <= (count(&summary.tree) + summary.ranges.len()) as u64, "{rounded} ns");
    for row in &summary.ranges {
        let times = &row.times;
        assert!(times.instances > 0 && times.min_ns <= times.max_ns && times.max_ns <= times.total_ns + 1, "{row:?}");
        assert!(times.total_ns <= times.max_ns.saturating_mul(times.instances) + times.instances, "{row:?}");
    }
}

fn count(nodes: &[TreeNode]) -> usize {
    nodes.iter().map(|node| 1 + count(&node.children)).sum()
}

/// A name for a file, which the destructor removes.
#[derive(Debug)]
pub(crate) struct TemporaryFile(pub(crate) PathBuf);

impl TemporaryFile {
    pub(crate) fn new(name: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("tracing-gpu-{}-{number}-{name}", std::process::id())))
    }

    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap_or_else(|error| panic!("{}: {error}", self.0.display()))
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Instances by name in the only table of ranges that a program printed.
pub(crate) fn printed(text: &str) -> BTreeMap<String, u64> {
    let (_, table) = text.split_once("Range Summary (").unwrap_or_else(|| panic!("no table in:\n{text}"));
    assert!(!table.contains("Range Summary ("), "a second table in:\n{text}");
    let rows = table.lines().skip_while(|line| !line.starts_with(" ----")).skip(1);
    rows.take_while(|line| !line.is_empty())
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let instances = words[2].replace(',', "").parse().unwrap_or_else(|_| panic!("no row: {line}"));
            (words[words.len() - 1].to_owned(), instances)
        })
        .collect()
}

/// The notes below the tables, as one line.
pub(crate) fn notes(text: &str) -> String {
    let notes = text.split_once(" ** Notes:").map_or("", |(_, notes)| notes);
    notes.split_whitespace().collect::<Vec<_>>().join(" ")
}
