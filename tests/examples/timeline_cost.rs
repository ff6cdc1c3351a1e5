//! The cost of a timeline: `cargo run --release -p tests --example timeline_cost`.
//!
//! A million ranges on one thread, without a timeline, with a trace, with a database, and with both; each in a process
//! of its own. Prints the program's cost of a range, in its thread's processor time (median of the rounds) and by the
//! clock (the quickest round); the time from the first range until the files are complete (the quickest round); and the
//! number of missing ranges. By the clock the program also waits while the writing thread has its core.
#![allow(unsafe_code)] // the time of a thread

use std::error::Error;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use tracing::{info_span, subscriber::set_global_default};
use tracing_gpu::{Output, Profiler, Summary};
use tracing_subscriber::prelude::*;

const RANGES: u64 = 1_000_000;
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [tier, files] = arguments.as_slice() {
        return measured(tier, files);
    }
    println!(
        "| {RANGES} ranges | ns of CPU a range | more than without | by the clock | more | ms until complete | M ranges/s | missing |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    for tier in ["subscriber", "layer"] {
        let mut without = [0.0; 2];
        for files in ["none", "trace", "trace.gz", "sqlite", "trace+sqlite"] {
            let rounds: Vec<[f64; 4]> = (0..ROUNDS).map(|_| round(tier, files)).collect::<Result<_, _>>()?;
            let sorted = |index: usize| {
                let mut figures: Vec<f64> = rounds.iter().map(|round| round[index]).collect();
                figures.sort_by(f64::total_cmp);
                figures
            };
            let (cpu, clock, complete) = (sorted(0)[ROUNDS / 2], sorted(1)[0], sorted(2)[0]);
            if files == "none" {
                without = [cpu, clock];
            }
            println!(
                "| {tier}, {files} | {cpu:.0} | {:+.0} | {clock:.0} | {:+.0} | {:.0} | {:.2} | {} |",
                cpu - without[0],
                clock - without[1],
                complete * 1e3,
                RANGES as f64 / complete / 1e6,
                sorted(3)[ROUNDS - 1]
            );
        }
    }
    Ok(())
}

/// Nanoseconds a range, of processor time and by the clock; seconds until the files are complete; missing ranges.
fn round(tier: &str, files: &str) -> Result<[f64; 4], Box<dyn Error>> {
    let output = Command::new(std::env::current_exe()?).args([tier, files]).env_remove("TRACING_GPU").output()?;
    let said = String::from_utf8(output.stdout)?;
    let figures: Vec<f64> = said.split_whitespace().filter_map(|figure| figure.parse().ok()).collect();
    let figures = <[f64; 4]>::try_from(figures).map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())?;
    Ok(figures)
}

fn measured(tier: &str, files: &str) -> Result<(), Box<dyn Error>> {
    let at =
        |end: &str| -> PathBuf { std::env::temp_dir().join(format!("timeline-cost-{}.{end}", std::process::id())) };
    let summary = at("summary");
    let mut builder = Profiler::builder().output(Output::None).json(&summary);
    let mut written = Vec::new();
    for file in files.split('+').filter(|file| *file != "none") {
        let path = at(match file {
            "trace" => "json",
            "trace.gz" => "json.gz",
            _ => "sqlite",
        });
        builder = if file == "sqlite" { builder.sqlite(&path) } else { builder.trace(&path) };
        written.push(path);
    }
    let profiler = builder.build()?;
    match tier {
        "layer" => set_global_default(tracing_subscriber::registry().with(profiler.layer()))?,
        _ => set_global_default(profiler.subscriber())?,
    }
    let (begun, begun_cpu) = (Instant::now(), thread_ns()?);
    // Two within a third.
    for _ in 0..RANGES / 3 {
        info_span!("outer").in_scope(|| {
            info_span!("inner").in_scope(|| ());
            info_span!("inner").in_scope(|| ());
        });
    }
    info_span!("last").in_scope(|| ());
    let (clock, cpu) = (begun.elapsed(), thread_ns()? - begun_cpu);
    profiler.finish()?;
    let complete = begun.elapsed();
    let notes = Summary::read_json(std::fs::File::open(&summary)?)?.notes;
    written.push(summary);
    let missing = notes.iter().find_map(|note| note.split_once(" ranges, events")?.0.parse::<f64>().ok());
    let a_range = |ns: u128| ns as f64 / RANGES as f64;
    println!(
        "{} {} {} {}",
        a_range(cpu.into()),
        a_range(clock.as_nanos()),
        complete.as_secs_f64(),
        missing.unwrap_or(0.0)
    );
    for path in written {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// Processor time of this thread, in nanoseconds.
fn thread_ns() -> std::io::Result<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live timespec.
    match unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) } {
        0 => Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64),
        _ => Err(std::io::Error::last_os_error()),
    }
}
