//! The cost of following futures: `cargo bench -p tests --features nvidia,peers --bench requests`.
//!
//! A request is a future with a span. It awaits two futures with spans of their own, each of which yields, and enters
//! two plain spans. Requests whose futures yield more often show the cost of a poll, and what is left that of a call.
//!
//! Each contestant runs in a process of its own, and the processes take turns, as in the benchmark `overhead`. Figures
//! are the least of the rounds. `-- quick` runs fewer rounds.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::process::Command;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tracing::{Instrument as _, info_span};
use tracing_gpu::{Output, Profiler};
use tracing_subscriber::prelude::*;

/// How often each inner future yields, in the two kinds of request.
const YIELDS: [u32; 2] = [1, 20];
const REQUESTS: u32 = 4_000;
const PASSES: usize = 9;
const CALLS: f64 = 3.0;

/// Polls of a request, those that drop a future included.
fn polls(yields: u32) -> f64 {
    f64::from(2 * (yields + 2) + (2 * yields + 2))
}

struct Yields(u32);

impl Future for Yields {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        Poll::Pending
    }
}

async fn request(yields: u32) {
    Yields(yields).instrument(info_span!("first")).await;
    info_span!("plain").in_scope(|| black_box(()));
    Yields(yields).instrument(info_span!("second")).await;
    info_span!("another").in_scope(|| black_box(()));
}

fn serve(yields: u32) {
    poll_until_ready(pin!(request(yields).instrument(info_span!("request"))));
}

fn poll_until_ready(mut future: Pin<&mut impl Future>) {
    let mut context = Context::from_waker(Waker::noop());
    while future.as_mut().poll(&mut context).is_pending() {}
}

/// Nanoseconds of a request, in the best of several passes.
fn measure(yields: u32, serve: impl Fn(u32)) -> f64 {
    (0..1_000).for_each(|_| serve(yields)); // warm
    let passes = (0..PASSES).map(|_| {
        let start = Instant::now();
        (0..REQUESTS).for_each(|_| serve(yields));
        start.elapsed().as_nanos() as f64 / f64::from(REQUESTS)
    });
    passes.fold(f64::MAX, f64::min)
}

struct Empty;

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Empty {}

/// The name of a contestant, its title, and whether it was built.
const CONTESTANTS: [(&str, &str, bool); 9] = [
    ("nobody", "no subscriber", true),
    ("floor", "registry + empty layer (the floor)", true),
    ("layer", "our layer", true),
    ("layer-timeline", "our layer, with a timeline", true),
    ("subscriber", "our subscriber", true),
    ("nvidia", "NVIDIA's NvtxLayer", cfg!(feature = "nvidia")),
    ("timing", "tracing-timing", cfg!(feature = "peers")),
    ("opentelemetry", "tracing-opentelemetry, not exported", cfg!(feature = "peers")),
    ("fastrace", "fastrace, not exported", cfg!(feature = "nvidia")),
];

/// Makes this contestant the process's subscriber. The caller keeps the result alive.
fn install(name: &str) -> Box<dyn Any> {
    let builder = Profiler::builder().output(Output::None);
    let (builder, name) = match name.strip_suffix("-timeline") {
        Some(name) => (builder.trace("/dev/null"), name),
        None => (builder, name),
    };
    let profiler = || builder.build().expect("a profiler");
    match name {
        "floor" => tracing_subscriber::registry().with(Empty).init(),
        "layer" => {
            let profiler = profiler();
            tracing_subscriber::registry().with(profiler.layer()).init();
            return Box::new(profiler);
        }
        "subscriber" => {
            let profiler = profiler();
            tracing::subscriber::set_global_default(profiler.subscriber()).expect("no other subscriber");
            return Box::new(profiler);
        }
        #[cfg(feature = "nvidia")]
        "nvidia" => tracing_subscriber::registry().with(nvtx::tracing::NvtxLayer::default()).init(),
        #[cfg(feature = "peers")]
        "timing" => {
            let histogram = || tracing_timing::Histogram::new_with_max(1_000_000_000, 2).expect("it has bounds");
            let layer = tracing_timing::Builder::default().layer(histogram);
            tracing_subscriber::registry().with(layer).init();
        }
        #[cfg(feature = "peers")]
        "opentelemetry" => {
            use opentelemetry::trace::TracerProvider as _;
            let provider = opentelemetry_sdk::trace::SdkTracerProvider::builder().build();
            let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("requests"));
            tracing_subscriber::registry().with(layer).init();
            return Box::new(provider);
        }
        #[cfg(feature = "nvidia")]
        "fastrace" => fastrace::set_reporter(Forgetful, fastrace::collector::Config::default()),
        _ => {}
    }
    Box::new(())
}

/// The same request with fastrace's own spans, and what takes them.
#[cfg(feature = "nvidia")]
mod fastrace_request {
    use fastrace::collector::{Reporter, SpanContext, SpanRecord};
    use fastrace::future::FutureExt as _;
    use fastrace::local::LocalSpan;

    use super::*;

    pub(super) struct Forgetful;

    impl Reporter for Forgetful {
        fn report(&mut self, _: Vec<SpanRecord>) {}
    }

    pub(super) fn serve(yields: u32) {
        let request = async {
            for name in ["first", "second"] {
                Yields(yields).in_span(fastrace::Span::enter_with_local_parent(name)).await;
                let _plain = LocalSpan::enter_with_local_parent("plain");
                black_box(());
            }
        };
        let root = fastrace::Span::root("request", SpanContext::random());
        poll_until_ready(pin!(request.in_span(root)));
    }
}
#[cfg(feature = "nvidia")]
use fastrace_request::Forgetful;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, child, name, ..] = arguments.as_slice()
        && child == "contestant"
    {
        let _keep = install(name);
        let serve = match name.as_str() {
            #[cfg(feature = "nvidia")]
            "fastrace" => fastrace_request::serve,
            _ => serve,
        };
        return YIELDS.iter().for_each(|yields| println!("RESULT {}", measure(*yields, serve)));
    }
    let rounds = if arguments.iter().any(|word| word == "quick") { 3 } else { 15 };
    let mut least: BTreeMap<usize, [f64; 2]> = BTreeMap::new();
    for round in 0..rounds {
        eprint!("\rround {} of {rounds}", round + 1);
        for (index, (name, ..)) in CONTESTANTS.iter().enumerate().filter(|(_, (.., is_built))| *is_built) {
            let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
            command.args(["contestant", name]).env("TRACING_GPU", "out=none").env_remove("NVTX_INJECTION64_PATH");
            let output = command.output().expect("a child process");
            let text = String::from_utf8_lossy(&output.stdout);
            let results: Vec<f64> =
                text.lines().filter_map(|line| line.strip_prefix("RESULT ")?.parse().ok()).collect();
            let [few, many] = results[..] else { panic!("{name}: {}", String::from_utf8_lossy(&output.stderr)) };
            let best = least.entry(index).or_insert([f64::MAX; 2]);
            *best = [best[0].min(few), best[1].min(many)];
        }
    }
    let floor = least.get(&1).copied().unwrap_or_default();
    println!("\r{:<36} {:>10} {:>9} {:>14} {:>14}", "ns", "a request", "- floor", "a poll - floor", "a call - floor");
    for (index, [few, many]) in &least {
        let [above, above_many] = [few - floor[0], many - floor[1]];
        let poll = (above_many - above) / (polls(YIELDS[1]) - polls(YIELDS[0]));
        let call = (above - poll * polls(YIELDS[0])) / CALLS;
        let (_, title, _) = CONTESTANTS[*index];
        println!("{title:<36} {few:>10.0} {above:>+9.0} {poll:>+14.1} {call:>+14.0}");
    }
    println!("\nLeast of {rounds} rounds. A call is what is left without its polls; the plain spans are part of it.");
}
