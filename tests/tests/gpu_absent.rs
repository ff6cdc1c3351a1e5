//! No GPU, a broken driver, or a driver that lacks functions: the same program gives the same CPU summary and one line
//! with the reason, without a panic.

use std::path::{Path, PathBuf};
use std::process::Command;

use tracing_gpu::{NoteExt as _, Summary};

/// Runs the child, with a variable for the dynamic loader.
fn run(loader: Option<(&str, &Path)>, configuration: &str) -> (Summary, String) {
    let mut command = Command::new(tests::recorder::example("gpu_absent"));
    command.env("TRACING_GPU", configuration).env_remove("NVTX_INJECTION64_PATH").envs(loader);
    let output = command.output().expect("the child");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    (serde_json::from_slice(&output.stdout).expect("a summary"), stderr)
}

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn assert_cpu_summary(summary: &Summary) {
    let mut rows: Vec<(&str, u64)> =
        summary.ranges.iter().map(|row| (row.name.as_str(), row.times.instances)).collect();
    rows.sort_unstable();
    assert_eq!(rows, [("below", 3), ("on a stream", 3), ("plain", 1)]);
    assert!(summary.stream_ranges.is_empty());
    assert!(summary.tree.iter().all(|node| node.stream_total_ns.is_none()));
}

/// The one note that states why nothing was timed.
fn reason(summary: &Summary) -> String {
    let [reason] = summary.notes.as_slice() else { panic!("one reason is wanted: {:?}", summary.notes) };
    reason.sentence()
}

#[cfg(feature = "nsight")] // the installation for that feature includes a driver
#[test]
fn a_driver_without_a_device() {
    let (summary, stderr) = run(None, "");
    assert_cpu_summary(&summary);
    let reason = reason(&summary);
    assert!(
        reason.starts_with("GPU timing is off: the driver answered CUDA error "),
        "{reason}\nThis wants a CUDA driver without a GPU, as Debian's libcuda1 gives: run tests/install"
    );
    assert_eq!(summary.losses.streams.refused, 6, "each entry is counted, those below too");
    assert!(stderr.contains("GPU timing is off"), "{stderr}");
}

/// The dynamic loader asks a library of ours for paths (`LD_AUDIT`), which hides every driver from the child.
#[test]
fn a_machine_without_a_driver() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gpu_absent/audit.c");
    let hides = tests::launcher::compiled(&folder("no-driver"), &source, &["-shared", "-fPIC"]);
    let (summary, _) = run(Some(("LD_AUDIT", &hides)), "");
    assert_cpu_summary(&summary);
    let reason = reason(&summary);
    assert!(reason.starts_with("GPU timing is off: the CUDA driver cannot be loaded: libcuda.so.1: "), "{reason}");
    assert!(reason.contains("No such file or directory"), "{reason}");
}

#[test]
fn a_broken_driver_first_on_the_path() {
    let folder = folder("broken-driver");
    std::fs::write(folder.join("libcuda.so.1"), "this is no library").expect("the file");
    let (summary, _) = run(Some(("LD_LIBRARY_PATH", &folder)), "");
    assert_cpu_summary(&summary);
    assert!(
        reason(&summary).starts_with("GPU timing is off: the CUDA driver cannot be loaded: "),
        "{}",
        reason(&summary)
    );
}

#[test]
fn a_driver_that_lacks_functions() {
    let folder = folder("old-driver");
    std::fs::copy(tests::recorder::library(), folder.join("libcuda.so.1")).expect("a library that is not the driver");
    let (summary, _) = run(Some(("LD_LIBRARY_PATH", &folder)), "");
    assert_cpu_summary(&summary);
    assert_eq!(
        reason(&summary),
        "GPU timing is off: the CUDA driver has no `cuCtxGetCurrent`: it is older than CUDA 11.4."
    );
}

#[test]
fn switched_off_it_says_nothing() {
    let (summary, _) = run(None, "gpu=off");
    assert_cpu_summary(&summary);
    assert_eq!((summary.notes.as_slice(), summary.losses.streams.refused), (&[][..], 0));
}
