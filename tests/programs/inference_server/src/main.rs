//! An inference server on axum. Requests wait for one of two workers, which run a small network on the CPU.
//!
//! ```sh
//! cd programs && cargo run --release -p inference_server
//! ```
//!
//! It calls itself with 300 requests, 20 at a time, and ends. `RUST_LOG=debug` shows the log of tower-http, too: the
//! log and the profiler (`TRACING_GPU_FILTER`) have separate filters. With an address, as `127.0.0.1:9464`, it calls
//! itself without an end, and Prometheus can scrape its route `/metrics` there.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, oneshot};
use tower_http::trace::{DefaultMakeSpan, TraceLayer};
use tracing::{Instrument, Level, Span, info, info_span, instrument};
use tracing_gpu::Profiler;
use tracing_gpu::metrics::Scraped;
use tracing_subscriber::{EnvFilter, fmt, prelude::*};

const REQUESTS: usize = 300;
const CLIENTS: usize = 20;
const WORKERS: usize = 2;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Debug, Serialize, Deserialize)]
struct Question {
    text: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    class: usize,
}

struct Model {
    workers: Semaphore,
    weights: Vec<Vec<f32>>,
}

impl Model {
    const SIZE: usize = 512;

    #[instrument(name = "Load Module")]
    fn load() -> Self {
        let layer =
            |seed: usize| (0..Self::SIZE * Self::SIZE).map(|at| ((at * seed) % 17) as f32 / 17.0 - 0.47).collect();
        Self { workers: Semaphore::new(WORKERS), weights: (1..=4).map(layer).collect() }
    }

    /// One pass over the layers.
    #[instrument(name = "Module running", skip_all)]
    fn forward(&self, mut values: Vec<f32>) -> usize {
        for weights in &self.weights {
            let _layer = info_span!("layer").entered();
            let row = |row: &[f32]| row.iter().zip(&values).map(|(weight, value)| weight * value).sum::<f32>().tanh();
            values = weights.chunks_exact(Self::SIZE).map(row).collect();
        }
        let best = values.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        best.map_or(0, |(class, _)| class)
    }
}

#[instrument(name = "Set input data", skip_all)]
fn tokenize(text: &str) -> Vec<f32> {
    let bytes: Vec<f32> = text.bytes().map(|byte| f32::from(byte) / 255.0).collect();
    bytes.iter().copied().cycle().take(Model::SIZE).collect()
}

#[instrument(skip_all)]
async fn load_user() {
    tokio::time::sleep(Duration::from_millis(2)).await; // a database would answer here
}

#[instrument(skip_all)]
async fn classify(State(model): State<Arc<Model>>, Json(question): Json<Question>) -> Json<Answer> {
    load_user().await;
    let input = tokenize(&question.text);
    let wait = info_span!("wait for a worker");
    let _worker = model.workers.acquire().instrument(wait).await.expect("it is never closed");
    let (model, span) = (model.clone(), Span::current());
    // The pass would block other requests; its spans stay below this one.
    let pass = tokio::task::spawn_blocking(move || span.in_scope(|| model.forward(input)));
    Json(Answer { class: pass.await.expect("no panic") })
}

/// What the profiler has measured so far, for a scraper.
async fn metrics(State(scraped): State<Arc<Scraped>>, headers: HeaderMap) -> impl IntoResponse {
    let accepts = headers.get(header::ACCEPT).and_then(|accepts| accepts.to_str().ok()).unwrap_or_default();
    let (mut body, is_open) = (Vec::new(), accepts.contains("application/openmetrics-text"));
    let (kind, written) = match is_open {
        true => (OPEN_METRICS, scraped.openmetrics(&mut body)),
        false => (TEXT, scraped.prometheus(&mut body)),
    };
    written.expect("memory can be written");
    ([(header::CONTENT_TYPE, kind)], body)
}

async fn client(address: SocketAddr, requests: usize) -> Result<(), reqwest::Error> {
    let client = reqwest::Client::new();
    for number in 0..requests {
        let question = Question { text: format!("question {number}: where does the time go?") };
        let answer = client.post(format!("http://{address}/classify")).json(&question).send().await?;
        let Answer { class } = answer.error_for_status()?.json().await?;
        tracing::debug!(class, "answered");
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let profiler = Profiler::builder().build()?;
    let log = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::registry().with(profiler.layer()).with(fmt::layer().with_filter(log)).init();

    let requests = TraceLayer::new_for_http().make_span_with(DefaultMakeSpan::new().level(Level::INFO));
    let app = Router::new()
        .route("/classify", post(classify))
        .with_state(Arc::new(Model::load()))
        .layer(requests)
        .route("/metrics", get(metrics))
        .with_state(Arc::new(Scraped::new(&profiler)));
    let asked = std::env::args().nth(1);
    let listener = tokio::net::TcpListener::bind(asked.as_deref().unwrap_or("127.0.0.1:0")).await?;
    let address = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener, app).with_graceful_shutdown(async { stopped.await.unwrap_or_default() });
    let server = tokio::spawn(async { server.await });
    info!(%address, "listening");

    let requests = if asked.is_some() { usize::MAX } else { REQUESTS / CLIENTS };
    let clients: Vec<_> = (0..CLIENTS).map(|_| tokio::spawn(client(address, requests))).collect();
    for client in clients {
        client.await??;
    }
    info!("answered all");
    let _gone_already = stop.send(());
    server.await??;
    profiler.finish()?; // prints the report
    Ok(())
}
