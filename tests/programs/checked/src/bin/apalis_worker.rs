//! A worker of apalis, which works through a queue of jobs, one after another, and then waits for more.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use apalis_core::backend::TaskSink as _;
use apalis_core::backend::memory::MemoryStorage;
use apalis_core::error::BoxDynError;
use apalis_core::worker::builder::WorkerBuilder;
use checked::{Expected, Run};
use tokio::sync::Semaphore;
use tracing::{Instrument as _, info_span, instrument};
use tracing_subscriber::prelude::*;

const JOBS: u64 = 100;
/// How long the worker waits for more jobs in the end.
const IDLE: Duration = Duration::from_millis(500);

#[instrument(skip_all)]
async fn send_email() {
    smtp().await;
}

#[instrument]
async fn smtp() {
    tokio::time::sleep(Duration::from_millis(8)).await;
}

async fn work() {
    let mut queue = MemoryStorage::new();
    for number in 0..JOBS {
        queue.push(number).await.expect("room in the queue");
    }
    let (one, done) = (Arc::new(Semaphore::new(1)), Arc::new(Semaphore::new(0)));
    let all_done = done.clone();
    let job = move |_: u64| {
        let (one, done) = (one.clone(), done.clone());
        async move {
            let _one = one.acquire().await?;
            send_email().await;
            done.add_permits(1);
            Ok::<(), BoxDynError>(())
        }
    };
    let stop = async move {
        let _all = all_done.acquire_many(JOBS as u32).await.expect("it is open");
        tokio::time::sleep(IDLE).await;
        Ok::<(), std::io::Error>(())
    };
    let worker = WorkerBuilder::new("mail").backend(queue).build(job);
    worker.run_until(stop).instrument(info_span!("worker")).await.expect("no error");
}

fn main() -> ExitCode {
    let run = Run::new("info");
    tracing_subscriber::registry().with(run.layer()).init();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(work());
    drop(runtime);
    run.finish(Expected {
        spans: &[("worker", 1), ("send_email", JOBS), ("smtp", JOBS)],
        futures: &["worker", "send_email", "smtp"],
        parents: &[("worker", &[""]), ("send_email", &["worker"]), ("smtp", &["send_email"])],
        says: &["~~ as long as the run: worker .. (1 call, .. awaited)"],
        culprits: &["smtp"],
        ..Expected::default()
    })
}
