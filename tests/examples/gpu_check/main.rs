//! Stream time on a real GPU, to be run by hand on a machine with one: `gpu_check
//! accuracy|behavior|devices|error|cost`.
//!
//! `accuracy` runs kernels of known length; under Nsight Systems `tests/gpu/compare_stream_time.py` compares.
//! `behavior` checks itself: nesting, re-entry, streams, threads, futures, fields, captures, contexts; `devices` needs
//! two devices. `error` stores an asynchronous error and checks that the program still sees it. `cost` prints the cost
//! of a timed span and of the same driver calls by hand, in each tier (`TIER=subscriber|layer` for one), and its
//! allocations, which must be zero once warm. Kernels are compiled with NVRTC; `cost` has none.
//!
//! With CUPTI: `activity` checks the tables against the program's launches, `records` checks detailed records against
//! the program's actions, `launch_cost` compares a launch with CUPTI alone, `faults` ends processes in the middle and
//! obstructs CUPTI. `tests/gpu/run` runs all of them.

mod accuracy;
mod activity;
mod allocations;
mod alone;
mod behavior;
mod cost;
mod device;
mod devices;
mod faults;
mod foreign;
mod launch_cost;
mod records;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("activity") if arguments.get(1).is_some_and(|word| word == "none") => activity::run_for_others(),
        Some("activity") if arguments.len() > 1 => exit_unless(activity::run(arguments[1].as_ref())),
        Some("faults") => match arguments.get(1) {
            None => exit_unless(faults::run_all()),
            Some(case) => faults::run(case),
        },
        Some("launch_cost") => match arguments.get(1) {
            None => exit_unless(launch_cost::run_all()),
            Some(variant) => launch_cost::run(variant),
        },
        Some("accuracy") => accuracy::run(arguments.get(1).map(std::path::Path::new)),
        Some("behavior") => behavior::run(),
        Some("devices") => devices::run(),
        Some("records") => records::run(),
        Some("error") => behavior::run_error(),
        Some("cost") => cost::run(arguments.get(1).is_some_and(|word| word == "quick")),
        _ => {
            eprintln!("usage: gpu_check accuracy [SUMMARY.json] | behavior | devices | error | cost [quick]");
            eprintln!("     | activity SUMMARY.json | activity none | records | launch_cost | faults");
            std::process::exit(2);
        }
    }
}

fn exit_unless(all_holds: bool) {
    if !all_holds {
        std::process::exit(1);
    }
}
