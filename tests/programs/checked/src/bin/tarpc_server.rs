//! A service of tarpc and 50 clients in one process. tarpc gives the spans of both sides one name: a client's span is
//! sent to the task that writes the request, a server's is entered before and after the request runs in it. A field
//! names the client's span when it is created, and the server's later.

use std::process::ExitCode;
use std::time::Duration;

use checked::{Expected, Run};
use futures_util::StreamExt as _;
use tarpc::context::{self, Context};
use tarpc::server::{BaseChannel, Channel as _};
use tarpc::{client, transport};
use tokio::task::JoinSet;
use tracing::{Instrument as _, info_span};
use tracing_subscriber::prelude::*;

const CLIENTS: u64 = 50;
const REQUESTS: u64 = 100;
/// The name of a client's span.
const CLIENT: &str = "Numbers.next";
/// One of this many requests is slow.
const SLOW: u64 = 10;

#[tarpc::service]
trait Numbers {
    async fn next(number: u64) -> u64;
}

#[derive(Clone, Copy, Debug)]
struct Service;

impl Numbers for Service {
    async fn next(self, _: Context, number: u64) -> u64 {
        if number.is_multiple_of(SLOW) {
            tokio::time::sleep(Duration::from_millis(2)).instrument(info_span!("look up")).await;
        }
        tokio::task::yield_now().await;
        number + 1
    }
}

async fn client(numbers: NumbersClient, first: u64) {
    for number in first..first + REQUESTS {
        assert_eq!(numbers.next(context::current(), number).await.expect("an answer"), number + 1);
    }
}

async fn serve_all() {
    let (to_server, to_clients) = transport::channel::unbounded();
    let server = tokio::spawn(async {
        let mut requests = std::pin::pin!(BaseChannel::with_defaults(to_clients).execute(Service.serve()));
        let mut tasks = JoinSet::new();
        while let Some(request) = requests.next().await {
            tasks.spawn(request);
        }
        tasks.join_all().await;
    });
    let client::NewClient { client: numbers, dispatch } = NumbersClient::new(client::Config::default(), to_server);
    let dispatch = tokio::spawn(dispatch);
    let clients: Vec<_> = (0..CLIENTS).map(|at| tokio::spawn(client(numbers.clone(), at * REQUESTS))).collect();
    drop(numbers);
    for client in clients {
        client.await.expect("a client");
    }
    dispatch.await.expect("no panic").expect("no error");
    server.await.expect("no panic");
}

fn main() -> ExitCode {
    let run = Run::new("info");
    tracing_subscriber::registry().with(run.layer()).init();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().expect("a runtime");
    runtime.block_on(serve_all());
    drop(runtime);
    let requests = CLIENTS * REQUESTS;
    run.finish(Expected {
        spans: &[("RPC", requests), (CLIENT, requests), ("look up", requests / SLOW)],
        futures: &["RPC", CLIENT, "look up"],
        never_cancelled: &["RPC"],
        parents: &[("RPC", &[""]), (CLIENT, &[""]), ("look up", &["RPC"])],
        culprits: &["look up"],
        ..Expected::default()
    })
}
