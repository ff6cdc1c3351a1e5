//! A server of actix-web with one worker. `to_csv` blocks the worker, so all others wait, most of them in `query_user`.

use std::process::ExitCode;
use std::time::Duration;

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::KeepAlive;
use actix_web::middleware::{Next, from_fn};
use actix_web::{App, Error, HttpServer, web};
use checked::{Expected, Run, spin};
use tracing::{Instrument as _, info_span, instrument};
use tracing_subscriber::prelude::*;

const CLIENTS: u64 = 8;
const REQUESTS: u64 = 5;

#[instrument]
async fn query_user() {
    tokio::time::sleep(Duration::from_millis(2)).await;
}

#[instrument]
fn to_csv() -> String {
    spin(Duration::from_millis(20));
    "id,name\n".repeat(100)
}

async fn user() -> &'static str {
    query_user().await;
    "ann"
}

async fn export() -> String {
    to_csv()
}

async fn traced(
    request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    next.call(request).instrument(info_span!("HTTP request")).await
}

/// A request for an export accompanies each request for a user.
async fn client(address: std::net::SocketAddr, path: &str) {
    let client = reqwest::Client::new();
    for _ in 0..REQUESTS {
        let answer = client.get(format!("http://{address}/{path}")).send().await.expect("an answer");
        assert!(answer.status().is_success());
        assert!(!answer.bytes().await.expect("a body").is_empty());
    }
}

async fn serve_all() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let app =
        || App::new().wrap(from_fn(traced)).route("/user", web::get().to(user)).route("/export", web::get().to(export));
    let server = HttpServer::new(app)
        .workers(1)
        .keep_alive(KeepAlive::Disabled)
        .disable_signals()
        .listen(listener)
        .expect("a server")
        .run();
    let handle = server.handle();
    let server = actix_web::rt::spawn(server);
    let clients: Vec<_> =
        (0..CLIENTS).flat_map(|_| ["user", "export"].map(|path| actix_web::rt::spawn(client(address, path)))).collect();
    for client in clients {
        client.await.expect("a client");
    }
    handle.stop(true).await;
    server.await.expect("no panic").expect("no error");
}

fn main() -> ExitCode {
    let run = Run::new("info");
    tracing_subscriber::registry().with(run.layer()).init();
    actix_web::rt::System::new().block_on(serve_all());
    let requests = CLIENTS * REQUESTS;
    run.finish(Expected {
        spans: &[("HTTP request", 2 * requests), ("query_user", requests), ("to_csv", requests)],
        futures: &["HTTP request", "query_user"],
        parents: &[("HTTP request", &[""]), ("query_user", &["HTTP request"]), ("to_csv", &["HTTP request"])],
        culprits: &["to_csv"],
        ..Expected::default()
    })
}
