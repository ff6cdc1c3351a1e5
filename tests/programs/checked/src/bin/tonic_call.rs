//! A client of tonic and its server in one process, both with spans: the client waits longest for the server, which is
//! measured too, and whose requests wait for a connection.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use checked::{Expected, Run};
use tokio::sync::Semaphore;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tracing::{Instrument as _, info_span, instrument};
use tracing_subscriber::prelude::*;

const CLIENTS: u64 = 20;
const REQUESTS: u64 = 10;

#[derive(Debug)]
struct Service {
    connections: Semaphore,
}

impl Service {
    #[instrument(skip_all)]
    async fn load_user(&self) {
        let wait = info_span!("wait for a connection");
        let _connection = self.connections.acquire().instrument(wait).await.expect("it is never closed");
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

#[tonic::async_trait]
impl Health for Service {
    type WatchStream = tokio_stream::Empty<Result<HealthCheckResponse, Status>>;

    #[instrument(skip_all)]
    async fn check(&self, _: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        self.load_user().await;
        Ok(Response::new(HealthCheckResponse { status: ServingStatus::Serving.into() }))
    }

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("watch"))
    }
}

#[instrument(skip_all, name = "client call")]
async fn call(client: &mut HealthClient<Channel>) {
    let answer = client.check(HealthCheckRequest { service: String::new() }).await.expect("an answer");
    assert_eq!(answer.into_inner().status(), ServingStatus::Serving);
}

async fn client(address: Arc<str>) {
    let channel = Endpoint::from_shared(address.to_string()).expect("an address").connect().await.expect("a server");
    let mut client = HealthClient::new(channel);
    for _ in 0..REQUESTS {
        call(&mut client).await;
    }
}

async fn serve_all() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address: Arc<str> = format!("http://{}", listener.local_addr().expect("an address")).into();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = Server::builder()
        .add_service(HealthServer::new(Service { connections: Semaphore::new(2) }))
        .serve_with_incoming_shutdown(TcpListenerStream::new(listener), async { stopped.await.unwrap_or_default() });
    let server = tokio::spawn(server);
    let clients: Vec<_> = (0..CLIENTS).map(|_| tokio::spawn(client(address.clone()))).collect();
    for client in clients {
        client.await.expect("a client");
    }
    stop.send(()).expect("a server");
    server.await.expect("a server").expect("no error");
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
        spans: &["client call", "check", "load_user", "wait for a connection"].map(|name| (name, requests)),
        futures: &["client call", "check", "load_user", "wait for a connection"],
        parents: &[
            ("client call", &[""]),
            ("check", &[""]),
            ("load_user", &["check"]),
            ("wait for a connection", &["load_user"]),
        ],
        culprits: &["wait for a connection"],
        ..Expected::default()
    })
}
