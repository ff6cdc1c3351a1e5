//! How fast a timeline is written: `cargo bench -p tests --features perfetto --bench timeline`.
//!
//! A million ranges, two deep, on one thread, to a file in the folder for temporary files; then the same through gzip, and with everything that a range can
//! have. The median of the rounds and the fastest, and the size.

use std::fs::File;
use std::hint::black_box;
use std::time::Instant;

use tracing_gpu::internals::Chrome;
use tracing_gpu::internals::timeline::{Item, Range, Sink, Value};
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
    let path = std::env::temp_dir().join(format!("timeline-{}.json", std::process::id()));
    println!(
        "| {RANGES} ranges | ns a range | M ranges/s | of the fastest round | bytes a range |\n|---|--:|--:|--:|--:|"
    );
    for (what, full, gzip) in [
        ("name and times", false, false),
        ("name and times, gzip", false, true),
        ("domain, category, colour, payload, two fields", true, false),
        ("the same, gzip", true, true),
    ] {
        let mut rounds: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let file = File::create(&path).expect("a temporary file");
                let start = Instant::now();
                if gzip {
                    write(&mut Chrome::gzip(file), full)
                } else {
                    write(&mut Chrome::new(file), full)
                }
                start.elapsed().as_secs_f64()
            })
            .collect();
        rounds.sort_by(f64::total_cmp);
        let seconds = rounds[ROUNDS / 2];
        let size = std::fs::metadata(&path).expect("the file").len();
        let millions = |seconds: f64| RANGES as f64 / seconds / 1e6;
        let (median, fastest, bytes) = (millions(seconds), millions(rounds[0]), size as f64 / RANGES as f64);
        println!("| {what} | {:.0} | {median:.2} | {fastest:.2} | {bytes:.1} |", 1000.0 / median);
    }
    let _ = std::fs::remove_file(&path);
}
