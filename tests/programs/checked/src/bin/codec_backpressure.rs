//! tokio-util: lines over a pipe of 1 KiB (`Framed`, `LinesCodec`), whose readers take 20 ms for each answer; and
//! watchers that wait for a `CancellationToken`, which ends them with the server.
//!
//! Cause: the readers are slow, so `respond` waits until an answer fits into the pipe, some eight times as long as
//! `lookup` waits for its timer. The first line names `respond`: not `lookup`, and not `watch`, which waits for as long
//! as the run. All eight `watch` are cancelled. No row can count them: `run_until_cancelled` polls the future once more
//! before it drops it, and so it looks finished (docs/async.md).

use std::process::ExitCode;
use std::time::Duration;

use checked::{Cause, Expected, Run, Stopwatch, spin};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::DuplexStream;
use tokio_util::codec::{Framed, LinesCodec};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, info_span, instrument};
use tracing_subscriber::prelude::*;

const READERS: u64 = 8;
const REQUESTS: u64 = 40;
const PIPE: usize = 1_024;
const ANSWER: usize = 2_000;

static RESPOND: Stopwatch = Stopwatch::new();
static LOOKUP: Stopwatch = Stopwatch::new();

type Connection = Framed<DuplexStream, LinesCodec>;

#[instrument]
fn parse(line: &str) -> usize {
    spin(Duration::from_micros(100));
    line.len()
}

#[instrument]
async fn lookup(key: usize) -> String {
    tokio::time::sleep(Duration::from_millis(1)).await;
    "x".repeat(ANSWER + key)
}

#[instrument(skip(connection))]
async fn handle(line: String, connection: &mut Connection) {
    let answer = LOOKUP.follow(lookup(parse(&line))).await;
    RESPOND.follow(connection.send(answer).instrument(info_span!("respond"))).await.expect("a reader");
}

async fn serve(mut connection: Connection) {
    while let Some(line) = connection.next().await {
        handle(line.expect("a line"), &mut connection).await;
    }
}

/// As another process would: it has no spans.
async fn reader(mut connection: Connection) {
    for _ in 0..REQUESTS {
        connection.send("get").await.expect("a server");
    }
    for _ in 0..REQUESTS {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let answer = connection.next().await.expect("an answer").expect("a line");
        assert_eq!(answer.len(), ANSWER + 3);
    }
}

#[instrument]
async fn watch() {
    std::future::pending().await
}

fn main() -> ExitCode {
    let run = Run::new("info");
    tracing_subscriber::registry().with(run.layer()).init();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let mut readers = Vec::new();
        for _ in 0..READERS {
            let (ours, theirs) = tokio::io::duplex(PIPE);
            tasks.spawn(serve(Framed::new(ours, LinesCodec::new())));
            let stop = stop.clone();
            tasks.spawn(async move { assert!(stop.run_until_cancelled(watch()).await.is_none()) });
            readers.push(tokio::spawn(reader(Framed::new(theirs, LinesCodec::new()))));
        }
        tasks.close();
        for reader in readers {
            reader.await.expect("no panic");
        }
        stop.cancel();
        tasks.wait().await;
    });
    drop(runtime);
    let requests = READERS * REQUESTS;
    run.finish(Expected {
        spans: &[
            ("handle", requests),
            ("parse", requests),
            ("lookup", requests),
            ("respond", requests),
            ("watch", READERS),
        ],
        futures: &["handle", "lookup", "respond", "watch"],
        parents: &[
            ("handle", &[""]),
            ("parse", &["handle"]),
            ("lookup", &["handle"]),
            ("respond", &["handle"]),
            ("watch", &[""]),
        ],
        cause: Some(Cause {
            name: "respond",
            costs: RESPOND.total(),
            second: LOOKUP.total(),
            own: RESPOND.total(),
            also_true: &[],
        }),
        ..Expected::default()
    })
}
