//! axum behind tower-http's `TraceLayer`, with a pool that is too small: 50 requests at once, six times. Before that, a
//! job holds a lock until a queue of requests waits for it: `FollowLayer` tells that each of them waited for the job.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::{Router, routing::get};
use checked::{Expected, Run, spin};
use tokio::sync::{Mutex, Semaphore, oneshot};
use tower_http::trace::TraceLayer;
use tracing::{Instrument as _, info_span, instrument};
use tracing_gpu::tower::FollowLayer;
use tracing_subscriber::prelude::*;

const CLIENTS: u64 = 50;
const REQUESTS: u64 = 6;
const WRITERS: u32 = 10;
/// How long the job holds the lock once all writers wait for it.
const HELD: Duration = Duration::from_millis(50);

/// What the requests share.
struct Shared {
    pool: Semaphore,
    ledger: Mutex<()>,
    /// A permit for each writer in the queue for the ledger.
    queued: Semaphore,
}

#[instrument(skip_all)]
async fn load_user(shared: Arc<Shared>) {
    let wait = info_span!("wait for a connection");
    let _connection = shared.pool.acquire().instrument(wait).await.expect("it is never closed");
    query_db().await;
}

#[instrument]
async fn query_db() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

#[instrument]
fn render() -> String {
    spin(Duration::from_micros(500));
    "hello".repeat(100)
}

async fn user(State(shared): State<Arc<Shared>>) -> String {
    load_user(shared).await;
    render()
}

#[instrument(skip_all)]
async fn append_ledger(State(shared): State<Arc<Shared>>) -> &'static str {
    // The lock is polled first.
    let (_ledger, ()) = tokio::join!(shared.ledger.lock(), async { shared.queued.add_permits(1) });
    "appended"
}

#[instrument(skip_all)]
async fn compact_ledger(shared: Arc<Shared>, held: oneshot::Sender<()>) {
    let _ledger = shared.ledger.lock().await;
    held.send(()).expect("a reader");
    let _all = shared.queued.acquire_many(WRITERS).await.expect("it is never closed");
    tokio::time::sleep(HELD).await;
}

async fn client(url: String, requests: u64, bytes: usize) {
    let client = reqwest::Client::new();
    for _ in 0..requests {
        let answer = client.get(&url).send().await.expect("an answer");
        assert_eq!(answer.text().await.expect("a body").len(), bytes);
    }
}

fn main() -> ExitCode {
    let run = Run::new("info,tower_http=debug");
    tracing_subscriber::registry().with(run.layer()).init();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let shared = Arc::new(Shared { pool: Semaphore::new(4), ledger: Mutex::default(), queued: Semaphore::new(0) });
        let app = Router::new()
            .route("/user", get(user))
            .route("/ledger", get(append_ledger))
            .with_state(shared.clone())
            .layer(TraceLayer::new_for_http())
            .layer(FollowLayer::new());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async { stopped.await.unwrap_or_default() };
        let server = tokio::spawn(async { axum::serve(listener, app).with_graceful_shutdown(stopped).await });
        let all = async |clients: u64, path: &str, requests: u64, bytes: usize| {
            let url = format!("http://{address}{path}");
            let clients: Vec<_> = (0..clients).map(|_| tokio::spawn(client(url.clone(), requests, bytes))).collect();
            for client in clients {
                client.await.expect("a client");
            }
        };
        let (held, is_held) = oneshot::channel();
        let job = tokio::spawn(compact_ledger(shared, held));
        is_held.await.expect("a job");
        all(WRITERS.into(), "/ledger", 1, "appended".len()).await;
        job.await.expect("a job");
        all(CLIENTS, "/user", REQUESTS, 500).await;
        stop.send(()).expect("a server");
        server.await.expect("a server").expect("no error");
    });
    drop(runtime);
    let summary = run.summary();
    let job = summary.waits.iter().find(|row| row.by.as_deref() == Some("compact_ledger")).expect("waits for the job");
    assert_eq!(job.waiter, "request");
    let all = Duration::from_nanos(job.time_ns);
    assert!(all >= HELD * WRITERS / 2, "each writer waited for the job, not for the writer before it: {all:?}");
    let requests = CLIENTS * REQUESTS;
    let writers = WRITERS.into();
    run.finish(Expected {
        spans: &[
            ("request", requests + writers),
            ("load_user", requests),
            ("wait for a connection", requests),
            ("query_db", requests),
            ("render", requests),
            ("append_ledger", writers),
            ("compact_ledger", 1),
        ],
        futures: &["request", "load_user", "wait for a connection", "query_db", "append_ledger", "compact_ledger"],
        parents: &[
            ("request", &[""]),
            ("load_user", &["request"]),
            ("wait for a connection", &["load_user"]),
            ("query_db", &["load_user"]),
            ("render", &["request"]),
            ("append_ledger", &["request"]),
            ("compact_ledger", &[""]),
        ],
        says: &["most time awaited: request > load_user > wait for a connection ", "`load_user` made others wait "],
        culprits: &["wait for a connection"],
        ..Expected::default()
    })
}
