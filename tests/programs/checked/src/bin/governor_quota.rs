//! governor: six workers that share a quota of 100 messages a second, whose timers are those of another thread
//! (futures-timer); and beside them a job that reports every 50 ms for as long as they run.
//!
//! Cause: the quota. `wait_for_quota` takes some ten times as long as `post`, which waits for a timer of 4 ms. The
//! first line names `wait_for_quota`, neither `post` nor `report_metrics`, which waits as long as the run.

use std::num::NonZero;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use checked::{Cause, Expected, Run, Stopwatch, spin};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use tracing::{Instrument as _, info_span, instrument};
use tracing_subscriber::prelude::*;

const WORKERS: u64 = 6;
const MESSAGES: u64 = 25;
const A_SECOND: NonZero<u32> = NonZero::new(100).expect("it is not 0");
const BURST: NonZero<u32> = NonZero::new(2).expect("it is not 0");

static QUOTA: Stopwatch = Stopwatch::new();
static POST: Stopwatch = Stopwatch::new();
static METRICS: Stopwatch = Stopwatch::new();
static REPORTS: AtomicU64 = AtomicU64::new(0);

#[instrument]
fn write_text(number: u64) -> String {
    spin(Duration::from_micros(300));
    format!("message {number}")
}

#[instrument(skip_all)]
async fn post(text: String) -> usize {
    tokio::time::sleep(Duration::from_millis(4)).await;
    text.len()
}

#[instrument(skip(limiter))]
async fn send_message(limiter: &DefaultDirectRateLimiter, number: u64) -> usize {
    let text = write_text(number);
    QUOTA.follow(limiter.until_ready().instrument(info_span!("wait_for_quota"))).await;
    POST.follow(post(text)).await
}

async fn worker(limiter: Arc<DefaultDirectRateLimiter>, worker: u64) {
    for number in 0..MESSAGES {
        assert!(send_message(&limiter, worker * MESSAGES + number).await > "message ".len());
    }
}

#[instrument]
async fn report_metrics() {
    tokio::time::sleep(Duration::from_millis(50)).await;
    REPORTS.fetch_add(1, Relaxed);
}

fn main() -> ExitCode {
    let run = Run::new("info");
    tracing_subscriber::registry().with(run.layer()).init();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let limiter = Arc::new(RateLimiter::direct(Quota::per_second(A_SECOND).allow_burst(BURST)));
        let workers: Vec<_> = (0..WORKERS).map(|id| tokio::spawn(worker(limiter.clone(), id))).collect();
        while !workers.iter().all(|worker| worker.is_finished()) {
            METRICS.follow(report_metrics()).await;
        }
        for worker in workers {
            worker.await.expect("no panic");
        }
    });
    drop(runtime);
    let messages = WORKERS * MESSAGES;
    run.finish(Expected {
        spans: &[
            ("send_message", messages),
            ("write_text", messages),
            ("wait_for_quota", messages),
            ("post", messages),
            ("report_metrics", REPORTS.load(Relaxed)),
        ],
        futures: &["send_message", "wait_for_quota", "post", "report_metrics"],
        parents: &[
            ("send_message", &[""]),
            ("write_text", &["send_message"]),
            ("wait_for_quota", &["send_message"]),
            ("post", &["send_message"]),
            ("report_metrics", &[""]),
        ],
        cause: Some(Cause {
            name: "wait_for_quota",
            costs: QUOTA.total(),
            second: POST.total().max(METRICS.total()),
            own: QUOTA.total(),
            also_true: &[],
        }),
        ..Expected::default()
    })
}
