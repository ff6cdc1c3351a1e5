//! Stream time on a real GPU, to be run by hand on a machine with one: `gpu_check accuracy|behavior|devices|error|cost`.
//!
//! `accuracy` runs kernels of known length; run it under Nsight Systems and compare. `behavior` checks itself: nesting, re-entry, streams,
//! threads, futures, fields, captures, contexts; `devices` wants two devices. `error` stores an asynchronous error and looks that the program still sees it.
//! `cost` prints what a timed span costs beside the same driver calls written by hand, in each tier (`TIER=subscriber|layer` for one), and
//! what it allocates, which must be nothing once warm. Kernels are compiled with NVRTC; `cost` has none.

mod accuracy;
mod allocations;
mod behavior;
mod cost;
mod device;
mod devices;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("accuracy") => accuracy::run(arguments.get(1).map(std::path::Path::new)),
        Some("behavior") => behavior::run(),
        Some("devices") => devices::run(),
        Some("error") => behavior::run_error(),
        Some("cost") => cost::run(arguments.get(1).is_some_and(|word| word == "quick")),
        _ => {
            eprintln!("usage: gpu_check accuracy [SUMMARY.json] | behavior | devices | error | cost [quick]");
            std::process::exit(2);
        }
    }
}
