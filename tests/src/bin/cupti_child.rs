//! A separate process for each libcupti: children of `tests/cupti.rs`. Two libraries in one process would conflict, and
//! some crash when they are unloaded.
//!
//! ```text
//! cupti_child library PATH     what the library says of itself, as JSON
//! cupti_child find             the library that a session would use, or why there is none
//! cupti_child start            a session, or why there is none
//! cupti_child SCENARIO         a session with the made-up driver and libcupti of tests/cupti
//! cupti_child profiler ...     a profiler with the same
//! cupti_child injected ...     a program that the driver loads a profiler into, with the same
//! cupti_child cost ...         what launches cost this library, with the same
//! ```

#[path = "../../tests/cupti/attribution.rs"]
mod attribution;
#[path = "../../tests/cupti/cost.rs"]
mod cost;
#[path = "../../tests/cupti/details.rs"]
mod details;
#[path = "../../tests/cupti/fake.rs"]
mod fake;
#[path = "../../tests/cupti/files.rs"]
mod files;
#[path = "../../tests/cupti/graphs.rs"]
mod graphs;
#[path = "../../tests/cupti/helpers.rs"]
mod helpers;
#[path = "../../tests/cupti/injected.rs"]
mod injected;
#[path = "../../tests/cupti/library.rs"]
mod library;
#[path = "../../tests/cupti/profiler.rs"]
mod profiler;
#[path = "../../tests/cupti/refused.rs"]
mod refused;
#[path = "../../tests/cupti/scenarios.rs"]
mod scenarios;

use std::path::Path;

use tests::cupti::{Cupti, Recording};
use tracing_gpu::NoteExt as _;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["library", path] => {
            load_driver();
            println!("{}", library::look(Path::new(path)));
        }
        ["find"] => {
            load_driver();
            println!("{}", Cupti::find(13_000).map_or_else(|reason| reason, |cupti| cupti.path().to_owned()));
        }
        ["start"] => println!(
            "{}",
            Recording::start(range_model::timeline::ApiRecords::None, 0).map_or_else(
                |reason| reason,
                |recording| {
                    let described = recording.describe().sentence();
                    recording.finish(true);
                    described
                }
            )
        ),
        [scenario] => scenarios::run(&fake::Fake::load(), scenario),
        ["cost", launches, options @ ..] => cost::run(&fake::Fake::load(), launches, options),
        ["injected", scenario] => injected::run(&fake::Fake::load(), scenario),
        ["profiler", scenario, tier] => profiler::run(&fake::Fake::load(), scenario, tier),
        _ => panic!("{arguments:?}"),
    }
}

/// libcupti 13.2 crashes in its first function where no driver is loaded.
fn load_driver() {
    // SAFETY: the driver's initialisers are meant to run in any process.
    #[allow(unsafe_code)]
    let driver = unsafe { libloading::Library::new("libcuda.so.1") };
    std::mem::forget(driver.expect("a CUDA driver, with a GPU or without: run tests/install"));
}
