//! A service of tonic under 20 clients, with one resource that all of them wait for.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use checked::{Expected, Run, spin};
use tokio::sync::Semaphore;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Endpoint, Server};
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tower_http::trace::TraceLayer;
use tracing::{Instrument as _, info_span, instrument};
use tracing_subscriber::prelude::*;

const CLIENTS: u64 = 20;
const REQUESTS: u64 = 10;

#[derive(Debug)]
struct Service {
    connections: Arc<Semaphore>,
}

#[instrument(skip_all)]
fn serialise() -> Response<HealthCheckResponse> {
    spin(Duration::from_micros(300));
    Response::new(HealthCheckResponse { status: ServingStatus::Serving.into() })
}

#[tonic::async_trait]
impl Health for Service {
    type WatchStream = tokio_stream::Empty<Result<HealthCheckResponse, Status>>;

    #[instrument(skip_all)]
    async fn check(&self, _: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        let wait = info_span!("wait for a connection");
        let connection = self.connections.acquire().instrument(wait).await.expect("it is never closed");
        tokio::time::sleep(Duration::from_millis(3)).instrument(info_span!("query")).await;
        drop(connection);
        Ok(serialise())
    }

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("watch"))
    }
}

async fn client(address: String) {
    let channel = Endpoint::from_shared(address).expect("an address").connect().await.expect("a server");
    let mut client = HealthClient::new(channel);
    for _ in 0..REQUESTS {
        let answer = client.check(HealthCheckRequest { service: String::new() }).await.expect("an answer");
        assert_eq!(answer.into_inner().status(), ServingStatus::Serving);
    }
}

fn main() -> ExitCode {
    let run = Run::new("info,tower_http=debug");
    tracing_subscriber::registry().with(run.layer()).init();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let service = Service { connections: Arc::new(Semaphore::new(2)) };
        let server = Server::builder()
            .layer(TraceLayer::new_for_grpc())
            .add_service(HealthServer::new(service))
            .serve_with_incoming_shutdown(TcpListenerStream::new(listener), async {
                stopped.await.unwrap_or_default()
            });
        let server = tokio::spawn(server);
        let clients: Vec<_> = (0..CLIENTS).map(|_| tokio::spawn(client(address.clone()))).collect();
        for client in clients {
            client.await.expect("a client");
        }
        stop.send(()).expect("a server");
        server.await.expect("a server").expect("no error");
    });
    drop(runtime);
    let requests = CLIENTS * REQUESTS;
    run.finish(Expected {
        spans: &["request", "check", "wait for a connection", "query", "serialise"].map(|name| (name, requests)),
        futures: &["request", "check", "wait for a connection", "query"],
        parents: &[
            ("request", &[""]),
            ("check", &["request"]),
            ("wait for a connection", &["check"]),
            ("query", &["check"]),
            ("serialise", &["check"]),
        ],
        says: &["most time awaited: request > check > wait for a connection "],
        culprits: &["wait for a connection"],
        ..Expected::default()
    })
}
