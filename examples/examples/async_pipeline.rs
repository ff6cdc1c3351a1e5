//! A server's requests, followed across await points and threads.
//!
//! Images arrive as base64 text in pieces. Three stages, joined by channels, handle each request: *decode* waits for
//! the pieces, *infer* waits for one of two places and classifies on a thread for blocking work, *encode* writes the
//! answer.
//!
//! - `.instrument(span)` enters a span whenever its future is polled: one call, as many instances as there were polls.
//! - The span `request` travels with its message. `nvtx.lifetime = true` gives it a range from its creation to the end
//!   of its last clone, on whichever thread: the latency of the request.
//! - `span.in_scope(..)` on the blocking thread makes the work there a child of the request.
//! - The profiler is one layer beside another: `fmt` prints the target `queue` at DEBUG to stderr; the profiler has a
//!   filter of its own, INFO. Neither filter affects the other.
//!
//! ```text
//! cargo run --release --example async_pipeline
//! nsys profile -t nvtx target/release/examples/async_pipeline
//! ```

use std::error::Error;
use std::io;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use examples::images::{BYTES, CLASSES, Camera, to_tensor};
use examples::network::layers::largest;
use examples::network::sequential::forward;
use examples::network::{Conv2d, Cpu, Filters, Layer, Operation, nearest};
use fastrand::Rng;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{JoinSet, spawn_blocking, yield_now};
use tracing::level_filters::LevelFilter;
use tracing::{Instrument, Span, debug, info_span};
use tracing_gpu::{Profiler, Report};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

const REQUESTS: u32 = 96;
/// Number of requests that may wait before each stage.
const QUEUE: usize = 8;
/// Number of images classified at once.
const PLACES: usize = 2;
/// Largest deviation of a pixel, of 255.
const NOISE: f32 = 40.0;
/// Characters of base64 that arrive together; a multiple of four, so that each piece can be decoded by itself.
const PIECE: usize = 1024;

/// A request as it moves through the stages: `B` is the image in pieces, then decoded, then classified.
struct Message<B> {
    id: u32,
    body: B,
    span: Span,
    reply: oneshot::Sender<String>,
}

impl<B> Message<B> {
    fn with<C>(self, body: C) -> Message<C> {
        Message { id: self.id, body, span: self.span, reply: self.reply }
    }
}

type Pieces = mpsc::Receiver<String>;

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let profiler = Profiler::builder().report([Report::Ranges, Report::Tree]).build()?;
    let queue = Targets::new().with_target("queue", LevelFilter::DEBUG);
    let fmt_layer = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_filter(queue);
    tracing_subscriber::registry().with(profiler.layer()).with(fmt_layer).init();

    let network = Arc::new(network());
    let (arrivals, to_decode) = mpsc::channel(QUEUE);
    let (decoded, to_infer) = mpsc::channel(QUEUE);
    let (inferred, to_encode) = mpsc::channel(QUEUE);
    let mut stages = JoinSet::new();
    stages.spawn(decode_stage(to_decode, decoded));
    stages.spawn(infer_stage(network.clone(), to_infer, inferred));
    stages.spawn(encode_stage(to_encode));

    let clients: Vec<_> = (0..REQUESTS).map(|id| tokio::spawn(client(id, arrivals.clone()))).collect();
    drop(arrivals);
    for (id, client) in (0..REQUESTS).zip(clients) {
        let answer = client.await??;
        // The same work without a pipeline gives the same answer, and the answer is right.
        let (class, confidence) = classify(&network, &image(id));
        assert_eq!(answer, answer_text(id, class, confidence));
        assert_eq!(class, id as usize % CLASSES, "{answer}");
    }
    // The stages end one after the other, as their channels close. Then all spans are closed, too.
    while let Some(stage) = stages.join_next().await {
        stage?;
    }
    println!("{REQUESTS} requests answered, every image recognised");

    // The program can use the figures, too.
    if let Some(request) = profiler.summary().ranges.iter().find(|range| range.name == "request") {
        assert_eq!(request.times.instances, u64::from(REQUESTS));
        println!("longest request: {:.3} ms", request.times.max_ns as f64 / 1e6);
    }
    profiler.finish()?;
    Ok(())
}

/// Sends an image piece by piece, as a connection would deliver it, and waits for the answer.
async fn client(id: u32, arrivals: mpsc::Sender<Message<Pieces>>) -> Result<String, oneshot::error::RecvError> {
    let text = STANDARD.encode(image(id));
    let (pieces, body) = mpsc::channel(1);
    let (reply, answer) = oneshot::channel();
    let span = info_span!("request", nvtx.lifetime = true, nvtx.payload = id);
    let message = Message { id, body, span, reply };
    if arrivals.send(message).await.is_ok() {
        for piece in text.as_bytes().chunks(PIECE) {
            // Fails only if the stage has given up: then there is no answer either.
            let _ = pieces.send(String::from_utf8_lossy(piece).into_owned()).await;
            yield_now().await;
        }
        drop(pieces);
    }
    answer.await
}

async fn decode_stage(mut arrivals: mpsc::Receiver<Message<Pieces>>, decoded: mpsc::Sender<Message<Vec<u8>>>) {
    while let Some(mut message) = arrivals.recv().await {
        let step = info_span!(parent: &message.span, "decode");
        let image = decode(&mut message.body).instrument(step).await;
        if message.id % 32 == 0 {
            debug!(target: "queue", request = message.id, waiting = arrivals.len(), "decoded");
        }
        // A message that is not passed on drops its `reply`, and the client notices.
        if let Some(image) = image {
            let _ = decoded.send(message.with(image)).await;
        }
    }
}

async fn infer_stage(
    network: Arc<Vec<Layer>>,
    mut decoded: mpsc::Receiver<Message<Vec<u8>>>,
    inferred: mpsc::Sender<Message<(usize, f32)>>,
) {
    let places = Arc::new(Semaphore::new(PLACES));
    let mut running = JoinSet::new();
    while let Some(message) = decoded.recv().await {
        let (network, places, inferred) = (network.clone(), places.clone(), inferred.clone());
        let step = info_span!(parent: &message.span, "infer");
        let work = async move {
            let Ok(_place) = places.acquire().await else { return };
            let forward = info_span!("forward");
            let body = spawn_blocking(move || {
                let result = forward.in_scope(|| classify(&network, &message.body));
                message.with(result)
            });
            if let Ok(message) = body.await {
                // The receiver is gone only at the end of the program.
                let _ = inferred.send(message).await;
            }
        };
        running.spawn(work.instrument(step));
    }
    running.join_all().await;
}

async fn encode_stage(mut inferred: mpsc::Receiver<Message<(usize, f32)>>) {
    while let Some(message) = inferred.recv().await {
        let step = info_span!(parent: &message.span, "encode");
        let (class, confidence) = message.body;
        let answer = step.in_scope(|| answer_text(message.id, class, confidence));
        // The client may be gone.
        let _ = message.reply.send(answer);
    }
}

/// Decodes the pieces as they arrive; `None` if one is not base64.
async fn decode(pieces: &mut Pieces) -> Option<Vec<u8>> {
    let mut image = Vec::with_capacity(BYTES);
    while let Some(piece) = pieces.recv().await {
        STANDARD.decode_vec(&piece, &mut image).ok()?;
    }
    Some(image)
}

fn classify(network: &[Layer], pixels: &[u8]) -> (usize, f32) {
    let output = forward(&Cpu, network, to_tensor(pixels));
    let class = largest(output.data());
    (class, output.data()[class])
}

fn answer_text(id: u32, class: usize, confidence: f32) -> String {
    format!(r#"{{"id":{id},"class":{class},"confidence":{confidence:.3}}}"#)
}

fn image(id: u32) -> Vec<u8> {
    Camera::new(u64::from(id), NOISE).photograph(id as usize % CLASSES).pixels
}

fn network() -> Vec<Layer> {
    let conv = Conv2d::new(Filters::random(&mut Rng::with_seed(1), 3, 16, 3));
    let mut layers = vec![
        Layer::new("conv", Operation::Conv(conv)),
        Layer::new("relu", Operation::Relu),
        Layer::new("pool", Operation::Pool),
    ];
    let classifier = nearest::learn(&layers, &mut Camera::new(50_000, NOISE), 4);
    layers.push(Layer::new("fc", Operation::FullyConnected(classifier)));
    layers.push(Layer::new("softmax", Operation::Softmax));
    layers
}
