//! No device, no library, a file that is no library, a library that refuses: one sentence for each.

use std::path::PathBuf;
use std::process::Command;

use super::made_up::{folder, made_up};
use super::{child, output};

/// The output of a child with these variables.
fn says(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let mut command = child(arguments);
    command.envs(environment.iter().copied());
    output(command)
}

/// The result of starting a session with the made-up libraries.
fn start(environment: &[(&str, &str)]) -> String {
    let mut command: Command = made_up(&["start"]);
    command.envs(environment.iter().copied());
    output(command)
}

fn file(name: &str, content: &str) -> String {
    let path: PathBuf = folder().join(name);
    std::fs::write(&path, content).expect("a file");
    path.display().to_string()
}

#[test]
fn a_driver_without_a_device() {
    const NO_DEVICE: &str = "this machine has no CUDA device (CUDA error 100 of cuInit)";
    let reason = says(&["start"], &[]);
    assert!(
        reason == NO_DEVICE
            || reason.starts_with("the CUDA driver answered CUDA error ") && reason.ends_with(" to cuInit"),
        "{reason}\nThis wants a CUDA driver without a GPU, as Debian's libcuda1 gives: run tests/install"
    );
    assert_eq!(start(&[("FAKE_INIT", "100")]), NO_DEVICE);
    assert_eq!(start(&[("FAKE_INIT", "999")]), "the CUDA driver answered CUDA error 999 to cuInit");
    assert_eq!(start(&[("FAKE_DEVICES", "0")]), "the CUDA driver has no device (cuDeviceGetCount counts none)");
}

#[test]
fn no_library() {
    let nowhere = folder().join("nothing here").display().to_string();
    for reason in
        [says(&["find"], &[("CUDA_HOME", &nowhere)]), start(&[("CUDA_HOME", &nowhere), ("TRACING_GPU_CUPTI", "")])]
    {
        assert_eq!(
            reason,
            format!(
                "libcupti was not found (looked on the loader's path, below {nowhere}, below /usr/local/cuda); \
                 TRACING_GPU_CUPTI=PATH names it"
            )
        );
    }
}

#[test]
fn a_file_that_is_not_there() {
    let reason = says(&["find"], &[("TRACING_GPU_CUPTI", "/not/there.so")]);
    assert!(
        reason.starts_with("/not/there.so cannot be loaded: /not/there.so: cannot open shared object file"),
        "{reason}"
    );
}

#[test]
fn a_file_that_is_no_library() {
    let text = file("text", "this is no library");
    for reason in [says(&["find"], &[("TRACING_GPU_CUPTI", &text)]), start(&[("TRACING_GPU_CUPTI", &text)])] {
        assert!(reason.starts_with(&format!("{text} cannot be loaded: {text}: ")), "{reason}");
    }
    // The same on the loader's path, and in a toolkit's place.
    std::fs::create_dir_all(folder().join("broken")).expect("a folder");
    file("broken/libcupti.so.12", "this is no library");
    let reason = says(&["find"], &[("LD_LIBRARY_PATH", &folder().join("broken").display().to_string())]);
    assert!(
        reason.starts_with("libcupti.so.12 cannot be loaded: ") && reason.contains("broken/libcupti.so.12"),
        "{reason}"
    );
    let toolkit = folder().join("broken toolkit");
    std::fs::create_dir_all(toolkit.join("extras/CUPTI/lib64")).expect("a folder");
    let broken = file("broken toolkit/extras/CUPTI/lib64/libcupti.so.12", "this is no library");
    let reason = says(&["find"], &[("CUDA_PATH", &toolkit.display().to_string())]);
    assert!(reason.starts_with(&format!("{broken} cannot be loaded: ")), "{reason}");
}

#[test]
fn a_library_that_is_another() {
    let driver = folder().join("driver/libcuda.so.1").display().to_string();
    let expected = format!("{driver} has no `cuptiGetVersion`: it is no CUPTI of CUDA 11.8 or later");
    assert_eq!(start(&[("TRACING_GPU_CUPTI", &driver)]), expected);
}

#[test]
fn a_library_that_is_mapped_goes_before_all() {
    let cupti = folder().join("libcupti.so.13").display().to_string();
    let reason = says(&["find"], &[("LD_PRELOAD", &cupti), ("TRACING_GPU_CUPTI", "/not/there.so")]);
    assert_eq!(reason, cupti);
}

#[test]
fn a_library_that_refuses() {
    let cupti = folder().join("libcupti.so.13").display().to_string();
    for (setting, value, expected) in [
        ("FAKE_VERSION", "17", format!("{cupti} is CUPTI of API version 17, older than CUDA 11.8")),
        ("FAKE_KERNEL", "104", format!("{cupti} writes records of kernels in a layout that is not known")),
        ("FAKE_SUBSCRIBE", "39", "another profiler of this process is using CUPTI, which serves one at a time".to_owned()),
        (
            "FAKE_SUBSCRIBE",
            "15",
            format!("CUPTI 13.0 ({cupti}) does not work with the driver, which is for CUDA 13.0: it is newer, or there is no GPU"),
        ),
        (
            "FAKE_SUBSCRIBE",
            "35",
            "profiling is not permitted here (CUPTI error 35): an administrator may allow it, see NVIDIA's ERR_NVGPUCTRPERM"
                .to_owned(),
        ),
        ("FAKE_SUBSCRIBE", "999", "cuptiSubscribe answered CUPTI error 999 (NAME_OF_THE_CODE)".to_owned()),
        (
            "FAKE_REFUSED",
            "2",
            "profiling is not permitted here (CUPTI error 35): an administrator may allow it, see NVIDIA's ERR_NVGPUCTRPERM"
                .to_owned(),
        ),
    ] {
        assert_eq!(start(&[(setting, value)]), expected);
    }
    let injected = start(&[("FAKE_SUBSCRIBE", "39"), ("CUDA_INJECTION64_PATH", "/opt/nsight-systems/x.so")]);
    assert_eq!(injected, "Nsight Systems is using CUPTI, which serves one profiler at a time");
}
