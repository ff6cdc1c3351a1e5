//! Tests with real CUPTI libraries, from CUDA 11.8 to 13.5, without a GPU: the lengths of records, the places of
//! records in a buffer, and the numbers of functions are as expected. And tests with a made-up driver and libcupti,
//! which run whole sessions and all kinds of failures.

#[path = "cupti/absent.rs"]
mod absent;
#[path = "cupti/in_init.rs"]
mod in_init;
#[path = "cupti/made_up.rs"]
mod made_up;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The child process, without the variables that the search reads.
pub(crate) fn child(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cupti_child"));
    command.args(arguments);
    unset(&mut command);
    command
}

/// Removes the search's variables from a command's environment.
pub(crate) fn unset(command: &mut Command) {
    for name in ["TRACING_GPU_CUPTI", "CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CUDA_INJECTION64_PATH"]
    {
        command.env_remove(name);
    }
}

/// Its output. It must exit successfully.
pub(crate) fn output(mut command: Command) -> String {
    let output = command.output().expect("the child");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}\n{stderr}", output.status);
    String::from_utf8(output.stdout).expect("text").trim_end().to_owned()
}

/// The libraries from tests/install: version of CUDA and file.
fn libraries() -> Vec<(&'static str, PathBuf)> {
    let listed = include_str!("cupti/libraries.txt").lines().filter(|line| !line.starts_with('#'));
    let found = listed.map(|line| {
        let [_, version, cuda] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let folder = tests::installed::folder("cupti").join(version);
        let file = std::fs::read_dir(&folder).ok().and_then(|mut entries| Some(entries.next()?.ok()?.path()));
        (cuda, file.unwrap_or_else(|| panic!("no libcupti in {}: run tests/install", folder.display())))
    });
    found.collect()
}

fn look(path: &Path) -> Value {
    let told: Value = serde_json::from_str(&output(child(&["library", &path.display().to_string()]))).expect("json");
    assert!(told["error"].is_null(), "{told}");
    told
}

/// A real library is found in the places of toolkits, Conda and pip: through a variable, or through mapped files of the
/// process.
#[test]
fn libraries_are_found_where_they_are_installed() {
    let root = made_up::folder().join("places");
    let _of_an_earlier_run = std::fs::remove_dir_all(&root);
    let library = |file| PathBuf::from(made_up::empty_library(file)); // a library of the program
    let wheel = "lib/python3.12/site-packages/nvidia/cu13/lib";
    for (place, variable, value) in [
        ("toolkit/targets/x86_64-linux/lib", "CUDA_HOME", root.join("toolkit")),
        (&format!("venv/{wheel}"), "VIRTUAL_ENV", root.join("venv")),
        ("conda/lib", "CONDA_PREFIX", root.join("conda")),
        (&format!("pip/{wheel}"), "LD_PRELOAD", library("places/pip/lib/python3.12/site-packages/cupy/core.so")),
        ("image/extras/CUPTI/lib64", "LD_PRELOAD", library("places/image/targets/x86_64-linux/lib/libcudart.so.13")),
        ("beside", "LD_PRELOAD", library("places/beside/libcublas.so.13")),
    ] {
        let (_, real) = libraries().into_iter().find(|(cuda, _)| *cuda == "13.0").expect("it is listed");
        std::fs::create_dir_all(root.join(place)).expect("a folder");
        let file = root.join(place).join("libcupti.so.13");
        std::os::unix::fs::symlink(real, &file).expect("a link");
        let mut command = child(&["find"]);
        command.env(variable, value);
        assert_eq!(output(command), file.display().to_string(), "{variable}");
    }
}

/// Bytes of a record by kind, for the libraries in order; 0 if a kind is unknown. Measured with another program.
const STRIDES: [(u32, [u64; 6]); 20] = [
    (1, [88, 88, 96, 96, 112, 112]),
    (2, [88, 88, 88, 88, 104, 104]),
    (4, [40, 40, 40, 40, 40, 40]),
    (5, [40, 40, 40, 40, 40, 40]),
    (8, [176, 184, 184, 184, 192, 192]),
    (9, [16, 24, 32, 32, 40, 40]),
    (10, [200, 208, 208, 216, 248, 248]),
    (11, [32, 32, 32, 32, 32, 32]),
    (12, [56, 56, 56, 56, 56, 56]),
    (17, [40, 56, 56, 56, 56, 56]),
    (22, [96, 96, 96, 96, 96, 96]),
    (25, [64, 64, 104, 104, 104, 104]),
    (36, [24, 24, 56, 56, 56, 80]),
    (37, [24, 24, 24, 24, 24, 24]),
    (38, [40, 40, 56, 56, 56, 56]),
    (39, [24, 24, 24, 24, 24, 24]),
    (49, [120, 120, 128, 128, 128, 128]),
    (50, [72, 72, 72, 80, 80, 80]),
    (51, [48, 56, 56, 56, 56, 56]),
    (58, [0, 0, 0, 0, 48, 48]),
];

#[test]
fn records_are_as_long_as_the_libraries_say() {
    for (number, (cuda, path)) in libraries().iter().enumerate() {
        let told = look(path);
        assert_eq!(told["path"], path.display().to_string());
        let strides: Vec<(u32, u64)> = serde_json::from_value(told["strides"].clone()).expect("strides");
        for (kind, expected) in STRIDES {
            let found = strides.iter().find(|(known, _)| *known == kind).map_or(0, |(_, bytes)| *bytes);
            assert_eq!(found, expected[number], "kind {kind} of {cuda}");
        }
    }
}

#[test]
fn versions_read_as_they_are_spoken() {
    let said = libraries().into_iter().map(|(cuda, path)| (cuda, look(&path)["version_name"].clone()));
    let expected = ["API version 18", "API version 22", "API version 28", "13.0", "13.4", "13.5"];
    for ((cuda, said), expected) in said.zip(expected) {
        assert_eq!(said, expected, "{cuda}");
    }
}

#[test]
fn functions_have_the_numbers_that_are_asked_for() {
    let libraries = libraries();
    for (number, (cuda, path)) in libraries.iter().enumerate() {
        let newest = number + 1 == libraries.len();
        let told = look(path);
        let named: Vec<(u32, String, Option<String>)> = serde_json::from_value(told["named"].clone()).expect("names");
        assert!(named.len() > 90, "{cuda}: {}", named.len());
        for (number, ours, theirs) in named {
            // An older library does not know later functions.
            assert!(
                theirs.as_ref() == Some(&ours) || (theirs.is_none() && !newest),
                "{cuda}: {number} is {theirs:?}, not {ours}"
            );
        }
        let runtime: Vec<(u32, String)> = serde_json::from_value(told["runtime"].clone()).expect("names");
        assert!(runtime.contains(&(211, "cudaLaunchKernel_v7000".to_owned())), "{cuda}");
    }
}

/// CUDA 12.5 is the first whose library can do that.
#[test]
fn newer_libraries_record_calls_of_chosen_functions() {
    for (cuda, path) in libraries() {
        let is_newer = !["11.8", "12.4"].contains(&cuda);
        assert_eq!(look(&path)["records_functions"], is_newer, "{cuda}");
    }
}

/// Otherwise a name would be misspelled, and all calls of its function recorded.
#[test]
fn slight_functions_exist() {
    let (_, newest) = libraries().pop().expect("a library");
    let told = look(&newest);
    let of = |api: &str| -> Vec<(u32, String)> { serde_json::from_value(told[api].clone()).expect("names") };
    let known = [of("all"), of("runtime")].concat();
    for slight in range_model::timeline::SLIGHT {
        let of_apis = ["cu", "cuda", "__cuda"].map(|api| format!("{api}{slight}"));
        let is_version = |rest: &str| rest.is_empty() || rest.starts_with('_');
        let is_it = |name: &str| of_apis.iter().any(|own| name.strip_prefix(&**own).is_some_and(is_version));
        assert!(known.iter().any(|(_, name)| is_it(name)), "{slight}");
    }
}

/// If the newest library had no function of such a name, the detail would have no place.
#[test]
fn functions_that_details_come_of_are_known() {
    let (_, newest) = libraries().pop().expect("a library");
    let all: Vec<(u32, String)> = serde_json::from_value(look(&newest)["all"].clone()).expect("names");
    for name in gpu_activity::cupti::DETAILED.iter().flat_map(|(_, names)| *names) {
        assert!(all.iter().any(|(_, known)| known == name), "{name}");
    }
}

/// Otherwise a new function in a new library would be missed silently.
#[test]
fn no_function_that_enqueues_is_missed() {
    let (_, newest) = libraries().pop().expect("a library");
    let told = look(&newest);
    let all: Vec<(u32, String)> = serde_json::from_value(told["all"].clone()).expect("names");
    let named: Vec<(u32, String, Option<String>)> = serde_json::from_value(told["named"].clone()).expect("names");
    let enqueues =
        |name: &str| ["cuLaunch", "cuMemcpy", "cuMemset", "cuGraphLaunch"].iter().any(|start| name.starts_with(start));
    let missed: Vec<&str> = all
        .iter()
        .filter(|(number, name)| enqueues(name) && !named.iter().any(|(listed, ..)| listed == number))
        .map(|(_, name)| name.as_str())
        // Host functions make no records of their own; `cuMemcpy_v2` is a number without a function. The others are
        // from before CUDA 3.2, with 32-bit addresses.
        .filter(|name| !name.starts_with("cuLaunchHostFunc") && *name != "cuMemcpy_v2")
        .filter(|name| !all.iter().any(|(_, other)| *other == format!("{name}_v2")))
        .collect();
    assert_eq!(missed, [""; 0]);
}
