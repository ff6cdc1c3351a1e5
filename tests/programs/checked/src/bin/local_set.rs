//! Tasks that stay on one thread, whose work goes to the pool for blocking calls.

use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use checked::{Expected, Run, spin};
use tokio::task::{LocalSet, spawn_blocking, spawn_local};
use tracing::{Instrument as _, Span, info_span, instrument};
use tracing_subscriber::prelude::*;

const JOBS: u64 = 40;

#[instrument]
fn compress() -> usize {
    spin(Duration::from_millis(2));
    2
}

#[instrument(skip_all)]
async fn job(name: Rc<str>) -> usize {
    let span = Span::current();
    let packed = spawn_blocking(move || span.in_scope(compress)).await.expect("no panic");
    tokio::time::sleep(Duration::from_millis(10)).instrument(info_span!("upload")).await;
    packed + name.len()
}

fn main() -> ExitCode {
    let run = Run::new("info");
    tracing_subscriber::registry().with(run.layer()).init();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(2).build().expect("a runtime");
    LocalSet::new().block_on(&runtime, async {
        let jobs: Vec<_> = (0..JOBS).map(|_| spawn_local(job("job".into()))).collect();
        for job in jobs {
            assert_eq!(job.await.expect("no panic"), 5);
        }
    });
    drop(runtime);
    run.finish(Expected {
        spans: &[("job", JOBS), ("compress", JOBS), ("upload", JOBS)],
        futures: &["job", "upload"],
        parents: &[("job", &[""]), ("compress", &["job"]), ("upload", &["job"])],
        says: &["most time awaited: job ", "most time of its own: compress "],
        culprits: &["compress"],
        ..Expected::default()
    })
}
