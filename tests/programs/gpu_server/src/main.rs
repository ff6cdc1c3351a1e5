//! A server on axum whose requests share a GPU. Most are small, with a kernel of 0.2 ms; 40 of 2,000 are hogs, with one
//! of 30 ms. All launch on one stream, four at a time.
//!
//! ```sh
//! cd programs
//! export TRACING_GPU=report=why+interference+tree+calls,name_from=kind
//! cargo run --release -p gpu_server                        # the small ones wait behind the hogs
//! cargo run --release -p gpu_server -- --no-hogs           # the small ones alone
//! cargo run --release -p gpu_server -- --separate-streams  # hogs have a stream of their own
//! cargo run --release -p gpu_server -- --batches            # one launch serves all small ones that wait
//! ```
//!
//! It calls itself, prints how long the small requests took from launch to end, and ends. It needs a CUDA driver and
//! NVRTC, and says so where there is none.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Query, State};
use axum::{Json, Router, routing::get};
use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{CudaContext, CudaEvent, CudaFunction, CudaStream, DriverError, LaunchConfig, PushKernelArg, sys};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tracing::{Instrument, Span, info_span, instrument};
use tracing_gpu::{Profiler, follow};
use tracing_subscriber::prelude::*;

const REQUESTS: usize = 2_000;
const CLIENTS: usize = 16;
const PERMITS: usize = 4;
/// Every so many requests one is a hog.
const HOGS: usize = 50;
const SMALL: Duration = Duration::from_micros(200);
const HOG: Duration = Duration::from_millis(30);

/// A kernel that runs for so many nanoseconds.
const SPIN: &str = r#"
extern "C" __global__ void spin(unsigned long long ns) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - start < ns);
}
"#;

/// The GPU, and who may use it.
struct Gpu {
    permits: Semaphore,
    spin: CudaFunction,
    stream: Arc<CudaStream>,
    of_hogs: Arc<CudaStream>,
    /// Where small requests wait for a batch, if they do.
    jobs: Option<mpsc::Sender<Job>>,
}

/// A request that waits for a batch.
struct Job {
    request: Span,
    done: oneshot::Sender<Duration>,
}

impl Gpu {
    #[instrument(name = "open_gpu")]
    fn open(separate_streams: bool, jobs: Option<mpsc::Sender<Job>>) -> Result<Self, Box<dyn Error>> {
        // SAFETY: any process may look for the libraries. cudarc panics where one is missing.
        if !unsafe { sys::is_culib_present() && cudarc::nvrtc::sys::is_culib_present() } {
            return Err("no CUDA driver, or no NVRTC".into());
        }
        let context = CudaContext::new(0)?;
        let spin = context.load_module(cudarc::nvrtc::compile_ptx(SPIN)?)?.load_function("spin")?;
        let stream = context.new_stream()?;
        let of_hogs = if separate_streams { context.new_stream()? } else { stream.clone() };
        let gpu = Self { permits: Semaphore::new(PERMITS), spin, stream, of_hogs, jobs };
        gpu.launch(&gpu.stream, SMALL)?.synchronize()?; // the first launch takes longer
        Ok(gpu)
    }

    #[instrument(skip_all)]
    fn launch(&self, stream: &CudaStream, duration: Duration) -> Result<CudaEvent, DriverError> {
        let ns = duration.as_nanos() as u64;
        let mut launch = stream.launch_builder(&self.spin);
        launch.arg(&ns);
        // SAFETY: the kernel takes one number, and touches no memory.
        unsafe { launch.launch(LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 }) }?;
        stream.record_event(Some(CUevent_flags::CU_EVENT_BLOCKING_SYNC))
    }

    /// Runs one kernel. Returns how long it took from its launch to its end.
    async fn run(&self, is_hog: bool) -> Result<Duration, Box<dyn Error + Send + Sync>> {
        if let (false, Some(jobs)) = (is_hog, &self.jobs) {
            let (done, ran) = oneshot::channel();
            jobs.send(Job { request: Span::current(), done }).await?;
            return Ok(ran.await?);
        }
        let _permit = follow(self.permits.acquire().instrument(info_span!("wait_permit"))).await?;
        self.compute(is_hog).await
    }

    /// Launches the kernel, and waits for its end on a thread of its own.
    #[instrument(skip_all)]
    async fn compute(&self, is_hog: bool) -> Result<Duration, Box<dyn Error + Send + Sync>> {
        let (stream, duration) = if is_hog { (&self.of_hogs, HOG) } else { (&self.stream, SMALL) };
        let launched = Instant::now();
        let event = self.launch(stream, duration)?;
        let done = tokio::task::spawn_blocking(move || event.synchronize().map(|()| launched.elapsed()));
        Ok(done.await??)
    }
}

/// Launches a kernel for all requests that wait, again and again.
async fn batches(gpu: Arc<Gpu>, mut jobs: mpsc::Receiver<Job>) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut waiting = Vec::new();
    while jobs.recv_many(&mut waiting, CLIENTS).await > 0 {
        let batch = info_span!("batch");
        for Job { request, .. } in &waiting {
            batch.follows_from(request);
        }
        let took = gpu.compute(false).instrument(batch).await?;
        for job in waiting.drain(..) {
            let _client_has_gone = job.done.send(took);
        }
    }
    Ok(())
}

/// Answers `?kind=small` and `?kind=hog` with the time from launch to end, in nanoseconds.
async fn infer(State(gpu): State<Arc<Gpu>>, Query(asked): Query<Vec<(String, String)>>) -> Json<Option<u64>> {
    let kind = asked.into_iter().find(|(name, _)| name == "kind").map_or_else(String::new, |(_, kind)| kind);
    let took = gpu.run(kind == "hog").instrument(info_span!("request", kind)).await;
    Json(took.inspect_err(|error| eprintln!("{error}")).ok().map(|took| took.as_nanos() as u64))
}

/// Makes every sixteenth request. Returns the times of the small ones.
async fn client(address: SocketAddr, first: usize, has_hogs: bool) -> Result<Vec<u64>, Box<dyn Error + Send + Sync>> {
    let (client, mut times) = (reqwest::Client::new(), Vec::new());
    for request in (first..REQUESTS).step_by(CLIENTS) {
        let is_hog = request % HOGS == HOGS / 2;
        if is_hog && !has_hogs {
            continue;
        }
        let kind = if is_hog { "hog" } else { "small" };
        let answer = client.get(format!("http://{address}/infer?kind={kind}")).send().await?;
        let ns: u64 = answer.error_for_status()?.text().await?.parse()?;
        times.extend((!is_hog).then_some(ns));
    }
    Ok(times)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let has = |option: &str| std::env::args().any(|argument| argument == option);
    let has_hogs = !has("--no-hogs");
    let profiler = Profiler::builder().build()?;
    tracing_subscriber::registry().with(profiler.layer()).init();
    let (jobs, of_batches) = mpsc::channel(CLIENTS);
    let gpu = Arc::new(Gpu::open(has("--separate-streams"), has("--batches").then_some(jobs))?);
    tokio::spawn(batches(gpu.clone(), of_batches));
    profiler.reset(); // the server is ready

    let app = Router::new().route("/infer", get(infer)).with_state(gpu);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener, app).with_graceful_shutdown(async { stopped.await.unwrap_or_default() });
    let server = tokio::spawn(async { server.await });

    let began = Instant::now();
    let clients: Vec<_> = (0..CLIENTS).map(|first| tokio::spawn(client(address, first, has_hogs))).collect();
    let mut times: Vec<u64> = Vec::new();
    for client in clients {
        times.extend(client.await?.map_err(|error| error.to_string())?);
    }
    let took = began.elapsed();
    times.sort_unstable();
    let (all, at) = (times.iter().sum::<u64>() as f64, |part: usize| times[times.len() * part / 100] as f64 / 1e6);
    println!(
        "{} small requests in {:.3} s, from launch to end: {:.1} ms in all, mean {:.3} ms, p50 {:.3} ms, p99 {:.3} ms",
        times.len(),
        took.as_secs_f64(),
        all / 1e6,
        all / 1e6 / times.len() as f64,
        at(50),
        at(99)
    );
    let _gone_already = stop.send(());
    server.await??;
    profiler.finish()?; // prints the reports
    Ok(())
}
