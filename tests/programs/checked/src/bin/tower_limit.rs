//! tower: a service behind a limit of two concurrent calls, for 24 clients at once.
//!
//! Cause: the limit. `request` waits in `ready` for a slot, some ten times as long as `query_backend` takes, which
//! waits for a timer of 5 ms. The first line names `request` itself, and neither `query_backend` nor `render`.

use std::convert::Infallible;
use std::process::ExitCode;
use std::time::Duration;

use checked::{Cause, Expected, Run, Stopwatch, spin};
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
use tracing::{Instrument as _, info_span, instrument};
use tracing_subscriber::prelude::*;

const CLIENTS: u64 = 24;
const REQUESTS: u64 = 8;
const SLOTS: usize = 2;

static SLOT: Stopwatch = Stopwatch::new();
static BACKEND: Stopwatch = Stopwatch::new();

#[instrument]
async fn query_backend(id: u64) -> u64 {
    tokio::time::sleep(Duration::from_millis(5)).await;
    id + 1
}

#[instrument]
fn render(answer: u64) -> String {
    spin(Duration::from_micros(200));
    answer.to_string()
}

async fn backend(id: u64) -> Result<String, Infallible> {
    let answer = BACKEND.follow(query_backend(id)).await;
    Ok(render(answer))
}

async fn client<S>(mut service: S, client: u64)
where
    S: Service<u64, Response = String, Error = Infallible>,
{
    for request in 0..REQUESTS {
        let id = client * REQUESTS + request;
        let answer = async { SLOT.follow(service.ready()).await?.call(id).await };
        assert_eq!(answer.instrument(info_span!("request", id)).await, Ok((id + 1).to_string()));
    }
}

fn main() -> ExitCode {
    let run = Run::new("info");
    tracing_subscriber::registry().with(run.layer()).init();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let service = ServiceBuilder::new().concurrency_limit(SLOTS).service(service_fn(backend));
        let clients: Vec<_> = (0..CLIENTS).map(|id| tokio::spawn(client(service.clone(), id))).collect();
        for client in clients {
            client.await.expect("no panic");
        }
    });
    drop(runtime);
    let requests = CLIENTS * REQUESTS;
    run.finish(Expected {
        spans: &[("request", requests), ("query_backend", requests), ("render", requests)],
        futures: &["request", "query_backend"],
        parents: &[("request", &[""]), ("query_backend", &["request"]), ("render", &["request"])],
        cause: Some(Cause {
            name: "request",
            costs: SLOT.total(),
            second: BACKEND.total(),
            own: SLOT.total(),
            also_true: &[],
        }),
        ..Expected::default()
    })
}
