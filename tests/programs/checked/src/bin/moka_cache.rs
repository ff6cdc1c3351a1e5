//! moka: twelve times, the page that all readers want has expired, and 30 of them ask for it at once. One loads it, and
//! the others await that load.
//!
//! Cause: `load_report`, which waits 60 ms for a timer; each `page` of a round waits as long. The first line names
//! `load_report`. That `page` waits longest is also true, though it is not the answer: 29 of 30 wait in it, for the
//! one load. `authorize` (2 ms) and `render` (0.3 ms) explain nothing.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use checked::{Cause, Expected, Run, Stopwatch, spin};
use moka::future::Cache;
use tracing::instrument;
use tracing_subscriber::prelude::*;

const READERS: u64 = 30;
const ROUNDS: u64 = 12;

static LOADED: AtomicU64 = AtomicU64::new(0);
static LOAD: Stopwatch = Stopwatch::new();
static CACHE: Stopwatch = Stopwatch::new();
static AUTHORIZE: Stopwatch = Stopwatch::new();

#[instrument]
async fn load_report(key: &'static str) -> String {
    LOADED.fetch_add(1, Relaxed);
    tokio::time::sleep(Duration::from_millis(60)).await;
    key.repeat(10)
}

#[instrument]
async fn authorize(reader: u64) -> bool {
    tokio::time::sleep(Duration::from_millis(2)).await;
    reader < READERS
}

#[instrument(skip_all)]
fn render(report: &str) -> usize {
    spin(Duration::from_micros(300));
    report.len()
}

#[instrument(skip(cache))]
async fn page(cache: Cache<&'static str, String>, reader: u64) -> usize {
    assert!(AUTHORIZE.follow(authorize(reader)).await);
    let load = LOAD.follow(load_report("sales"));
    let report = CACHE.follow(cache.get_with("sales", load)).await;
    render(&report)
}

fn main() -> ExitCode {
    let run = Run::new("info");
    tracing_subscriber::registry().with(run.layer()).init();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let cache = Cache::new(100);
        for _ in 0..ROUNDS {
            cache.invalidate("sales").await;
            let readers: Vec<_> = (0..READERS).map(|reader| tokio::spawn(page(cache.clone(), reader))).collect();
            for reader in readers {
                assert_eq!(reader.await.expect("no panic"), 50);
            }
        }
    });
    drop(runtime);
    assert_eq!(LOADED.load(Relaxed), ROUNDS, "the readers of a round share one load");
    let pages = ROUNDS * READERS;
    run.finish(Expected {
        spans: &[("page", pages), ("authorize", pages), ("load_report", ROUNDS), ("render", pages)],
        futures: &["page", "authorize", "load_report"],
        parents: &[("page", &[""]), ("authorize", &["page"]), ("load_report", &["page"]), ("render", &["page"])],
        cause: Some(Cause {
            name: "load_report",
            costs: CACHE.total(),
            second: AUTHORIZE.total(),
            own: LOAD.total(),
            also_true: &["page"],
        }),
        ..Expected::default()
    })
}
