//! How fast a timeline is written: `cargo bench -p tests --features perfetto --bench timeline`.
//!
//! A million ranges, two deep, on one thread, to a file in the folder for temporary files; then the same through gzip, and with everything that a range can
//! have; then both as a database. The median of the rounds and the fastest by the clock, the fastest in time on the CPU (of the process and of the system for
//! it), which is what can be compared where other programs run, and the size.
#![allow(unsafe_code)] // the time of the process

use std::fs::File;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use tracing_gpu::internals::timeline::{Item, Range, Sink, Value};
use tracing_gpu::internals::{Chrome, Sqlite};
use tracing_gpu::{Process, RangeStyle, Summary};

const RANGES: u64 = 1_000_000;
const ROUNDS: usize = 7;
const NAMES: [&str; 5] = ["Load Module", "Set input data", "Module running", "conv2d_0", "tokio task poll"];

#[allow(clippy::needless_update)] // whatever else is known of a process
fn write(sink: &mut dyn Sink, full: bool) {
    let fields =
        [("rows".to_owned(), Value::Unsigned(4096)), ("layer".to_owned(), Value::Text("blocks.3.attn".to_owned()))];
    let payload = Value::Integer(17);
    sink.begin(&Process { pid: std::process::id(), command: "bench".to_owned(), ..Process::default() }).unwrap();
    sink.item(&Item::Thread { thread: 4711, name: "main" }).unwrap();
    let (mut now, mut parent, mut random) = (1_000_000_000, 1_000_000_000, 1u64);
    for number in 0..RANGES {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407); // or gzip had it too easy
        let duration = 900 + (random >> 54);
        // Children come before their parent: two within a third.
        let (depth, start, end) = match number % 3 {
            2 => (0, parent, now + 41),
            _ => (1, now + 37, now + 37 + duration),
        };
        now = end;
        if depth == 0 {
            parent = now + 29;
        }
        let range = Range {
            thread: 4711,
            start,
            end,
            style: RangeStyle::PushPop,
            domain: full.then_some("inference"),
            name: NAMES[number as usize % NAMES.len()],
            depth,
            category: full.then_some("layers"),
            color: full.then_some(0xff76_b900),
            payload: full.then_some(&payload),
            fields: if full { &fields } else { &[] },
            end_thread: None,
            cut: false,
        };
        sink.item(black_box(&Item::Range(range))).unwrap();
    }
    sink.end(&Summary::default(), 0).unwrap();
}

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let named = |end: &str| std::env::temp_dir().join(format!("timeline-{}.{end}", std::process::id()));
    let (trace, database) = (named("json"), named("sqlite"));
    println!(
        "| {RANGES} ranges | ns a range | M ranges/s | of the fastest round | ns of CPU | bytes a range |\n|---|--:|--:|--:|--:|--:|"
    );
    let everything = "domain, category, colour, payload, two fields";
    let plain = |path: &Path, full| write(&mut Chrome::new(File::create(path).expect("a temporary file")), full);
    let gzip = |path: &Path, full| write(&mut Chrome::gzip(File::create(path).expect("a temporary file")), full);
    let sqlite = |path: &Path, full| write(&mut Sqlite::new(path), full);
    row("name and times", &trace, &|path| plain(path, false));
    row("name and times, gzip", &trace, &|path| gzip(path, false));
    row(everything, &trace, &|path| plain(path, true));
    row("the same, gzip", &trace, &|path| gzip(path, true));
    row("name and times, SQLite", &database, &|path| sqlite(path, false));
    row(&format!("{everything}, SQLite"), &database, &|path| sqlite(path, true));
    for path in [trace, database] {
        let _ = std::fs::remove_file(path);
    }
}

fn row(what: &str, path: &Path, write: &dyn Fn(&Path)) {
    let rounds = (0..ROUNDS).map(|_| {
        let (start, cpu) = (Instant::now(), cpu_seconds());
        write(path);
        (start.elapsed().as_secs_f64(), cpu_seconds() - cpu)
    });
    let (mut clock, mut cpu): (Vec<f64>, Vec<f64>) = rounds.unzip();
    clock.sort_by(f64::total_cmp);
    cpu.sort_by(f64::total_cmp);
    let size = std::fs::metadata(path).expect("the file").len();
    let millions = |seconds: f64| RANGES as f64 / seconds / 1e6;
    let (median, fastest, bytes) = (millions(clock[ROUNDS / 2]), millions(clock[0]), size as f64 / RANGES as f64);
    let of_cpu = cpu[0] * 1e9 / RANGES as f64;
    println!("| {what} | {:.0} | {median:.2} | {fastest:.2} | {of_cpu:.0} | {bytes:.1} |", 1000.0 / median);
}

/// What this process has spent on the CPU.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live timespec.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(status, 0, "the time of the process");
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
