//! Programs for the Nsight Systems tests: `workload KIND OUT TIER DOMAIN SEED`.
//!
//! Each writes its own summary to `OUT` as JSON, for comparison with Nsight Systems' recording of the same process.
//! The kind `pair` writes what a push and a pop take instead.
//! `TIER` is `layer` or `subscriber`; `DOMAIN` is `default`, `target` or a name; only `random` reads `SEED`.

use std::error::Error;
use std::fs::{self, File};
use std::hint::black_box;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nvtx_rs::{Attributes, Color, Payload, PushRange, StartRange};
use tracing::span::EnteredSpan;
use tracing::{Span, debug, error, info, info_span, trace, warn};
use tracing_gpu::{Domain, Output, Profiler, Report};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, out, tier, domain, seed] = arguments.as_slice() else {
        return Err("usage: workload KIND OUT TIER DOMAIN SEED".into());
    };
    if kind == "pair" {
        return pair(out);
    }
    let profiler = start(tier, domain)?;
    match kind.as_str() {
        "random" => random(seed.parse()?),
        "bodies" => bodies(),
        "once" => once(),
        "calls" => calls()?,
        "fields" => fields(),
        "events" => events(),
        "threads" => threads()?,
        "open" => return open(profiler, out),
        other => return Err(format!("no workload {other:?}").into()),
    }
    serde_json::to_writer(File::create(out)?, &profiler.summary())?;
    profiler.finish()?;
    Ok(())
}

fn start(tier: &str, domain: &str) -> Result<Profiler, Box<dyn Error>> {
    let profiler = Profiler::builder()
        .bare_fields(true)
        .domain(match domain {
            "default" => Domain::Default,
            "target" => Domain::PerTarget,
            name => Domain::Named(name.to_owned()),
        })
        .filter(Targets::new().with_default(LevelFilter::TRACE))
        .report([Report::Ranges])
        .output(Output::None)
        .build()?;
    match tier {
        "layer" => tracing_subscriber::registry().with(profiler.layer()).try_init()?,
        "subscriber" => tracing::subscriber::set_global_default(profiler.subscriber())?,
        other => return Err(format!("no tier {other:?}").into()),
    }
    Ok(profiler)
}

/// The duration of most ranges of the generated programs. With a rare or long name and cold caches, Nsight Systems
/// takes 0.1 to 0.35 us before it reads its clock. On a busy host that is more than 1 % of 30 us. `bodies` has the
/// short ranges.
const BODY: Duration = Duration::from_micros(100);

/// Computes until the time is over: a body that the scheduler cannot prolong.
fn work(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        black_box(&start);
    }
}

/// Ranges of 0.2, 2 and 50 us, often enough that occasional preemptions do not move the median.
fn bodies() {
    for _ in 0..6_000 {
        info_span!("body of 0.2 us").in_scope(|| work(Duration::from_nanos(200)));
    }
    for _ in 0..6_000 {
        info_span!("body of 2 us").in_scope(|| work(Duration::from_micros(2)));
    }
    for _ in 0..2_000 {
        info_span!("body of 50 us").in_scope(|| work(Duration::from_micros(50)));
    }
}

/// Writes what a push and a pop take together, in nanoseconds: the median of many pairs without spans. Every other pair
/// follows a sleep, after which the tool's code has left the nearest caches, as in a thread of a runtime.
fn pair(out: &str) -> Result<(), Box<dyn Error>> {
    let attributes = Attributes::new().message("pair");
    let mut pairs: Vec<u128> = (0..4_000)
        .map(|number| {
            if number % 2 == 0 {
                thread::sleep(Duration::from_micros(50));
            }
            let start = Instant::now();
            drop(PushRange::new(nvtx_rs::Domain::DEFAULT, &attributes));
            start.elapsed().as_nanos()
        })
        .collect();
    pairs.sort_unstable();
    fs::write(out, pairs[pairs.len() / 2].to_string())?;
    Ok(())
}

/// Names that are used once each: the cost of registering a name with the tool must not be in its one duration.
fn once() {
    // The tool's own first calls take longer than any others, and so does a call after a pause.
    for _ in 0..100 {
        info_span!("first of all").in_scope(|| work(BODY));
    }
    for number in 0..64 {
        info_span!("generic", nvtx.name = %format!("used once {number}")).in_scope(|| work(BODY));
    }
}

/// A random generator of its own (SplitMix64): a seed always gives the same program.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % bound as u64) as usize
    }
}

macro_rules! sites {
    ($($target:literal $name:literal;)*) => {
        [$(|| info_span!(target: $target, $name)),*]
    };
}

/// Call sites, including names that could break a table or a file, and pairs that differ in one detail.
const SITES: [fn() -> Span; 20] = sites! {
    "app" "load";
    "app" "step";
    "app" "Step";
    "app::io" "load";
    "app::io" "read";
    "app::io" "";
    "app::net" "x:load";
    "app::net:x" "load";
    "solver" "iterate";
    "solver" "iterate ";
    "solver" "  blanks  ";
    "solver" "1000";
    "solver" "0.5";
    "quotes" "a \"b\", 'c' and a comma";
    "quotes" "tab\there, \u{1b}[31m";
    "quotes" "%s %d {} \\";
    "größe" "日本語 😀 e\u{301}";
    "größe" "nul\0inside";
    "" "no target";
    "x" "None";
};

fn make_span(numbers: &mut Numbers) -> Span {
    match numbers.below(10) {
        0 => {
            let number = numbers.below(12);
            info_span!(target: "app", "generic", nvtx.name = %format!("layer {number}"), nvtx.category = "layers")
        }
        1 => {
            let letter = ["x", "ä", "日"][numbers.below(3)];
            info_span!(target: "long", "generic", nvtx.name = letter.repeat(numbers.below(2) * 39_900 + 100))
        }
        2 => info_span!(target: "solver", "coloured", nvtx.color = "red", payload = numbers.below(9)),
        3 => info_span!(target: "app::net", "request", nvtx.lifetime = true),
        _ => SITES[numbers.below(SITES.len())](),
    }
}

/// A program from a seed: threads that nest, leave and enter spans in any order, including spans of others.
fn random(seed: u64) {
    let mut numbers = Numbers(seed);
    let threads = 1 + numbers.below(4);
    let shared = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for index in 1..threads {
            let mut numbers = Numbers(seed.wrapping_mul(1_000) + index as u64);
            let shared = &shared;
            let thread = thread::Builder::new().name(format!("random {index}"));
            let started = thread.spawn_scoped(scope, move || random_thread(&mut numbers, shared));
            started.expect("a thread can be started");
        }
        random_thread(&mut numbers, &shared);
    });
}

fn random_thread(numbers: &mut Numbers, shared: &Mutex<Vec<Span>>) {
    let mut open: Vec<EnteredSpan> = Vec::new();
    let mut kept: Vec<Span> = Vec::new();
    for _ in 0..1_500 + numbers.below(1_500) {
        work(Duration::from_nanos(numbers.below(4_000) as u64));
        // Most ranges of a name have the same duration, so that its median is not that of a single one.
        for _ in 0..numbers.below(3) {
            make_span(numbers).in_scope(|| work(BODY));
        }
        match numbers.below(20) {
            0..=6 if open.len() < 6 => open.push(make_span(numbers).entered()),
            // Once more, whether it is open now, here or elsewhere, or not.
            7..=8 if open.len() < 6 && !kept.is_empty() => {
                open.push(kept[numbers.below(kept.len())].clone().entered());
            }
            9 if !open.is_empty() => kept.push(open[numbers.below(open.len())].clone()),
            // Out of order, unless it is the last.
            10..=11 if !open.is_empty() => drop(open.remove(numbers.below(open.len()))),
            12 if !kept.is_empty() => {
                let span = kept.remove(numbers.below(kept.len()));
                span.record("payload", 7);
                lock(shared).push(span);
            }
            13 => kept.extend(lock(shared).pop()),
            14 if kept.len() > 6 => kept.truncate(2),
            // More threads than cores would be preempted all the time, so they rest, with nothing open.
            15 if open.is_empty() => thread::sleep(Duration::from_micros(100)),
            _ => drop(open.pop()),
        }
    }
    while !open.is_empty() {
        drop(open.remove(numbers.below(open.len())));
    }
    drop(kept);
    lock(shared).clear();
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Category, colour and payload, given to `nvtx-rs` directly.
fn calls() -> Result<(), Box<dyn Error>> {
    let app = nvtx_rs::Domain::named("attributes")?;
    let default = nvtx_rs::Domain::DEFAULT;
    let payloads = [
        ("u64", Payload::U64(u64::MAX - 1)),
        ("i64", Payload::I64(i64::MIN + 2)),
        ("f64", Payload::F64(-0.1)),
        ("u32", Payload::U32(u32::MAX - 3)),
        ("i32", Payload::I32(i32::MIN + 4)),
        ("f32", Payload::F32(0.1)),
    ];
    for (name, payload) in payloads {
        drop(PushRange::new(default, &Attributes::new().message(name).payload(payload)));
        drop(StartRange::new(app, &Attributes::new().registered(app.register(name)).payload(payload)));
        app.mark(&Attributes::new().message(name).payload(payload));
    }
    drop(PushRange::new(app, &Attributes::new().message("argb").color(Color::argb(0x8123_4567))));
    drop(PushRange::new(default, &Attributes::new().message("rgb").color(Color::rgb(0x12, 0x34, 0x56))));
    default.name_category(7, "seven");
    app.name_category(7, "seven of attributes");
    let (io, net) = (app.category("io"), app.category("net"));
    drop(PushRange::new(app, &Attributes::new().message("io").category(io)));
    drop(StartRange::new(app, &Attributes::new().message("net").category(net)));
    drop(PushRange::new(app, &Attributes::new().message("seven of attributes").category(7u32)));
    drop(PushRange::new(default, &Attributes::new().message("seven").category(7u32)));
    let all = Attributes::new().message("all").color(Color::argb(0xfedc_ba98)).category(net).payload(-5i32);
    drop(PushRange::new(app, &all));
    drop(PushRange::new(default, &Attributes::new().message("none")));
    Ok(())
}

/// The same, given as fields of spans.
fn fields() {
    drop(info_span!("u64", nvtx.payload = u64::MAX - 1).entered());
    drop(info_span!("i64", nvtx.payload = i64::MIN + 2).entered());
    drop(info_span!("f64", payload = -0.1).entered());
    drop(info_span!("bool", nvtx.payload = true).entered());
    drop(info_span!("argb", nvtx.color = 0x8123_4567_u32).entered());
    drop(info_span!("rgb", color = "#123456").entered());
    drop(info_span!("css", nvtx.color = "rebeccapurple").entered());
    drop(info_span!("io", nvtx.category = "io").entered());
    drop(info_span!("net", category = "net").entered());
    drop(info_span!("seven", nvtx.category = 7).entered());
    let changed = info_span!("changed", nvtx.payload = 1, nvtx.color = "red", nvtx.category = "io");
    changed.in_scope(|| changed.record("nvtx.payload", 2).record("nvtx.color", "lime").record("nvtx.category", "net"));
    drop(changed.entered());
    drop(info_span!("lifetime", nvtx.lifetime = true, nvtx.payload = 3, nvtx.color = "blue", nvtx.category = "io"));
    drop(info_span!("none", other = 1).entered());
}

/// Events: their message is the mark's, their level its category.
fn events() {
    let _outer = info_span!("outer").entered();
    error!("disk is full");
    warn!(left = 3, "{} of {} done", 7, 10);
    info!(target: "elsewhere", "größe 日本語");
    debug!("debugging");
    trace!("tracing");
    info!(answer = 42, text = "no message");
}

/// Threads with names that Nsight Systems is to show.
fn threads() -> Result<(), Box<dyn Error>> {
    drop(info_span!("on main").entered());
    for name in ["loader", "größe", "a name that is longer than the kernel's fifteen"] {
        let thread = thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(|| drop(info_span!("on", nvtx.name = thread::current().name()).entered()))?;
        thread.join().map_err(|_| "the thread panicked")?;
    }
    Ok(())
}

/// Ranges that are open at the end: on this thread, on a running one, and on one that has ended; and a lifetime. The
/// summary is from before the finish, because there is none afterwards; `OUT.txt` has the table from the finish.
fn open(profiler: Profiler, out: &str) -> Result<(), Box<dyn Error>> {
    drop(info_span!("closed").entered());
    let ended = thread::spawn(|| std::mem::forget(info_span!("open on an ended thread").entered()));
    ended.join().map_err(|_| "the thread panicked")?;
    let barrier = Arc::new(Barrier::new(2));
    let theirs = Arc::clone(&barrier);
    let running = thread::spawn(move || {
        let _closed = info_span!("open here and there").entered();
        drop(info_span!("closed").entered());
        theirs.wait();
        theirs.wait();
    });
    barrier.wait();
    let _outer = info_span!("open here and there").entered();
    let _inner = info_span!("open on main").entered();
    let _again = info_span!("open here and there").entered();
    let _request = info_span!("not closed", nvtx.lifetime = true);
    serde_json::to_writer(File::create(out)?, &profiler.summary())?;
    profiler.finish()?;
    barrier.wait();
    running.join().map_err(|_| "the thread panicked")?;
    Ok(())
}
