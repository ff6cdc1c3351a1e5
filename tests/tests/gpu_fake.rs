//! The driver calls of timed spans, counted by a fake driver (`examples/fake_driver.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tests::{in_time, with};

use serde::Deserialize;
use tracing_gpu::summary::StreamLosses;
use tracing_gpu::{NoteExt as _, Summary, SummaryExt as _};

/// The output of `gpu_timed`.
#[derive(Debug, Deserialize)]
struct Told {
    /// Number of warm timed spans during which calls were counted.
    spans: u64,
    during: BTreeMap<String, u64>,
    so_far: BTreeMap<String, u64>,
    allocations: u64,
    pages: u64,
    /// After 20,032 timed spans.
    first: Summary,
    /// After a reset and three more.
    second: Summary,
    /// After another reset and 701 spans with other names at the same depths of the stack.
    mixed: Summary,
}

/// The output of `gpu_scopes`.
#[derive(Debug, Deserialize)]
struct Scopes {
    inside: Summary,
    outside: Summary,
    all: Summary,
    /// Number of events recorded after each exit of one span's entries. Only one entry is timed.
    ends: [Vec<u64>; 4],
    again: Summary,
    losses: Summary,
    /// References to the stream, including the program's own.
    holds: [usize; 2],
    overwritten: u64,
}

/// A command that runs the program on the fake driver, and its folder.
fn command(program: &str, behavior: &str, tier: &str) -> (Command, PathBuf) {
    // One folder per run: overwriting a library that another test's child has mapped kills that child.
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let number = RUNS.fetch_add(1, Relaxed);
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("fake-driver-{number}"));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::copy(tests::recorder::example("libfake_driver.so"), folder.join("libcuda.so.1")).expect("a copy");
    let _of_an_earlier_run = std::fs::remove_file(folder.join("libcuda.so"));
    std::os::unix::fs::symlink("libcuda.so.1", folder.join("libcuda.so")).expect("cudarc's name of the same library");
    let mut child = Command::new(tests::recorder::example(program));
    child.env("LD_LIBRARY_PATH", &folder).env("FAKE_DRIVER", behavior).env("TIER", tier).env("TRACING_GPU", "");
    child.env_remove("NVTX_INJECTION64_PATH");
    (child, folder)
}

fn run<T: serde::de::DeserializeOwned>(program: &str, behavior: &str, tier: &str) -> T {
    let output = command(program, behavior, tier).0.output().expect("the child");
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("what the child says")
}

/// The summary that `gpu_ends` writes. The program must exit with `code`.
fn end(case: &str, behavior: &str, tier: &str, code: i32) -> Summary {
    let (mut child, folder) = command("gpu_ends", behavior, tier);
    let summary = folder.join("summary.json");
    let _of_an_earlier_run = std::fs::remove_file(&summary);
    let output = child.env("CASE", case).env("SUMMARY", &summary).output().expect("the child");
    assert_eq!(output.status.code(), Some(code), "{case}: {}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read(&summary).expect("the child's summary");
    Summary::read_json(text.as_slice()).expect("a summary")
}

/// Instances and floor of `step`, if it has a row of stream time.
fn steps(summary: &Summary) -> Option<(u64, u64)> {
    let row = summary.stream_ranges.iter().find(|row| row.name == "step")?;
    Some((row.times.instances, row.floor_ns))
}

#[test]
fn a_warm_timed_span_makes_seven_calls_and_allocates_nothing() {
    for tier in ["subscriber", "layer"] {
        let told: Told = run("gpu_timed", "", tier);
        let calls = |name: &str| told.during[name];
        let (spans, batches) = (told.spans, told.spans / 64);
        for name in ["cuEventRecord", "cuStreamIsCapturing", "cuCtxGetCurrent"] {
            assert_eq!(calls(name), 2 * spans, "{tier}: {name}: {told:#?}");
        }
        // The spans fill whole batches, so that there is one call for each pair.
        assert_eq!(calls("cuEventElapsedTime_v2"), spans, "{tier}");
        assert_eq!(calls("cuThreadExchangeStreamCaptureMode"), 2 * batches, "{tier}");
        for name in ["cuCtxSetCurrent", "cuCtxPushCurrent_v2", "cuStreamCreate", "cuEventCreate", "cuEventQuery"] {
            assert_eq!(calls(name), 0, "{tier}: {name}");
        }
        assert_eq!(told.allocations, 0, "{tier}: and {} pages of a histogram", told.pages);
        assert_eq!(told.first.losses.streams, StreamLosses::default());
        assert_eq!((steps(&told.first), steps(&told.second)), (Some((20_032, 4_000)), Some((3, 4_000))), "{tier}");
    }
}

/// Instances by name.
fn timed(summary: &Summary) -> BTreeMap<&str, u64> {
    let mut timed = BTreeMap::new();
    for row in &summary.stream_ranges {
        *timed.entry(row.name.as_str()).or_default() += row.times.instances;
    }
    timed
}

#[test]
fn whatever_way_a_scope_begins_and_ends_each_span_in_it_is_timed_once() {
    for tier in ["subscriber", "layer"] {
        let told: Scopes = run("gpu_scopes", "watched", tier);
        assert_eq!(timed(&told.inside), BTreeMap::from([("seen", 10)]), "{tier}: from another thread");
        assert_eq!(timed(&told.outside), BTreeMap::from([("seen", 110)]), "{tier}");
        let wanted = [
            ("after a reset", 5),
            ("outer scope", 73),
            ("inner scope", 70),
            ("other stream", 70),
            ("by field", 70),
            ("deep", 200),
            ("begun inside", 100),
            ("begun outside", 100),
            ("panics", 1),
            ("before a panic", 3),
            ("threads", 20_000),
            ("short scopes", 4_000),
        ];
        assert_eq!(timed(&told.all), BTreeMap::from(wanted), "{tier}");
        assert_eq!(told.all.losses.streams, StreamLosses::default(), "{tier}");
        assert_eq!((told.holds, told.overwritten), ([1, 1], 0), "{tier}: held, or a pair written over");
        assert_eq!(timed(&told.losses), BTreeMap::from([("captured", 7)]), "{tier}");
        let mut lost = StreamLosses::default();
        lost.captured = 4;
        lost.refused = 2;
        assert_eq!(told.losses.losses.streams, lost, "{tier}: at one end and three starts; the stream is gone");
    }
}

#[test]
fn an_end_is_recorded_where_the_timed_entry_is_left_and_not_another_of_its_span() {
    for tier in ["subscriber", "layer"] {
        let told: Scopes = run("gpu_scopes", "watched", tier);
        assert_eq!(told.ends, [vec![0, 0, 1], vec![1, 1], vec![0, 1, 1], vec![0, 1]], "{tier}");
        assert_eq!(timed(&told.again), BTreeMap::from([("again", 4)]), "{tier}");
        assert_eq!(told.again.losses.streams, StreamLosses::default(), "{tier}");
    }
}

#[test]
fn what_is_dropped_is_counted_in_the_window_that_it_is_of() {
    for tier in ["subscriber", "layer"] {
        let told: Summary = run("gpu_scopes", "stuck", tier);
        assert_eq!(timed(&told), BTreeMap::new(), "{tier}");
        let mut lost = StreamLosses::default();
        lost.dropped = 24;
        assert_eq!(told.losses.streams, lost, "{tier}: and not the 40 of before");
    }
}

#[test]
fn names_at_the_same_height_of_the_stack_stay_apart() {
    for tier in ["subscriber", "layer"] {
        let told: Told = run("gpu_timed", "", tier);
        let wanted = [("a", 300), ("around", 1), ("b", 200), ("c", 200), ("left first", 100)];
        assert_eq!(timed(&told.mixed), BTreeMap::from(wanted), "{tier}");
        assert_eq!(told.mixed.losses.streams, StreamLosses::default(), "{tier}");
    }
}

#[test]
fn a_floor_that_cannot_be_measured_is_tried_once() {
    let told: Told = run("gpu_timed", "no_streams", "subscriber");
    assert_eq!(told.so_far["cuStreamCreate"], 1);
    assert_eq!((steps(&told.first), steps(&told.second)), (Some((20_032, 0)), Some((3, 0))), "timed all the same");
    assert_eq!(told.first.losses.streams, StreamLosses::default());
    let [note] = told.first.notes.as_slice() else { panic!("one note is wanted: {:?}", told.first.notes) };
    assert!(note.sentence().ends_with("could not be measured: CUDA error 2."), "{note:?}");
}

#[test]
fn losses_are_those_of_the_window() {
    for tier in ["subscriber", "layer"] {
        let told: Told = run("gpu_timed", "capturing", tier);
        let captured = |captured| with(StreamLosses::default(), |it| it.captured = captured);
        assert_eq!(told.first.losses.streams, captured(20_033), "{tier}: the outer span too");
        assert_eq!(told.second.losses.streams, captured(3), "{tier}");
        assert_eq!((steps(&told.first), told.so_far["cuEventRecord"]), (None, 0), "{tier}");
    }
}

#[test]
fn the_driver_is_not_loaded_where_no_stream_is_named() {
    for tier in ["subscriber", "layer"] {
        let summary = end("no_stream", "", tier, 0); // the child checks the libraries itself
        assert_eq!(summary.notes, [], "{tier}");
    }
}

#[test]
fn an_exit_waits_for_a_gpu_that_goes_on_for_ever_no_longer_than_it_says() {
    for tier in ["subscriber", "layer"] {
        let (summary, took) = in_time(Duration::from_secs(6), || end("exit", "hangs", tier, 7));
        assert!(took >= Duration::from_millis(1_400) && took < Duration::from_secs(6), "{tier}: {took:?}");
        let mut lost = StreamLosses::default();
        lost.pending = 10;
        assert_eq!((timed(&summary), summary.losses.streams), (BTreeMap::new(), lost), "{tier}");
    }
}

#[test]
fn an_exit_reads_what_is_there_before_the_driver_is_taken_down() {
    for tier in ["subscriber", "layer"] {
        let summary = end("exit", "deinitializes", tier, 7);
        assert_eq!(timed(&summary), BTreeMap::from([("step", 10)]), "{tier}: {:?}", summary.losses.streams);
        assert_eq!(summary.losses.streams, StreamLosses::default(), "{tier}");
    }
}

#[test]
fn default_streams_are_timed_whoever_named_their_context_first() {
    for tier in ["subscriber", "layer"] {
        let summary = end("raw_first", "", tier, 0);
        assert_eq!(timed(&summary), BTreeMap::from([("default", 4), ("raw", 2)]), "{tier}");
        assert_eq!(summary.losses.streams, StreamLosses::default(), "{tier}");
    }
}

#[test]
fn a_summary_of_many_streams_takes_as_long_as_they_are_many() {
    // Takes a second or two; a linear search for each stream would take minutes.
    let (summary, took) = in_time(Duration::from_secs(30), || end("many_streams", "", "subscriber", 0));
    let streams: BTreeSet<&str> = summary.stream_ranges.iter().map(|row| row.stream.as_str()).collect();
    assert_eq!((summary.stream_ranges.len(), streams.len()), (20_000, 20_000));
    assert!(streams.contains("GPU 0 #1") && streams.contains("GPU 0 #20000"));
    assert!(took < Duration::from_secs(30), "{took:?}");
}

#[test]
fn streams_on_which_nothing_is_timed_are_not_read() {
    assert_eq!(end("nothing_timed", "", "subscriber", 0).stream_ranges, []);
}

#[test]
fn a_forked_child_times_nothing_and_waits_for_nobody() {
    for tier in ["subscriber", "layer"] {
        let summary = end("fork", "", tier, 0); // the program checks its child itself
        let wanted = [("around", 1), ("before", 10), ("open", 1), ("outer", 1), ("there", 100), ("within", 1)];
        assert_eq!(timed(&summary), BTreeMap::from(wanted), "{tier}");
        assert_eq!(summary.losses.streams, StreamLosses::default(), "{tier}");
    }
}

/// The output of `gpu_refused`.
#[derive(Debug, Deserialize)]
struct Refused {
    /// After 8 timed spans; `summary` after 16.
    first: Summary,
    summary: Summary,
    /// Driver calls of the profiler.
    calls: u64,
    /// The program's own context and capture mode, afterwards.
    current: usize,
    mode: u32,
}

/// The driver refuses one call, each in turn, with one of the error codes. All spans are still counted, each stream
/// time is in a row or counted as lost, and the program's context and capture mode are unchanged.
#[test]
fn a_call_that_the_driver_refuses_costs_what_is_counted() {
    /// Invalid value, no memory, not initialized, taken down, no device, bad context, bad handle, not ready, illegal
    /// address, launch failure, not permitted, not supported, unknown, and a code that no driver has.
    const CODES: [i32; 14] = [1, 2, 3, 4, 100, 201, 400, 600, 700, 719, 800, 801, 999, 123_456];
    for tier in ["subscriber", "layer"] {
        let (mut child, _) = command("gpu_refused", "", tier);
        let mut run = |failing: Option<(u64, i32)>| -> Refused {
            let fails = failing.map_or_else(String::new, |(number, code)| format!("{number}:{code}"));
            let output = child.env("FAKE_DRIVER_FAILS", fails).output().expect("the child");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.is_empty(), "{tier} {failing:?}: {}: {said}", output.status);
            serde_json::from_slice(&output.stdout).expect("what the child says")
        };
        let whole = run(None);
        assert_eq!((timed(&whole.summary), whole.current, whole.mode), (BTreeMap::from([("step", 16)]), 0x1000, 0));
        assert!(whole.calls > 500, "{}", whole.calls);
        let all = std::env::var_os("FAULTS_ALL").is_some(); // `tests/faults`
        // Most calls measure the floor (an event pair without work). The tiers share the last calls: each tests every
        // second one.
        let is_tested = |number: &u64| {
            let is_turn = number.is_multiple_of(2) == (tier == "layer");
            all || number.is_multiple_of(31) || whole.calls - number < 220 && is_turn
        };
        let codes = |number: u64| {
            let (from, count) = if all { (0, CODES.len()) } else { (number as usize / 2, 1) };
            CODES.into_iter().cycle().skip(from).take(count).map(move |code| (number, code))
        };
        for (number, code) in (0..whole.calls).filter(is_tested).flat_map(codes) {
            let told = run(Some((number, code)));
            for (summary, spans) in [(&told.first, 8), (&told.summary, 16)] {
                let what = format!("{tier}: call {number} answers {code}: {:?}", summary.notes);
                let counted: u64 = summary.ranges.iter().map(|row| row.times.instances).sum();
                let lost = &summary.losses.streams;
                let accounted = timed(summary).get("step").copied().unwrap_or(0)
                    + lost.pending
                    + lost.captured
                    + lost.refused
                    + lost.dropped
                    + lost.unreadable;
                assert_eq!((counted, accounted), (spans, spans), "{what} {lost:?}");
                assert_eq!((told.current, told.mode), (0x1000, 0), "{what}");
            }
        }
    }
}
