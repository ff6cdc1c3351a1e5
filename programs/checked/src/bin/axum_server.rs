//! axum behind tower-http's `TraceLayer`, with a pool that is too small: 50 requests at once, six times.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::{Router, routing::get};
use checked::{Expected, Run, spin};
use tokio::sync::Semaphore;
use tower_http::trace::TraceLayer;
use tracing::{Instrument as _, info_span, instrument};
use tracing_subscriber::prelude::*;

const CLIENTS: u64 = 50;
const REQUESTS: u64 = 6;

#[instrument(skip_all)]
async fn load_user(pool: Arc<Semaphore>) {
    let wait = info_span!("wait for a connection");
    let _connection = pool.acquire().instrument(wait).await.expect("it is never closed");
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

async fn user(State(pool): State<Arc<Semaphore>>) -> String {
    load_user(pool).await;
    render()
}

async fn client(address: std::net::SocketAddr) {
    let client = reqwest::Client::new();
    for _ in 0..REQUESTS {
        let answer = client.get(format!("http://{address}/user")).send().await.expect("an answer");
        assert_eq!(answer.text().await.expect("a body").len(), 500);
    }
}

fn main() -> ExitCode {
    let run = Run::new("info,tower_http=debug");
    tracing_subscriber::registry().with(run.layer()).init();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let app = Router::new()
            .route("/user", get(user))
            .with_state(Arc::new(Semaphore::new(4)))
            .layer(TraceLayer::new_for_http());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let stopped = async { stopped.await.unwrap_or_default() };
        let server = tokio::spawn(async { axum::serve(listener, app).with_graceful_shutdown(stopped).await });
        let clients: Vec<_> = (0..CLIENTS).map(|_| tokio::spawn(client(address))).collect();
        for client in clients {
            client.await.expect("a client");
        }
        stop.send(()).expect("a server");
        server.await.expect("a server").expect("no error");
    });
    drop(runtime);
    let requests = CLIENTS * REQUESTS;
    run.finish(Expected {
        spans: &["request", "load_user", "wait for a connection", "query_db", "render"].map(|name| (name, requests)),
        futures: &["request", "load_user", "wait for a connection", "query_db"],
        parents: &[
            ("request", &[""]),
            ("load_user", &["request"]),
            ("wait for a connection", &["load_user"]),
            ("query_db", &["load_user"]),
            ("render", &["request"]),
        ],
        says: &["most time awaited: request > load_user > wait for a connection "],
        culprits: &["wait for a connection"],
        ..Expected::default()
    })
}
