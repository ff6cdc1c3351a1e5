//! Spans of a program whose profiler writes timelines: what they cost its thread, and the profiler's.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use tracing::info_span;
use tracing_gpu::{Domain, Output, Profiler};

use super::{Files, cpu_seconds, seconds_of, shape};

const SPANS: u64 = 5_000;
const PASSES: usize = 40;
const ROUNDS: usize = 5;

#[inline(never)]
fn plain(spans: u64) {
    for _ in 0..spans {
        info_span!("Module running").in_scope(|| black_box(()));
    }
}

#[inline(never)]
fn rich(spans: u64) {
    for number in 0..spans {
        let span = info_span!(
            "Module running",
            nvtx.category = "layers",
            nvtx.color = 0x76_b900,
            nvtx.payload = number,
            rows = 4096,
            layer = "blocks.3.attn"
        );
        span.in_scope(|| black_box(()));
    }
}

/// The child: prints the nanoseconds a span on its thread, those of other threads, and what was lost.
pub(crate) fn run(files: Option<Files>, full: bool) {
    let paths = files.map(Files::paths).unwrap_or_default();
    let builder = Profiler::builder().output(Output::None).domain(Domain::Named("inference".to_owned()));
    let builder =
        paths.iter().fold(builder, |builder, path| match path.extension().is_some_and(|end| end == "sqlite") {
            true => builder.sqlite(path),
            false => builder.trace(path),
        });
    let profiler = builder.build().expect("a profiler");
    tracing::subscriber::set_global_default(profiler.subscriber()).expect("no other subscriber");
    let spans = if full { rich } else { plain };
    let (all, own) = (cpu_seconds(), seconds_of(libc::CLOCK_THREAD_CPUTIME_ID));
    spans(SPANS); // warm
    let mut best = f64::MAX;
    for _ in 0..PASSES {
        let start = Instant::now();
        spans(SPANS);
        best = best.min(start.elapsed().as_nanos() as f64 / SPANS as f64);
    }
    let lost = profiler.summary().notes.iter().filter(|note| note.contains("missing in the timeline")).count();
    // Its own thread writes; what is left to the end, this one does.
    let on_thread = best * 1e-9 * (SPANS * (1 + PASSES as u64)) as f64;
    profiler.finish().expect("files are written");
    let others = (cpu_seconds() - all) - (seconds_of(libc::CLOCK_THREAD_CPUTIME_ID) - own).min(on_thread);
    println!("RESULT {best} {} {lost}", others * 1e9 / (SPANS * (1 + PASSES as u64)) as f64);
    paths.iter().for_each(|path| drop(std::fs::remove_file(path)));
}

pub(crate) fn table(wanted: &dyn Fn(&str) -> bool) {
    let mut best: BTreeMap<(bool, usize), (f64, f64)> = BTreeMap::new();
    let all = [None].into_iter().chain(Files::ALL.map(Some));
    let name =
        |full, files: Option<Files>| format!("{}, span, {}", shape(full), files.map_or("no timeline", Files::name));
    for _ in 0..ROUNDS {
        for full in [false, true] {
            for (place, files) in all.clone().enumerate() {
                if files.is_some() && !wanted(&name(full, files)) {
                    continue;
                }
                let (own, others) = child(files, full);
                let entry = best.entry((full, place)).or_insert((f64::MAX, f64::MAX));
                *entry = (entry.0.min(own), entry.1.min(others));
            }
        }
    }
    println!(
        "\n| spans of a program | ns a span on its thread | - no timeline | ns of CPU to write it |\n|---|--:|--:|--:|"
    );
    for (&(full, place), (own, others)) in &best {
        let without = best.get(&(full, 0)).map_or(0.0, |without| without.0);
        let files = all.clone().nth(place).flatten();
        println!("| {} | {own:.0} | {:+.0} | {others:.0} |", name(full, files), own - without);
    }
}

/// Nanoseconds a span on its thread, and of the profiler's.
fn child(files: Option<Files>, full: bool) -> (f64, f64) {
    let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
    command.args(["program", files.map_or("none", Files::name), if full { "true" } else { "false" }]);
    command.env_remove("TRACING_GPU").env_remove("NVTX_INJECTION64_PATH");
    let output = command.output().expect("a child process");
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("RESULT "));
    let line = line.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
    let numbers: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(numbers[2] == 0.0, "ranges were lost");
    (numbers[0], numbers[1])
}
