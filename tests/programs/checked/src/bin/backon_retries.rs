//! backon: a service that answers at the third try, and a client that waits 40 and 80 ms before it tries again.
//!
//! Cause: the pauses between the tries. `fetch_quote` waits in them itself, some ten times as long as in its three
//! `call_upstream`, of 3 ms each. The first line names `fetch_quote`, neither `call_upstream` nor `price`.

use std::process::ExitCode;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use checked::{Cause, Expected, Run, Stopwatch, spin};
use tracing::instrument;
use tracing_subscriber::prelude::*;

const CLIENTS: u64 = 8;
const QUOTES: u64 = 6;
const TRIES: u64 = 3;

static PAUSES: Stopwatch = Stopwatch::new();
static CALLS: Stopwatch = Stopwatch::new();

#[instrument(err(level = "debug"))]
async fn call_upstream(stock: u64, attempt: u64) -> Result<u64, String> {
    tokio::time::sleep(Duration::from_millis(3)).await;
    if attempt < TRIES { Err(format!("{stock}: 503")) } else { Ok(stock * 100) }
}

async fn pause(time: Duration) {
    PAUSES.follow(tokio::time::sleep(time)).await;
}

#[instrument]
async fn fetch_quote(stock: u64) -> u64 {
    let mut attempt = 0;
    let call = || {
        attempt += 1;
        CALLS.follow(call_upstream(stock, attempt))
    };
    let backoff = ExponentialBuilder::default().with_min_delay(Duration::from_millis(40)).with_max_times(5);
    call.retry(backoff).sleep(pause).await.expect("the third try succeeds")
}

#[instrument]
fn price(quote: u64) -> u64 {
    spin(Duration::from_micros(500));
    quote + 1
}

async fn client() {
    for stock in 0..QUOTES {
        assert_eq!(price(fetch_quote(stock).await), stock * 100 + 1);
    }
}

fn main() -> ExitCode {
    let run = Run::new("info");
    tracing_subscriber::registry().with(run.layer()).init();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let clients: Vec<_> = (0..CLIENTS).map(|_| tokio::spawn(client())).collect();
        for client in clients {
            client.await.expect("no panic");
        }
    });
    drop(runtime);
    let quotes = CLIENTS * QUOTES;
    run.finish(Expected {
        spans: &[("fetch_quote", quotes), ("call_upstream", TRIES * quotes), ("price", quotes)],
        futures: &["fetch_quote", "call_upstream"],
        parents: &[("fetch_quote", &[""]), ("call_upstream", &["fetch_quote"]), ("price", &[""])],
        cause: Some(Cause {
            name: "fetch_quote",
            costs: PAUSES.total(),
            second: CALLS.total(),
            own: PAUSES.total(),
            also_true: &[],
        }),
        ..Expected::default()
    })
}
