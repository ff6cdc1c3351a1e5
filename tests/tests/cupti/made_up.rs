//! The made-up driver and libcupti, from this folder's C files: they run whole sessions without a GPU.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::{child, output};

/// The folder of the made-up libcupti, with the driver in its subfolder `driver`; built once.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cupti");
        std::fs::create_dir_all(folder.join("driver")).expect("a folder");
        for (source, library, options) in [
            ("cuda.c", "driver/libcuda.so.1", &[][..]),
            ("cupti.c", "libcupti.so.13", &[]),
            ("cupti.c", "libcupti.so.12", &["-DBEFORE_12_5"]),
        ] {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cupti").join(source);
            let mut cc = Command::new("cc");
            cc.args(["-shared", "-fPIC", "-pthread", "-Wall", "-Werror", "-Wno-unused-parameter"]);
            cc.args(options).arg("-o");
            let built = cc.arg(folder.join(library)).arg(source).status().expect("cc, with which Rust links");
            assert!(built.success(), "cc cannot build {library}");
        }
        folder
    })
}

/// The path of a library below that folder that consists of nothing but its name.
pub(crate) fn empty_library(file: &str) -> String {
    let library = folder().join(file);
    std::fs::create_dir_all(library.parent().expect("a folder")).expect("a folder");
    let built = Command::new("cc").args(["-shared", "-x", "c", "/dev/null", "-o"]).arg(&library).status();
    assert!(built.expect("cc, with which Rust links").success(), "cc cannot build {file}");
    library.display().to_string()
}

/// The child with both libraries.
pub(crate) fn made_up(arguments: &[&str]) -> Command {
    let mut command = child(arguments);
    set(&mut command);
    command
}

/// Makes a command use both libraries.
pub(crate) fn set(command: &mut Command) {
    command.env("LD_LIBRARY_PATH", folder().join("driver")).env("TRACING_GPU_CUPTI", folder().join("libcupti.so.13"));
}

fn with(name: &str, environment: &[(&str, &str)]) -> Command {
    let mut command = made_up(&[name]);
    command.envs(environment.iter().copied());
    command
}

fn scenario(name: &str, environment: &[(&str, &str)]) {
    output(with(name, environment));
}

#[test]
fn a_session_from_start_to_end_and_again() {
    scenario("whole", &[]);
}

/// A busy machine stops CUPTI's thread for longer than a flush waits: one of ten runs is spared that.
#[test]
fn a_flush_returns_when_the_sink_has_what_came_of_it() {
    for name in ["whole", "many"] {
        let run = |_| with(name, &[("FAKE_THREAD", "300")]).output().expect("the child");
        let failed: Vec<_> = (0..10).map(run).take_while(|ran| !ran.status.success()).collect();
        assert!(failed.len() < 10, "{name}: {failed:?}");
    }
}

#[test]
fn more_records_than_a_buffer_holds() {
    scenario("many", &[]);
}

#[test]
fn records_of_the_api() {
    scenario("api", &[]);
}

#[test]
fn slight_calls_are_recorded_only_where_all_are_asked_for_or_all_come() {
    scenario("weighty", &[]);
    let older = folder().join("libcupti.so.12");
    scenario("weighty_before_12_5", &[("TRACING_GPU_CUPTI", older.to_str().expect("UTF-8"))]);
}

#[test]
fn beyond_the_budget_records_are_counted() {
    scenario("budget", &[]);
}

#[test]
fn there_are_fewer_rounds_while_graphs_are_recorded_as_a_whole() {
    scenario("period", &[]);
    scenario("older", &[("FAKE_VERSION", "28")]);
}

#[test]
fn a_child_of_the_process_does_nothing() {
    scenario("fork", &[]);
}

#[test]
fn at_exit_a_library_that_hangs_is_left_behind() {
    scenario("hang", &[("FAKE_HANG", "1")]);
}

#[test]
fn ranges_last_as_long_as_in_the_database() {
    scenario("database", &[]);
}

/// The name comes from the driver; a missing name does no harm.
#[test]
fn timelines_name_their_devices() {
    scenario("timeline", &[("SLURM_PROCID", "3"), ("FAKE_DEVICES", "2")]);
    scenario("timeline", &[("SLURM_PROCID", "3"), ("FAKE_UNNAMED", "1")]);
}

/// What it prints with the layer, and with the subscriber.
fn profiler(name: &str, environment: &[(&str, &str)]) -> [String; 2] {
    ["layer", "subscriber"].map(|tier| {
        let mut command = made_up(&["profiler", name, tier]);
        command.envs(environment.iter().copied()).env_remove("TRACING_GPU").env_remove("NVTX_INJECTION64_PATH");
        output(command)
    })
}

#[test]
fn what_ran_is_told_to_the_span_that_launched_it() {
    profiler("attribution", &[]);
}

#[test]
fn calls_are_those_of_the_program() {
    profiler("calls", &[]);
}

#[test]
fn a_fold_gets_the_details_that_it_asks_for_and_nothing_else_is_enabled() {
    profiler("details", &[]);
}

#[test]
fn a_graph_belongs_to_the_span_that_replays_it_and_those_that_captured_it() {
    profiler("graphs", &[]);
}

#[test]
fn graphs_are_recorded_by_their_nodes_where_the_program_used_the_gpu_before() {
    profiler("graphs from before", &[("FAKE_ACTIVE", "1")]);
}

#[test]
fn all_outputs_have_the_same_counts_and_sums() {
    profiler("outputs", &[]);
}

/// Pools, turns, joins, two that wait, event loops, bursts that outlive their range: nothing in a wrong row.
#[test]
fn what_a_helper_thread_launches_belongs_to_the_range_that_waits_for_it() {
    profiler("helpers", &[]);
}

#[test]
fn many_calls_push_out_no_launch() {
    profiler("flood", &[]);
}

#[test]
fn losses_are_counted_in_their_window() {
    profiler("losses", &[]);
}

#[test]
fn where_no_thread_can_be_started_cupti_is_let_go_of() {
    let cupti = folder().join("libcupti.so.13").display().to_string();
    profiler("no_threads", &[("LD_PRELOAD", &cupti)]);
}

#[test]
fn launches_are_told_to_the_lifetimes_around_them() {
    profiler("lifetime", &[]);
}

#[test]
fn launches_that_could_not_be_noted_are_counted() {
    profiler("notes", &[]);
}

#[test]
fn many_calls_are_collected_before_any_is_forgotten() {
    profiler("many", &[("FAKE_VERSION", "28")]);
}

#[test]
fn what_was_not_waited_for_is_outstanding() {
    profiler("unfinished", &[("FAKE_WAIT", "719")]);
}

/// CUPTI's thread may be preempted between two buffers. A busy machine preempts it for longer than the end waits: one
/// of ten runs is spared that.
#[test]
fn what_comes_late_at_the_end_is_there_or_outstanding() {
    let late = |between| profiler("late", &[("FAKE_THREAD", "300"), ("FAKE_BETWEEN", between)]);
    let has_all = |came: [String; 2]| came.iter().all(|came| came == "2");
    assert!((0..10).any(|_| has_all(late("10000"))), "of two buffers, one does not come");
    assert!(!has_all(late("5000000")), "it cannot have come");
}

/// Each CUPTI call fails, in turn, with one of its codes: no parameter, not ready, not initialized, not permitted,
/// another tool, not supported, and an unknown one. All spans are counted. Either a note states why nothing was
/// recorded, or all kernels are there or counted as dropped.
#[test]
fn a_call_that_cupti_refuses_costs_what_is_counted() {
    const CODES: [u32; 11] = [1, 5, 7, 12, 15, 21, 27, 35, 39, 999, 123_456];
    let run = |tier: &str, variable: &str, failing: &str| {
        let mut command = made_up(&["profiler", "refused", tier]);
        command.env_remove("TRACING_GPU").env_remove("NVTX_INJECTION64_PATH").env(variable, failing);
        let told: serde_json::Value = serde_json::from_str(&output(command)).expect("what the child says");
        told
    };
    let whole = run("layer", "FAKE_FAILS", "");
    let calls = [0, 1].map(|lookups| whole["calls"][lookups].as_u64().expect("a number"));
    assert!(calls[0] > 20 && calls[1] > 100, "{calls:?}");
    let single = (0..calls[0]).map(|number| ("FAKE_FAILS", number));
    // The first lookups measure the lengths of records.
    let lookups = (0..24).chain((24..calls[1]).step_by(211)).map(|number| ("FAKE_LOOKUP_FAILS", number));
    let mut without = 0;
    let all = std::env::var_os("FAULTS_ALL").is_some(); // `tests/faults`
    let codes = |(variable, number): (&'static str, u64)| {
        let (from, count) = if all { (0, CODES.len()) } else { (number as usize, 1) };
        CODES.into_iter().cycle().skip(from).take(count).map(move |code| (variable, number, code))
    };
    for (variable, number, code) in single.chain(lookups).flat_map(codes) {
        let told = run(["layer", "subscriber"][number as usize % 2], variable, &format!("{number}:{code}"));
        let (summary, what) = (&told["summary"], format!("{variable}={number}:{code}: {told}"));
        let sum = |rows: &serde_json::Value| -> u64 {
            let rows = rows.as_array().into_iter().flatten();
            rows.map(|row| row["times"]["instances"].as_u64().expect("a count")).sum()
        };
        assert_eq!(sum(&summary["ranges"]), 3, "{what}");
        let notes = summary["note_figures"].as_array().expect("notes");
        let gpu = &summary["gpu"];
        if gpu.is_null() {
            without += 1;
            assert!(notes.iter().any(|note| note["kind"] == "cupti_unavailable"), "{what}");
            continue;
        }
        let mut lost = summary["losses"]["activity"].as_object().expect("losses").clone();
        assert_eq!((sum(&gpu["kernels"]), lost.remove("dropped_records")), (18, Some(3.into())), "{what}");
        assert!(lost.values().all(|count| count == 0), "{what}");
        let left_out = |note: &serde_json::Value| note["without_queries"] == true || note["left_out"].get(0).is_some();
        assert!(sum(&gpu["calls"]) == 18 || notes.iter().any(left_out), "{what}");
    }
    assert!(without > 10, "{without}");
}

#[test]
fn what_comes_is_collected_while_the_program_runs() {
    profiler("unattended", &[]);
}
