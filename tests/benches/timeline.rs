//! The speed of writing a timeline, and its cost for the program: `cargo bench -p tests --features perfetto --bench
//! timeline`.
//!
//! First the files alone: a million ranges, two deep, on one thread, to a temporary file; then through gzip, in
//! Perfetto's format, and with every attribute of a range; then both as a database, and a trace and a database at once.
//! Four results are printed: the median and the fastest round by the clock; the fastest in processor time (of the
//! process and of the system for it), which is comparable while other programs run; and the size.
//!
//! Then spans of a program whose profiler writes such files, with 0, 2 and 8 fields: the additional cost of a span for
//! its thread and for the profiler's own thread; and the same with tracing-chrome. Each runs in a process of its own,
//! in turns; the cost on the thread is that of the fastest of many short passes.
//!
//! `-- only WORDS` measures the rows whose name has all of the words; `-- once RANGES` measures each file once, for a
//! tool that counts instructions.
#![allow(unsafe_code)] // reads the processor time

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

use range_files::{Chrome, Perfetto, Sqlite};
use range_model::timeline::{Item, Range, Sink, Value};
use tracing_gpu::Summary;
use tracing_gpu::summary::{Process, RangeStyle};

#[path = "timeline/program.rs"]
mod program;

const RANGES: u64 = 1_000_000;
const ROUNDS: usize = 7;
const NAMES: [&str; 5] = ["Load Module", "Set input data", "Module running", "conv2d_0", "tokio task poll"];

#[allow(clippy::needless_update)] // `Process` may get more fields
fn write(sinks: &mut [Box<dyn Sink>], full: bool, ranges: u64) {
    let fields = [("rows", Value::Unsigned(4096)), ("layer", Value::Text("blocks.3.attn"))];
    let payload = Value::Integer(17);
    let mut process = Process::default();
    process.pid = std::process::id();
    process.command = "bench".to_owned();
    for sink in sinks.iter_mut() {
        sink.begin(&process).unwrap();
        sink.item(&Item::Thread { thread: 4711, name: "main" }).unwrap();
    }
    let (mut now, mut parent, mut random) = (1_000_000_000, 1_000_000_000, 1u64);
    for number in 0..ranges {
        // Otherwise gzip would have it too easy.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let duration = 900 + (random >> 54);
        // Children come before their parent: two in each third range.
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
            payload: full.then_some(payload),
            fields: if full { &fields } else { &[] },
            span: number + 7,
            call: number + 7,
            parent: if depth == 0 { 0 } else { number + 5 },
            ..Range::default()
        };
        for sink in sinks.iter_mut() {
            sink.item(black_box(&Item::Range(range.clone()))).unwrap();
        }
    }
    sinks.iter_mut().for_each(|sink| sink.end(&Summary::default(), 0).unwrap());
}

/// The files that are written.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Files {
    Trace,
    Compressed,
    Perfetto,
    Database,
    Both,
}

impl Files {
    const ALL: [Self; 5] = [Self::Trace, Self::Compressed, Self::Perfetto, Self::Database, Self::Both];

    const fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Compressed => "trace.gz",
            Self::Perfetto => "perfetto",
            Self::Database => "database",
            Self::Both => "both",
        }
    }

    fn paths(self) -> Vec<PathBuf> {
        let named = |end: &str| std::env::temp_dir().join(format!("timeline-{}.{end}", std::process::id()));
        match self {
            Self::Trace => vec![named("json")],
            Self::Compressed => vec![named("json.gz")],
            Self::Perfetto => vec![named("pftrace")],
            Self::Database => vec![named("sqlite")],
            Self::Both => vec![named("json"), named("sqlite")],
        }
    }
}

fn sink(path: &Path) -> Box<dyn Sink> {
    let file = || std::fs::File::create(path).expect("a temporary file");
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => Box::new(Chrome::new(file())),
        Some("gz") => Box::new(Chrome::gzip(file())),
        Some("pftrace") => Box::new(Perfetto::new(file())),
        _ => Box::new(Sqlite::new(path)),
    }
}

/// The attributes of the ranges.
fn shape(full: bool) -> &'static str {
    if full { "everything" } else { "name and times" }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.iter().any(|argument| argument == "--test") {
        return;
    }
    if let [_, child, who, files, fields] = arguments.as_slice()
        && child == "program"
    {
        let files = Files::ALL.into_iter().find(|known| known.name() == files);
        return program::run(who, files, fields);
    }
    let after = |word: &str| arguments.split(|argument| argument == word).nth(1).unwrap_or_default();
    let only = after("only");
    let wanted =
        |name: &str| only.iter().all(|word| name.split(' ').any(|part| part.trim_end_matches(',') == word.as_str()));
    let once: Option<u64> = after("once").first().and_then(|ranges| ranges.parse().ok());
    println!("\"Everything\" is a domain, a category, a colour, a payload and two fields.\n");
    println!(
        "| {RANGES} ranges to files | ns a range | M ranges/s | of the fastest round | ns of CPU | bytes a range |\n|---|--:|--:|--:|--:|--:|"
    );
    for full in [false, true] {
        for files in Files::ALL {
            let name = format!("{}, {}", shape(full), files.name());
            match once {
                Some(ranges) if wanted(&name) => drop(timed(files, full, ranges)),
                None if wanted(&name) => row(&name, files, full),
                _ => continue,
            };
        }
    }
    if once.is_none() {
        program::table(&wanted);
    }
}

/// Seconds by the clock and of processor time, and bytes.
fn timed(files: Files, full: bool, ranges: u64) -> (f64, f64, u64) {
    let paths = files.paths();
    let (start, cpu) = (Instant::now(), cpu_seconds());
    write(&mut paths.iter().map(|path| sink(path)).collect::<Vec<_>>(), full, ranges);
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let bytes = paths.iter().map(|path| std::fs::metadata(path).expect("the file").len()).sum();
    paths.iter().for_each(|path| drop(std::fs::remove_file(path)));
    (seconds, cpu, bytes)
}

fn row(what: &str, files: Files, full: bool) {
    let rounds: Vec<(f64, f64, u64)> = (0..ROUNDS).map(|_| timed(files, full, RANGES)).collect();
    let sorted = |pick: fn(&(f64, f64, u64)) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(pick).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let (clock, cpu) = (sorted(|round| round.0), sorted(|round| round.1));
    let millions = |seconds: f64| RANGES as f64 / seconds / 1e6;
    let (median, fastest, bytes) =
        (millions(clock[ROUNDS / 2]), millions(clock[0]), rounds[0].2 as f64 / RANGES as f64);
    let of_cpu = cpu[0] * 1e9 / RANGES as f64;
    println!("| {what} | {:.0} | {median:.2} | {fastest:.2} | {of_cpu:.0} | {bytes:.1} |", 1000.0 / median);
}

/// Processor time of this process.
fn cpu_seconds() -> f64 {
    seconds_of(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn seconds_of(clock: libc::clockid_t) -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live timespec.
    let status = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(status, 0, "the time of the process or thread");
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
