//! What a timeline costs: `cargo run --release -p tests --example timeline_cost`.
//!
//! A million ranges on one thread, without a timeline, with a trace, with a database, and with both; each in a process of its own. What the program
//! pays a range, how long it takes from the first range until the files are complete, and what is missing in them.

use std::error::Error;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use tracing::{info_span, subscriber::set_global_default};
use tracing_gpu::{Output, Profiler};
use tracing_subscriber::prelude::*;

const RANGES: u64 = 1_000_000;
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [tier, files] = arguments.as_slice() {
        return measured(tier, files);
    }
    println!("| {RANGES} ranges | ns a range | more than without | ms until complete | M ranges/s | missing |");
    println!("|---|--:|--:|--:|--:|--:|");
    for tier in ["subscriber", "layer"] {
        let mut without = 0.0;
        for files in ["none", "trace", "trace.gz", "sqlite", "trace+sqlite"] {
            let mut rounds: Vec<[f64; 3]> = (0..ROUNDS).map(|_| round(tier, files)).collect::<Result<_, _>>()?;
            let mut median = |index: usize| {
                rounds.sort_by(|a, b| a[index].total_cmp(&b[index]));
                rounds[ROUNDS / 2][index]
            };
            let (cost, complete, missing) = (median(0), median(1), median(2));
            if files == "none" {
                without = cost;
            }
            println!(
                "| {tier}, {files} | {cost:.0} | {:+.0} | {:.0} | {:.2} | {missing} |",
                cost - without,
                complete * 1e3,
                RANGES as f64 / complete / 1e6
            );
        }
    }
    Ok(())
}

/// Nanoseconds a range, seconds until the files are complete, ranges that are missing.
fn round(tier: &str, files: &str) -> Result<[f64; 3], Box<dyn Error>> {
    let output = Command::new(std::env::current_exe()?).args([tier, files]).env_remove("TRACING_GPU").output()?;
    let said = String::from_utf8(output.stdout)?;
    let figures: Vec<f64> = said.split_whitespace().filter_map(|figure| figure.parse().ok()).collect();
    let figures = <[f64; 3]>::try_from(figures).map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())?;
    Ok(figures)
}

fn measured(tier: &str, files: &str) -> Result<(), Box<dyn Error>> {
    let at =
        |end: &str| -> PathBuf { std::env::temp_dir().join(format!("timeline-cost-{}.{end}", std::process::id())) };
    let mut builder = Profiler::builder().output(Output::None);
    let mut written = Vec::new();
    for file in files.split('+').filter(|file| *file != "none") {
        let path = at(if file == "sqlite" { file } else { "json" }).with_extension(match file {
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
    let begun = Instant::now();
    // Two within a third.
    for _ in 0..RANGES / 3 {
        info_span!("outer").in_scope(|| {
            info_span!("inner").in_scope(|| ());
            info_span!("inner").in_scope(|| ());
        });
    }
    info_span!("last").in_scope(|| ());
    let cost = begun.elapsed();
    let before = profiler.summary().notes;
    profiler.finish()?;
    let complete = begun.elapsed();
    let missing = before.iter().find_map(|note| note.split_once(" ranges, events")?.0.parse::<f64>().ok());
    println!("{} {} {}", cost.as_nanos() as f64 / RANGES as f64, complete.as_secs_f64(), missing.unwrap_or(0.0));
    for path in written {
        std::fs::remove_file(path)?;
    }
    Ok(())
}
