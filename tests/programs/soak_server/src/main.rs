//! A server that answers until its input ends: `soak_server layer|subscriber|registry|off [ROUNDS]`, with the layer,
//! with the profiler's own subscriber, with a registry and a layer that does nothing, or without a subscriber. Prints
//! its port, and a line for each byte of its input: requests, nanoseconds of processor time, KiB of resident memory.
//!
//! A request is a span with two awaited parts, five spans in all, and two times ROUNDS steps of arithmetic: 10,000 take
//! some 7 us.

use std::error::Error;
use std::io::Read as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use axum::{Router, routing::get};
use tracing::{info_span, instrument};
use tracing_gpu::{Output, Profiler};
use tracing_subscriber::prelude::*;

static REQUESTS: AtomicU64 = AtomicU64::new(0);
static ROUNDS: AtomicU64 = AtomicU64::new(10_000);

/// The same work each time, independent of the clock, and all of it in registers.
fn work() -> u64 {
    let step = |state: u64, round: u64| state.wrapping_mul(6_364_136_223_846_793_005) ^ round;
    (0..ROUNDS.load(Relaxed)).fold(REQUESTS.load(Relaxed), step)
}

#[instrument]
async fn load() -> u64 {
    tokio::task::yield_now().await;
    info_span!("query").in_scope(work)
}

#[instrument]
async fn render(seed: u64) -> String {
    tokio::task::yield_now().await;
    let text = info_span!("encode").in_scope(|| work() ^ seed);
    format!("{text:x}")
}

#[instrument]
async fn request() -> String {
    REQUESTS.fetch_add(1, Relaxed);
    render(load().await).await
}

/// Nanoseconds of processor time so far, and KiB of resident memory.
fn used() -> Result<(u64, u64), Box<dyn Error>> {
    let ran = std::fs::read_dir("/proc/self/task")?.flatten().filter_map(|task| {
        let statistics = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        statistics.split(' ').next()?.parse::<u64>().ok()
    });
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    Ok((ran.sum(), pages.split(' ').nth(1).ok_or("no resident set")?.parse::<u64>()? * 4))
}

fn main() -> Result<(), Box<dyn Error>> {
    let build = || Profiler::builder().output(Output::None).build();
    let profiler = match std::env::args().nth(1).as_deref() {
        Some("layer") => {
            let profiler = build()?;
            tracing_subscriber::registry().with(profiler.layer()).init();
            Some(profiler)
        }
        Some("subscriber") => {
            let profiler = build()?;
            profiler.subscriber().init();
            Some(profiler)
        }
        Some("registry") => {
            // A registry alone keeps each closed span.
            tracing_subscriber::registry().with(tracing_subscriber::layer::Identity::new()).init();
            None
        }
        Some("off") => None,
        _ => return Err("soak_server layer|subscriber|registry|off [ROUNDS]".into()),
    };
    if let Some(rounds) = std::env::args().nth(2) {
        ROUNDS.store(rounds.parse()?, Relaxed);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?.port());
        let app = Router::new().route("/", get(request));
        tokio::spawn(async move { axum::serve(listener, app).await });
        let mut byte = [0];
        while tokio::task::spawn_blocking(move || std::io::stdin().read(&mut byte)).await?? > 0 {
            let (requests, (ns, kib)) = (REQUESTS.load(Relaxed), used()?);
            println!("{requests},{ns},{kib}");
        }
        let requests = REQUESTS.load(Relaxed);
        if let Some(profiler) = &profiler {
            let summary = profiler.summary();
            let counted =
                summary.calls.iter().filter(|row| row.name == "request").map(|row| row.latency.instances).sum::<u64>();
            let open = requests.saturating_sub(counted);
            println!("{counted} of {requests} requests are counted as calls, {open} are not over");
        }
        Ok::<(), Box<dyn Error>>(())
    })
}
