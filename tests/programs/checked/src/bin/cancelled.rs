//! Futures that are dropped before they end: the loser of a `select!`, a timeout, an aborted task.

use std::process::ExitCode;
use std::time::Duration;

use checked::{Expected, Run};
use tokio::time::{sleep, timeout};
use tracing::{Instrument as _, info_span, instrument};
use tracing_subscriber::prelude::*;

const EACH: u64 = 20;

#[instrument]
async fn quick() {
    sleep(Duration::from_millis(5)).await;
}

#[instrument]
async fn loses() {
    sleep(Duration::from_secs(60)).await;
}

#[instrument]
async fn times_out() {
    sleep(Duration::from_secs(60)).await;
}

async fn run_all() {
    for _ in 0..EACH {
        async {
            // In this order, the loser is not polled again when the other is ready.
            tokio::select! {
                biased;
                () = quick() => {}
                () = loses() => unreachable!("it takes a minute"),
            }
        }
        .instrument(info_span!("race"))
        .await;
        timeout(Duration::from_millis(10), times_out()).await.expect_err("it takes a minute");
    }
    let tasks: Vec<_> =
        (0..EACH).map(|_| tokio::spawn(sleep(Duration::from_secs(60)).instrument(info_span!("aborted")))).collect();
    sleep(Duration::from_millis(50)).await;
    for task in tasks {
        task.abort();
        assert!(task.await.expect_err("it takes a minute").is_cancelled());
    }
}

fn main() -> ExitCode {
    let run = Run::new("info");
    tracing_subscriber::registry().with(run.layer()).init();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(run_all());
    drop(runtime);
    run.finish(Expected {
        spans: &["race", "quick", "loses", "times_out", "aborted"].map(|name| (name, EACH)),
        futures: &["race", "quick", "loses", "times_out", "aborted"],
        // `timeout` polls a future right before it drops it. `tracing` does not see the result of a poll, so this
        // future counts as finished.
        cancelled: &[("aborted", EACH), ("loses", EACH), ("times_out", 0)],
        parents: &[("quick", &["race"]), ("loses", &["race"]), ("times_out", &[""]), ("aborted", &[""])],
        says: &["most time awaited: aborted "],
        culprits: &["aborted"],
        ..Expected::default()
    })
}
