//! Spans of a program whose profiler writes timelines: their cost for its thread, and for the profiler's. For
//! comparison, tracing-chrome, which also writes traces with fields of spans.

use std::any::Any;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use tracing::info_span;
use tracing_gpu::{Domain, Note, Output, Profiler};
use tracing_subscriber::layer::Layer;
use tracing_subscriber::prelude::*;

use super::{Files, cpu_seconds, seconds_of};

const SPANS: u64 = 5_000;
const PASSES: usize = 40;
const ROUNDS: usize = 5;

/// A span of this number.
type Span = fn(u64);

/// The fields of a span.
const FIELDS: [(&str, Span); 6] = [
    ("no fields", |_| info_span!("Module running").in_scope(|| black_box(()))),
    ("2 numbers", |n| info_span!("Module running", rows = n, ratio = 0.5).in_scope(|| black_box(()))),
    ("2 fields", |n| info_span!("Module running", rows = n, layer = "blocks.3.attn").in_scope(|| black_box(()))),
    ("8 fields", |n| {
        let span = info_span!(
            "Module running",
            rows = n,
            layer = "blocks.3.attn",
            columns = 4096,
            ratio = 0.5,
            model = "resnet-50",
            cached = true,
            offset = -7,
            device = "cuda:0",
        );
        span.in_scope(|| black_box(()));
    }),
    ("2 formatted", |n| {
        let (rows, shape) = (std::num::NonZeroU64::new(n + 1), [n, 64]);
        info_span!("Module running", ?rows, ?shape).in_scope(|| black_box(()));
    }),
    ("2 fields and NVTX", |n| {
        let span = info_span!(
            "Module running",
            nvtx.category = "layers",
            nvtx.color = 0x76_b900,
            nvtx.payload = n,
            rows = 4096,
            layer = "blocks.3.attn",
        );
        span.in_scope(|| black_box(()));
    }),
];

/// The code that writes the timelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Subscriber,
    Layer,
    /// tracing-chrome; without a file, a registry with an empty layer.
    Chrome,
}

impl Who {
    const ALL: [Self; 3] = [Self::Subscriber, Self::Layer, Self::Chrome];

    const fn name(self) -> &'static str {
        match self {
            Self::Subscriber => "subscriber",
            Self::Layer => "layer",
            Self::Chrome => "tracing-chrome",
        }
    }

    /// Becomes the process's subscriber. Dropping the result ends the files.
    fn install(self, paths: &[PathBuf]) -> Box<dyn Any> {
        if self == Self::Chrome {
            let Some(path) = paths.first() else {
                tracing_subscriber::registry().with(Empty).init();
                return Box::new(());
            };
            let builder = tracing_chrome::ChromeLayerBuilder::new().file(path).include_args(true);
            let (layer, guard) = builder.build();
            tracing_subscriber::registry().with(layer).init();
            return Box::new(guard);
        }
        let builder = Profiler::builder().output(Output::None).domain(Domain::Named("inference".to_owned()));
        let builder =
            paths.iter().fold(builder, |builder, path| match path.extension().is_some_and(|end| end == "sqlite") {
                true => builder.sqlite(path),
                false => builder.trace(path),
            });
        let profiler = builder.build().expect("a profiler");
        match self {
            Self::Layer => tracing_subscriber::registry().with(profiler.layer()).init(),
            _ => tracing::subscriber::set_global_default(profiler.subscriber()).expect("no other subscriber"),
        }
        Box::new(profiler)
    }
}

struct Empty;

impl<S: tracing::Subscriber> Layer<S> for Empty {}

/// The child. Prints the nanoseconds per span on its thread and on other threads, the losses, and the bytes.
pub(crate) fn run(who: &str, files: Option<Files>, fields: &str) {
    let who = Who::ALL.into_iter().find(|known| known.name() == who).expect("one of these");
    let (_, span) = FIELDS.into_iter().find(|(name, _)| *name == fields).expect("some of these");
    let paths = files.map(Files::paths).unwrap_or_default();
    let spans = |count: u64| (0..count).for_each(span);
    let installed = who.install(&paths);
    let (all, own) = (cpu_seconds(), seconds_of(libc::CLOCK_THREAD_CPUTIME_ID));
    spans(SPANS); // warm
    let mut best = f64::MAX;
    for _ in 0..PASSES {
        let start = Instant::now();
        spans(SPANS);
        best = best.min(start.elapsed().as_nanos() as f64 / SPANS as f64);
    }
    let mut lost = 0;
    // Its own thread writes; this thread writes the rest at the end.
    let count = (SPANS * (1 + PASSES as u64)) as f64;
    let on_thread = best * 1e-9 * count;
    match installed.downcast::<Profiler>() {
        Ok(profiler) => {
            lost = profiler.summary().notes.iter().filter(|note| matches!(note, Note::TimelineFull { .. })).count();
            profiler.finish().expect("files are written");
        }
        Err(guard) => drop(guard),
    }
    let others = (cpu_seconds() - all) - (seconds_of(libc::CLOCK_THREAD_CPUTIME_ID) - own).min(on_thread);
    let bytes: u64 = paths.iter().filter_map(|path| std::fs::metadata(path).ok()).map(|file| file.len()).sum();
    println!("RESULT {best} {} {lost} {}", others * 1e9 / count, bytes as f64 / count);
    paths.iter().for_each(|path| drop(std::fs::remove_file(path)));
}

pub(crate) fn table(wanted: &dyn Fn(&str) -> bool) {
    let mut best: BTreeMap<(usize, Who, usize), [f64; 3]> = BTreeMap::new();
    let all = [None, Some(Files::Trace), Some(Files::Compressed), Some(Files::Database), Some(Files::Both)];
    let name = |fields: &str, who: Who, files: Option<Files>| {
        format!("{fields}, {}, {}", who.name(), files.map_or("no timeline", Files::name))
    };
    for _ in 0..ROUNDS {
        for (shape, (fields, _)) in FIELDS.into_iter().enumerate() {
            for who in Who::ALL {
                for (place, files) in all.into_iter().enumerate() {
                    let is_there = who != Who::Chrome || place < 2;
                    if !is_there || files.is_some() && !wanted(&name(fields, who, files)) {
                        continue;
                    }
                    let now = child(who, files, fields);
                    let least = best.entry((shape, who, place)).or_insert([f64::MAX; 3]);
                    *least = [least[0].min(now[0]), least[1].min(now[1]), least[2].min(now[3])];
                }
            }
        }
    }
    println!(
        "\n| spans of a program | ns a span on its thread | - no timeline | ns of CPU to write it | bytes |\n|---|--:|--:|--:|--:|"
    );
    for (&(shape, who, place), [own, others, bytes]) in &best {
        let without = best.get(&(shape, who, 0)).map_or(0.0, |without| without[0]);
        let name = name(FIELDS[shape].0, who, all[place]);
        println!("| {name} | {own:.0} | {:+.0} | {others:.0} | {bytes:.0} |", own - without);
    }
}

/// Runs a child. Returns nanoseconds per span on its thread, those of the writer's thread, the losses, and the bytes.
fn child(who: Who, files: Option<Files>, fields: &str) -> [f64; 4] {
    let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
    command.args(["program", who.name(), files.map_or("none", Files::name), fields]);
    command.env_remove("TRACING_GPU").env_remove("NVTX_INJECTION64_PATH");
    let output = command.output().expect("a child process");
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("RESULT "));
    let line = line.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
    let numbers: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(numbers[2] == 0.0, "ranges were lost");
    numbers.try_into().expect("four numbers")
}
