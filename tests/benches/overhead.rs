//! The cost of a span: `cargo bench -p tests --features nvidia --bench overhead`.
//!
//! Every contestant runs in a process of its own, as the global subscriber, because a scoped one costs more. The
//! processes take turns, round by round, so that a drift of the machine affects all alike; each figure is the median of
//! the rounds. Beside it is the least: on a virtual machine with a shared processor, the same process may take 1.6
//! times as long a tenth of a second later, and only the least shows the code's own cost. `-- quick` runs fewer rounds.

#![allow(unsafe_code)] // the counting allocator

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use tracing::info_span;

#[path = "overhead/contestants.rs"]
mod contestants;
use contestants::Contestant;

/// Counts allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes on to the system's allocator with unchanged arguments; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `block` came from `System` with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The work of one iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    threads: usize,
    fields: usize,
    depth: usize,
    body: bool,
}

const SHAPES: [Shape; 10] = [
    Shape { threads: 1, fields: 0, depth: 1, body: false },
    Shape { threads: 1, fields: 0, depth: 1, body: true },
    Shape { threads: 1, fields: 2, depth: 1, body: false },
    Shape { threads: 1, fields: 2, depth: 1, body: true },
    Shape { threads: 1, fields: 0, depth: 8, body: false },
    Shape { threads: 1, fields: 0, depth: 8, body: true },
    Shape { threads: 2, fields: 0, depth: 1, body: false },
    Shape { threads: 2, fields: 0, depth: 1, body: true },
    Shape { threads: 2, fields: 2, depth: 1, body: false },
    Shape { threads: 2, fields: 0, depth: 8, body: false },
];

impl Shape {
    fn title(self) -> String {
        let nesting = if self.depth == 1 { "flat".to_owned() } else { format!("nested {}", self.depth) };
        let body = if self.body { "40 ns body" } else { "empty" };
        let s = if self.threads == 1 { "" } else { "s" };
        format!("{} thread{s}, {} fields, {nesting}, {body}", self.threads, self.fields)
    }
}

/// Work of some 40 ns that cannot overlap with a span: a chain of dependent multiplications.
#[inline(always)]
fn work(steps: u32) {
    let mut value = black_box(0x9e37_79b9_u64);
    for _ in 0..steps {
        value = value.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ (value >> 29);
    }
    black_box(value);
}

/// Steps that take 40 ns here.
fn calibrate_work() -> u32 {
    let time = |steps: u32| {
        let best = (0..50).map(|_| {
            let start = Instant::now();
            for _ in 0..1_000 {
                work(black_box(steps));
            }
            start.elapsed().as_nanos() as f64 / 1_000.0
        });
        best.fold(f64::MAX, f64::min)
    };
    let (short, long) = (time(10), time(110));
    let per_step = (long - short) / 100.0;
    ((40.0 - (short - 10.0 * per_step)) / per_step).round().max(1.0) as u32
}

#[inline(never)]
fn spans(shape: Shape, steps: u32, iterations: u64) {
    #[inline(always)]
    fn body(shape: Shape, steps: u32) {
        if shape.body {
            work(steps);
        }
    }
    match (shape.depth, shape.fields) {
        (1, 0) => (0..iterations).for_each(|_| info_span!("flat").in_scope(|| body(shape, steps))),
        (1, _) => (0..iterations).for_each(|i| info_span!("fields", a = i, b = "text").in_scope(|| body(shape, steps))),
        _ => {
            for _ in 0..iterations / 8 {
                let _s1 = info_span!("n1").entered();
                let _s2 = info_span!("n2").entered();
                let _s3 = info_span!("n3").entered();
                let _s4 = info_span!("n4").entered();
                let _s5 = info_span!("n5").entered();
                let _s6 = info_span!("n6").entered();
                let _s7 = info_span!("n7").entered();
                let _s8 = info_span!("n8").entered();
                for _ in 0..8 {
                    body(shape, steps);
                }
            }
        }
    }
}

/// Nanoseconds and allocations of a span, in the best of several passes on each thread.
fn measure(shape: Shape, run: impl Fn(Shape, u64) + Sync) -> (f64, f64) {
    const ITERATIONS: u64 = 40_000;
    let pass = || {
        run(shape, ITERATIONS); // warm
        let allocations = ALLOCATIONS.get();
        let passes = (0..7).map(|_| {
            let start = Instant::now();
            run(shape, ITERATIONS);
            start.elapsed().as_nanos() as f64 / ITERATIONS as f64
        });
        let best = passes.fold(f64::MAX, f64::min); // the pass of a few milliseconds that nothing interrupted
        (best, (ALLOCATIONS.get() - allocations) as f64 / (7 * ITERATIONS) as f64)
    };
    let results: Vec<(f64, f64)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..shape.threads).map(|_| scope.spawn(pass)).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let worst = |pick: fn(&(f64, f64)) -> f64| results.iter().map(pick).fold(0.0, f64::max);
    (worst(|result| result.0), worst(|result| result.1))
}

/// The child: one contestant, all shapes, a line each.
fn run_contestant(name: &str, steps: u32) {
    let contestant: Contestant = name.parse().unwrap_or_else(|()| panic!("no contestant `{name}`"));
    let _keep = contestant.install();
    for (index, shape) in SHAPES.into_iter().enumerate() {
        let (ns, allocations) = match contestant {
            Contestant::Clock => measure(shape, |shape, n| {
                contestants::readings(shape.depth, n, || {
                    if shape.body {
                        work(steps);
                    }
                })
            }),
            #[cfg(feature = "nvidia")]
            Contestant::Fastrace => measure(shape, |shape, n| {
                contestants::fastrace_spans(shape.depth, shape.fields, n, || {
                    if shape.body {
                        work(steps);
                    }
                })
            }),
            _ => measure(shape, |shape, n| spans(shape, steps, n)),
        };
        println!("RESULT {index} {ns} {allocations}");
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn least(results: &[(f64, f64)]) -> f64 {
    results.iter().map(|result| result.0).fold(f64::INFINITY, f64::min)
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, child, name, steps, ..] = arguments.as_slice()
        && child == "contestant"
    {
        return run_contestant(name, steps.parse().expect("steps"));
    }
    let rounds = if arguments.iter().any(|word| word == "quick") { 3 } else { 25 };
    let only: Option<&String> = arguments.iter().skip_while(|word| *word != "only").nth(1);
    let steps = calibrate_work();
    let mut results: BTreeMap<(usize, Contestant), Vec<(f64, f64)>> = BTreeMap::new();
    for round in 0..rounds {
        eprint!("\rround {} of {rounds}", round + 1);
        for contestant in Contestant::all() {
            if only.is_some_and(|only| !contestant.name().contains(only.as_str()) && contestant != Contestant::Floor) {
                continue;
            }
            let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
            command.args(["contestant", contestant.name(), &steps.to_string()]).env("TRACING_GPU", "out=none");
            command.env_remove("NVTX_INJECTION64_PATH");
            let output = command.output().expect("a child process");
            assert!(output.status.success(), "{}: {}", contestant.name(), String::from_utf8_lossy(&output.stderr));
            for line in String::from_utf8_lossy(&output.stdout).lines() {
                if let Some(rest) = line.strip_prefix("RESULT ") {
                    let numbers: Vec<f64> = rest.split(' ').filter_map(|word| word.parse().ok()).collect();
                    results.entry((numbers[0] as usize, contestant)).or_default().push((numbers[1], numbers[2]));
                }
            }
        }
    }
    eprintln!("\r");
    for (index, shape) in SHAPES.iter().enumerate() {
        println!("\n{}", shape.title());
        println!(
            "  {:<34} {:>9} {:>9} {:>9} {:>9} {:>9} {:>12}",
            "", "ns/span", "- floor", "x floor", "least", "- floor", "allocs/span"
        );
        let floors = results.get(&(index, Contestant::Floor)).cloned().unwrap_or_default();
        for ((_, contestant), all) in results.iter().filter(|((shape, _), _)| *shape == index) {
            // Relative to the floor of the same round, so that a slow phase of the machine does not count as a
            // difference.
            let against = |compare: fn(f64, f64) -> f64| {
                median(all.iter().zip(&floors).map(|(own, floor)| compare(own.0, floor.0)).collect())
            };
            let ns = median(all.iter().map(|result| result.0).collect());
            let allocations = median(all.iter().map(|result| result.1).collect());
            let (above, ratio) = (against(|own, floor| own - floor), against(|own, floor| own / floor));
            let least = least(all);
            let least_above = least - self::least(&floors);
            println!(
                "  {:<34} {ns:>9.1} {above:>+9.1} {ratio:>8.2}x {least:>9.1} {least_above:>+9.1} {allocations:>12.5}",
                contestant.title()
            );
        }
    }
    println!("\nMedians of {rounds} rounds; body of {steps} steps, calibrated to 40 ns.");
}
