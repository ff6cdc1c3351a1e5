//! The cost of a timeline: `cargo run --release -p tests --features parquet,perfetto --example timeline_cost`.
//!
//! A million ranges on one thread, without a timeline, with a trace, with one in Perfetto's own format, with a
//! database, and with datasets; each in a process of its own, in turns. Prints the program's cost of a range, in its
//! thread's processor time, and that of all threads until the files are complete (the least and the median of the
//! rounds, beyond those without a timeline); the time from the first range until then (the quickest round); the size;
//! and the number of missing ranges.
#![allow(unsafe_code)] // the time of a thread

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use tracing::{info_span, subscriber::set_global_default};
use tracing_gpu::{Note, Output, Profiler, Summary, SummaryExt as _};
use tracing_subscriber::prelude::*;

const RANGES: u64 = 1_000_000;
const ROUNDS: usize = 7;
const FILES: [&str; 6] = ["none", "trace", "trace.gz", "perfetto", "sqlite", "parquet"];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [tier, files] = arguments.as_slice() {
        return measured(tier, files);
    }
    println!(
        "| {RANGES} ranges | ns of its thread a range: least, median | ns of all threads | s until complete | bytes a range | missing |"
    );
    println!("|---|--:|--:|--:|--:|--:|");
    for tier in ["subscriber", "layer"] {
        let mut rounds = FILES.map(|_| Vec::new());
        for _ in 0..ROUNDS {
            for (files, rounds) in FILES.iter().zip(&mut rounds) {
                rounds.push(round(tier, files)?);
            }
        }
        let sorted = |rounds: &[[f64; 5]], index: usize| {
            let mut figures: Vec<f64> = rounds.iter().map(|round| round[index]).collect();
            figures.sort_by(f64::total_cmp);
            figures
        };
        let least_and_median = |rounds: &[[f64; 5]], index| {
            let figures = sorted(rounds, index);
            [figures[0], figures[ROUNDS / 2]]
        };
        let without = [0, 1].map(|index| least_and_median(&rounds[0], index));
        for (files, rounds) in FILES.iter().zip(&rounds) {
            let own = [0, 1].map(|index| {
                let [least, median] = least_and_median(rounds, index);
                match *files {
                    "none" => format!("{least:.0}, {median:.0} in all"),
                    _ => format!("{:+.0}, {:+.0}", least - without[index][0], median - without[index][1]),
                }
            });
            let (complete, bytes, missing) = (sorted(rounds, 2)[0], rounds[0][3], sorted(rounds, 4)[ROUNDS - 1]);
            println!("| {tier}, {files} | {} | {} | {complete:.2} | {bytes:.1} | {missing} |", own[0], own[1]);
        }
    }
    Ok(())
}

/// Nanoseconds a range, of its thread and of all; seconds until the files are complete; bytes a range; missing ranges.
fn round(tier: &str, files: &str) -> Result<[f64; 5], Box<dyn Error>> {
    let output = Command::new(std::env::current_exe()?).args([tier, files]).env_remove("TRACING_GPU").output()?;
    let said = String::from_utf8(output.stdout)?;
    let figures: Vec<f64> = said.split_whitespace().filter_map(|figure| figure.parse().ok()).collect();
    let figures = <[f64; 5]>::try_from(figures).map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())?;
    Ok(figures)
}

fn measured(tier: &str, files: &str) -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("timeline-cost-{}", std::process::id()));
    let (summary, timeline) = (folder.join("summary.json"), folder.join("timeline"));
    std::fs::create_dir_all(&timeline)?;
    let builder = Profiler::builder().output(Output::None).json(&summary);
    let builder = match files {
        "trace" => builder.trace(timeline.join("trace.json")),
        "trace.gz" => builder.trace(timeline.join("trace.json.gz")),
        "perfetto" => builder.perfetto(timeline.join("run.pftrace")),
        "sqlite" => builder.sqlite(timeline.join("run.sqlite")),
        "parquet" => builder.parquet(&timeline),
        _ => builder,
    };
    let profiler = builder.build()?;
    match tier {
        "layer" => set_global_default(tracing_subscriber::registry().with(profiler.layer()))?,
        _ => set_global_default(profiler.subscriber())?,
    }
    let (begun, begun_own, begun_all) = (Instant::now(), cpu_ns(OWN)?, cpu_ns(ALL)?);
    // Two within a third.
    for _ in 0..RANGES / 3 {
        info_span!("outer").in_scope(|| {
            info_span!("inner").in_scope(|| ());
            info_span!("inner").in_scope(|| ());
        });
    }
    info_span!("last").in_scope(|| ());
    let own = cpu_ns(OWN)? - begun_own;
    profiler.finish()?;
    let (complete, all) = (begun.elapsed().as_secs_f64(), cpu_ns(ALL)? - begun_all);
    let notes = Summary::read_json(std::fs::File::open(&summary)?)?.notes;
    let missing = notes.iter().find_map(|note| match note {
        Note::TimelineFull { items } => Some(*items as f64),
        _ => None,
    });
    let [own, all, bytes] = [own, all, bytes_below(&timeline)?].map(|sum| sum as f64 / RANGES as f64);
    println!("{own} {all} {complete} {bytes} {}", missing.unwrap_or(0.0));
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

fn bytes_below(folder: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { bytes_below(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}

const OWN: libc::clockid_t = libc::CLOCK_THREAD_CPUTIME_ID;
const ALL: libc::clockid_t = libc::CLOCK_PROCESS_CPUTIME_ID;

/// Processor time of this thread or of the process, in nanoseconds.
fn cpu_ns(clock: libc::clockid_t) -> std::io::Result<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live timespec.
    match unsafe { libc::clock_gettime(clock, &raw mut time) } {
        0 => Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64),
        _ => Err(std::io::Error::last_os_error()),
    }
}
