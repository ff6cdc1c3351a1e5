//! What a timed span asks of the driver, with one that counts the calls: `examples/fake_driver.rs`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;
use tracing_gpu::{StreamLosses, Summary};

/// What the child says.
#[derive(Debug, Deserialize)]
struct Told {
    /// Timed spans while calls were counted, once warm.
    spans: u64,
    during: BTreeMap<String, u64>,
    so_far: BTreeMap<String, u64>,
    /// Calls of other threads than the program's.
    elsewhere: BTreeMap<String, u64>,
    allocations: u64,
    pages: u64,
    /// Of 20,032 timed spans.
    first: Summary,
    /// Of three, after a reset.
    second: Summary,
}

/// Has a child do something. Its status, and what it printed.
fn run_child(what: &str, behavior: &str, tier: &str) -> (Option<i32>, String) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("fake-driver-{what}-{behavior}-{tier}"));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::copy(tests::recorder::example("libfake_driver.so"), folder.join("libcuda.so.1")).expect("a copy");
    let mut child = Command::new(tests::recorder::example("gpu_timed"));
    child
        .arg(what)
        .env("LD_LIBRARY_PATH", folder)
        .env("FAKE_DRIVER", behavior)
        .env("TIER", tier)
        .env("TRACING_GPU", "");
    let output = child.env_remove("NVTX_INJECTION64_PATH").output().expect("the child");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{what} {behavior} {tier}: {}", output.status);
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn run(behavior: &str, tier: &str) -> Told {
    let (status, output) = run_child("warm", behavior, tier);
    assert_eq!(status, Some(0));
    serde_json::from_str(&output).expect("what the child says")
}

/// Instances of `step` and its floor, if it has a row of stream time.
fn steps(summary: &Summary) -> Option<(u64, u64)> {
    let row = summary.stream_ranges.iter().find(|row| row.name == "step")?;
    Some((row.times.instances, row.floor_ns))
}

#[test]
fn a_warm_timed_span_makes_six_calls_and_allocates_nothing() {
    for tier in ["subscriber", "layer"] {
        let told = run("", tier);
        let calls = |name: &str| told.during[name];
        let spans = told.spans;
        for name in ["cuEventRecord", "cuStreamIsCapturing", "cuCtxGetCurrent"] {
            assert_eq!(calls(name), 2 * spans, "{tier}: {name}: {told:#?}");
        }
        // All else is another thread's.
        assert_eq!(told.during.values().sum::<u64>(), 6 * spans, "{tier}: {:#?}", told.during);
        for name in ["cuEventRecord", "cuStreamIsCapturing", "cuEventCreate", "cuEventQuery", "cuStreamCreate"] {
            assert_eq!(told.elsewhere[name], 0, "{tier}: {name}");
        }
        for name in ["cuEventElapsedTime_v2", "cuThreadExchangeStreamCaptureMode"] {
            assert!(told.elsewhere[name] > 0, "{tier}: {name}");
        }
        assert_eq!(told.allocations, 0, "{tier}: and {} pages of a histogram", told.pages);
        assert_eq!(told.first.losses.streams, StreamLosses::default());
        assert_eq!((steps(&told.first), steps(&told.second)), (Some((20_032, 4_000)), Some((3, 4_000))), "{tier}");
    }
}

#[test]
fn a_floor_that_cannot_be_measured_is_tried_once() {
    let told = run("no_streams", "subscriber");
    assert_eq!(told.so_far["cuStreamCreate"], 1);
    assert_eq!((steps(&told.first), steps(&told.second)), (Some((20_032, 0)), Some((3, 0))), "timed all the same");
    assert_eq!(told.first.losses.streams, StreamLosses::default());
    let [note] = told.first.notes.as_slice() else { panic!("one note is wanted: {:?}", told.first.notes) };
    assert!(note.ends_with("could not be measured: CUDA error 2."), "{note}");
}

#[test]
fn losses_are_those_of_the_window() {
    for tier in ["subscriber", "layer"] {
        let told = run("capturing", tier);
        let captured = |captured| StreamLosses { captured, ..StreamLosses::default() };
        assert_eq!(told.first.losses.streams, captured(20_033), "{tier}: the outer span too");
        assert_eq!(told.second.losses.streams, captured(3), "{tier}");
        assert_eq!((steps(&told.first), told.so_far["cuEventRecord"]), (None, 0), "{tier}");
    }
}

#[test]
fn a_thread_reads_while_streams_are_named_and_a_profiler_runs() {
    let (status, output) = run_child("threads", "", "subscriber");
    let threads: [Vec<String>; 4] = serde_json::from_str(&output).expect("names of threads");
    let reader = vec!["tracing-gpu-eve".to_owned()]; // as much as the system keeps
    assert_eq!((status, threads), (Some(0), [vec![], reader.clone(), vec![], reader]));
}

#[test]
fn a_summary_has_all_spans_before_it() {
    for behavior in ["", "unfinished"] {
        for tier in ["subscriber", "layer"] {
            assert_eq!(run_child("summary", behavior, tier), (Some(0), "0".to_owned()), "{behavior}");
        }
    }
}

#[test]
fn every_stream_is_read() {
    for behavior in ["", "unfinished", "slow"] {
        assert_eq!(run_child("streams", behavior, "subscriber"), (Some(0), "6000".to_owned()), "{behavior}");
    }
}

#[test]
fn what_is_not_counted_is_counted_as_dropped() {
    for behavior in ["", "unfinished"] {
        assert_eq!(run_child("by itself", behavior, "subscriber"), (Some(0), "200000".to_owned()), "{behavior}");
    }
}

#[test]
fn pairs_that_wait_at_the_end_are_read() {
    for behavior in ["", "unfinished", "slow"] {
        for (what, code) in [("finish", 0), ("exit", 7)] {
            let (status, output) = run_child(what, behavior, "subscriber");
            assert_eq!(status, Some(code), "{what} {behavior}\n{output}");
            let row = output.lines().find(|line| line.contains(" step ") && line.ends_with("GPU 0 #1"));
            assert!(row.is_some_and(|row| row.contains(" 5,000 ")), "{what} {behavior}\n{output}");
        }
    }
}

#[test]
fn a_fork_leaves_the_reading_to_the_parent() {
    for behavior in ["", "slow"] {
        assert_eq!(run_child("fork", behavior, "subscriber"), (Some(0), "45000".to_owned()), "{behavior}");
    }
}
